"""What a process keeps for its patterns beyond one snapshot: state that a reload must not lose."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


class Kept:
    """One object of each kind that was asked for, made when it is first asked for."""

    def __init__(self) -> None:
        self._objects: dict[type[Any], Any] = {}

    def of(self, kind: type[T]) -> T:
        """Return the object of a kind."""
        found = self._objects.get(kind)
        # Two threads may compile at the same time, and both must get the same.
        return self._objects.setdefault(kind, kind()) if found is None else found

"""What clients call themselves, beside who they are: for logs, and never for a decision (A6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.ports import LABEL, Principal

MOST = 1024


class Labels:
    """Principals with their clients' names; each is made once, since the same clients come again and again."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, object, object], tuple[Principal, Principal]] = {}

    @property
    def count(self) -> int:
        """How many are kept."""
        return len(self._made)

    def on(self, principal: Principal, info: Mapping[str, Any]) -> Principal:
        """Return a principal with what its client says of itself in `clientInfo` as its label."""
        if not info:
            return principal
        name, version = _short(info.get("name")), _short(info.get("version"))
        key = (principal.id, name, version)
        found = self._made.get(key)
        # The same caller may come back with other scopes, which are not part of its id.
        if found is not None and (found[0] is principal or found[0] == principal):
            return found[1]
        labelled = principal.labelled({"name": name, "version": version})
        self._made[key] = (principal, labelled)
        if len(self._made) > MOST:
            del self._made[next(iter(self._made))]
        return labelled


def _short(text: object) -> str | None:
    return text[:LABEL] if isinstance(text, str) else None

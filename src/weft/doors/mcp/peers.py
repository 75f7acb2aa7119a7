"""What this door needs of the other workers of the same gateway."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

Heard: TypeAlias = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class Peers(Protocol):
    """The other workers on this machine."""

    @property
    def index(self) -> int:
        """Which of them this one is."""
        ...

    async def tell(self, worker: int, message: dict[str, Any]) -> dict[str, Any]:
        """Tell one worker something, and return its answer."""
        ...

    async def tell_all(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """Tell all others something, and return their answers."""
        ...

    def on(self, op: str, handler: Heard) -> object:
        """Say what this worker does with a message of a kind."""
        ...

"""What this door needs of the gateway behind it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from weft.gateway.rounds import Answers
from weft.ports import Caller, Principal


class Event(Protocol):
    """Something that clients may want to hear of: a list changed, a resource changed."""

    @property
    def method(self) -> str:
        """The method of the notification."""
        ...

    @property
    def params(self) -> Mapping[str, Any]:
        """The params of the notification."""
        ...

    @property
    def view(self) -> object:
        """The name of the view that it is about, None for the default view; anything else means all views."""
        ...


class Serves(Protocol):
    """The gateway: MCP without a wire format."""

    @property
    def info(self) -> Mapping[str, Any]:
        """What the gateway says of itself: name, version, title."""
        ...

    async def ready(self) -> None:
        """Wait until it is known what there is to serve."""
        ...

    def views(self) -> Collection[str]:
        """Return the names of the views; the default view has none."""
        ...

    def capabilities(self, view: str | None) -> Mapping[str, Any]:
        """Return what a view offers, as a server's capabilities."""
        ...

    async def instructions(self, view: str | None, principal: Principal) -> str | None:
        """Return what a view tells the model of a client."""
        ...

    def mirrored(self, view: str | None, tool: str, principal: Principal) -> Mapping[tuple[str, ...], str]:
        """Return which arguments of a tool a modern client repeats in which headers."""
        ...

    async def handle(
        self,
        view: str | None,
        method: str,
        params: dict[str, Any],
        caller: Caller,
        *,
        answers: Answers | None = None,
    ) -> dict[str, Any]:
        """Do what a request asks for, and return its result without what belongs to one era.

        Raises:
            WeftError: it cannot be done.
        """
        ...

    def subscribe(self, listener: Callable[[Event], object]) -> Callable[[], None]:
        """Tell a listener of every event from now on; return how to stop."""
        ...

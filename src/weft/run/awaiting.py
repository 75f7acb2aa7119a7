"""Servers that are away and may come back: sagas and letters wait for them, for a while."""

from __future__ import annotations

from typing import Protocol

from weft.errors import RetriesExhausted, UpstreamDied, UpstreamUnavailable, WeftError
from weft.ir.document import Document


class Servers(Protocol):
    """The servers of a gateway, as far as somebody waits for them."""

    async def ready(self) -> None:
        """Wait until each server has answered, or has failed to within its start limit."""
        ...

    def may_come(self, server: str) -> bool:
        """Tell whether a server, by the name that an error has for it, is configured: then it may come back."""
        ...

    def unheard(self, document: Document) -> bool:
        """Tell whether a document calls a server that has never been there: nobody knows what its tools are like."""
        ...


class NobodyAwaited:
    """Servers that are there, or never will be."""

    async def ready(self) -> None:
        """Return at once."""

    def may_come(self, server: str) -> bool:
        """Tell that none comes back."""
        return False

    def unheard(self, document: Document) -> bool:
        """Tell that all have said what they have."""
        return False


def is_away(error: WeftError, servers: Servers) -> bool:
    """Tell whether a step failed only because its server is away, and nothing was sent to it."""
    if not isinstance(error, RetriesExhausted):
        return _is_away(error, servers)
    # Of many attempts only the last are known.
    return error.attempts == len(error.causes) > 0 and all(_is_away(one, servers) for one in error.causes)


def _is_away(error: WeftError, servers: Servers) -> bool:
    if not isinstance(error, UpstreamUnavailable | UpstreamDied) or error.retryable != "yes":
        return False
    return servers.may_come(error.server)

"""What the MCP client asks of a wire: messages out, answers back, by a deadline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from weft.upstreams.asked import OnRequest

OnMessage: TypeAlias = Callable[[dict[str, Any]], object]
"""Told each notification and each request of the server, in the order of arrival; it must not block."""


class Transport(Protocol):
    """A way to one MCP server. Deadlines are absolute times of the running loop's clock."""

    async def start(self, *, on_message: OnMessage | None = None, on_request: OnRequest | None = None) -> None:
        """Make it ready: start the child, or nothing at all where connections open when they are needed.

        On a wire that all requests share, `on_message` is told each notification that none of them asked for, and
        `on_request` answers the requests of the server; where each request has a stream of its own, nobody is told.
        """
        ...

    async def request(
        self,
        message: dict[str, Any],
        *,
        deadline: float,
        on_message: OnMessage | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send a JSON-RPC request and return its response message, with its result or its error member.

        What else arrives meanwhile goes to `on_message`. `headers` go with the request where the wire has such a thing.
        Cancelling the caller's task gives the request up: over HTTP that closes the stream, which cancels it at a
        server of the modern era, and for a legacy session the caller sends notifications/cancelled itself; over stdio
        the transport sends it, as only the wire knows the id.

        Raises:
            UpstreamUnavailable: the request did not reach the server, or the server turned it away unread.
            UpstreamDied: the server went away before it answered; it may have done the work.
            UpstreamMessageTooLarge: the answer is over the limit.
            UpstreamProtocolError: what came back is not an answer to this request.
            UpstreamAuth: the server does not accept weft's credentials.
            DeadlineExceeded: no answer by the deadline.
        """
        ...

    async def follow(
        self, message: dict[str, Any], *, on_message: OnMessage, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Send a request that lasts, such as a subscription, and return its response when the server ends it.

        It has no deadline, and takes no place among the requests that the wire can carry at once.

        Raises:
            InfrastructureError: as `request` does; a server from which nothing at all comes for long has died.
        """
        ...

    async def notify(self, message: dict[str, Any], *, headers: Mapping[str, str] | None = None) -> None:
        """Send a notification, or the answer to a server's request; the wire's own time limit bounds it."""
        ...

    async def close(self) -> None:
        """End it: what is in flight fails, and nothing stays behind; closing twice is fine."""
        ...

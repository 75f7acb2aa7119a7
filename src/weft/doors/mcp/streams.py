"""Responses: plain JSON, or a stream of events from the first thing that is said before the result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import orjson

from weft.doors.asgi import Headers, Send, respond
from weft.doors.mcp.outbox import Outbox

JSON = (b"content-type", b"application/json")
EVENTS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
MOST = 256
MOST_BYTES = 1 << 20
STALL = 30.0
"""For how long a client may take nothing of a stream."""

log = logging.getLogger("weft.doors.mcp")


def event(message: dict[str, Any]) -> bytes:
    """Return a message as an event of a stream."""
    return b"event: message\ndata: " + orjson.dumps(message) + b"\n\n"


class Reply:
    """The response to one HTTP request.

    What is told never waits for the client: it goes to a bounded buffer, from which the oldest progress and log
    messages are dropped first; when there is nothing to drop, or the client takes nothing for long, the stream ends.
    """

    __slots__ = ("_outbox", "_send", "_started", "_writer", "broken", "on_broken", "streams")

    def __init__(self, send: Send, *, streams: bool) -> None:
        self._send = send
        self.streams = streams
        self.broken = False
        self.on_broken: Callable[[], object] | None = None
        self._outbox: Outbox | None = None
        self._started = False
        self._writer: asyncio.Task[None] | None = None

    def tell(self, message: dict[str, Any], *, droppable: bool = False) -> None:
        """Say something before the result; to a client that takes no streams, nothing."""
        if self.streams and not self.broken:
            self._put(event(message), droppable=droppable)

    def tell_once(self, message: dict[str, Any]) -> None:
        """Say something, unless the same already waits to be sent."""
        piece = event(message)
        if self.streams and not self.broken and (self._outbox is None or piece not in self._outbox):
            self._put(piece, droppable=False)

    def keep_alive(self) -> None:
        """Show what stands between that the connection is in use."""
        if self.streams and not self.broken and not self._outbox:
            self._put(b": still here\n\n", droppable=True)

    async def end(self, message: dict[str, Any], *, status: int = 200, headers: Headers = ()) -> None:
        """Send the result, after all that was said before it."""
        if self._writer is not None:
            await self._writer
        body = orjson.dumps(message)
        if self._started:
            await self._last(b"event: message\ndata: " + body + b"\n\n")
        else:
            await respond(self._send, status, body, headers=(JSON, *headers))

    async def close(self) -> None:
        """End a stream that has no result."""
        if self._writer is not None:
            await self._writer
        if self._started and not self.broken:
            await self._last(b"")

    def abandon(self) -> None:
        """Stop writing: nobody reads any more."""
        self.broken = True
        if self._writer is not None:
            self._writer.cancel()

    def _put(self, piece: bytes, *, droppable: bool) -> None:
        if self._outbox is None:
            self._outbox = Outbox(most=MOST, most_bytes=MOST_BYTES)
        if not self._outbox.put(piece, droppable=droppable):
            self._break("it does not read what it is sent")
        elif self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._drain(self._outbox))

    def _break(self, why: str) -> None:
        log.warning("closing the stream of a client: %s", why)
        self.broken = True
        if self.on_broken is not None:
            self.on_broken()

    async def _drain(self, outbox: Outbox) -> None:
        try:
            while outbox:
                async with asyncio.timeout(STALL):
                    await self._body(outbox.pop(), more=True)
        except TimeoutError:
            self._break(f"it has taken nothing for {STALL:g} s")

    async def _last(self, piece: bytes) -> None:
        try:
            async with asyncio.timeout(STALL):
                await self._body(piece, more=False)
        except TimeoutError:
            self._break(f"it has taken nothing for {STALL:g} s")

    async def _body(self, piece: bytes, *, more: bool) -> None:
        if not self._started:
            self._started = True
            await self._send({"type": "http.response.start", "status": 200, "headers": [*EVENTS]})
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})

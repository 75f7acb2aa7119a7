"""A run as server-sent events: each with its id, comments while nothing happens, and an end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, Final

from weft.doors.asgi import AGAIN, GONE, BadRequest, Scope, Send, any_json, header, respond
from weft.doors.composition_routes import LAST_EVENT
from weft.doors.mcp.streams import EVENTS, STALL
from weft.errors import WeftError, shown
from weft.gateway.unproven import BadIdentityHeader, Unauthenticated
from weft.ports import Principal

END: Final = "end"
"""The id of the last event: who comes back with it has heard all, and is told not to come again."""
HEARTBEAT: Final = 15.0
_DIGITS: Final = 15
_log = logging.getLogger("weft.http")


def resumed_at(scope: Scope) -> int | None:
    """Return the event after which a client wants to go on, 0 for the beginning; None when it has heard the end.

    Raises:
        BadRequest: it names none.
    """
    said = header(scope, LAST_EVENT.encode())
    if said is None:
        return 0
    if said == END.encode():
        return None
    if not said.isdigit() or len(said) > _DIGITS:
        told = f"{shown(said.decode('latin-1'))} is not the id of an event"
        raise BadRequest(400, "InvalidEventId", told, hint="send the last id that came, or none to begin anew")
    return int(said)


class EventStreams:
    """The streams that are open at this door."""

    def __init__(self, *, heartbeat: float = HEARTBEAT) -> None:
        self._heartbeat = heartbeat
        self._closing = asyncio.Event()

    def close(self) -> None:
        """End all streams: clients come back, to another process, with the last id that they have."""
        self._closing.set()

    async def send(self, scope: Scope, send: Send, events: AsyncGenerator[dict[str, Any]]) -> None:
        """Send what happens, until the end of the run, of the client, of its credential or of this door."""
        if (on_gone := scope.get(GONE)) is not None and (task := asyncio.current_task()) is not None:
            on_gone(task.cancel)
        again: Callable[[], Awaitable[Principal]] | None = scope["state"].get(AGAIN)
        await send({"type": "http.response.start", "status": 200, "headers": [*EVENTS]})
        await _write(send, b": following\n\n")
        async with aclosing(self._with_pauses(events)) as pieces:
            async for piece in pieces:
                if piece is None and not await _still_proven(again):
                    break
                await _write(send, b": still here\n\n" if piece is None else _event(piece))
        await send({"type": "http.response.body", "body": b""})

    async def _with_pauses(self, events: AsyncGenerator[dict[str, Any]]) -> AsyncGenerator[dict[str, Any] | None]:
        """Yield events, and None whenever there was none for a while."""
        closing = asyncio.ensure_future(self._closing.wait())
        coming: asyncio.Future[dict[str, Any] | None] | None = None
        try:
            while not self._closing.is_set():
                coming = coming or asyncio.ensure_future(anext(events, None))
                await asyncio.wait({coming, closing}, timeout=self._heartbeat, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    yield None
                    continue
                try:
                    event, coming = coming.result(), None
                except WeftError as error:
                    # The worker or the store that told of it is gone: the client comes back with its last id.
                    _log.warning("a run cannot be followed any more: %s", error.message)
                    return
                if event is None:
                    return
                yield event
        finally:
            for waiting in (closing, coming):
                if waiting is not None:
                    waiting.cancel()
                    with suppress(asyncio.CancelledError, Exception):
                        await waiting
            await events.aclose()


async def no_more(send: Send) -> None:
    """Tell a client that has heard the end not to come again."""
    await respond(send, 204)


async def _write(send: Send, piece: bytes) -> None:
    """Send a piece; a client that takes nothing for long is left."""
    try:
        async with asyncio.timeout(STALL):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    except TimeoutError:
        _log.warning("closing the stream of a client: it has taken nothing for %g s", STALL)
        # As if somebody had cancelled it: an answer that has begun is then cut off.
        raise asyncio.CancelledError from None


async def _still_proven(again: Callable[[], Awaitable[Principal]] | None) -> bool:
    """Tell whether what proved the client still holds."""
    try:
        if again is not None:
            await again()
    except (Unauthenticated, BadIdentityHeader):
        return False
    return True


def _event(event: dict[str, Any]) -> bytes:
    kind: str = event["event"]
    id = END if kind == "run_ended" else str(event["id"])
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (id.encode(), kind.encode(), any_json(event["data"]))

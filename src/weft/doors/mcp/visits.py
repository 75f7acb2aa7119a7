"""One HTTP request, as far as both eras read it alike, and the streams on which its client listens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from weft.doors.asgi import Receive, Send
from weft.doors.mcp.exchange import Watch
from weft.doors.mcp.headers import Fields
from weft.doors.mcp.listening import Listening
from weft.doors.mcp.streams import Reply
from weft.gateway.unproven import BadIdentityHeader, Unauthenticated
from weft.ports import Principal

LOOK = 0.5
"""How often it is made sure that who listens may still do so."""


class Visit(NamedTuple):
    """A client at the door: where, who, with which headers."""

    view: str | None
    principal: Principal
    fields: Fields
    version: str | None
    receive: Receive
    send: Send
    again: Callable[[], Awaitable[Principal]] | None = None
    """Makes sure again who it is, where that may end while the client listens."""

    @property
    def bound(self) -> str:
        """What a session is bound to: where it began, and who began it."""
        return repr((self.view, self.principal.id))

    def reply(self) -> Reply:
        """Return the response to be made, a stream only for a client that takes one."""
        return Reply(self.send, streams=self.fields.accepts()[1])


async def listen_until_over(visit: Visit, listening: Listening, reply: Reply) -> bool:
    """Wait until a stream ends; tell whether there is still somebody to tell so."""
    gone = False

    def leave() -> None:
        nonlocal gone
        gone = True
        listening.end()

    reply.on_broken = leave
    watch = Watch(visit.receive, reply, leave)
    proven = None if visit.again is None else asyncio.create_task(_while_proven(visit.again, listening))
    try:
        await listening.over.wait()
    except BaseException:
        reply.abandon()
        raise
    finally:
        watch.end()
        if proven is not None:
            proven.cancel()
    if gone:
        reply.abandon()
    return not gone


async def _while_proven(again: Callable[[], Awaitable[Principal]], listening: Listening) -> None:
    """End a stream whose client's credential is revoked, or expires."""
    while True:
        await asyncio.sleep(LOOK)
        try:
            await again()
        except (Unauthenticated, BadIdentityHeader):
            listening.end()
            return

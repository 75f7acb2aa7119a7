"""One HTTP request, as far as both eras read it alike, and the streams on which its client listens."""

from __future__ import annotations

from typing import NamedTuple

from weft.doors.asgi import Receive, Send
from weft.doors.mcp.exchange import Watch
from weft.doors.mcp.headers import Fields
from weft.doors.mcp.listening import Listening
from weft.doors.mcp.streams import Reply
from weft.ports import Principal


class Visit(NamedTuple):
    """A client at the door: where, who, with which headers."""

    view: str | None
    principal: Principal
    fields: Fields
    version: str | None
    receive: Receive
    send: Send

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
    try:
        await listening.over.wait()
    except BaseException:
        reply.abandon()
        raise
    finally:
        watch.end()
    if gone:
        reply.abandon()
    return not gone

"""One request and its response: watched for a client that goes away, kept alive, answered once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal

from weft.doors.asgi import Receive
from weft.doors.mcp.faults import Era, Fault, cancelled, fault
from weft.doors.mcp.messages import result
from weft.doors.mcp.streams import Reply

GRACE = 0.02
"""A request that is answered sooner costs no task that watches its client; a client that left is still noticed."""
KEEP_ALIVE = 10.0

Reason = Literal["gone", "cancelled", "ended"]
"""Why a request is given up: its client went away, took it back, or ended the session."""


class Watch:
    """Notices that a client has gone, and shows in long silences that the connection is in use."""

    __slots__ = ("_loop", "_on_gone", "_receive", "_reply", "_timer", "_watcher")

    def __init__(self, receive: Receive, reply: Reply, on_gone: Callable[[], object]) -> None:
        self._receive = receive
        self._reply = reply
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._watcher: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(GRACE, self._begin)

    def end(self) -> None:
        """Stop watching."""
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

    def _begin(self) -> None:
        self._watcher = self._loop.create_task(self._until_gone())
        self._timer = self._loop.call_later(KEEP_ALIVE, self._tick)

    def _tick(self) -> None:
        self._reply.keep_alive()
        self._timer = self._loop.call_later(KEEP_ALIVE, self._tick)

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._on_gone()


class Exchange:
    """A request that is being served."""

    __slots__ = ("_task", "reason", "reply")

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.reason: Reason | None = None
        self._task: asyncio.Task[Any] | None = None
        reply.on_broken = self._gone

    def give_up(self, reason: Reason) -> None:
        """Cancel what is done for the request."""
        if self.reason is None and self._task is not None:
            self.reason = reason
            self._task.cancel()

    async def run(
        self, work: Coroutine[Any, Any, dict[str, Any]], *, id_: str | int, method: str, era: Era, receive: Receive
    ) -> None:
        """Do the work and send its result, or its error; nothing to a client that is gone."""
        self._task = asyncio.current_task()
        watch = Watch(receive, self.reply, self._gone)
        try:
            try:
                message, failed = result(id_, await work), None
            except Exception as error:
                failed = fault(error, method=method, era=era)
                message = failed.message(id_)
            finally:
                watch.end()
            await self._end(message, failed, id_=id_, method=method)
        except asyncio.CancelledError:
            if self.reason is None:
                self.reply.abandon()
                raise
            assert self._task is not None
            self._task.uncancel()
            await self._given_up(id_)
        finally:
            self._task = None

    async def _end(self, message: dict[str, Any], failed: Fault | None, *, id_: str | int, method: str) -> None:
        if failed is not None:
            await self.reply.end(message, status=failed.status, headers=failed.headers)
            return
        try:
            await self.reply.end(message)
        except TypeError as error:
            # A composition can make values that JSON does not have, such as integers beyond 64 bits.
            failed = fault(error, method=method)
            await self.reply.end(failed.message(id_), status=failed.status)

    async def _given_up(self, id_: str | int) -> None:
        if self.reason == "gone":
            self.reply.abandon()
        else:
            await self.reply.end(cancelled().message(id_))

    def _gone(self) -> None:
        self.give_up("gone")

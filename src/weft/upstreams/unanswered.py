"""Questions that nobody answers: a call that waits for its client gives way when others wait for the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from weft.errors import DeadlineExceeded
from weft.ports import Caller
from weft.upstreams.asking import offered
from weft.upstreams.bulkhead import Bulkhead
from weft.upstreams.onward import Onward

PATIENCE = 30.0
"""How long a client may think while others wait; nobody hurries it as long as there is room."""

LOOK_EVERY = 1.0

Work: TypeAlias = Callable[[Caller | None], Awaitable[dict[str, Any]]]


class Asked(Onward):
    """A client, and since when it has been thinking about a question."""

    def __init__(self, caller: Caller, timer: asyncio.Timeout) -> None:
        super().__init__(caller, caller.meta)
        self._questions = 0
        self.timer = timer
        self.since: float | None = None

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Ask the client, and note that it thinks."""
        self._questions += 1
        self.since = self.since or asyncio.get_running_loop().time()
        try:
            return await super().ask(requests)
        finally:
            self._questions -= 1
            if not self._questions:
                self.since = None


class Unanswered:
    """The calls of one server whose clients may be asked."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._calls: dict[Asked, None] = {}
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None

    async def run(self, caller: Caller | None, work: Work) -> dict[str, Any]:
        """Make a call that may ask its client.

        Raises:
            DeadlineExceeded: the client did not answer, and others waited.
        """
        if caller is None or not offered(caller.capabilities):
            return await work(caller)
        timer = asyncio.timeout(None)
        try:
            async with timer:
                asked = Asked(caller, timer)
                self._calls[asked] = None
                try:
                    return await work(asked)
                finally:
                    del self._calls[asked]
        except TimeoutError:
            if not timer.expired():
                raise
            why = f"Upstream '{self._server}' asked a question that was not answered within {PATIENCE:g} s"
            raise DeadlineExceeded(f"{why}, and other calls were waiting for it") from None

    async def turn(self, gate: Bulkhead, deadline: float) -> None:
        """Wait for a place, which may be that of a call whose client does not answer."""
        self._waiting += 1
        self._look()
        try:
            await gate.turn(deadline)
        finally:
            self._waiting -= 1
            if not self._waiting and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(LOOK_EVERY, self._look)
        latest = loop.time() - PATIENCE
        # In the order in which they came, and no more than are needed.
        silent = [asked for asked in self._calls if asked.since is not None and asked.since <= latest]
        for asked in silent[: self._waiting]:
            asked.since = None
            asked.timer.reschedule(loop.time())

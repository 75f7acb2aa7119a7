"""Sessions for clients that can be asked: a legacy server fixes at the handshake what its client can do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from weft.errors import DeadlineExceeded, UpstreamDied, WeftError
from weft.ports import Caller
from weft.upstreams.bulkhead import Bulkhead
from weft.upstreams.httppool import not_sent
from weft.upstreams.session import Session
from weft.upstreams.unanswered import Unanswered

Open: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Session]]
"""Opens a session for a set of client capabilities."""

LEASED = 4
"""How many calls of such clients a child server may have at once: each needs a child of its own."""

IDLE = 300.0
QUEUE = 1024


class Slot:
    """A session, from the moment that somebody wants it."""

    def __init__(self, offers: Mapping[str, Any], opening: asyncio.Task[Session]) -> None:
        self.offers = offers
        self.opening = opening
        self.calls = 0
        self.used = 0.0
        self.over = False

    async def session(self, server: str, deadline: float) -> Session:
        """Wait for the session, which others may be waiting for too."""
        if not self.opening.done():
            await asyncio.wait({self.opening}, timeout=deadline - asyncio.get_running_loop().time())
        if not self.opening.done():
            raise not_sent(server, "while a session was begun")
        error = self.opening.exception()
        if isinstance(error, WeftError):
            raise _afresh(error)
        return self.opening.result()

    @property
    def dead(self) -> bool:
        """Whether it cannot be used any more."""
        if not self.opening.done():
            return False
        return self.opening.cancelled() or self.opening.exception() is not None or self.opening.result().gone.is_set()


class Sessions:
    """Sessions by what their clients can do, each with so many calls at once, and so many calls in all.

    A session with one call at a time is leased: whatever its server asks is asked of that call's client. A session
    whose call was given up is closed: its server may still ask on behalf of that call, and another client would hear.
    """

    def __init__(
        self,
        server: str,
        open: Open,
        *,
        at_once: int,
        places: int,
        idle: float = IDLE,
        unanswered: Unanswered | None = None,
    ) -> None:
        self._server, self._open = server, open
        self._unanswered = unanswered or Unanswered(server)
        self._at_once, self._places = at_once, places
        self._gate = Bulkhead(server, concurrency=places, queue=QUEUE)
        self._idle = idle
        self._slots: list[Slot] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._slots)

    async def request(
        self, offers: Mapping[str, Any], method: str, params: Mapping[str, Any], *, deadline: float, caller: Caller
    ) -> dict[str, Any]:
        """Ask the server on a session that offers what the client can do."""
        if not self._gate.enter():
            await self._unanswered.turn(self._gate, deadline)
        try:
            slot = self._slot(offers)
            slot.calls += 1
            try:
                session = await slot.session(self._server, deadline)
                return await session.request(method, params, deadline=deadline, caller=caller)
            except (asyncio.CancelledError, DeadlineExceeded, UpstreamDied):
                slot.over = True
                raise
            finally:
                slot.calls -= 1
                self._given_back(slot)
        finally:
            self._gate.leave()

    async def drained(self) -> None:
        """Wait until no call is in flight."""
        await self._gate.idle()

    async def close(self) -> None:
        """Close all of them; what is in flight fails."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for slot in list(self._slots):
            self._retire(slot)
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _slot(self, offers: Mapping[str, Any]) -> Slot:
        # The last used first: a server that keeps state in its process sees a client's calls in one place.
        for slot in reversed(self._slots):
            if slot.calls < self._at_once and slot.offers == offers and not slot.over and not slot.dead:
                return slot
        if len(self._slots) >= self._places:
            # Whoever has a place finds room: as many calls as sessions means that this one has none yet.
            self._retire(next(slot for slot in self._slots if not slot.calls))
        slot = Slot(offers, self._spawn(self._open(offers)))
        self._slots.append(slot)
        return slot

    def _given_back(self, slot: Slot) -> None:
        slot.used = asyncio.get_running_loop().time()
        if slot in self._slots:
            self._slots.remove(slot)
            if slot.dead or slot.over:
                # Its other calls go on; it is closed when they are done.
                if slot.calls:
                    self._slots.insert(0, slot)
                    return
                self._end(slot)
            else:
                self._slots.append(slot)
        if self._sweeper is None and not self._closed:
            self._sweeper = asyncio.get_running_loop().call_later(self._idle, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        oldest = asyncio.get_running_loop().time() - self._idle
        for slot in [slot for slot in self._slots if not slot.calls and slot.used <= oldest]:
            self._retire(slot)
        if self._slots:
            self._sweeper = asyncio.get_running_loop().call_later(self._idle / 4, self._sweep)

    def _retire(self, slot: Slot) -> None:
        self._slots.remove(slot)
        self._end(slot)

    def _end(self, slot: Slot) -> None:
        self._spawn(_closed(slot.opening))

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _afresh(error: WeftError) -> WeftError:
    """Return the same error for one more who waited: each call notes in its own the steps through which it passed."""
    again = type(error).__new__(type(error), *error.args)
    again.__dict__.update(error.__dict__)
    return again


async def _closed(opening: asyncio.Task[Session]) -> None:
    """Close a session, also one that is still being opened."""
    opening.cancel()
    with contextlib.suppress(WeftError, asyncio.CancelledError):
        session = await opening
        await session.close()

"""How many requests one server may have at once, so that a slow one does not hold up everything else."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

from weft.errors import LimitExceeded
from weft.upstreams.httppool import not_sent


class Bulkhead:
    """So many requests in flight, so many waiting for their turn, and the next is refused."""

    def __init__(self, server: str, *, concurrency: int, queue: int) -> None:
        self._server = server
        self._concurrency, self._queue = concurrency, queue
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle: asyncio.Event | None = None
        self.free = concurrency

    @property
    def in_flight(self) -> int:
        """How many requests are in flight now."""
        return self._concurrency - self.free

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn."""
        return sum(not one.done() for one in self._waiting)

    def enter(self) -> bool:
        """Take a place if one is free."""
        if self.free > 0:
            self.free -= 1
            return True
        return False

    async def turn(self, deadline: float) -> None:
        """Wait for a place, which the one who leaves hands over.

        Raises:
            LimitExceeded: as many wait as may.
            DeadlineExceeded: the deadline passed first; nothing was sent.
        """
        if self.waiting >= self._queue:
            what = f"server '{self._server}' has {self._concurrency} requests in flight and {self._queue} waiting"
            raise LimitExceeded("UpstreamBusy", self._concurrency + self._queue, what)
        loop = asyncio.get_running_loop()
        place: asyncio.Future[None] = loop.create_future()
        self._waiting.append(place)
        late = not_sent(self._server, "while other requests to it were in flight")
        timer = loop.call_at(deadline, lambda: place.done() or place.set_exception(late))
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self.leave()  # It was handed the place in the same turn of the loop.
            raise
        finally:
            timer.cancel()
            with contextlib.suppress(ValueError):
                self._waiting.remove(place)

    def leave(self) -> None:
        """Give a place back, to the first who waits."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self.free += 1
        if self._idle is not None and self.free == self._concurrency:
            self._idle.set()
            self._idle = None

    async def idle(self) -> None:
        """Wait until nothing is in flight."""
        if self.free < self._concurrency:
            self._idle = self._idle or asyncio.Event()
            await self._idle.wait()

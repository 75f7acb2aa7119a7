"""Links: connections to a server, which break, are made anew with growing pauses, and serve one operation each."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from weft.errors import StoreError

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Fault:
    """What a server, or the way to it, has against an operation."""

    reason: str
    code: str = "StoreUnavailable"
    hint: str | None = None
    hopeless: bool = False
    """To ask again would not help until somebody changes something."""
    again: bool = False
    """Nothing was done, and to do the same again at once may work."""
    elsewhere: bool = False
    """Another connection may lead to a server that takes it."""

    def error(self, store: str, *, sent: bool = False) -> StoreError:
        """Return the error that a caller sees."""
        error = StoreError(store, self.reason, sent=sent, code=self.code, hint=self.hint)
        if self.hopeless:
            error.retryable = "no"
        return error


class Refused(Exception):
    """The server answered, and its answer is no: nothing was done."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


class Lost(Exception):
    """The connection broke before the answer: what was asked may have been done."""


class Crowded(StoreError):
    """All connections were in use for as long as one could wait: too many ask at once, the server may be well."""

    def __init__(self, store: str, seconds: float) -> None:
        super().__init__(store, f"no connection was free within {seconds:g} s", code="StoreBusy")


class Link(Protocol):
    """A connection that serves one operation at a time."""

    async def alive(self) -> bool:
        """Tell whether nothing is known against using it."""
        ...

    async def drop(self) -> None:
        """Close it at once, whatever is under way on it."""
        ...


L = TypeVar("L", bound=Link)


class Links(Generic[L]):
    """At most `size` connections; the one that was used last is used next, so that servers see few."""

    def __init__(self, store: str, connect: Callable[[], Awaitable[L]], *, size: int, timeout: float) -> None:
        """Make none yet; `connect` raises Refused or Lost when there is no connection to be had."""
        self._store = store
        self._connect = connect
        self._size = size
        self._timeout = timeout
        self._idle: list[L] = []
        self._used = 0
        self._making: set[asyncio.Task[Any]] = set()
        self._waiting: deque[asyncio.Future[L]] = deque()
        self._fault: Fault | None = None
        self._pause = 0.0
        self._again_at = 0.0
        self._closed = False

    async def take(self) -> L:
        """Return a connection that nobody uses; when the last attempt to make one failed, say so until the next is due.

        Raises:
            StoreError: there is none to be had.
        """
        while self._idle:
            link = self._idle.pop()
            self._used += 1
            if await link.alive():
                return link
            await self.lose(link)
        if self._closed:
            raise StoreError(self._store, "it is closed")
        if self._fault is not None and not self._making and time.monotonic() < self._again_at:
            error = self._fault.error(self._store)
            error.retry_after = self._again_at - time.monotonic()
            raise error
        waiter: asyncio.Future[L] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._make()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                await self.give(waiter.result())
            raise

    async def give(self, link: L) -> None:
        """Take a connection back, on which nothing is under way."""
        self._used -= 1
        if self._closed:
            await link.drop()
        else:
            self._hand_on(link)

    async def lose(self, link: L) -> None:
        """Give a connection up."""
        self._used -= 1
        await link.drop()
        self._make()

    @property
    def crowded(self) -> bool:
        """Whether who waits for a connection waits because others use them."""
        return self._used > 0

    def open(self) -> None:
        """Make connections from now on, the first at once whatever failed before."""
        self._closed = False
        self._again_at = 0.0

    async def close(self) -> None:
        """Make no more, and let go of those that nobody uses; the others go when they are given back."""
        self._closed = True
        for task in self._making:
            task.cancel()
        if self._making:
            await asyncio.wait(self._making)
        while self._idle:
            await self._idle.pop().drop()
        self._fail(Fault("it is closed"))

    def _hand_on(self, link: L) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._used += 1
                waiter.set_result(link)
                return
        self._idle.append(link)

    def _make(self) -> None:
        """Make as many connections as are waited for; it goes on when whoever waits has left."""
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()
        wanted = min(len(self._waiting), self._size - self._used - len(self._idle))
        while len(self._making) < wanted and not self._closed:
            task = asyncio.create_task(self._made())
            self._making.add(task)
            task.add_done_callback(self._making.discard)

    async def _made(self) -> None:
        made = await self._link_or_fault()
        # Before anybody is told: whoever asks next must not wait for this attempt, which is over.
        self._making -= {asyncio.current_task()}
        if isinstance(made, Fault):
            self._failed(made)
        else:
            self._fault = None
            self._pause = 0.0
            self._hand_on(made)

    async def _link_or_fault(self) -> L | Fault:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._connect()
        except Refused as refused:
            return refused.fault
        except Lost as lost:
            return Fault(str(lost))
        except TimeoutError:
            return Fault(f"it could not be connected to within {self._timeout:g} s")
        except Exception as error:
            # What no library should raise must not leave those waiting who ask.
            return Fault(f"it cannot be connected to: {type(error).__name__}")

    def _failed(self, fault: Fault) -> None:
        self._fault = fault
        self._pause = min(2 * self._pause, LONGEST_PAUSE) or FIRST_PAUSE
        # Many gateways that lost one server must not come back at the same moment.
        self._again_at = time.monotonic() + self._pause * random.uniform(0.5, 1.0)
        self._fail(fault)

    def _fail(self, fault: Fault) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(fault.error(self._store))

"""A clock that jumps: time passes only when nothing else is left to do."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from weft.ports import Timer


class FakeClock:
    """Time that passes only when nothing else is left to do."""

    def __init__(self, start: float = 1000.0) -> None:
        self.time = start
        self.pauses: list[float] = []
        self._timers: list[tuple[float, int, _FakeTimer]] = []
        self._order = itertools.count()
        self._turning = False
        self._held = 0

    def now(self) -> float:
        """Return the fake time."""
        return self.time

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Call back when the fake time has come."""
        timer = _FakeTimer(callback)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        self._turn()
        return timer

    async def sleep(self, seconds: float) -> None:
        """Pause, without waiting."""
        self.pauses.append(seconds)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.call_at(self.time + seconds, lambda: woken.done() or woken.set_result(None))
        await woken

    def timeout_at(self, deadline: float) -> _Scope:
        """Return a scope that ends at a fake moment."""
        return _Scope(self, deadline)

    @contextmanager
    def held(self) -> Generator[None]:
        """Let no time pass: something real is at work, which only looks as if nothing were left to do."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            if self._timers:
                self._turn()

    def _turn(self) -> None:
        if not self._turning:
            self._turning = True
            asyncio.get_running_loop().call_soon(self._when_idle)

    def _when_idle(self) -> None:
        """Let time pass to the next timer once the loop has nothing else that is ready."""
        loop = asyncio.get_running_loop()
        if any(not _waits(handle) for handle in getattr(loop, "_ready", ())):
            loop.call_soon(self._when_idle)
            return
        self._turning = False
        if self._held:
            return
        while self._timers:
            when, _, timer = heapq.heappop(self._timers)
            if timer.callback is None:
                continue
            self.time = max(self.time, when)
            timer.callback()
            break
        if self._timers:
            self._turn()


def _waits(handle: asyncio.Handle) -> bool:
    """Tell whether a handle is another clock that waits for idleness: the two would wait for each other."""
    callback = getattr(handle, "_callback", None)
    return getattr(callback, "__func__", None) is FakeClock._when_idle  # pyright: ignore[reportPrivateUsage]


class _FakeTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class _Scope:
    """A timeout of asyncio's that a fake timer ends."""

    def __init__(self, clock: FakeClock, deadline: float) -> None:
        self._scope = asyncio.timeout(None)
        self._clock = clock
        self._deadline = deadline
        self._timer: Timer | None = None

    async def __aenter__(self) -> asyncio.Timeout:
        entered = await self._scope.__aenter__()
        self._timer = self._clock.call_at(self._deadline, self._expire)
        return entered

    async def __aexit__(self, *exc: Any) -> bool | None:
        if self._timer is not None:
            self._timer.cancel()
        return await self._scope.__aexit__(*exc)

    def _expire(self) -> None:
        self._scope.reschedule(asyncio.get_running_loop().time())

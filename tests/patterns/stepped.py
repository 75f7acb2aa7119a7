"""A clock that a test moves by hand, tools that answer when a test lets them, and a store that processes share."""

from __future__ import annotations

import asyncio
import heapq
from typing import Any

from tests.patterns.gateways import FaultyStore
from weft.errors import StoreError
from weft.run.engine import Result
from weft.stores.memory import MemoryStore
from weft.testing import FakeClock

OPERATIONS = frozenset(
    {"get", "exists", "set", "put_if_absent", "cas", "delete", "delete_if", "incr", "scan", "batch", "now"}
)


async def settle() -> None:
    """Let everything go on that needs no time to pass."""
    ready: Any = getattr(asyncio.get_running_loop(), "_ready")  # noqa: B009  (asyncio does not say how busy it is)
    await asyncio.sleep(0)
    while ready:  # noqa: ASYNC110  (no event tells that nothing is left to do)
        await asyncio.sleep(0)


class SteppedClock(FakeClock):
    """Time that passes only in steps that a test makes."""

    def _turn(self) -> None:
        pass

    async def advance(self, seconds: float) -> None:
        """Let time pass: each timer fires at its own moment, and what it wakes goes on before the next."""
        until = self.time + seconds
        await settle()
        while self._timers and self._timers[0][0] <= until:
            when, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                self.time = max(self.time, when)
                timer.callback()
                await settle()
        self.time = until
        await settle()


class Gate:
    """A tool that answers when the test says what: `given` are the arguments of calls that wait, in order."""

    def __init__(self) -> None:
        self.given: list[Any] = []
        self._waiting: list[asyncio.Future[Any]] = []
        self.calls = 0
        self.most = 0
        """How many were under way at the same moment."""

    def __call__(self, arguments: Any) -> Any:
        self.calls += 1
        return self._answer(arguments)

    async def _answer(self, arguments: Any) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.given.append(arguments)
        self._waiting.append(answer)
        self.most = max(self.most, len(self._waiting))
        try:
            return await answer
        finally:
            at = self._waiting.index(answer)
            del self._waiting[at], self.given[at]

    @property
    def waiting(self) -> int:
        """How many calls wait for their answer."""
        return len(self._waiting)

    async def open(self, answer: Any, which: int = 0) -> None:
        """Let one call go on with an answer, or an error."""
        waits = self._waiting[which]
        if isinstance(answer, BaseException):
            waits.set_exception(answer)
        else:
            waits.set_result(answer)
        await settle()


class SharedStore(FaultyStore):
    """A store in memory that says of itself that other processes see it."""

    def __init__(self, clock: FakeClock, name: str = "shared") -> None:
        super().__init__(MemoryStore(name, clock=clock))

    @property
    def shared(self) -> bool:
        return True

    def fail(self) -> None:
        """Fail in every operation."""
        self.down = set[str](OPERATIONS)

    def heal(self) -> None:
        """Work again."""
        self.down = set[str]()

    async def now(self) -> float:
        if "now" in self.down:
            raise StoreError(self.name, "connection refused")
        return await self.store.now()


def notes(result: Result) -> dict[str, Any]:
    """Return what the pattern noted in the trace."""
    assert result.trace is not None
    return result.trace.root.notes or {}

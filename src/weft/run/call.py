"""One root call: its deadline, its budgets, the places in it, which are the spans of its trace."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from weft.errors import BudgetSpent, WeftError
from weft.patterns.contract import Step, Value
from weft.ports import Clock
from weft.run.limits import Limits

Detach: TypeAlias = Callable[[Coroutine[Any, Any, object]], None]
_SIZED = frozenset({list, dict, str})


class Root:
    """What all branches of a root call share; plain counters, since one event loop runs them all."""

    __slots__ = (
        "_background", "_in_flight", "_waiting", "calls_left", "clock", "expired", "limits", "rows_left", "spans",
        "spans_dropped", "steps_left", "warnings",
    )  # fmt: skip

    def __init__(self, clock: Clock, limits: Limits, background: Detach) -> None:
        self.clock = clock
        self.limits = limits
        self.steps_left = limits.steps
        self.calls_left = limits.calls
        self.rows_left = limits.rows
        self.warnings: list[str] = []
        self.spans: list[Place] = []
        self.spans_dropped = 0
        self.expired = False
        self._background = background
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] | None = None

    def spend_steps(self, count: int) -> None:
        self.steps_left -= count
        if self.steps_left < 0:
            raise BudgetSpent("StepLimit", self.limits.steps, "the call takes too many steps")

    def spend_rows(self, count: int) -> None:
        self.rows_left -= count
        if self.rows_left < 0:
            raise BudgetSpent("RowLimit", self.limits.rows, "the call produces too many rows")

    def need_calls(self, count: int) -> None:
        if count > self.calls_left:
            raise BudgetSpent("FanOutLimit", self.limits.calls, f"{count} more upstream calls are needed")

    def enter_at_once(self) -> bool:
        """Take one upstream call from the budget; tell whether there is a place for it, which is then taken."""
        self.calls_left -= 1
        if self.calls_left < 0:
            raise BudgetSpent("FanOutLimit", self.limits.calls, "the call makes too many upstream calls")
        if self._in_flight >= self.limits.concurrent:
            return False
        self._in_flight += 1
        return True

    async def enter(self) -> None:
        """Wait for a place, and take it."""
        if self._waiting is None:
            self._waiting = deque()
        while self._in_flight >= self.limits.concurrent:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except BaseException:
                # The place was already given to this branch, which will not take it: the next one gets it.
                if turn.done() and not turn.cancelled():
                    self._wake()
                raise
        self._in_flight += 1

    def leave(self) -> None:
        """Give the place of an upstream call back."""
        self._in_flight -= 1
        if self._waiting:
            self._wake()

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def warn(self, message: str) -> None:
        if len(self.warnings) < self.limits.warnings:
            self.warnings.append(message)

    def detach(self, work: Coroutine[Any, Any, object]) -> None:
        self._background(work)


class Place:
    """A place in a root call; when the call is traced, also the span of what happens there."""

    __slots__ = (
        "deadline",
        "ended",
        "error",
        "given",
        "gave",
        "name",
        "outcome",
        "parent",
        "root",
        "began",
        "step",
        "traced",
    )  # noqa: E501, RUF023  (in the order of a span's life)

    def __init__(self, root: Root, deadline: float, traced: bool) -> None:
        self.root = root
        self.deadline = deadline
        self.traced = traced
        self.parent: Place | None = None
        self.outcome = "running"
        self.error: str | None = None

    def open(self, step: Step, value: Value, name: str = "") -> Place:
        root = self.root
        place = Place.__new__(Place)
        place.root = root
        place.deadline = self.deadline
        place.traced = True
        place.parent = self
        place.step = step
        place.name = name or step.name
        place.given = len(value) if value.__class__ in _SIZED else None
        place.outcome = "running"
        if len(root.spans) < root.limits.spans:
            root.spans.append(place)
        else:
            root.spans_dropped += 1
        place.began = root.clock.now()
        return place

    def close(self, value: Value) -> None:
        self.ended = self.root.clock.now()
        self.outcome = "ok"
        self.gave = len(value) if value.__class__ in _SIZED else None

    def fail(self, error: BaseException) -> None:
        self.ended = self.root.clock.now()
        self.gave = None
        self.outcome = "cancelled" if isinstance(error, asyncio.CancelledError) else "failed"
        self.error = error.message if isinstance(error, WeftError) else str(error) or type(error).__name__

    def skip(self, step: Step) -> None:
        if self.traced:
            place = self.open(step, None)
            place.close(None)
            place.outcome = "skipped"

    def until(self, deadline: float) -> Place:
        if not self.traced:
            return Place(self.root, min(deadline, self.deadline), False)
        self.deadline = min(deadline, self.deadline)
        return self

"""The engine: runs a snapshot's tools, one root call at a time, as many at once as are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from random import Random
from typing import Any

from weft.errors import DeadlineExceeded, WeftError
from weft.patterns.contract import Step, Value
from weft.plan.snapshot import Snapshot
from weft.ports import Caller, Clock, Json, Signals
from weft.run.call import CHANCE, SILENCE, Dropped, OnStep, Place, Root, Telling, ToldPlace
from weft.run.clock import MonotonicClock
from weft.run.deadlines import Deadlines
from weft.run.limits import Limits
from weft.run.trace import Trace, trace_of


class Result:
    """What a call gave: the value, what was dropped on the way, how it was got, and the trace if one was asked for."""

    __slots__ = ("_dropped", "_marks", "_spans", "value", "warnings")

    def __init__(
        self,
        value: Value,
        warnings: list[str],
        spans: list[Place] | None = None,
        dropped: int = 0,
        marks: dict[str, Json] | None = None,
    ) -> None:
        self.value = value
        self.warnings = warnings
        self._marks = marks
        self._spans = spans
        self._dropped = dropped

    @property
    def marks(self) -> Mapping[str, Any]:
        """How the value was got, where patterns have something to say: `{"cache": "hit"}`."""
        return self._marks or {}

    @property
    def trace(self) -> Trace | None:
        """The trace, made when it is asked for: most are recorded and never read."""
        return None if self._spans is None else trace_of(self._spans, self._dropped)

    @property
    def spans(self) -> int:
        """How many spans the trace has."""
        return len(self._spans or ())

    @property
    def has_failures(self) -> bool:
        """Whether a step of the trace failed, though the call did not."""
        return any(place.outcome == "failed" for place in self._spans or ())

    def tracing(self) -> Callable[[], Trace | None]:
        """Return what makes the trace, and keeps nothing else of the result."""
        if self._spans is None:
            return lambda: None
        return partial(trace_of, self._spans, self._dropped)


class Engine:
    """Runs the tools of a snapshot; `snapshot` may be replaced at any time, calls keep the one they began with."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        rng: Random | None = None,
        signals: Signals | None = None,
    ) -> None:
        self.snapshot = snapshot
        self._rng = rng or CHANCE
        self._signals = signals or SILENCE
        self.clock = clock or MonotonicClock()
        self.limits = limits or Limits()
        self._deadlines = Deadlines(self.clock)
        self._background: dict[asyncio.Task[object], Dropped] = {}
        self._leaving = set[asyncio.Task[object]]()

    async def execute(self, name: str, value: Value, *, timeout: float | None = None) -> Value:
        """Run a tool and return its value: the shortest way, without a trace."""
        step = self.snapshot.step(name)
        root = Root(self.clock, self.limits, self.detach, rng=self._rng, signals=self._signals)
        return await self._call(step, value, Place(root, self._deadline(timeout), False))

    async def run(
        self,
        name: str,
        value: Value,
        *,
        timeout: float | None = None,
        trace: bool = True,
        caller: Caller | None = None,
        on_step: OnStep | None = None,
        snapshot: Snapshot | None = None,
    ) -> Result:
        """Run a tool for a client and return its value with warnings and trace; `on_step` follows a traced call.

        `snapshot` has the tool, where that is not the one that is served.

        An error that a traced call ends with carries the trace as `error.trace`, and its marks as `error.marks`.
        """
        step = (snapshot or self.snapshot).step(name)
        root = Root(self.clock, self.limits, self.detach, caller, rng=self._rng, signals=self._signals)
        place = Place(root, self._deadline(timeout), trace)
        if not trace:
            result = await self._call(step, value, place)
            return Result(result, root.warnings, marks=root.marks)
        if on_step is not None:
            root.on_step = on_step = Telling(on_step)
            place = ToldPlace(root, place.deadline, True)
        root.spans = spans = [place]
        place.begin(step, value)
        try:
            result = await self._call(step, value, place)
        except BaseException as error:
            place.fail(error)
            if isinstance(error, WeftError):
                error.trace = trace_of(spans, root.spans_dropped)
                error.marks = root.marks
            raise
        else:
            place.close(result)
        finally:
            # Spans know their root; were the root to go on knowing them, only the garbage collector would free both.
            root.spans = []
            if on_step is not None:
                on_step.end()
        return Result(result, root.warnings, spans, root.spans_dropped, root.marks)

    def _deadline(self, timeout: float | None) -> float:
        limits = self.limits
        return self.clock.now() + (limits.timeout if timeout is None else min(timeout, limits.max_timeout))

    async def _call(self, step: Step, value: Value, place: Place) -> Value:
        root = place.root
        if (pure := step.pure) is not None:
            root.spend_steps(pure.steps)
            result = pure.spans(value, place) if place.traced and pure.spans is not None else pure.fn(value)
            return self._in_time(step, result, place)
        task = asyncio.current_task()
        assert task is not None
        self._deadlines.add(root, place.deadline, task)
        try:
            result = await step.run(value, place)
        finally:
            self._deadlines.remove(root)
            # Whatever a tool made of being cancelled, the deadline is what happened, unless the caller cancelled too.
            if root.expired and task.uncancel() == 0:
                raise DeadlineExceeded(f"'{step.name}' did not finish before its deadline") from None
        return self._in_time(step, result, place)

    def _in_time(self, step: Step, result: Value, place: Place) -> Value:
        """Refuse a result that comes late because something kept the event loop busy, so that no timer could fire."""
        if place.root.now() > place.deadline:
            raise DeadlineExceeded(f"'{step.name}' did not finish before its deadline")
        return result

    def detach(self, work: Coroutine[Any, Any, object], dropped: Dropped = None) -> None:
        """Take over work that outlives its call; when too much is under way, the oldest makes room."""
        if len(self._background) >= self.limits.background:
            self._drop(next(iter(self._background)))
        task = asyncio.create_task(work)
        self._background[task] = dropped
        task.add_done_callback(lambda done: self._background.pop(done, None))

    def _drop(self, task: asyncio.Task[object]) -> None:
        if (dropped := self._background.pop(task, None)) is not None:
            dropped()
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        task.cancel()

    async def close(self, *, drain: float = 5.0) -> None:
        """Wait for background work and what it began in turn, at most so many seconds; then cancel what is left."""
        try:
            async with self.clock.timeout_at(self.clock.now() + drain):
                while tasks := [*self._background, *self._leaving]:
                    await asyncio.wait(tasks)
        except TimeoutError:
            for task in list(self._background):
                self._drop(task)
            await asyncio.gather(*self._leaving, return_exceptions=True)
        self._deadlines.stop()

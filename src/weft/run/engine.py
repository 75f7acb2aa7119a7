"""The engine: runs a snapshot's tools, one root call at a time, as many at once as are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from weft.errors import DeadlineExceeded, NotFound, WeftError
from weft.patterns.contract import Value
from weft.plan.snapshot import Snapshot
from weft.ports import Clock
from weft.run.call import Place, Root
from weft.run.clock import MonotonicClock
from weft.run.deadlines import Deadlines
from weft.run.limits import Limits
from weft.run.trace import Trace, trace_of


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave: the value, what was dropped on the way, and the trace if one was asked for."""

    value: Value
    warnings: list[str]
    trace: Trace | None = None


class Engine:
    """Runs the tools of a snapshot; `snapshot` may be replaced at any time, calls keep the one they began with."""

    def __init__(self, snapshot: Snapshot, *, clock: Clock | None = None, limits: Limits | None = None) -> None:
        self.snapshot = snapshot
        self.clock = clock or MonotonicClock()
        self.limits = limits or Limits()
        self._deadlines = Deadlines(self.clock)
        self._background = set[asyncio.Task[object]]()

    async def execute(self, name: str, value: Value, *, timeout: float | None = None) -> Value:
        """Run a tool and return its value: the shortest way, without a trace."""
        root, place = self._begin(timeout, traced=False)
        return await self._run(name, value, root, place)

    async def run(self, name: str, value: Value, *, timeout: float | None = None, trace: bool = True) -> Result:
        """Run a tool and return its value with warnings and trace.

        An error that the call ends with carries its trace as `error.trace`.
        """
        root, place = self._begin(timeout, traced=trace)
        if not trace:
            return Result(await self._run(name, value, root, place), root.warnings)
        top = place.open(self.snapshot.step(name), value)
        try:
            result = await self._run(name, value, root, top)
        except BaseException as error:
            top.fail(error)
            if isinstance(error, WeftError):
                error.trace = trace_of(root, top)
            raise
        top.close(result)
        return Result(result, root.warnings, trace_of(root, top))

    def _begin(self, timeout: float | None, *, traced: bool) -> tuple[Root, Place]:
        seconds = self.limits.timeout if timeout is None else min(timeout, self.limits.max_timeout)
        root = Root(self.clock, self.limits, self.detach)
        return root, Place(root, self.clock.now() + seconds, traced)

    async def _run(self, name: str, value: Value, root: Root, place: Place) -> Value:
        step = self.snapshot.tools.get(name)
        if step is None:
            raise NotFound("Composition", name, self.snapshot.tools)
        if step.pure is not None:
            return step.pure.fn(value)
        task = asyncio.current_task()
        assert task is not None
        self._deadlines.add(root, place.deadline, task)
        try:
            return await step.run(value, place)
        except asyncio.CancelledError:
            # Cancelled by the deadline alone, not by whoever waits for this call as well.
            if root.expired and task.uncancel() == 0:
                raise DeadlineExceeded(f"'{name}' did not finish before its deadline") from None
            raise
        finally:
            self._deadlines.remove(root)

    def detach(self, work: Coroutine[Any, Any, object]) -> None:
        """Take over work that outlives its call; when too much is under way, the oldest makes room."""
        if len(self._background) >= self.limits.background:
            next(iter(self._background)).cancel()
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def close(self, *, drain: float = 5.0) -> None:
        """Wait for background work, at most so many seconds, then cancel what is left."""
        self._deadlines.stop()
        if self._background:
            _, late = await asyncio.wait(self._background, timeout=drain)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

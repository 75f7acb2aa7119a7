"""In time: work that ends at a moment, whatever it makes of being told to.

The work runs in the task of its caller, step by step, so that a limit that is not reached costs next to nothing: no
task, no turn of the loop. When the moment comes it is cancelled; what goes on all the same is closed after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import suppress
from typing import Any

from weft.errors import BudgetSpent
from weft.patterns.contract import Root, Value
from weft.ports import Timer

GRACE = 0.25
EARLY = 1e-6
"""A loop's timers may come this much too soon."""


class Late(Exception):
    """The work was not done at its moment; the cause is what it raised instead, if it did."""


class InTime:
    """Await it for the result of the work, if that is there before the moment.

    Raises:
        Late: it is not. The work was cancelled, or closed where it stood.
    """

    __slots__ = ("_cancels", "_grace", "_leaving", "_limit", "_root", "_task", "_timer", "_work")

    _task: asyncio.Task[Any]
    _timer: Timer

    def __init__(self, work: Coroutine[Any, Any, Value], root: Root, limit: float, grace: float = GRACE) -> None:
        self._work = work
        self._root = root
        self._limit = limit
        self._grace = grace
        self._cancels = 0
        self._leaving = False

    def __await__(self) -> Generator[Any, Any, Value]:
        clock = self._root.clock
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        before = task.cancelling()
        self._timer = clock.call_at(self._limit, self._expire)
        try:
            result = yield from self._driven()
        except BaseException as error:
            if not self._over(before, error) or isinstance(error, BudgetSpent):
                raise
            raise Late from error
        finally:
            self._timer.cancel()
        if self._over(before, None):
            raise Late
        return result

    def _over(self, before: int, error: BaseException | None) -> bool:
        """Tell whether the moment came before the end; somebody else's cancellation matters more than that."""
        if self._cancels:
            for _ in range(self._cancels):
                self._task.uncancel()
            if self._task.cancelling() > before:
                raise asyncio.CancelledError from error
            return True
        if error is not None and not isinstance(error, Exception):
            return False
        # Whether the timer had its turn or something kept the loop busy: what comes late is late.
        return self._root.clock.now() >= self._limit - EARLY

    def _expire(self) -> None:
        self._timer = self._root.clock.call_at(self._limit + self._grace, self._leave)
        self._cancel()

    def _leave(self) -> None:
        self._leaving = True
        self._cancel()

    def _cancel(self) -> None:
        self._cancels += 1
        self._task.cancel()

    def _driven(self) -> Generator[Any, Any, Value]:
        """Run the work to its end, handing to the task whatever it waits for."""
        work = self._work
        try:
            waits = work.send(None)
            while True:
                try:
                    if isinstance(waits, asyncio.Future) and type(waits) is not asyncio.Future:  # pyright: ignore
                        yield from self._watched(waits)  # pyright: ignore[reportUnknownArgumentType]
                    else:
                        yield waits
                except BaseException as error:
                    if self._leaving:
                        self._abandon(waits)
                        raise
                    waits = work.throw(error)
                else:
                    waits = work.send(None)
        except StopIteration as end:
            return end.value

    def _watched(self, other: asyncio.Future[Any]) -> Generator[Any, Any, None]:
        """Wait for a task, or several: unlike a plain future, they may refuse to be cancelled.

        So a plain one stands between. A cancellation is passed on, and what becomes of it waited for, as a task does.
        """
        while not other.done():
            between = self._task.get_loop().create_future()
            other.add_done_callback(lambda _, end=between: end.done() or end.set_result(None))
            try:
                yield from between
            except asyncio.CancelledError:
                if self._leaving or not other.cancel():
                    raise

    def _abandon(self, waits: Any) -> None:
        """Close the work where it stands: its `finally` is run, and what it still waits for is waited for no more."""
        self._root.signals.count("timeouts_abandoned")
        if isinstance(waits, asyncio.Future):
            waits.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # pyright: ignore
        # It may fail while it is closed, or refuse even that: nobody is there any more who wants to know.
        with suppress(GeneratorExit, StopIteration, asyncio.CancelledError, Exception):
            self._work.throw(GeneratorExit())

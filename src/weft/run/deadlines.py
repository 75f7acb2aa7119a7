"""Deadlines of root calls: one timer for all of them, since nearly every call ends long before its own."""

from __future__ import annotations

import asyncio

from weft.ports import Clock, Timer
from weft.run.call import Root


class Deadlines:
    """Cancels the task of a root call whose deadline has come; adding and removing a call costs a dict entry."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._active: dict[Root, tuple[float, asyncio.Task[object]]] = {}
        self._timer: Timer | None = None
        self._armed_for = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, root: Root, deadline: float, task: asyncio.Task[object]) -> None:
        """Begin to watch a call."""
        self._active[root] = (deadline, task)
        # A timer of a loop that was left behind (two `asyncio.run` with one engine) would never fire.
        if self._timer is None or deadline < self._armed_for or self._loop is not task.get_loop():
            self._loop = task.get_loop()
            self._arm(deadline)

    def remove(self, root: Root) -> None:
        """Stop watching a call; the timer stays, and finds nothing, unless nothing at all is left to watch."""
        del self._active[root]

    def stop(self) -> None:
        """Cancel the timer, unless calls are still under way."""
        if not self._active:
            self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, when: float) -> None:
        self._cancel()
        self._armed_for = when
        self._timer = self._clock.call_at(when, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._clock.now()
        for root, (deadline, task) in list(self._active.items()):
            if deadline <= now and not root.expired:
                root.expired = True
                task.cancel()
        left = [deadline for root, (deadline, _) in self._active.items() if not root.expired]
        if left:
            self._arm(min(left))

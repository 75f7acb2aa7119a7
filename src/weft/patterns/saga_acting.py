"""One call of a saga: in a time of its own, which only what is outside of the saga can cut short."""

from __future__ import annotations

import asyncio
from typing import Literal

from weft.errors import TimedOut, WeftError
from weft.patterns.contract import Call, Step, Value, perform
from weft.patterns.keys import Keys
from weft.patterns.saga_journal import Fenced, Lost
from weft.patterns.saga_plan import standing

Way = Literal["do", "undo"]


class Acting:
    """Makes the calls of one saga, one after the other, and ends the one under way when it is told to."""

    def __init__(self, call: Call, timeout: float | None) -> None:
        """Make one; `timeout` is that of the saga, and as long may an action take."""
        self.why: Exception | None = None
        """Why nothing more is to be begun."""
        self._call = call
        self._timeout = timeout
        self._task: asyncio.Task[object] | None = None
        self._cut = False
        """Whether the action under way was cancelled from here."""

    def interrupt(self, why: Exception) -> None:
        """End the action that is under way, if any, and begin no other."""
        if self.why is None:
            self.why = why
            if self._task is not None:
                self._cut = self._task.cancel()

    def check_owner(self) -> None:
        """Refuse to call anything for a saga that is somebody else's.

        Raises:
            Fenced, Lost: that it is.
        """
        if isinstance(self.why, Fenced | Lost):
            raise self.why

    def check_wanted(self) -> None:
        """Refuse to go on with what is to be turned back.

        Raises:
            WeftError: why it is.
        """
        if isinstance(self.why, WeftError):
            raise self.why

    async def perform(self, step: Step, value: Value, keys: Keys, way: Way, bound: float | None) -> Value:
        """Make a call; `bound` is when the time of the whole saga is over."""
        root = self._call.root
        caller = root.context if way == "undo" else None
        place = self._call.lasting(None if caller is None else standing(caller), self._timeout if way == "do" else None)
        place = (place if bound is None else place.until(bound)).keyed(keys)
        task = asyncio.current_task()
        assert task is not None
        self._task = task if way == "do" else None
        try:
            async with root.clock.timeout_at(place.deadline):
                result = await perform(step, value, place)
        except TimeoutError:
            if bound is not None and root.clock.now() >= bound:
                raise self.timed_out() from None
            raise TimedOut(f"'{step.name}' did not answer before its deadline") from None
        except asyncio.CancelledError:
            if not self._cut or self.why is None or task.uncancel() > 0:
                raise
            self._cut = False
            raise self.why from None
        finally:
            self._task = None
        if self._cut:
            self._cut = False
            await _swallow(task)
        return result

    def timed_out(self) -> TimedOut:
        """Return the error of a saga whose time is over."""
        assert self._timeout is not None
        return TimedOut(f"Saga timeout: it was not done after {round(self._timeout * 1000)}ms")


async def _swallow(task: asyncio.Task[object]) -> None:
    """Take back a cancellation that came when the action had just ended: what was done is done."""
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        if task.uncancel() > 0:
            raise
        return
    task.uncancel()

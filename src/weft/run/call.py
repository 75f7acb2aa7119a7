"""One root call: its deadline, its budgets, the places in it, which are the spans of its trace."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeAlias

from weft.errors import BudgetSpent, WeftError
from weft.patterns.contract import Step, Value
from weft.patterns.keys import Keys
from weft.ports import Caller, Clock, Json, Signals, Silence
from weft.run.limits import Limits

Dropped: TypeAlias = "Callable[[], object] | None"
Detach: TypeAlias = "Callable[[Coroutine[Any, Any, object], Dropped], None]"
OnStep: TypeAlias = "Callable[[Place], object]"
"""Told each step that has ended, until the call has."""

RUNNING = "running"
CHANCE = Random()
SILENCE = Silence()
_SIZED = frozenset({list, dict, str})
_new = object.__new__


class Root:
    """What all branches of a root call share; plain counters, since one event loop runs them all."""

    __slots__ = (
        "_aside", "_background", "_lasting", "_waiting", "calls_left", "clock", "context", "expired", "limits", "marks",
        "now", "on_step", "places_left", "rng", "rows_left", "signals", "spans", "spans_dropped", "steps_left",
        "warned", "warnings",
    )  # fmt: skip

    spans: list[Place]
    on_step: OnStep

    def __init__(
        self,
        clock: Clock,
        limits: Limits,
        background: Detach,
        context: Caller | None = None,
        *,
        rng: Random = CHANCE,
        signals: Signals = SILENCE,
    ) -> None:
        self.clock = clock
        self.rng = rng
        self.signals = signals
        self.context = context
        self.now = clock.now
        self.limits = limits
        self.steps_left = limits.steps
        self.calls_left = limits.calls
        self.rows_left = limits.rows
        self.places_left = limits.concurrent
        self.warnings: list[str] = []
        self.warned = 0
        self.marks: dict[str, Json] | None = None
        self.spans_dropped = 0
        self.expired = False
        self._background = background
        self._aside: Root | None = None
        self._lasting: Root | None = None
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

    async def wait(self) -> None:
        """Wait for a place for one more upstream call; refuse it when the budget is spent."""
        if self.calls_left < 0:
            raise BudgetSpent("FanOutLimit", self.limits.calls, "the call makes too many upstream calls")
        if self._waiting is None:
            self._waiting = deque()
        while self.places_left <= 0:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except BaseException:
                # The place was already given to this branch, which will not take it: the next one gets it.
                if turn.done() and not turn.cancelled():
                    self._wake()
                raise

    def leave(self) -> None:
        """Give the place of an upstream call back."""
        self.places_left += 1
        if self._waiting:
            self._wake()

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def warn(self, message: str) -> None:
        self.warned += 1
        if len(self.warnings) < self.limits.warnings:
            self.warnings.append(message)

    def mark(self, key: str, value: Json) -> None:
        if self.marks is None:
            self.marks = {}
        self.marks[key] = value

    def detach(self, work: Coroutine[Any, Any, object], dropped: Dropped = None) -> None:
        self._background(work, dropped)

    def aside(self) -> Root:
        """Return what all detached work of the call shares: it must not spend what the call itself needs."""
        if self._aside is None:
            self._aside = self.beside(self.context)
        return self._aside

    def lasting(self, caller: Caller | None) -> Root:
        """Return what work shares that the call waits for and that may outlive it: what it marks, the call has marked.

        It has budgets of its own, as all detached work; in the name of another caller, each time new ones.
        """
        if caller is not None:
            root = self.beside(caller)
        elif self._lasting is None:
            root = self._lasting = self.beside(self.context)
        else:
            root = self._lasting
        if self.marks is None:
            self.marks = {}
        root.marks = self.marks
        return root

    def beside(self, caller: Caller | None) -> Root:
        """Return a root for detached work that shares nothing but the warnings."""
        root = Root(self.clock, self.limits, self._background, caller, rng=self.rng, signals=self.signals)
        root.warnings = self.warnings
        return root


class Place:
    """A place in a root call; when the call is traced, also the span of what happens there."""

    __slots__ = (
        "began", "deadline", "ended", "error", "gave", "given", "keys", "name", "notes", "outcome", "parent", "root",
        "step", "traced",
    )  # fmt: skip

    began: float
    ended: float
    step: Step
    name: str
    error: str
    given: int | None
    gave: int | None

    def __init__(self, root: Root, deadline: float, traced: bool) -> None:
        self.root = root
        self.deadline = deadline
        self.traced = traced
        self.parent: Place | None = None
        self.keys: Keys | None = None
        self.notes: dict[str, Json] | None = None
        self.outcome = RUNNING

    def begin(self, step: Step, value: Value) -> None:
        """Make this place, which is the first, the span of the whole call."""
        self.step = step
        self.name = ""
        self.given = len(value) if value.__class__ in _SIZED else None
        self.began = self.root.now()

    def open(self, step: Step, value: Value, name: str = "") -> Place:
        root = self.root
        # Spans are made by the thousand: what __init__ would do, without the cost of calling it.
        place = _new(Place)
        place.root = root
        place.deadline = self.deadline
        place.traced = True
        place.parent = self
        place.step = step
        place.name = name
        place.keys = self.keys
        place.notes = None
        place.outcome = RUNNING
        place.given = len(value) if value.__class__ in _SIZED else None
        spans = root.spans
        if len(spans) < root.limits.spans:
            spans.append(place)
        else:
            root.spans_dropped += 1
        place.began = root.now()
        return place

    def close(self, value: Value) -> None:
        self.ended = self.root.now()
        self.outcome = "ok"
        self.gave = len(value) if value.__class__ in _SIZED else None

    def fail(self, error: BaseException) -> None:
        self.ended = self.root.now()
        self.gave = None
        self.outcome = "cancelled" if isinstance(error, asyncio.CancelledError) else "failed"
        self.error = error.message if isinstance(error, WeftError) else str(error) or type(error).__name__

    @property
    def is_span(self) -> bool:
        """Whether something began here; a place apart only has a time and budgets of its own."""
        return hasattr(self, "began")

    def note(self, **facts: Json) -> None:
        if self.traced:
            self.notes = facts if self.notes is None else {**self.notes, **facts}

    def keyed(self, keys: Keys) -> Place:
        if not self.traced:
            place = Place(self.root, self.deadline, False)
            place.keys = keys
            return place
        self.keys = keys
        return self

    def skip(self, step: Step) -> None:
        if self.traced:
            place = self.open(step, None)
            place.close(None)
            place.outcome = "skipped"

    def apart(self, caller: Caller | None = None) -> Place:
        return self._elsewhere(self.root.aside() if caller is None else self.root.beside(caller))

    def lasting(self, caller: Caller | None = None, seconds: float | None = None) -> Place:
        return self._elsewhere(self.root.lasting(caller), seconds or 0.0)

    def _elsewhere(self, root: Root, seconds: float = 0.0) -> Place:
        if self.traced:
            root.spans = self.root.spans
        time = max(root.limits.timeout, min(seconds, root.limits.max_timeout))
        place = Place(root, self.root.now() + time, self.traced)
        place.parent = self
        place.keys = self.keys
        return place

    def until(self, deadline: float) -> Place:
        if not self.traced:
            place = Place(self.root, min(deadline, self.deadline), False)
            place.keys = self.keys
            return place
        self.deadline = min(deadline, self.deadline)
        return self


class ToldPlace(Place):
    """A place whose end, and that of every place below it, is told to somebody who wants to follow the call."""

    __slots__ = ()

    def open(self, step: Step, value: Value, name: str = "") -> Place:
        place = super().open(step, value, name)
        place.__class__ = ToldPlace
        return place

    def lasting(self, caller: Caller | None = None, seconds: float | None = None) -> Place:
        place = super().lasting(caller, seconds)
        place.__class__ = ToldPlace
        place.root.on_step = self.root.on_step
        return place

    def close(self, value: Value) -> None:
        super().close(value)
        self.root.on_step(self)

    def fail(self, error: BaseException) -> None:
        super().fail(error)
        self.root.on_step(self)


class Telling:
    """Tells somebody of steps until the call has ended; what goes on after that is nobody's progress."""

    __slots__ = ("_on_step",)

    def __init__(self, on_step: OnStep) -> None:
        self._on_step: OnStep | None = on_step

    def __call__(self, place: Place) -> None:
        """Tell of a step."""
        if self._on_step is not None:
            self._on_step(place)

    def end(self) -> None:
        """Tell of none any more."""
        self._on_step = None

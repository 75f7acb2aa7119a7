"""A fake world for tests of compositions: canned tools, a clock that jumps, failures on demand.

world = FakeWorld(tools={"search": [down, down, "found"]})
assert await world.run(w.tool("search")) == "found"
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.app import Upstreams
from weft.dsl.compositions import Composition, compile, composition
from weft.errors import ToolFailed, UpstreamUnavailable
from weft.ir.document import Document
from weft.patterns.contract import Op
from weft.plan.compiler import compile_document
from weft.ports import Invoke, Timer, ToolRef, ToolType, Upstream
from weft.run.engine import Engine, Result
from weft.run.limits import Limits

Answer = Any
"""A value, an exception to raise, `Late`, a function of the arguments, or `in_turn(..)` of these: one for each call."""


class Answers(list[Answer]):
    """Answers of which each is given once; made by `in_turn`."""


def in_turn(*answers: Answer) -> Answers:
    """Give one answer for each call."""
    return Answers(answers)


@dataclass(frozen=True, slots=True)
class Late:
    """An answer that takes its time, on the fake clock."""

    answer: Answer
    seconds: float


def down(reason: str = "connection refused") -> UpstreamUnavailable:
    """Return the failure of a server that is not there."""
    return UpstreamUnavailable("fake", reason)


def refusal(content: Any) -> ToolFailed:
    """Return the failure of a tool that ran and said no."""
    return ToolFailed("fake", content)


class FakeClock:
    """Time that passes only when nothing else is left to do."""

    def __init__(self, start: float = 1000.0) -> None:
        self.time = start
        self.pauses: list[float] = []
        self._timers: list[tuple[float, int, _FakeTimer]] = []
        self._order = itertools.count()
        self._turning = False

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

    def _turn(self) -> None:
        if not self._turning:
            self._turning = True
            asyncio.get_running_loop().call_soon(self._when_idle)

    def _when_idle(self) -> None:
        """Let time pass to the next timer once the loop has nothing else that is ready."""
        loop = asyncio.get_running_loop()
        if getattr(loop, "_ready", None):
            loop.call_soon(self._when_idle)
            return
        self._turning = False
        while self._timers:
            when, _, timer = heapq.heappop(self._timers)
            if timer.callback is None:
                continue
            self.time = max(self.time, when)
            timer.callback()
            break
        if self._timers:
            self._turn()


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


@dataclass(slots=True)
class FakeWorld:
    """Runs compositions against canned answers.

    `calls` holds every call made: (tool, arguments). `chance` makes the named tools fail at random, by the seed.
    """

    tools: Mapping[str, Answer] = field(default_factory=dict[str, Any])
    types: Mapping[str, ToolType] = field(default_factory=dict[str, ToolType])
    limits: Limits = field(default_factory=Limits)
    seed: int = 0
    chance: Mapping[str, float] = field(default_factory=dict[str, float])
    clock: FakeClock = field(default_factory=FakeClock)
    calls: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])

    @property
    def pauses(self) -> list[float]:
        """Every pause that was made, in order, in seconds."""
        return self.clock.pauses

    async def run(self, what: Op[Any, Any] | str, input: Any = None, *, document: Document | None = None) -> Any:
        """Run an operation, or a tool of a document by name, and return its value."""
        return (await self.trace(what, input, document=document)).value

    async def trace(
        self, what: Op[Any, Any] | str, input: Any = None, *, document: Document | None = None,
        timeout: float | None = None,
    ) -> Result:  # fmt: skip
        """Run as `run` does and return value, warnings and trace."""
        name, engine = self._engine(what, document)
        try:
            return await engine.run(name, input, timeout=timeout)
        finally:
            await engine.close()

    def engine(self, document: Document, *others: Upstream) -> Engine:
        """Return an engine for a document in this world; `others` have the tools that are not canned."""
        upstream = Upstreams([_Canned(self), *others])
        return Engine(compile_document(document, upstream), clock=self.clock, limits=self.limits)

    def _engine(self, what: Op[Any, Any] | str, document: Document | None) -> tuple[str, Engine]:
        if isinstance(what, str):
            if document is None:
                raise TypeError("world.run takes a document with the name of a tool")
            return what, self.engine(document)
        top = what if isinstance(what, Composition) else composition("it", "What the test runs.", what)
        compiled = compile(top)
        return top.name, self.engine(compiled.document, compiled.local)


class _Canned:
    """The upstream of a fake world."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world
        self._rng = random.Random(world.seed)
        self._queues: dict[str, list[Answer]] = {
            name: list(answers) for name, answers in world.tools.items() if _is_in_turn(answers)
        }

    def bind(self, ref: ToolRef) -> Invoke | None:
        name = _key(ref, self._world.tools)
        if name is None:
            return None

        async def invoke(arguments: Any, call: Any) -> Any:
            self._world.calls.append((name, arguments))
            if self._rng.random() < self._world.chance.get(name, 0.0):
                raise down("by chance")
            return await self._answer(name, self._next(name), arguments)

        return invoke

    def describe(self, ref: ToolRef) -> ToolType | None:
        name = _key(ref, self._world.tools)
        return None if name is None else self._world.types.get(name, ToolType())

    def names(self) -> list[str]:
        return list(self._world.tools)

    def _next(self, name: str) -> Answer:
        if name not in self._queues:
            return self._world.tools[name]
        if not self._queues[name]:
            raise AssertionError(f"{name!r} was called more often than it has answers")
        return self._queues[name].pop(0)

    async def _answer(self, name: str, answer: Answer, arguments: Any) -> Any:
        if isinstance(answer, Late):
            await self._world.clock.sleep(answer.seconds)
            return await self._answer(name, answer.answer, arguments)
        if isinstance(answer, BaseException):
            raise answer
        if callable(answer):
            return await self._answer(name, answer(arguments) if answer is not down else down(), arguments)
        return answer


def _is_in_turn(answers: Answer) -> bool:
    """Tell a list of answers from an answer that is a list: only the former can hold a failure."""
    if isinstance(answers, Answers):
        return True
    return isinstance(answers, list) and any(isinstance(one, BaseException | Late) or callable(one) for one in answers)  # pyright: ignore


def _key(ref: ToolRef, tools: Mapping[str, Answer]) -> str | None:
    """Return the name under which a tool is canned: its own, `server:tool`, or `agent/skill`."""
    for name in (str(ref), f"{ref.name}/{ref.skill}", ref.name):
        if name in tools:
            return name
    return None

"""Any order of calls, outcomes, faults and waiting: a circuit does what a plain model of it says."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.patterns.breakers import around, breaker
from tests.patterns.gateways import gateway, outcome
from tests.patterns.stepped import Gate, SharedStore, SteppedClock, settle
from weft.errors import CircuitOpen, InputError
from weft.patterns.circuit_state import Permit
from weft.patterns.circuits import Circuits
from weft.testing import FakeWorld, down

WINDOW, RESET, THRESHOLD, SUCCESSES, PERMITS, TIMEOUT = 60, 30, 3, 2, 2, 45
TICK = 3  # the width of a bucket: where all times are multiples of it, the window slides exactly


@dataclass
class Model:
    """A circuit, written down as plainly as can be: every failure with its time."""

    phase: str = "closed"
    since: float = 0
    life: int = 0
    failures: list[float] = field(default_factory=list[float])
    successes: int = 0
    probes: dict[int, float] = field(default_factory=dict[int, float])
    moves: list[str] = field(default_factory=list[str])

    def move(self, to: str, at: float) -> None:
        self.phase, self.since, self.life = to, at, self.life + 1
        self.failures, self.successes, self.probes = [], 0, {}
        self.moves.append(to)

    def look(self, now: float) -> None:
        """Let happen what time alone makes happen."""
        while True:
            if self.phase == "open" and now >= self.since + RESET:
                self.move("half_open", now)
            late = [ends for ends in self.probes.values() if ends <= now]
            if self.phase != "half_open" or not late:
                return
            self.move("open", min(late))

    def admit(self, call: int, now: float, lease: float) -> int | None:
        """Return the life of the circuit in which the call began, or None when it is refused."""
        self.look(now)
        if self.phase == "half_open" and len(self.probes) < PERMITS:
            self.probes[call] = now + lease
            return self.life
        return self.life if self.phase == "closed" else None

    def report(self, call: int, life: int, result: str, now: float) -> None:
        if self.phase == "half_open":
            self.look(now)
        if life != self.life:
            return
        if self.phase == "closed":
            if result == "fail":
                self.failures = [at for at in self.failures if now - at < WINDOW] + [now]
                if len(self.failures) >= THRESHOLD:
                    self.move("open", now)
        elif self.probes.pop(call, None) is not None:
            self.successes += result == "ok"
            if result == "fail":
                self.move("open", now)
            elif self.successes == SUCCESSES:
                self.move("closed", now)


@dataclass
class Begun:
    """A call under way: in which model's life it began, and until when it may take."""

    task: asyncio.Task[Any]
    model: Model
    life: int
    ends: float
    number: int


class CircuitMachine(RuleBasedStateMachine):
    """One breaker on a store that may fail, or on none, beside the model."""

    shared = False

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock, self.gate = SteppedClock(999.0), Gate()
        self.store = SharedStore(self.clock)
        self.world = FakeWorld(tools={"pay": self.gate}, clock=self.clock, stores={"s": self.store})
        where = {"store": "s"} if self.shared else {}
        self.op = breaker(
            failure_threshold=THRESHOLD,
            failure_window=WINDOW,
            reset_timeout=RESET,
            success_threshold=SUCCESSES,
            half_open_max_concurrent=PERMITS,
            **where,
        )
        self.engine = gateway(self.world, self.op)
        self.models = {"shared": Model(), "local": Model()}
        self.begun: list[Begun] = []
        self.count = 0
        self.failing = False

    def teardown(self) -> None:
        async def end() -> None:
            for one in self.begun:
                one.task.cancel()
            await asyncio.gather(*(one.task for one in self.begun), return_exceptions=True)
            await self.engine.close(drain=0)

        self.runner.run(end())
        self.runner.close()

    @property
    def model(self) -> Model:
        return self.models["shared" if self.shared and not self.failing else "local"]

    def report(self, one: Begun, result: str, now: float) -> None:
        """Tell the model; what a store that is away does not hear, it never hears."""
        if one.model is self.models["local"] or not self.failing:
            one.model.report(one.number, one.life, result, now)

    @rule()
    def begin(self) -> None:
        async def go() -> None:
            now, waiting = self.clock.now(), self.gate.waiting
            self.count += 1
            life = self.model.admit(self.count, now, TIMEOUT + 1)
            task = asyncio.create_task(outcome(self.engine.execute("it", 1, timeout=TIMEOUT)))
            await settle()
            if life is None:
                assert isinstance(await task, CircuitOpen)
                assert self.gate.waiting == waiting
            else:
                assert self.gate.waiting == waiting + 1
                self.begun.append(Begun(task, self.model, life, now + TIMEOUT, self.count))

        self.runner.run(go())

    @precondition(lambda self: self.begun)
    @rule(data=st.data(), result=st.sampled_from(["ok", "fail", "fail", "neutral", "cancel"]))
    def end(self, data: st.DataObject, result: str) -> None:
        at = data.draw(st.integers(0, len(self.begun) - 1))
        one = self.begun.pop(at)

        async def go() -> None:
            if result == "cancel":
                one.task.cancel()
                await asyncio.gather(one.task, return_exceptions=True)
            else:
                answers = {"ok": "paid", "fail": down(), "neutral": InputError("bad")}
                await self.gate.open(answers[result], which=at)
                await one.task
            await settle()

        self.report(one, result, self.clock.now())
        self.runner.run(go())

    @rule(ticks=st.sampled_from([1, 1, 2, 5, 9, 10, 19, 20, 50]))
    def wait(self, ticks: int) -> None:
        until = self.clock.now() + ticks * TICK
        for one in [one for one in self.begun if one.ends <= until]:
            self.report(one, "fail", one.ends)
            self.begun.remove(one)
        self.runner.run(self.clock.advance(ticks * TICK))

    @rule(ticks=st.integers(1, 10))
    def die(self, ticks: int) -> None:
        """Let somebody take a place who never comes back."""
        self.count += 1
        life = self.model.admit(self.count, self.clock.now(), ticks * TICK)
        (circuit,) = self.world.kept.of(Circuits).named("payments")
        setting: Any = self
        permit = self.runner.run(circuit.enter(around(setting), ticks * TICK))
        assert isinstance(permit, Permit) == (life is not None)

    @rule()
    def reload(self) -> None:
        self.engine.snapshot = gateway(self.world, self.op).snapshot

    @precondition(lambda self: self.shared)
    @rule()
    def fail_or_heal(self) -> None:
        self.failing = not self.failing
        if self.failing:
            self.store.fail()
        else:
            self.store.heal()

    @invariant()
    def told_is_what_happened(self) -> None:
        told = [facts["was"] for name, facts in self.world.signals.events if name.startswith("circuit_")]
        moves = self.models["shared"].moves + self.models["local"].moves
        assert len(told) == len(moves)
        names = [name for name, _ in self.world.signals.events if name.startswith("circuit_")]
        for phase, name in (("open", "opened"), ("half_open", "half_opened"), ("closed", "closed")):
            assert names.count(f"circuit_{name}") == moves.count(phase)

    @invariant()
    def calls_are_those_that_were_let_through(self) -> None:
        assert self.gate.waiting == len(self.begun)


class SharedCircuitMachine(CircuitMachine):
    shared = True


@pytest.mark.req("STA-15", "STA-17", "STA-18", "STA-19", "STA-20", "STA-24")
class TestCircuit(CircuitMachine.TestCase):
    settings = settings(max_examples=60, stateful_step_count=60, deadline=None)


@pytest.mark.req("STA-24")
class TestSharedCircuit(SharedCircuitMachine.TestCase):
    settings = settings(max_examples=60, stateful_step_count=60, deadline=None)

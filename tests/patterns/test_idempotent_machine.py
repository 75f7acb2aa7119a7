"""Idempotency under any order of calls, outcomes, crashes, pauses and ends of leases (SEMANTICS 1.1, test 18)."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import weft as w
from tests.patterns.gateways import FaultyStore
from weft.errors import ExecutionFailed, TimedOut, WeftError
from weft.patterns.idempotent_records import Record, decode
from weft.plan.compiler import compile_document
from weft.ports import Invoke, ToolRef, ToolType
from weft.run.engine import Engine
from weft.run.limits import Limits
from weft.stores.memory import MemoryStore
from weft.testing import FakeClock, down, refusal

LEASE = 10
KEYS = st.sampled_from(["a", "a", "a", "b"])
NUMBERS = st.integers(min_value=0, max_value=100)
FINAL = ("done", "failed", "large")


class HandClock(FakeClock):
    """Time that passes only when it is told to."""

    def _turn(self) -> None:
        pass

    def advance(self, seconds: float) -> None:
        end = self.time + seconds
        while due := [(when, order, timer) for when, order, timer in self._timers if when <= end]:
            first = min(due)
            self._timers.remove(first)
            self.time = max(self.time, first[0])
            if (callback := first[2].callback) is not None:
                callback()
        self.time = end


class WatchedStore(MemoryStore):
    """A store that notes every record that is written."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__("watched", clock=clock)
        self.written: list[tuple[str, Record]] = []
        self.fences: dict[str, dict[str, int]] = {}
        """Of each key, the fence of each owner since the last time that it was free."""

    def _note(self, key: str, value: bytes) -> None:
        record = decode(value)
        self.written.append((key, record))
        self.fences.setdefault(key, {})[record.owner] = record.fence

    async def set(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        self._note(key, value)
        return await super().set(key, value, ttl=ttl)

    async def delete_if(self, key: str, version: int) -> bool:
        made = await super().delete_if(key, version)
        if made:
            del self.fences[key]
        return made

    async def cas(self, key: str, value: bytes, version: int, *, ttl: float | None = None) -> int | None:
        made = await super().cas(key, value, version, ttl=ttl)
        if made is not None:
            self._note(key, value)
        return made


class Execution:
    """The tool at work for one call, until the test says how it ends."""

    def __init__(self, order: str, number: int) -> None:
        self.order = order
        self.number = number
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class Pay:
    """An upstream with one tool."""

    def __init__(self, executions: list[Execution]) -> None:
        self._executions = executions

    def bind(self, ref: ToolRef) -> Invoke | None:
        async def invoke(arguments: Any, call: Any) -> Any:
            execution = Execution(arguments["order"], len(self._executions))
            self._executions.append(execution)
            return await execution.answer

        return invoke

    def describe(self, ref: ToolRef) -> ToolType | None:
        return ToolType()

    def names(self) -> list[str]:
        return ["pay"]


class Made:
    """A call that was made, and what had been recorded for its key before."""

    def __init__(self, task: asyncio.Task[Any], order: str, recorded: Any) -> None:
        self.task = task
        self.order = order
        self.recorded = recorded


class Machine(RuleBasedStateMachine):
    """Three gateways share a store; each may stand still, die and come back."""

    @initialize(on_unknown=st.sampled_from(["retry", "error"]))
    def begin(self, on_unknown: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = HandClock()
        self.store = WatchedStore(self.clock)
        self.on_unknown = on_unknown
        self.executions: list[Execution] = []
        self.calls: list[Made] = []
        self.fronts: list[FaultyStore] = []
        self.dead: list[FaultyStore] = []
        p = w.path({})
        op = w.idempotent(w.tool("pay"), key=p.order, lease=LEASE, on_unknown=on_unknown)
        self.document = w.compile(w.composition("it", "It.", op)).document
        self.engines = [self.gateway() for _ in range(3)]

    def gateway(self) -> Engine:
        front = FaultyStore(self.store)
        self.fronts.append(front)
        snapshot = compile_document(self.document, Pay(self.executions), stores=lambda _: front)
        return Engine(snapshot, clock=self.clock, limits=Limits(timeout=3000))

    def settle(self) -> None:
        async def turns() -> None:
            for _ in range(25):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    def recorded(self, order: str) -> Any:
        """Return the result that is recorded for a key."""
        done = [record.body for _, record in self.finals() if record.state == "done"]
        return next((body for body in done if body["order"] == order), None)

    def finals(self) -> list[tuple[str, Record]]:
        return [(key, record) for key, record in self.store.written if record.state in FINAL]

    @rule(which=st.integers(0, 2), order=KEYS)
    def call(self, which: int, order: str) -> None:
        async def begin() -> asyncio.Task[Any]:
            return asyncio.create_task(self.engines[which].execute("it", {"order": order}))

        recorded = self.recorded(order)
        self.calls.append(Made(self.loop.run_until_complete(begin()), order, recorded))
        self.settle()

    def working(self) -> list[Execution]:
        return [one for one in self.executions if not one.answer.done()]

    @precondition(lambda self: self.working())
    @rule(which=NUMBERS)
    def complete(self, which: int) -> None:
        execution = self.working()[which % len(self.working())]
        execution.answer.set_result({"order": execution.order, "number": execution.number})
        self.settle()

    @precondition(lambda self: self.working())
    @rule(which=NUMBERS, error=st.sampled_from(["down", "refused", "late"]))
    def fail(self, which: int, error: str) -> None:
        made: dict[str, WeftError] = {"down": down(), "refused": refusal("no"), "late": TimedOut("late")}
        self.working()[which % len(self.working())].answer.set_exception(made[error])
        self.settle()

    @precondition(lambda self: self.calls)
    @rule(which=NUMBERS)
    def disconnect(self, which: int) -> None:
        self.calls[which % len(self.calls)].task.cancel()
        self.settle()

    @rule(which=st.integers(0, 2))
    def pause(self, which: int) -> None:
        self.fronts[which].stop()

    @rule(which=st.integers(0, 2))
    def wake(self, which: int) -> None:
        self.fronts[which].go_on()
        self.settle()

    @rule(which=st.integers(0, 2))
    def crash(self, which: int) -> None:
        front = self.fronts[which]
        front.stop()
        self.dead.append(front)
        self.engines[which] = self.gateway()
        self.fronts[which] = self.fronts.pop()

    @rule(which=st.integers(0, 2), order=KEYS)
    def outlast(self, which: int, order: str) -> None:
        """One gateway stands still for longer than its leases, and another one is asked for the same."""
        self.pause(which)
        self.pass_time(LEASE + 1)
        self.call((which + 1) % 3, order)

    @rule()
    def all_ends(self) -> None:
        """Every execution ends well, and those who stood still go on."""
        while self.working():
            self.complete(0)
        for front in self.fronts:
            front.go_on()
        self.settle()

    @rule(seconds=st.sampled_from([0.5, LEASE / 3, LEASE + 1]))
    def pass_time(self, seconds: float) -> None:
        async def advance() -> None:
            self.clock.advance(seconds / 4)

        for _ in range(4):
            self.loop.run_until_complete(advance())
            self.settle()

    @invariant()
    def each_key_has_one_final_record_at_most(self) -> None:
        if hasattr(self, "store"):
            counts = Counter(key for key, _ in self.finals())
            assert all(count == 1 for count in counts.values()), counts

    @invariant()
    def nobody_executes_without_a_claim_of_its_own(self) -> None:
        if hasattr(self, "store"):
            claims = {(key, record.owner) for key, record in self.store.written if record.state == "running"}
            assert len(self.executions) <= len(claims)

    @invariant()
    def every_owner_of_a_key_has_a_greater_fence_than_the_one_before(self) -> None:
        for fences in self.store.fences.values() if hasattr(self, "store") else ():
            assert list(fences.values()) == list(range(1, len(fences) + 1))

    @invariant()
    def after_an_unknown_outcome_nothing_is_repeated_unless_it_may_be(self) -> None:
        if hasattr(self, "store") and self.on_unknown == "error":
            assert all(record.fence == 1 for _, record in self.store.written)

    @invariant()
    def what_was_recorded_is_what_everybody_gets(self) -> None:
        for made in getattr(self, "calls", ()):
            task = made.task
            if task.done() and not task.cancelled():
                error = task.exception()
                assert error is None or isinstance(error, WeftError), error
                if error is None:
                    assert task.result()["order"] == made.order
                if made.recorded is not None:
                    assert error is None or isinstance(error, ExecutionFailed), error
                    assert error is not None or task.result() == made.recorded

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        for front in (*self.fronts, *self.dead):
            front.go_on()

        async def end() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        with contextlib.suppress(RuntimeError):
            self.loop.run_until_complete(end())
        self.loop.close()


@pytest.mark.req("STA-8")
def test_idempotent_18_no_order_of_events_gives_a_key_two_outcomes():
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=80, stateful_step_count=30, deadline=None, print_blob=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )  # fmt: skip

"""What fails too often is left alone for a while (SEMANTICS 1.3, by number)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import weft as w
from tests.patterns.breakers import Setting, around, breaker, opened, two_processes
from tests.patterns.gateways import caller, cancelled, gateway, outcome
from tests.patterns.stepped import Gate, SharedStore, SteppedClock, notes, settle
from tests.patterns.worlds import document
from weft.errors import (
    CircuitOpen,
    ExecutionFailed,
    InputError,
    LimitExceeded,
    NotFound,
    RetriesExhausted,
    StoreError,
    TimedOut,
    UpstreamAuth,
    UpstreamDied,
    UpstreamProtocolError,
    UpstreamRefused,
    UpstreamUnavailable,
    WeftError,
)
from weft.plan.compiler import check
from weft.testing import FakeWorld, down, refusal

P = w.path({})


@pytest.mark.req("STA-15", "STA-17")
async def test_circuit_01_one_failure_less_than_the_threshold_leaves_it_closed():
    one = Setting()
    await one.fail(2)
    assert await one.call() == "paid"
    assert (one.moves, await one.state(), one.tool.calls) == ([], "closed", 3)


@pytest.mark.req("STA-15", "STA-17", "STA-23")
async def test_circuit_02_at_the_threshold_it_opens_and_nothing_is_called_any_more():
    one = Setting()
    await one.fail(3)
    assert (one.moves, one.tool.calls) == (["opened"], 3)
    error = await one.call()
    assert isinstance(error, CircuitOpen)
    assert error.message == "Circuit 'payments' is OPEN. Requests are being rejected. Reset timeout: 30s"
    await one.clock.advance(12.34)
    error = await one.call()
    assert error.message == "Circuit 'payments' is OPEN. Requests are being rejected. Reset timeout: 17.7s"
    assert error.retry_after == pytest.approx(17.66)
    assert error.retryable == "no"
    assert one.tool.calls == 3
    assert one.world.signals.counts["circuit_refused"] == 2


@pytest.mark.req("STA-17")
async def test_circuit_03_failures_that_are_further_apart_than_the_window_never_open_it():
    one = Setting(failure_threshold=2)
    for _ in range(20):
        await one.fail(1)
        await one.clock.advance(60)
    assert one.moves == []


@pytest.mark.parametrize("begin", [0.0, 0.5, 1.5, 2.99])
@pytest.mark.parametrize(("apart", "opens"), [(56.9, True), (60.0, False), (60.1, False)])
async def test_circuit_04_the_window_slides_in_small_parts(begin: float, apart: float, opens: bool):
    one = Setting(failure_threshold=2)
    await one.clock.advance(begin)
    await one.fail(1)
    await one.clock.advance(apart)
    await one.fail(1)
    assert (one.moves == ["opened"]) is opens


@pytest.mark.req("STA-17")
async def test_circuit_05_a_success_does_not_make_failures_forgotten():
    one = Setting()
    for _ in range(3):
        await one.fail(1)
        if not one.moves:
            assert await one.call() == "paid"
    assert one.moves == ["opened"]


@pytest.mark.req("STA-18")
async def test_circuit_06_until_the_time_is_up_nothing_is_tried_and_then_one_of_fifty():
    gate = Gate()
    one = Setting(gate)
    for _ in range(3):
        task = asyncio.create_task(one.call())
        await settle()
        await gate.open(down())
        await task
    await one.clock.advance(29.99)
    await asyncio.gather(*(one.call() for _ in range(50)))
    assert gate.calls == 3
    await one.clock.advance(0.01)
    tasks = [asyncio.create_task(one.call()) for _ in range(50)]
    await settle()
    assert (gate.calls, gate.waiting) == (4, 1)
    refused = [task.result() for task in tasks if task.done()]
    assert len(refused) == 49
    assert {error.code for error in refused} == {"CircuitOpen"}
    assert refused[0].message.startswith("Circuit 'payments' is HALF_OPEN. Requests are being rejected.")
    assert refused[0].retry_after == 1
    await gate.open("paid")
    assert "paid" in [await task for task in tasks]
    assert one.moves == ["opened", "half_opened", "closed"]


@pytest.mark.req("STA-24")
@pytest.mark.parametrize("permits", [1, 3])
async def test_circuit_07_across_two_processes_no_more_probes_than_permits(permits: int):
    clock, gate = SteppedClock(), Gate()
    _, (one, two) = await two_processes(
        gate, clock, failure_threshold=4, half_open_max_concurrent=permits, success_threshold=3
    )
    for which in (one, two) * 2:
        task = asyncio.create_task(which.call())
        await settle()
        await gate.open(down())
        await task
    assert one.moves + two.moves == ["opened"], "the failures of both count"
    assert [await one.state(), await two.state()] == ["open"] * 2
    await clock.advance(30)
    tasks = [asyncio.create_task(which.call()) for which in (one, two) for _ in range(25)]
    await clock.advance(1)
    assert gate.waiting == permits
    for _ in range(permits):
        await gate.open("paid")
    await clock.advance(1)
    assert sum([await task == "paid" for task in tasks]) == permits
    assert sorted(one.moves + two.moves)[:1] == (["closed"] if permits == 3 else ["half_opened"])


@pytest.mark.req("STA-19")
@pytest.mark.parametrize("needed", [1, 3])
async def test_circuit_08_so_many_probes_that_succeed_close_it(needed: int):
    one = Setting(success_threshold=needed)
    await one.fail(3)
    await one.clock.advance(30)
    for left in range(needed, 0, -1):
        assert await one.state() == ("half_open" if left < needed else "open")
        assert await one.call() == "paid"
    assert await one.state() == "closed"
    await one.fail(2)
    assert await one.state() == "closed", "what failed before is forgotten"


@pytest.mark.req("STA-20")
async def test_circuit_09_a_probe_that_fails_opens_it_again_for_the_whole_time():
    one = Setting(success_threshold=2)
    await one.fail(3)
    await one.clock.advance(45)
    assert await one.call() == "paid"
    await one.fail(1)
    assert one.moves == ["opened", "half_opened", "opened"]
    assert (await one.call()).retry_after == 30
    await one.clock.advance(30)
    assert await one.call() == "paid"
    assert await one.state() == "half_open", "successes before the failure do not count any more"


@pytest.mark.parametrize("shared", [False, True])
async def test_circuit_10_a_probe_whose_caller_goes_away_gives_its_place_back(shared: bool):
    clock, gate = SteppedClock(), Gate()
    one = Setting(gate, clock=clock, stores={"s": SharedStore(clock)}, **({"store": "s"} if shared else {}))
    await opened(one, gate)
    probe = asyncio.create_task(one.engine.execute("it", 1))
    await settle()
    await cancelled(probe)
    await settle()
    assert await one.state() == "half_open"
    again = asyncio.create_task(one.engine.execute("it", 1))
    await settle()
    await gate.open("paid")
    assert await again == "paid"
    assert one.moves == ["opened", "half_opened", "closed"]


@pytest.mark.parametrize("shared", [False, True])
async def test_circuit_11_a_probe_that_never_reports_counts_as_failed_after_its_time(shared: bool):
    clock, gate = SteppedClock(), Gate()
    store = SharedStore(clock)
    one = Setting(gate, clock=clock, stores={"s": store}, **({"store": "s"} if shared else {}))
    await opened(one, gate)
    circuit = one.circuits.named("payments")[0]
    await circuit.enter(around(one), 10)  # Whoever had it is gone, and gives it back to nobody.
    assert (await one.call()).code == "CircuitOpen"
    await clock.advance(9)
    assert (await one.call()).message.startswith("Circuit 'payments' is HALF_OPEN")
    await clock.advance(2)
    error = await one.call()
    assert error.message.startswith("Circuit 'payments' is OPEN")
    assert error.retry_after == pytest.approx(29), "it opened when the probe's time was up, not when somebody looked"
    await clock.advance(29)
    task = asyncio.create_task(one.call())
    await settle()
    await gate.open("paid")
    assert await task == "paid"
    assert one.moves == ["opened", "half_opened", "opened", "half_opened", "closed"]


async def test_circuit_11_a_probe_that_hangs_until_its_deadline_counts_as_failed():
    gate = Gate()
    one = Setting(gate)
    await opened(one, gate)
    probe = asyncio.create_task(one.call(timeout=5))
    await one.clock.advance(5)
    assert (await probe).code == "DeadlineExceeded"
    assert one.moves == ["opened", "half_opened", "opened"]


@pytest.mark.parametrize("late", ["paid", down()])
async def test_circuit_12_a_call_that_began_before_says_nothing_about_now(late: Any):
    gate = Gate()
    one = Setting(gate, success_threshold=2)
    slow = asyncio.create_task(one.call())
    await opened_behind(one, gate)
    probe = asyncio.create_task(one.call())
    await settle()
    assert one.moves == ["opened", "half_opened"]
    await gate.open(late, which=0)
    await slow
    assert await one.state() == "half_open"
    await gate.open("paid")
    await probe
    assert await one.state() == "half_open", "one success of two"


async def opened_behind(one: Setting, gate: Gate) -> None:
    await settle()
    for _ in range(3):
        task = asyncio.create_task(one.call())
        await settle()
        await gate.open(down(), which=1)
        await task
    await one.clock.advance(30)


NEUTRAL: list[WeftError] = [
    InputError("bad arguments"),
    ExecutionFailed("Filter requires array input"),
    ExecutionFailed("Tool 'x' may not be called for this caller", code="StepDenied"),
    NotFound("Tool", "x"),
    UpstreamAuth("bank", "401", status=401),
    UpstreamUnavailable("bank", "no such session", status=404),
    UpstreamProtocolError("bank", "bad request", status=400),
    UpstreamRefused("bank", "tools/call", {"code": -32602, "message": "invalid params"}),
    CircuitOpen("Circuit 'inner' is OPEN."),
    LimitExceeded("FanOutLimit", 1, "too many"),
    StoreError("s", "away"),
    RetriesExhausted("Max retries (1) exhausted", causes=[InputError("bad arguments")]),
]
FAILING: list[WeftError] = [
    down(),
    UpstreamDied("bank", "exit 1"),
    UpstreamProtocolError("bank", "HTML", status=200),
    UpstreamUnavailable("bank", "busy", status=503),
    UpstreamUnavailable("bank", "too slow", status=408),
    UpstreamUnavailable("bank", "too many requests", status=429),
    UpstreamRefused("bank", "tools/call", {"code": -32603, "message": "internal error"}),
    TimedOut("Timeout after 5ms waiting for pattern execution"),
    RetriesExhausted("Max retries (1) exhausted", causes=[down()]),
    refusal("insufficient funds"),
]


@pytest.mark.parametrize("error", NEUTRAL, ids=lambda error: f"{type(error).__name__} {error.code}")
async def test_circuit_13_what_is_not_the_fault_of_the_tool_never_opens_it(error: WeftError):
    one = Setting()
    await one.fail(10, error)
    assert (one.moves, one.tool.calls) == ([], 10)
    await one.fail(3)
    await one.clock.advance(30)
    await one.fail(2, error)
    assert await one.state() == "half_open", "nor does it close it, nor keep its place"


@pytest.mark.req("STA-22")
@pytest.mark.parametrize("error", FAILING, ids=lambda error: f"{type(error).__name__} {error.message}")
async def test_circuit_14_errors_of_the_tool_and_refusals_count(error: WeftError):
    one = Setting()
    await one.fail(3, error)
    assert one.moves == ["opened"]


async def test_circuit_14_refusals_may_be_answers_like_any_other():
    one = Setting(is_error_is_failure=False)
    await one.fail(10, refusal("insufficient funds"))
    assert one.moves == []
    await one.fail(3)
    await one.clock.advance(30)
    await one.fail(1, refusal("insufficient funds"))
    assert await one.state() == "closed", "who can say no is well"


@pytest.mark.req("STA-22")
async def test_circuit_15_a_result_may_count_as_a_failure():
    one = Setting(failure_if=w.holds(P.status, w.eq("degraded")))
    one.tool.answer = {"status": "degraded"}
    assert [await one.call() for _ in range(3)] == [{"status": "degraded"}] * 3
    assert one.moves == ["opened"]
    one = Setting(failure_if=w.holds(P.status, w.eq("degraded")))
    await one.fail(3)
    assert one.moves == ["opened"], "an error without that field counts as ever"


@pytest.mark.parametrize("field", ["$.message", "$.code", "$.path"])
async def test_circuit_15_a_condition_about_results_does_not_make_errors_harmless(field: Any):
    one = Setting(failure_if=w.holds(field, w.eq(500)))
    await one.fail(3)
    assert one.moves == ["opened"]


async def test_circuit_15_the_condition_may_be_about_the_code_of_an_error():
    one = Setting(failure_if=w.holds(P.code, w.eq("Timeout")))
    await one.fail(5)
    assert one.moves == []
    await one.fail(3, TimedOut("late"))
    assert one.moves == ["opened"]


async def test_circuit_15_a_condition_that_cannot_be_decided_is_no_failure_of_the_tool():
    one = Setting(failure_if=w.holds("$..a", w.is_null()))
    one.tool.answer = [list(range(1000))] * 1001
    errors = [await one.call() for _ in range(4)]
    assert {error.code for error in errors} == {"PredicateFailed"}
    assert one.moves == []
    one.tool.answer = "paid"
    await one.fail(3)
    await one.clock.advance(30)
    one.tool.answer = [list(range(1000))] * 1001
    await one.call()
    assert await one.state() == "half_open", "its place is free again"
    one.tool.answer = "paid"
    assert await one.call() == "paid"


@pytest.mark.req("STA-21")
async def test_circuit_16_while_it_is_open_the_fallback_answers_and_the_result_says_so():
    one = Setting(fallback=w.tool("later"), tools={"later": {"queued": True}})
    one.tool.answer = down()
    for _ in range(3):
        assert (await one.call()).code == "UpstreamUnavailable", "not for an ordinary failure"
    result = await one.engine.run("it", 1)
    assert result.value == {"queued": True}
    assert notes(result) == {"circuit": "open", "fallback": True}
    assert result.warnings == ["Circuit 'payments' is OPEN: the fallback answered"]
    assert one.tool.calls == 3


async def test_circuit_16_when_the_fallback_fails_both_causes_are_told():
    one = Setting(fallback=w.tool("later"), tools={"later": refusal("queue full")})
    await one.fail(3)
    error = await one.call()
    assert (error.code, error.content, error.path) == ("ToolFailed", "queue full", ("later",))
    assert isinstance(error.__cause__, CircuitOpen)
    assert error.hint == "it stood in for what circuit 'payments' keeps from being called"
    assert error.retry_after == 30


async def test_circuit_16_a_call_that_finds_no_place_as_a_probe_gets_the_fallback_too():
    gate = Gate()
    one = Setting(gate, fallback=w.tool("later"), tools={"later": "queued"})
    for _ in range(3):
        task = asyncio.create_task(one.call())
        await settle()
        await gate.open(down())
        await task
    await one.clock.advance(30)
    probe = asyncio.create_task(one.call())
    await settle()
    assert await one.call() == "queued"
    await gate.open("paid")
    assert await probe == "paid"


@pytest.mark.req("STA-16")
async def test_circuit_17_circuits_of_one_name_are_one_and_of_two_names_two():
    world = FakeWorld(tools={"pay": down(), "refund": "refunded"}, clock=SteppedClock())
    same = w.router(w.when("input.pay", breaker()), otherwise=breaker(w.tool("refund")))
    engine = gateway(world, same)
    for _ in range(3):
        await outcome(engine.execute("it", {"pay": True}))
    assert (await outcome(engine.execute("it", {"pay": False}))).code == "CircuitOpen"
    other = gateway(world, breaker(w.tool("refund"), name="refunds"))
    assert await other.execute("it", 1) == "refunded"


def test_circuit_17_one_name_with_two_settings_is_refused():
    def spec(**given: Any) -> dict[str, Any]:
        body = {"name": "payments", "inner": "pay", "failureThreshold": 5, "failureWindowSeconds": 60,
                "resetTimeoutSeconds": 30, **given}  # fmt: skip
        return {"circuitBreaker": body}

    fine = document(spec(), other=spec(inner="refund", fallback="pay"), third=spec(name="x", failureThreshold=9))
    assert [one for one in check(fine) if one.severity == "error"] == []
    for changed in ({"failureThreshold": 6}, {"store": "s"}, {"scope": "tenant"}, {"successThreshold": 2}):
        found = check(document(spec(), other={"pipeline": {"steps": [{"id": "a", "operation": spec(**changed)}]}}))
        (problem,) = [one for one in found if one.severity == "error"]
        assert (problem.code, problem.message) == ("NameClash", "circuit 'payments' has other settings in 'it'")
        assert problem.loc[:2] == ("tools", 1)
        assert problem.loc[-1] == "name"


async def test_circuit_17_tenants_may_have_circuits_of_their_own():
    one = Setting(scope="tenant")
    one.tool.answer = down()
    for _ in range(3):
        await outcome(one.engine.run("it", 1, caller=caller("ann", "a")))
    one.tool.answer = "paid"
    assert (await outcome(one.engine.run("it", 1, caller=caller("bob", "a")))).code == "CircuitOpen"
    assert (await one.engine.run("it", 1, caller=caller("eve", "b"))).value == "paid"
    reports = await one.circuits.list(one.clock, one.world.signals)
    assert [(report.scope, report.phase) for report in reports] == [("tenant a", "open"), ("tenant b", "closed")]


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
async def test_circuit_18_a_clock_that_jumps_delays_or_hastens_by_no_more_than_one_interval(jump: float):
    clock, wall = SteppedClock(), SteppedClock(1_000_000.0)
    store = SharedStore(wall)
    one = Setting(clock=clock, stores={"s": store}, store="s")
    await one.fail(3)
    wall.time += jump
    await clock.advance(6)  # After a while the store is asked for its time again.
    error = await one.call()
    if jump < 0:
        assert error.retry_after <= 30
        wall.time += 30
        await clock.advance(30)
        assert await one.call() == "paid"
    else:
        assert error == "paid"


async def test_circuit_18_failures_in_a_future_that_was_taken_back_do_not_count():
    clock, wall = SteppedClock(), SteppedClock(1_000_000.0)
    one = Setting(clock=clock, stores={"s": SharedStore(wall)}, store="s")
    await one.fail(2)
    wall.time -= 3600
    await clock.advance(6)
    await one.fail(2)
    assert one.moves == []
    await one.fail(1)
    assert one.moves == ["opened"]


async def test_circuit_19_a_store_that_was_emptied_closes_it_and_it_opens_again():
    clock = SteppedClock()
    store = SharedStore(clock)
    one = Setting(clock=clock, stores={"s": store}, store="s")
    await one.fail(3)
    assert (await one.call()).code == "CircuitOpen"
    await store.store.close()  # Forgets everything.
    assert await one.call() == "paid"
    await one.fail(2)
    assert await one.call() == "paid"
    await one.fail(1)
    assert (await one.call()).code == "CircuitOpen"


@pytest.mark.parametrize("written", [b"", b"[]", b"{}", b'{"format":9,"phase":"open"}', b"\xff"])
async def test_circuit_19_a_state_that_cannot_be_read_is_closed(written: bytes):
    clock = SteppedClock()
    store = SharedStore(clock)
    one = Setting(clock=clock, stores={"s": store}, store="s")
    await one.fail(3)
    ((key, _),) = [entry async for entry in store.scan("")]
    await store.set(key, written)
    assert await one.call() == "paid"
    await one.fail(3)
    assert (await one.call()).code == "CircuitOpen"
    assert one.world.signals.counts["circuit_undecodable"] >= 1


@pytest.mark.parametrize("shared", [False, True])
async def test_circuit_20_a_reload_keeps_the_state_unless_the_settings_changed(shared: bool):
    clock = SteppedClock()
    where = {"store": "s"} if shared else {}
    one = Setting(clock=clock, stores={"s": SharedStore(clock)}, **where)
    await one.fail(3)
    one.engine.snapshot = gateway(one.world, w.pipeline(breaker(**where))).snapshot
    assert (await one.call()).code == "CircuitOpen"
    one.engine.snapshot = gateway(one.world, breaker(failure_threshold=4, **where)).snapshot
    assert await one.call() == "paid"


@pytest.mark.parametrize("shared", [False, True])
async def test_circuit_21_each_transition_is_told_once(shared: bool):
    clock = SteppedClock()
    where = {"store": "s"} if shared else {}
    one = Setting(clock=clock, stores={"s": SharedStore(clock)}, **where)
    for _ in range(3):
        await one.fail(5)
        await clock.advance(30)
        await one.fail(1)
        await clock.advance(30)
        assert [await one.call() for _ in range(3)] == ["paid"] * 3
    assert one.moves == ["opened", "half_opened", "opened", "half_opened", "closed"] * 3
    facts = [facts for name, facts in one.world.signals.events if name == "circuit_opened"]
    assert facts[:2] == [{"circuit": "payments", "was": "closed"}, {"circuit": "payments", "was": "half_open"}]
    assert one.world.signals.counts["circuit_transitions{circuit=payments,to=open}"] == 6

"""Circuits in operation: stores that fail, rates, longer openings, operators."""

from __future__ import annotations

import asyncio

import pytest

import weft as w
from tests.patterns.breakers import PAY, Setting, Tool, breaker, two_processes
from tests.patterns.stepped import Gate, SharedStore, SteppedClock, settle
from weft.errors import NotFound
from weft.plan.compiler import check
from weft.ports import ToolType
from weft.testing import FakeWorld, down

P = w.path({})


async def test_without_its_store_each_process_has_a_circuit_of_its_own_and_says_so_once():
    clock, tool = SteppedClock(), Tool()
    store, (one, two) = await two_processes(tool, clock)
    store.fail()
    assert await one.call() == "paid"
    await one.fail(3)
    assert (await one.call()).code == "CircuitOpen"
    assert await two.call() == "paid"
    assert [name for name, _ in one.world.signals.events] == ["store_outage", "circuit_opened"]
    store.heal()
    assert await one.call() == "paid"
    assert len(one.world.signals.named("store_back")) == 1


@pytest.mark.parametrize("fault", ["get", "cas", "put_if_absent", "now"])
async def test_a_store_that_fails_in_the_middle_blocks_nobody(fault: str):
    clock = SteppedClock()
    store = SharedStore(clock)
    one = Setting(clock=clock, stores={"s": store}, store="s", failure_threshold=10)
    for down_now in (set[str](), {fault}, set[str](), {fault}):
        store.down = down_now
        assert await one.call() == "paid"
        await one.fail(1)
    store.heal()
    await clock.advance(100)
    assert await one.call() == "paid"


async def test_many_who_fail_at_once_on_a_shared_circuit_are_all_counted():
    clock, gate = SteppedClock(), Gate()
    _, (one, two) = await two_processes(gate, clock, failure_threshold=40)
    tasks = [asyncio.create_task(which.call()) for which in (one, two) for _ in range(20)]
    await settle()
    for _ in range(40):
        await gate.open(down())
    await clock.advance(1)
    assert len([await task for task in tasks]) == 40
    assert sorted(one.moves + two.moves) == ["opened"]


async def test_a_rate_counts_only_where_there_were_enough_calls():
    one = Setting(failure_rate=0.5, minimum_calls=10)
    await one.fail(5)
    assert one.moves == []
    for _ in range(6):
        await one.call()
    await one.fail(1)
    assert one.moves == ["opened"], "6 of 12"


async def test_a_rate_that_is_not_reached_leaves_it_closed():
    one = Setting(failure_rate=0.5, minimum_calls=1)
    for _ in range(20):
        await one.call()
    await one.fail(19)
    assert one.moves == []
    await one.fail(1)
    assert one.moves == ["opened"]


async def test_openings_in_a_row_may_last_longer_each_time():
    one = Setting(max_reset_timeout=100)
    await one.fail(3)
    lasted: list[float] = []
    for _ in range(4):
        lasted.append((await one.call()).retry_after)
        await one.clock.advance(lasted[-1])
        await one.fail(1)
    assert lasted == [30, 60, 100, 100]
    await one.clock.advance(100)
    await one.call()
    await one.fail(3)
    assert (await one.call()).retry_after == 30, "it had closed in between"


@pytest.mark.parametrize("shared", [False, True])
async def test_an_operator_forces_a_circuit_open_and_resets_it(shared: bool):
    clock = SteppedClock()
    where = {"store": "s"} if shared else {}
    one = Setting(clock=clock, stores={"s": SharedStore(clock)}, **where)
    (report,) = await one.circuits.force_open("payments", clock, one.world.signals)
    assert (report.phase, report.forced, report.left) == ("open", True, None)
    await clock.advance(1000)
    error = await one.call()
    assert error.message == ("Circuit 'payments' is OPEN. Requests are being rejected. An operator holds it open")
    assert one.tool.calls == 0
    (report,) = await one.circuits.reset("payments", clock, one.world.signals)
    assert (report.phase, report.forced) == ("closed", False)
    assert await one.call() == "paid"
    assert one.moves == ["opened", "closed"]
    await one.fail(3)
    (report,) = await one.circuits.list(clock, one.world.signals)
    expected = {"name": "payments", "state": "open", "forced": False, "failures": 0, "resetSeconds": 30.0}
    assert report.to_json() == expected | ({"store": "shared"} if shared else {})
    await one.circuits.reset("payments", clock, one.world.signals)
    assert await one.call() == "paid"


async def test_a_circuit_that_nobody_has_cannot_be_reset():
    one = Setting()
    with pytest.raises(NotFound, match="Circuit not found: payment"):
        await one.circuits.reset("payment", one.clock, one.world.signals)


async def test_a_call_that_was_let_through_before_a_reset_says_nothing_about_after_it():
    gate = Gate()
    one = Setting(gate, failure_threshold=1)
    slow = asyncio.create_task(one.call())
    await settle()
    await one.circuits.reset("payments", one.clock, one.world.signals)
    await gate.open(down())
    await slow
    assert one.moves == []


@pytest.mark.req("STA-57")
async def test_a_retry_inside_counts_once_and_one_outside_stops_at_an_open_circuit():
    tool = Tool(down())
    inside = Setting(tool, op=breaker(w.retry(PAY, 2, backoff=w.fixed(0)), failure_threshold=1))
    await inside.call()
    assert (inside.moves, tool.calls) == (["opened"], 2)
    outside = Setting(tool, op=w.retry(breaker(failure_threshold=2), 5, backoff=w.fixed(0)))
    assert (await outside.call()).code in ("CircuitOpen", "RetriesExhausted")
    assert tool.calls == 4


def test_types_flow_through_both_ways():
    types = {"pay": ToolType(None, {"type": "string"}), "later": ToolType(None, {"type": "integer"})}
    world = FakeWorld(tools={"pay": "x", "later": 1}, types=types)
    op = w.pipeline(breaker(fallback=w.tool("later")), w.filter(P.x, w.eq(1)))
    compiled = w.compile(w.composition("it", "It.", op))
    found = check(compiled.document, world._canned)  # pyright: ignore[reportPrivateUsage]
    assert [one.code for one in found if one.severity == "error"] == ["NotAnArray"]

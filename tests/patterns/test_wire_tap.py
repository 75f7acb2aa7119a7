"""Wire taps let others see what passes by, and never delay or fail the call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import weft as w
from tests.patterns.worlds import problems
from weft.errors import ToolFailed
from weft.run.engine import Engine
from weft.run.limits import Limits
from weft.testing import FakeWorld, Late, down, refusal

PAY, AUDIT, METER = w.tool("pay"), w.tool("audit"), w.tool("meter")


def engine_of(world: FakeWorld, op: Any) -> Engine:
    """Return an engine that has the operation as `it`."""
    return world.engine(w.compile(w.composition("it", "It.", op)).document)


@pytest.mark.parametrize(("at", "seen"), [("before", [{"n": 1}]), ("after", ["paid"]), ("both", [{"n": 1}, "paid"])])
async def test_taps_see_the_value_before_after_or_both(at: Any, seen: list[Any]):
    world = FakeWorld(tools={"pay": "paid", "audit": "ignored", "meter": "ignored"})
    assert await world.run(w.wire_tap(PAY, AUDIT, METER, at=at), {"n": 1}) == "paid"
    assert [value for tool, value in world.calls if tool == "audit"] == seen
    assert [value for tool, value in world.calls if tool == "meter"] == seen


def test_the_builder_writes_the_inner_operation_the_taps_and_their_place():
    expected = {"inner": {"tool": {"name": "pay"}}, "taps": [{"tool": {"name": "audit"}}], "tapPoint": "both"}
    assert w.wire_tap(PAY, AUDIT, at="both").to_ir() == {"wireTap": expected}
    assert problems({"wireTap": {"inner": "pay", "taps": []}})
    assert problems({"wireTap": {"inner": "pay", "taps": ["audit"], "tapPoint": "never"}})


@pytest.mark.parametrize("at", ["before", "after", "both"])
async def test_a_tap_never_delays_the_call_and_close_waits_for_it(at: Any):
    seen: list[Any] = []
    world = FakeWorld(tools={"pay": Late("paid", 1), "audit": lambda value: Late(seen.append(value), 3)})
    engine = engine_of(world, w.wire_tap(PAY, AUDIT, at=at))
    before = world.clock.now()
    assert await engine.execute("it", 1) == "paid"
    assert world.clock.now() - before == 1
    await engine.close()
    assert len(seen) == (2 if at == "both" else 1)
    assert world.clock.now() - before == (3 if at == "before" else 4)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("answer", [down("gone"), refusal("no"), ValueError("broken")])
@pytest.mark.parametrize("at", ["before", "after"])
async def test_a_tap_that_fails_is_a_warning(at: Any, answer: Exception):
    world = FakeWorld(tools={"pay": "paid", "audit": answer})
    result = await world.trace(w.wire_tap(PAY, AUDIT, at=at))
    assert result.value == "paid"
    assert len(result.warnings) == 1
    assert result.warnings[0].startswith("Tap 'audit' failed: ")


async def test_a_tap_that_cannot_even_take_the_value_is_a_warning():
    p = w.path({})
    result = await FakeWorld(tools={"pay": "paid"}).trace(w.wire_tap(PAY, w.schema_map(p, {"id": p.id})))
    assert (result.value, result.warnings) == ("paid", ["Tap 'tap_0' failed: Path $.id not found"])


async def test_when_the_call_fails_a_tap_after_it_sees_nothing():
    world = FakeWorld(tools={"pay": refusal("no"), "audit": 1})
    with pytest.raises(ToolFailed):
        await world.run(w.wire_tap(PAY, AUDIT))
    assert [tool for tool, _ in world.calls] == ["pay"]


async def test_taps_do_not_spend_what_the_call_may_spend():
    world = FakeWorld(tools={"pay": "paid", "audit": 1, "meter": 1}, limits=Limits(calls=10, steps=10))
    result = await world.trace(w.map_each(w.wire_tap(PAY, AUDIT, METER, at="both")), list(range(10)))
    assert result.value == ["paid"] * 10
    assert any("FanOutLimit" in warning for warning in result.warnings)


async def test_slow_taps_do_not_take_the_places_of_the_calls_own_tools():
    world = FakeWorld(tools={"pay": Late("paid", 1), "audit": Late(1, 50)}, limits=Limits(concurrent=2))
    flow = w.map_each(w.wire_tap(PAY, AUDIT, at="before"), max_concurrency=2)
    engine = engine_of(world, flow)
    before = world.clock.now()
    assert await engine.execute("it", [1, 2, 3, 4]) == ["paid"] * 4
    assert world.clock.now() - before == 2
    await engine.close(drain=500)


async def test_a_tap_has_its_own_time_and_no_more():
    world = FakeWorld(tools={"pay": Late("paid", 50), "audit": Late(1, 55), "meter": Late(1, 65)})
    engine = engine_of(world, w.wire_tap(PAY, w.pipeline(AUDIT, AUDIT), METER))
    result = await engine.run("it", 1)
    await engine.close(drain=500)
    assert result.warnings == ["Tap 'tap_0' took too long", "Tap 'meter' took too long"]
    assert [tool for tool, _ in world.calls].count("audit") == 2


async def test_a_tap_that_was_crowded_out_is_a_warning():
    world = FakeWorld(tools={"pay": "paid", "audit": Late(1, 5)}, limits=Limits(background=2))
    result = await world.trace(w.map_each(w.wire_tap(PAY, AUDIT)), [1, 2, 3])
    assert result.value == ["paid"] * 3
    assert result.warnings == ["Tap 'audit' was dropped: too much was under way"]


async def test_a_tap_inside_a_tap_is_waited_for():
    world = FakeWorld(tools={"pay": "paid", "audit": Late("audited", 1), "meter": Late(1, 1)})
    assert await world.run(w.wire_tap(PAY, w.wire_tap(AUDIT, METER))) == "paid"
    assert world.calls[-1] == ("meter", "audited")

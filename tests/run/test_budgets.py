"""Budgets belong to the root call: no branch of it gets past them, and none is starved by another."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

import weft as w
from weft.errors import BudgetSpent, DeadlineExceeded, ToolFailed
from weft.run.engine import Engine
from weft.run.limits import Limits
from weft.testing import FakeWorld, Late, refusal

A, B = w.tool("a"), w.tool("b")


def engine_of(world: FakeWorld, op: Any) -> Engine:
    """Return an engine that has the operation as `it`."""
    return world.engine(w.compile(w.composition("it", "It.", op)).document)


class Gauge:
    """A tool that takes a second of fake time and knows how many of its calls were under way at once."""

    def __init__(self) -> None:
        self.now = self.most = self.calls = 0
        self.clock: Any = None

    async def __call__(self, arguments: Any) -> Any:
        self.now += 1
        self.calls += 1
        self.most = max(self.most, self.now)
        try:
            await self.clock.sleep(1)
        finally:
            self.now -= 1
        return arguments


def gauged(limits: Limits | None = None, **tools: Any) -> tuple[FakeWorld, Gauge]:
    """Return a world in which the tool `a` is a gauge."""
    gauge = Gauge()
    world = FakeWorld(tools={"a": gauge, **tools}, limits=limits or Limits())
    gauge.clock = world.clock
    return world, gauge


@pytest.mark.parametrize(
    ("limits", "flow", "value"),
    [
        (Limits(steps=11), w.map_each(w.pipeline(A, A, A)), [1] * 4),
        (Limits(steps=11), w.scatter_gather(*[w.pipeline(A, A, A)] * 4), None),
        (Limits(steps=11), w.map_each(w.scatter_gather(w.pipeline(A, w.step(A, input=w.from_input())), A)), [1] * 6),
        (Limits(calls=15), w.map_each(w.scatter_gather(A, A)), [1] * 8),
        (Limits(calls=15), w.pipeline(w.map_each(A), w.map_each(A)), [1] * 8),
        (Limits(calls=15), w.map_each(w.composition("part", "Part.", w.scatter_gather(A, A))), [1] * 8),
        (Limits(rows=20), w.map_each(w.map_each(A)), [[1] * 7] * 3),
        (Limits(rows=20), w.map_each(w.scatter_gather(A, A)), [1] * 7),
    ],
)
async def test_all_branches_spend_from_one_budget(limits: Limits, flow: Any, value: Any):
    code = "StepLimit" if limits.steps == 11 else "FanOutLimit" if limits.calls == 15 else "RowLimit"
    with pytest.raises(BudgetSpent) as caught:
        await FakeWorld(tools={"a": [1]}, limits=limits).run(flow, value)
    assert (caught.value.code, caught.value.retryable) == (code, "no")


async def test_a_map_of_1001_items_is_refused_before_any_call():
    world = FakeWorld(tools={"a": 1})
    with pytest.raises(BudgetSpent, match=r"^FanOutLimit: 1001 more upstream calls are needed"):
        await world.run(w.map_each(A), list(range(1001)))
    assert world.calls == []


async def test_no_tool_is_called_past_the_budget():
    world = FakeWorld(tools={"a": 1}, limits=Limits(calls=10))
    with pytest.raises(BudgetSpent):
        await world.run(w.map_each(w.pipeline(A, A)), list(range(9)))
    assert len(world.calls) == 10


async def test_every_call_begins_with_a_budget_of_its_own():
    world = FakeWorld(tools={"a": 1}, limits=Limits(calls=2, steps=2))
    engine = engine_of(world, w.pipeline(A, A))
    assert [await engine.execute("it", None) for _ in range(5)] == [1] * 5


async def test_at_most_64_upstream_calls_of_a_root_call_are_under_way():
    world, gauge = gauged()
    before = world.clock.now()
    inner = w.map_each(A, max_concurrency=64)
    assert len(await world.run(w.map_each(inner, max_concurrency=64), [[1] * 10] * 20)) == 20
    assert (gauge.most, gauge.calls) == (64, 200)
    assert world.clock.now() - before == 4


async def test_two_calls_do_not_share_their_places():
    world, gauge = gauged(Limits(concurrent=3))
    engine = engine_of(world, w.map_each(A))
    await asyncio.gather(engine.execute("it", [1] * 5), engine.execute("it", [1] * 5))
    assert gauge.most == 6


@pytest.mark.parametrize("places", [1, 2])
async def test_nested_fan_outs_never_wait_for_each_other(places: int):
    world, gauge = gauged(Limits(concurrent=places), b=Late([1, 2], 1))
    branch = w.pipeline(B, w.map_each(w.scatter_gather(A, w.pipeline(B, w.map_each(A)))))
    assert len(await world.run(w.scatter_gather(branch, branch, branch))) == 3 * 2
    assert gauge.most <= places


async def test_a_branch_that_is_cancelled_while_it_waits_does_not_take_a_place_with_it():
    world, gauge = gauged(Limits(concurrent=1))
    # Three wait for the one place; the scatter's time is up before it is their turn.
    flow = w.pipeline(
        w.scatter_gather(A, A, A, A, timeout=w.millis(1500), aggregate=[w.keep_lists()]),
        w.map_each(A, max_concurrency=4),
        w.scatter_gather(A, A),
    )
    before = world.clock.now()
    result = await world.trace(flow, 7)
    assert result.value == [7, 7]
    assert gauge.most == 1
    assert world.clock.now() - before == pytest.approx(1.5 + 1 + 2)


async def test_a_place_given_to_a_branch_that_was_just_cancelled_goes_to_the_next():
    world = FakeWorld(tools={"a": Late("slow", 1), "b": Late("quick", 1)}, limits=Limits(concurrent=1))
    # `a` gives its place back at the very moment at which the scatter that waits for it ends.
    waiting = w.scatter_gather(B, timeout=w.seconds(1), min_success=0)
    result = await world.trace(w.scatter_gather(A, waiting, w.pipeline(B)))
    assert result.value[0] == "slow"
    assert result.value[-1] == "quick"


async def test_a_failed_or_cancelled_call_gives_its_place_back():
    world = FakeWorld(tools={"a": refusal("no"), "b": Late("late", 5), "c": 1}, limits=Limits(concurrent=1))
    flow = w.pipeline(
        w.scatter_gather(A, A, w.tool("c")),
        w.scatter_gather(B, w.tool("c"), timeout=w.seconds(1), min_success=0),
        w.tool("c"),
    )
    assert await world.run(flow) == 1


async def test_waiting_for_a_place_ends_at_the_deadline():
    world, gauge = gauged(Limits(concurrent=1, timeout=3))
    with pytest.raises(DeadlineExceeded):
        await world.run(w.map_each(A), [1] * 5)
    assert gauge.now == 0


async def test_more_background_work_than_allowed_drops_the_oldest_first():
    world = FakeWorld(limits=Limits(background=2))
    engine = engine_of(FakeWorld(tools={"a": 1}, limits=world.limits, clock=world.clock), A)
    done: list[int] = []
    dropped: list[int] = []

    async def work(number: int) -> None:
        await world.clock.sleep(number)
        done.append(number)

    for number in range(1, 6):
        engine.detach(work(number), lambda number=number: dropped.append(number))
    await engine.close(drain=60)
    assert (done, dropped) == ([4, 5], [1, 2, 3])
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_closing_waits_so_long_for_background_work_and_no_longer():
    world = FakeWorld(tools={"a": 1})
    engine = engine_of(world, A)
    done: list[int] = []
    dropped: list[int] = []

    async def work(number: int) -> None:
        await world.clock.sleep(number)
        done.append(number)

    for number in (1, 4, 6, 9):
        engine.detach(work(number), lambda number=number: dropped.append(number))
    before = world.clock.now()
    await engine.close(drain=5)
    assert (done, dropped) == ([1, 4], [6, 9])
    assert world.clock.now() - before == 5
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_background_work_that_fails_disturbs_nobody():
    engine = engine_of(FakeWorld(tools={"a": 1}), A)

    async def fail() -> None:
        raise ToolFailed("a", "no")

    async def quiet() -> None:
        with contextlib.suppress(ToolFailed):
            await fail()

    engine.detach(quiet())
    await engine.close()
    assert await engine.execute("it", None) == 1


async def test_warnings_are_bounded():
    world = FakeWorld(tools={"a": refusal("no")}, limits=Limits(warnings=3))
    result = await world.trace(w.map_each(A, on_error="null"), [1] * 10)
    assert len(result.warnings) == 3

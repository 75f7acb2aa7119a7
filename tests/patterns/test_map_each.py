"""Map each works on every item at the same moment, within its limit, and keeps them in order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import weft as w
from tests.patterns.worlds import problems, run, told
from weft.errors import BudgetSpent, ExecutionFailed, ToolFailed
from weft.run.limits import Limits
from weft.testing import FakeWorld, Late, refusal

FETCH = w.tool("fetch")


class Gauge:
    """A tool that takes a second and knows how many of its calls were under way at once."""

    def __init__(self, world: list[FakeWorld]) -> None:
        self.now = self.most = 0
        self.cancelled = 0
        self._world = world

    async def __call__(self, item: Any) -> Any:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self._world[0].clock.sleep(1)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.now -= 1
        return item * 10


def gauged() -> tuple[FakeWorld, Gauge]:
    """Return a world whose tool `fetch` is a gauge."""
    worlds: list[FakeWorld] = []
    gauge = Gauge(worlds)
    worlds.append(FakeWorld(tools={"fetch": gauge}))
    return worlds[0], gauge


@pytest.mark.req("ALG-16", "ALG-29")
def test_the_builder_lifts_an_operation_and_leaves_out_what_is_not_given():
    assert w.map_each(FETCH).to_ir() == {"mapEach": {"inner": {"tool": {"name": "fetch"}}}}
    body: Any = w.map_each(FETCH, max_concurrency=4, on_error="skip").to_ir()["mapEach"]
    assert (body["maxConcurrency"], body["onError"]) == (4, "skip")


@pytest.mark.req("ALG-16", "ALG-29", "ALG-49")
@pytest.mark.parametrize(
    "inner",
    ["fetch", {"tool": "fetch"}, {"pattern": {"pipeline": {"steps": [{"operation": "fetch"}]}}}],
)
async def test_a_tool_or_a_pattern_is_done_to_every_item_in_order(inner: Any):
    world = FakeWorld(tools={"fetch": lambda item: item * 10})
    assert (await run(world, {"mapEach": {"inner": inner}}, [3, 1, 2])).value == [30, 10, 20]


@pytest.mark.req("ALG-49")
async def test_results_stay_in_order_whichever_item_is_done_first():
    world = FakeWorld(tools={"fetch": lambda item: Late(item, 10 - item)})
    assert await world.run(w.map_each(FETCH), [1, 5, 3, 9]) == [1, 5, 3, 9]


@pytest.mark.req("ALG-49", "ALG-57")
@pytest.mark.parametrize(("limit", "items", "seconds"), [(None, 40, 3), (1, 5, 5), (3, 10, 4), (64, 60, 1), (7, 2, 1)])
async def test_no_more_items_are_under_way_than_its_limit_and_never_fewer(limit: int | None, items: int, seconds: int):
    world, gauge = gauged()
    before = world.clock.now()
    assert await world.run(w.map_each(FETCH, max_concurrency=limit), list(range(items))) == [
        n * 10 for n in range(items)
    ]
    assert gauge.most == min(limit or 16, items)
    assert world.clock.now() - before == seconds


@pytest.mark.req("ALG-49")
@pytest.mark.parametrize("value", [None, {"a": [1]}, "text", 3, True])
@pytest.mark.parametrize("pure", [False, True])
async def test_what_is_no_list_cannot_be_mapped(value: Any, pure: bool):
    p = w.path({})
    inner = w.schema_map(p, {"a": p}) if pure else FETCH
    with pytest.raises(ExecutionFailed, match=r"^MapEach requires array input$"):
        await FakeWorld(tools={"fetch": 1}).run(w.map_each(inner), value)


async def test_an_empty_list_stays_empty_and_calls_nothing():
    world = FakeWorld(tools={"fetch": 1})
    assert await world.run(w.map_each(FETCH), []) == []
    assert world.calls == []


async def test_a_failure_is_the_error_says_which_item_and_cancels_the_rest():
    world, gauge = gauged()
    world = FakeWorld(
        tools={"fetch": lambda item: Late(refusal("no"), 0.5) if item == 2 else gauge(item)}, clock=world.clock
    )
    before = world.clock.now()
    with pytest.raises(ToolFailed) as caught:
        await world.run(w.map_each(FETCH), [0, 1, 2, 3])
    assert caught.value.path == ("[2]",)
    assert gauge.cancelled == 3
    assert world.clock.now() - before == 0.5
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize(("on_error", "expected"), [("skip", [10, 30]), ("null", [10, None, 30])])
@pytest.mark.parametrize("pure", [False, True])
async def test_a_failed_item_is_skipped_or_null_with_a_warning(on_error: Any, expected: Any, pure: bool):
    p = w.path({})
    world = FakeWorld(tools={"fetch": lambda item: refusal("no") if "n" not in item else item["n"]})
    inner = w.pipeline(w.schema_map(p, {"n": p.n})) if pure else FETCH
    result = await world.trace(w.map_each(inner, on_error=on_error), [{"n": 10}, {}, {"n": 30}])
    assert result.value == ([one if one is None else {"n": one} for one in expected] if pure else expected)
    why = "Path $.n not found" if pure else "Tool 'fake' failed: no"
    assert result.warnings == [f"Item 1 failed: {why}"]


async def test_a_null_that_an_item_gave_is_not_taken_for_a_failure():
    world = FakeWorld(tools={"fetch": lambda item: None})
    assert await world.run(w.map_each(FETCH, on_error="skip"), [1, 2]) == [None, None]


@pytest.mark.parametrize("on_error", ["fail", "skip", "null"])
async def test_a_budget_that_is_spent_is_never_swallowed(on_error: Any):
    world = FakeWorld(tools={"fetch": 1}, limits=Limits(calls=5))
    with pytest.raises(BudgetSpent) as caught:
        await world.run(w.map_each(w.pipeline(FETCH, FETCH), on_error=on_error), [1, 2, 3])
    assert caught.value.code == "FanOutLimit"


async def test_more_items_than_calls_are_left_is_refused_before_the_first_call():
    world = FakeWorld(tools={"fetch": 1})
    with pytest.raises(BudgetSpent) as caught:
        await world.run(w.map_each(FETCH), list(range(1001)))
    assert (caught.value.code, world.calls) == ("FanOutLimit", [])
    assert len(await world.run(w.map_each(FETCH), list(range(1000)))) == 1000


async def test_rows_that_only_move_data_are_no_calls_and_no_steps():
    p = w.path({})
    flow = w.map_each(w.pipeline(w.schema_map(p, {"m": p.n}), w.schema_map(p, {"k": p.m})))
    assert len(await FakeWorld().run(flow, [{"n": 1}] * 20_000)) == 20_000


async def test_each_item_has_a_span_of_its_own():
    result = await FakeWorld(tools={"fetch": 1}).trace(w.map_each(FETCH), [1, 2])
    assert told(result.trace) == [(0, "it", "ok"), (1, "[0]", "ok"), (1, "[1]", "ok")]


async def test_maps_nest():
    world = FakeWorld(tools={"fetch": lambda item: item + 1})
    assert await world.run(w.map_each(w.map_each(FETCH)), [[1, 2], [], [3]]) == [[2, 3], [], [4]]


@pytest.mark.parametrize("limit", [0, -1, 65])
def test_a_limit_that_is_none_or_too_large_is_refused(limit: int):
    assert problems({"mapEach": {"inner": "fetch", "maxConcurrency": limit}})


async def test_the_same_row_is_mapped_with_and_without_a_trace():
    p = w.path({})
    compiled = w.compile(w.composition("it", "It.", w.map_each(w.pipeline(w.schema_map(p, {"m": p.n})))))
    engine = FakeWorld().engine(compiled.document)
    assert await engine.execute("it", [{"n": 1}]) == (await engine.run("it", [{"n": 1}])).value == [{"m": 1}]

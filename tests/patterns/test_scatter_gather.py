"""Scatter-gather asks all targets at the same moment, and says what it left out."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

import weft as w
from tests.patterns.worlds import problems, run, told
from weft.errors import BudgetSpent, DeadlineExceeded, ExecutionFailed, ToolFailed, UpstreamUnavailable
from weft.run.limits import Limits
from weft.testing import FakeWorld, Late, down, refusal

A, B, C = w.tool("a"), w.tool("b"), w.tool("c")


class Watched:
    """A tool that works until it is cancelled, and remembers that it was."""

    def __init__(self) -> None:
        self.cancelled = False

    async def __call__(self, arguments: Any) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


@pytest.mark.req("ALG-7")
def test_the_builder_writes_targets_aggregation_timeout_and_fail_fast():
    op = w.scatter_gather(A, w.pipeline(B), aggregate=[w.flatten(), w.limit(2)], timeout=w.seconds(5), fail_fast=True)
    body: Any = op.to_ir()["scatterGather"]
    assert [next(iter(target)) for target in body["targets"]] == ["tool", "pipeline"]
    assert body["aggregation"] == {"ops": [{"flatten": True}, {"limit": {"count": 2}}]}
    assert (body["timeoutMs"], body["failFast"]) == (5000, True)
    assert w.scatter_gather([A, B]).to_ir() == w.scatter_gather(A, B).to_ir()
    assert w.scatter_gather(A, timeout="5s").node == w.scatter_gather(A, timeout=w.millis(5000)).node


@pytest.mark.req("ALG-38", "ALG-57")
async def test_targets_get_the_same_value_at_the_same_moment():
    world = FakeWorld(tools={"a": Late(["a"], 3), "b": Late(["b"], 5), "c": Late(["c"], 4)})
    before = world.clock.now()
    assert await world.run(w.scatter_gather(A, B, C), {"q": 1}) == ["a", "b", "c"]
    assert world.clock.now() - before == 5
    assert world.calls == [("a", {"q": 1}), ("b", {"q": 1}), ("c", {"q": 1})]


@pytest.mark.req("ALG-7", "ALG-26")
async def test_a_target_may_be_a_tool_a_composition_or_a_pattern():
    p = w.path({})
    world = FakeWorld(tools={"a": [{"n": 1}], "b": [{"m": 2}]})
    part = w.composition("part", "Part.", B)
    renamed = w.pipeline(part, w.map_each(w.schema_map(p, {"n": p.m})))
    assert await world.run(w.scatter_gather(A, renamed)) == [{"n": 1}, {"n": 2}]
    inline = {"composition": {"pattern": "pipeline", "steps": [{"operation": "a"}]}}
    spec = {"scatterGather": {"targets": ["a", {"tool": "b"}, inline]}}
    assert (await run(world, spec)).value == [{"n": 1}, {"m": 2}, {"n": 1}]


@pytest.mark.req("ALG-38")
async def test_what_is_late_is_dropped_with_a_warning_and_what_was_in_time_is_kept():
    late = Watched()
    world = FakeWorld(tools={"a": Late(["a"], 1), "b": late, "c": Late(["c"], 9)})
    before = world.clock.now()
    result = await world.trace(w.scatter_gather(A, B, C, timeout=w.seconds(2)))
    assert result.value == ["a"]
    assert result.warnings == ["Target 'b' was late and was dropped", "Target 'c' was late and was dropped"]
    assert world.clock.now() - before == 2
    assert late.cancelled
    assert told(result.trace) == [(0, "it", "ok"), (1, "a", "ok"), (1, "b", "cancelled"), (1, "c", "cancelled")]


@pytest.mark.req("ALG-38")
@pytest.mark.parametrize("fail_fast", [False, True])
async def test_when_none_is_in_time_the_call_times_out(fail_fast: bool):
    late = Watched()
    world = FakeWorld(tools={"a": late, "b": Late(1, 5)})
    with pytest.raises(DeadlineExceeded, match=r"^Scatter-gather timeout$"):
        await world.run(w.scatter_gather(A, B, timeout=w.seconds(1), fail_fast=fail_fast))
    assert late.cancelled


async def test_fail_fast_does_not_wait_for_a_late_target_though_others_answered():
    world = FakeWorld(tools={"a": ["a"], "b": Late(1, 5)})
    with pytest.raises(DeadlineExceeded, match=r"^Scatter-gather timeout$"):
        await world.run(w.scatter_gather(A, B, timeout=w.seconds(1), fail_fast=True))


@pytest.mark.req("ALG-38")
@pytest.mark.parametrize("timeout", [None, "30s"])
async def test_fail_fast_makes_the_first_error_the_error_and_cancels_the_rest(timeout: str | None):
    late = Watched()
    world = FakeWorld(tools={"a": late, "b": Late(refusal("no"), 1), "c": Late(down("gone"), 2)})
    before = world.clock.now()
    with pytest.raises(ToolFailed) as caught:
        await world.run(w.scatter_gather(A, B, C, fail_fast=True, timeout=timeout))
    assert (caught.value.content, caught.value.path) == ("no", ("b",))
    assert late.cancelled
    assert world.clock.now() - before == 1


@pytest.mark.req("ALG-38")
@pytest.mark.parametrize("timeout", [None, "30s"])
async def test_failures_are_dropped_with_a_warning_each(timeout: str | None):
    world = FakeWorld(tools={"a": refusal("no"), "b": Late([2], 1), "c": down("gone")})
    result = await world.trace(w.scatter_gather(A, B, C, timeout=timeout))
    assert result.value == [2]
    assert result.warnings == [
        "Target 'a' failed: Tool 'fake' failed: no",
        "Target 'c' failed: Upstream 'fake' is unavailable: gone",
    ]


@pytest.mark.parametrize("answer", [ValueError("broken"), asyncio.CancelledError(), KeyError("x")])
async def test_whatever_a_tool_raises_is_its_failure_and_is_dropped(answer: BaseException):
    def fail(arguments: Any) -> Any:
        raise answer

    result = await FakeWorld(tools={"a": fail, "b": [2]}).trace(w.scatter_gather(A, B))
    assert result.value == [2]
    assert len(result.warnings) == 1
    assert result.warnings[0].startswith("Target 'a' failed: Tool 'a' failed: ")


async def test_when_all_fail_each_ones_error_is_told():
    world = FakeWorld(tools={"a": refusal("no"), "b": down("gone")})
    with pytest.raises(ExecutionFailed) as caught:
        await world.run(w.scatter_gather(A, B))
    assert caught.value.message == (
        "All 2 scatter targets failed: a failed: Tool 'fake' failed: no; b failed: Upstream 'fake' is unavailable: gone"
    )
    assert caught.value.retryable == "no"


async def test_when_all_failures_may_be_retried_so_may_the_whole():
    with pytest.raises(ExecutionFailed) as caught:
        await FakeWorld(tools={"a": down("x"), "b": down("y")}).run(w.scatter_gather(A, B))
    assert caught.value.retryable == "yes"


async def test_when_some_fail_and_the_rest_is_late_both_are_told():
    world = FakeWorld(tools={"a": refusal("no"), "b": Late(1, 5)})
    with pytest.raises(
        ExecutionFailed, match=r"^All 2 scatter targets failed: a failed: .*; b was late and was dropped$"
    ):
        await world.run(w.scatter_gather(A, B, timeout=w.seconds(1)))


@pytest.mark.parametrize(("needed", "works"), [(0, True), (1, True), (2, True), (3, False)])
async def test_min_success_says_how_many_must_answer(needed: int, works: bool):
    world = FakeWorld(tools={"a": [1], "b": [2], "c": refusal("no")})
    op = w.scatter_gather(A, B, C, min_success=needed)
    if works:
        assert await world.run(op) == [1, 2]
        return
    with pytest.raises(ExecutionFailed, match=r"^Only 2 of 3 scatter targets succeeded, 3 needed: c failed: "):
        await world.run(op)


async def test_with_a_min_success_of_none_nothing_is_enough():
    assert await FakeWorld(tools={"a": refusal("no")}).run(w.scatter_gather(A, min_success=0)) == []


@pytest.mark.parametrize("timeout", [None, "30s"])
@pytest.mark.parametrize("fail_fast", [False, True])
async def test_a_budget_that_is_spent_is_never_swallowed(timeout: str | None, fail_fast: bool):
    world = FakeWorld(tools={"a": [1], "b": [2]}, limits=Limits(calls=3))
    branch = w.pipeline(B, B, B)
    with pytest.raises(BudgetSpent) as caught:
        await world.run(w.scatter_gather(A, branch, timeout=timeout, fail_fast=fail_fast))
    assert caught.value.code == "FanOutLimit"


async def test_rows_of_all_branches_are_counted():
    world = FakeWorld(tools={"a": list(range(60)), "b": list(range(60))}, limits=Limits(rows=100))
    with pytest.raises(BudgetSpent) as caught:
        await world.run(w.scatter_gather(A, B))
    assert caught.value.code == "RowLimit"


async def test_a_result_that_is_no_list_is_one_item():
    assert await FakeWorld(tools={"a": 1, "b": [2, 3]}).run(w.scatter_gather(A, B)) == [1, 2, 3]


async def test_results_stay_in_the_order_of_the_targets_whoever_is_first():
    world = FakeWorld(tools={"a": Late("slow", 9), "b": "quick"})
    assert await world.run(w.scatter_gather(A, B)) == ["slow", "quick"]
    assert await world.run(w.scatter_gather(A, B, fail_fast=True)) == ["slow", "quick"]


async def test_scatters_nest_and_a_timeout_inside_is_a_failure_outside():
    inner = w.scatter_gather(B, timeout=w.seconds(1))
    result = await FakeWorld(tools={"a": [1], "b": Late([2], 5)}).trace(w.scatter_gather(A, inner))
    assert result.value == [1]
    assert result.warnings[-1] == "Target 'target_1' failed: Scatter-gather timeout"


async def test_the_outer_timeout_ends_the_inner_scatter():
    late = Watched()
    inner = w.scatter_gather(B, timeout=w.seconds(9))
    result = await FakeWorld(tools={"a": [1], "b": late}).trace(w.scatter_gather(A, inner, timeout=w.seconds(1)))
    assert result.value == [1]
    assert late.cancelled


async def test_a_scatter_leaves_no_task_behind():
    world = FakeWorld(tools={"a": refusal("no"), "b": Watched(), "c": Late([1], 1)})
    for op in (
        w.scatter_gather(A, B, C, timeout=w.seconds(2)),
        w.scatter_gather(A, B, C, fail_fast=True),
    ):
        with contextlib.suppress(ToolFailed):
            await world.run(op)
        assert asyncio.all_tasks() == {asyncio.current_task()}


def test_what_cannot_be_is_refused_when_it_is_read():
    assert {one.code for one in problems({"scatterGather": {"targets": ["a"], "minSuccess": 2}})} == {"Impossible"}
    assert {one.code for one in problems({"scatterGather": {"targets": ["a"] * 1001}})} == {"FanOutLimit"}
    assert problems({"scatterGather": {"targets": []}})
    assert problems({"scatterGather": {"targets": ["a"], "timeoutMs": 0}})


async def test_an_upstream_that_is_not_there_is_unavailable_not_a_refusal():
    with pytest.raises(UpstreamUnavailable):
        await FakeWorld(tools={"a": down("gone"), "b": [1]}).run(w.scatter_gather(A, B, fail_fast=True))


def test_a_timeout_without_its_unit_is_refused():
    with pytest.raises(TypeError, match=r"w\.seconds\(5\)"):
        w.scatter_gather(A, timeout=5)  # pyright: ignore[reportArgumentType]  (the mistake)

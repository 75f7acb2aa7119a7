"""When a step of a workflow fails: the strategies, further attempts, time limits, and who is told what."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.patterns.workflows import failing, flowing, shop, spec, statuses, step
from tests.patterns.worlds import document, run, told_by
from weft.errors import (
    DeadlineExceeded,
    ExecutionFailed,
    InputError,
    RetriesExhausted,
    TimedOut,
    ToolFailed,
    WeftError,
    WorkflowFailed,
)
from weft.testing import FakeWorld, Late, down, in_turn, refusal


def handled(**handling: Any) -> dict[str, Any]:
    return {"error_handling": handling}


PARTLY = handled(failure_strategy="partial_success")


@pytest.mark.req("WFL-14", "WFL-15")
@pytest.mark.parametrize("more", [{}, handled(failure_strategy="fail_fast")])
async def test_fail_fast_cancels_what_is_under_way_and_begins_nothing_more(more: dict[str, Any]):
    what = spec(step("done"), step("bad", "done"), step("slow"), step("next", "slow"), step("late", "bad"), **more)
    here = shop(what, {"done": 1, "bad": 1, "slow": 10}, bad=refusal("no"))
    error = await here.failing(what)
    assert error.message == "Workflow 'it' failed at step 'bad': Tool 'fake' failed: no"
    assert here.cancelled == ["slow"]
    assert here.world.clock.now() == 1002
    assert statuses(error) == {
        "done": "succeeded",
        "bad": "failed",
        "slow": "cancelled",
        "next": "waiting",
        "late": "waiting",
    }
    assert (error.code, error.cause["code"], error.workflow["status"]) == ("WorkflowFailed", "ToolFailed", "failed")
    assert isinstance(error.__cause__, ToolFailed)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_error_tells_of_each_step_how_long_it_took_and_how_often_it_was_tried():
    what = spec(step("a"), step("b", "a", retry_count=1))
    error = await shop(what, {"a": 2, "b": 1}, b=[down(), down()]).failing(what)
    first, second = error.workflow["steps"]
    assert first == {"id": "a", "status": "succeeded", "started_ms": 0, "duration_ms": 2000, "attempts": 1}
    assert (second["attempts"], second["error"]["code"]) == (2, "RetriesExhausted")
    assert error.to_json()["workflow"] == error.workflow


async def test_the_trace_of_a_failed_workflow_shows_where_it_failed():
    what = spec(step("a"), step("b", "a"))
    error = await shop(what, b=refusal("no")).failing(what)
    assert told_by(error) == [(0, "it", "failed"), (1, "a", "ok"), (1, "b", "failed")]


@pytest.mark.req("WFL-14", "WFL-16")
async def test_partial_success_skips_what_depends_on_a_failure_and_does_the_rest():
    what = spec(
        step("bad"),
        step("follows", "bad"),
        step("reads", parameters={"x": "{{bad.x}}"}),
        step("further", "reads"),
        step("hopes", parameters={"x": "{{bad.x ?? 0}}"}),
        step("good"),
        step("after", "good"),
        **PARTLY,
    )
    here = shop(what, bad=refusal("no"))
    result = await here.run(what)
    assert result.value == {"hopes": "hopes", "good": "good", "after": "after"}
    assert sorted(here.order) == ["after", "bad", "good", "hopes"]
    assert sorted(result.warnings) == [
        "Step 'bad' failed: Tool 'fake' failed: no",
        "Step 'follows' was skipped: it depends on 'bad', which failed",
        "Step 'further' was skipped: it depends on 'reads', which was skipped",
        "Step 'reads' was skipped: it needs the result of 'bad', which failed",
    ]


@pytest.mark.req("WFL-14")
async def test_partial_success_of_nothing_is_a_failure():
    what = spec(step("bad"), step("next", "bad"), **PARTLY)
    error = await shop(what, bad=refusal("no")).failing(what)
    assert statuses(error) == {"bad": "failed", "next": "skipped"}


@pytest.mark.req("WFL-14")
async def test_partial_success_leaves_out_of_the_output_what_is_not_there():
    what = spec(step("bad"), step("good"), output={"b": "{{bad.x}}", "g": "{{good}}"}, **PARTLY)
    result = await shop(what, bad=refusal("no")).run(what)
    assert result.value == {"b": None, "g": "good"}
    assert any("The output has no 'b'" in one for one in result.warnings)


async def test_a_step_may_fail_when_it_says_so_and_whoever_needs_it_is_skipped():
    what = spec(step("bad", on_error="continue"), step("needs", "bad"), step("other"))
    result = await shop(what, bad=refusal("no")).run(what)
    assert result.value == {"other": "other"}
    assert result.warnings == [
        "Step 'bad' failed: Tool 'fake' failed: no",
        "Step 'needs' was skipped: it depends on 'bad', which failed",
    ]


@pytest.mark.req("WFL-15")
@pytest.mark.parametrize(
    ("handling", "retry_count", "calls"),
    [
        ({}, None, 1),
        ({"max_retries": 2}, None, 3),
        ({"max_retries": 2}, 0, 1),
        ({"max_retries": 2}, 4, 5),
        ({"failure_strategy": "retry"}, None, 4),
        ({"failure_strategy": "retry", "max_retries": 1}, None, 2),
        ({"failure_strategy": "retry", "max_retries": 0}, None, 1),
        ({"failure_strategy": "partial_success", "max_retries": 1}, None, 2),
    ],
)
async def test_how_often_a_step_is_tried_again_and_its_own_count_goes_first(
    handling: dict[str, Any], retry_count: int | None, calls: int
):
    more = {} if retry_count is None else {"retry_count": retry_count}
    what = spec(step("a", tool="t", **more), step("b", tool="u"), **handled(**handling))
    world = FakeWorld(tools={"t": down(), "u": 1})
    if handling.get("failure_strategy") == "partial_success":
        assert (await run(world, what)).value == {"b": 1}
    else:
        error = await failing(world, what)
        assert (error.cause["code"] == "RetriesExhausted") is (calls > 1)
    assert [name for name, _ in world.calls].count("t") == calls


@pytest.mark.req("WFL-14")
async def test_pauses_between_attempts_grow_exponentially():
    what = spec(step("a", tool="t", retry_count=9))
    world = FakeWorld(tools={"t": down()})
    await failing(world, what)
    assert len(world.pauses) == 9
    for number, pause in enumerate(world.pauses):
        most = min(0.2 * 2**number, 10.0)
        assert most * 0.8 <= pause <= most


@pytest.mark.req("WFL-14")
@pytest.mark.parametrize("first", [down(), refusal("busy"), TimedOut("late")])
async def test_what_may_still_succeed_is_tried_again_also_when_the_tool_said_no(first: WeftError):
    first.retryable = "yes" if isinstance(first, TimedOut) else first.retryable
    world = FakeWorld(tools={"t": in_turn(first, {"x": 1})})
    result = await run(world, spec(step("a", tool="t", retry_count=1, parameters={"list": []})))
    assert result.value == {"a": {"x": 1}}
    assert len(world.calls) == 2


@pytest.mark.parametrize("error", [InputError("wrong"), ExecutionFailed("never")])
async def test_what_cannot_succeed_is_not_tried_again(error: WeftError):
    world = FakeWorld(tools={"t": error})
    failed = await failing(world, spec(step("a", tool="t", retry_count=5)))
    assert len(world.calls) == 1
    assert failed.cause["code"] == error.code


async def test_a_tool_that_changes_its_arguments_is_given_them_anew_in_each_attempt():
    seen: list[int] = []

    def spoil(value: Any) -> Any:
        seen.append(len(value["list"]))
        value["list"].append(1)
        return down() if len(seen) < 3 else "ok"

    await run(FakeWorld(tools={"t": spoil}), spec(step("a", tool="t", retry_count=3, parameters={"list": []})))
    assert seen == [0, 0, 0]


async def test_each_item_of_a_list_has_attempts_of_its_own():
    world = FakeWorld(tools={"t": in_turn(down(), 1, down(), 2)})
    what = spec(step("a", tool="t", retry_count=1, for_each={"items": [1, 2], "max_concurrency": 1}))
    assert (await run(world, what)).value == {"a": [1, 2]}


async def test_a_failing_item_fails_the_step_and_cancels_the_other_items():
    what = spec(step("a", for_each=[1, 2, 3], parameters="{{item}}"))
    world = FakeWorld(tools={"a": lambda n: refusal("no") if n == 2 else Late(n, 5)})
    error = await failing(world, what)
    assert world.clock.now() == 1000
    assert ("a[1]", "failed") in [(name, outcome) for _, name, outcome in told_by(error)]


@pytest.mark.req("WFL-2")
async def test_a_step_that_takes_too_long_is_cancelled_and_may_be_tried_again():
    what = spec(step("a", tool="t", timeout_ms=500))
    world = FakeWorld(tools={"t": Late(1, 5)})
    error = await failing(world, what)
    assert world.clock.now() == 1000.5
    assert error.cause["code"] == "Timeout"
    world = FakeWorld(tools={"t": in_turn(Late(1, 5), "ok")})
    what = spec(step("a", tool="t", timeout_ms=500, retry_count=1))
    assert (await run(world, what)).value == {"a": "ok"}


async def test_the_time_of_the_whole_workflow_ends_it():
    what = spec(step("a"), step("b", "a"), step("c"), timeout_ms=2500)
    here = shop(what, {"a": 2, "b": 2, "c": 9})
    error = await here.failing(what)
    assert "Workflow timeout: it was not done after 2500ms" in error.message
    assert here.world.clock.now() == 1002.5
    assert statuses(error) == {"a": "succeeded", "b": "cancelled", "c": "cancelled"}


async def test_no_attempt_is_begun_that_the_deadline_would_end():
    world = FakeWorld(tools={"t": Late(down(), 0.95)})
    with pytest.raises(WorkflowFailed) as caught:
        await world.trace("it", None, document=document(spec(step("a", tool="t", retry_count=3))), timeout=1)
    assert "there is no time for another" in caught.value.message
    assert isinstance(caught.value.__cause__, RetriesExhausted)


async def test_the_deadline_of_the_call_is_the_error_and_nothing_is_left_running():
    what = spec(step("a"), step("b"))
    here = shop(what, {"a": 100, "b": 100})
    with pytest.raises(DeadlineExceeded):
        await here.run(what)
    assert sorted(here.cancelled) == ["a", "b"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_caller_who_goes_away_ends_every_step():
    what = spec(step("a"), step("b"), step("c", "a"))
    here = shop(what, {"a": 100, "b": 100})
    await here.left_after(2, here.run(what))
    assert sorted(here.cancelled) == ["a", "b"]
    assert here.order == ["a", "b"]


@pytest.mark.parametrize(
    ("error", "after", "retryable"),
    [(down(), [], "yes"), (down(), [step("done")], "unknown-outcome"), (refusal("no"), [step("done")], "no")],
)
async def test_whoever_calls_again_knows_whether_something_was_done(error: WeftError, after: list[Any], retryable: str):
    what = spec(*after, step("bad", *(one["id"] for one in after)))
    failed = await shop(what, bad=error).failing(what)
    assert failed.retryable == retryable


@pytest.mark.req("WFL-15")
def test_a_rollback_that_the_strategy_rules_out_is_told_at_load():
    found = flowing({"steps": [step("a")], **handled(failure_strategy="partial_success", rollback_on_failure=True)})
    assert [(one.code, one.severity, one.pointer) for one in found] == [
        ("RollbackIgnored", "warning", "/error_handling/rollback_on_failure")
    ]


async def test_two_that_fail_at_the_same_moment_are_one_failure_with_both_told():
    what = spec(step("a"), step("b"), step("c"))
    here = shop(what, {"a": 1, "b": 1, "c": 1}, a=refusal("a"), b=refusal("b"))
    error = await here.failing(what)
    assert "at step 'a'" in error.message
    assert statuses(error)["a"] == "failed"
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.req("WFL-16")
@pytest.mark.parametrize(
    ("output", "gives", "warning"),
    [
        ("{{bad.v}}", None, "There is no output: "),
        (["{{good}}", "{{bad.v}}"], ["good", None], "The output has no item 1: "),
        ({"a": "{{good}}", "b": "{{lost.v}}"}, {"a": "good", "b": None}, "The output has no 'b': "),
    ],
)
@pytest.mark.parametrize("optional", [True, False])
async def test_what_the_output_lacks_for_want_of_a_step_that_may_fail_is_null(
    output: Any, gives: Any, warning: str, optional: bool
):
    more: dict[str, Any] = {"on_error": "continue"} if optional else {}
    what = spec(step("bad", **more), step("lost", "bad"), step("good"), output=output, **({} if optional else PARTLY))
    result = await shop(what, bad=refusal("no")).run(what)
    assert result.value == gives
    assert result.warnings[-1].startswith(warning)


async def test_what_the_output_lacks_of_a_step_that_went_well_fails_the_workflow():
    what = spec(step("bad", on_error="continue"), step("good"), output=["{{good.nothing}}"])
    error = await shop(what, bad=refusal("no")).failing(what)
    assert error.cause["code"] == "UnresolvedReference"

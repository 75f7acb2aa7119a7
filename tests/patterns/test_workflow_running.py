"""A workflow does each step as soon as it can, with what it names filled in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.patterns.workflows import Shop, failing, shop, spec, step
from tests.patterns.worlds import run, told
from weft.errors import BudgetSpent, WeftError
from weft.ports import Principal
from weft.run.limits import Limits
from weft.testing import FakeWorld

PAGED = ["{{page.n}}", "{{index}}"]


def echo(value: Any) -> Any:
    return value


@pytest.mark.req("WFL-4", "WFL-7", "WFL-8")
async def test_a_whole_value_keeps_its_type_and_one_in_a_text_becomes_text():
    world = FakeWorld(tools={"t": echo})
    given = {"n": 3, "f": 1.5, "yes": True, "none": None, "list": [1, "x"], "object": {"a": "ü"}, "s": "text"}
    parameters = {name: [{"whole": f"{{{{input.{name}}}}}", "in": f"<{{{{input.{name}}}}}>"}] for name in given}
    await run(world, spec(step("a", tool="t", parameters=parameters)), given)
    (_, arguments) = world.calls[0]
    assert {name: one[0]["whole"] for name, one in arguments.items()} == given
    assert {name: one[0]["in"] for name, one in arguments.items()} == {
        "n": "<3>",
        "f": "<1.5>",
        "yes": "<true>",
        "none": "<null>",
        "list": '<[1,"x"]>',
        "object": '<{"a":"ü"}>',
        "s": "<text>",
    }


@pytest.mark.req("WFL-8")
async def test_what_a_value_holds_is_neither_expanded_nor_evaluated():
    world = FakeWorld(tools={"t": echo, "u": {"x": "{{input.secret}} ${1+1}"}})
    what = spec(step("a", tool="u"), step("b", tool="t", parameters={"x": "{{a.x}}", "y": "\\{{a.x}}", "{{a}}": 1}))
    await run(world, what, {"secret": "s"})
    assert world.calls[1] == ("t", {"x": "{{input.secret}} ${1+1}", "y": "{{a.x}}", "{{a}}": 1})


@pytest.mark.req("WFL-5")
@pytest.mark.parametrize(
    ("output", "reference", "found"),
    [
        ({"content": 1}, "{{search.content}}", 1),
        ({"content": 1}, "{{found.content}}", 1),
        ({"content": 1}, "{{search}}", {"content": 1}),
        ({"content": 1}, "{{search.found}}", {"content": 1}),
        ({"content": 1}, "{{search.found.content}}", 1),
        ({"found": 2, "content": 1}, "{{search.found}}", 2),
        ([{"x": [4, 5]}], "{{found[0].x[1]}}", 5),
        ({"odd key": 6}, '{{search["odd key"]}}', 6),
        ({}, "{{search.x ?? 10}}", 10),
        ({"x": None}, "{{search.x ?? 10}}", None),
    ],
)
async def test_a_result_is_read_by_the_id_of_its_step_or_by_its_output_key(output: Any, reference: str, found: Any):
    world = FakeWorld(tools={"search": output, "t": echo})
    what = spec(step("search", output_key="found"), step("b", tool="t", parameters={"x": reference}))
    assert (await run(world, what)).value == {"found": output, "b": {"x": found}}


@pytest.mark.req("WFL-6")
async def test_the_context_is_who_calls():
    world = FakeWorld(tools={"t": echo})
    names = ("user_id", "tenant", "agent", "request_id")
    what = spec(step("a", tool="t", parameters={name: f"{{{{context.{name}}}}}" for name in names}))
    anonymous = Principal()
    first = (await run(world, what)).value["a"]
    second = (await run(world, what)).value["a"]
    assert (first["user_id"], first["tenant"]) == (anonymous.subject, anonymous.tenant)
    assert first["request_id"] != second["request_id"]


@pytest.mark.req("WFL-7")
async def test_what_leads_nowhere_fails_the_step_that_says_it_before_its_tool_is_called():
    what = spec(step("a"), step("b", parameters={"x": "{{a.nothing}}"}))
    here = shop(what, a={"thing": 1})
    error = await here.failing(what)
    assert "{{a.nothing}}" in error.message
    assert "at step 'b'" in error.message
    assert error.cause["code"] == "UnresolvedReference"
    assert here.order == ["a"]


@pytest.mark.req("WFL-12", "WFL-36")
async def test_a_step_begins_as_soon_as_what_it_waits_for_has_ended_not_level_by_level():
    what = spec(step("fast"), step("slow"), step("after_fast", "fast"), step("last", "after_fast", "slow"))
    here = shop(what, {"fast": 1, "slow": 10, "after_fast": 2})
    await here.run(what)
    assert here.began == {"fast": 0, "slow": 0, "after_fast": 1, "last": 10}
    assert here.ended["after_fast"] == 3


@pytest.mark.req("WFL-35", "WFL-36")
async def test_references_alone_make_dependencies_and_what_has_none_runs_at_once():
    what = spec(
        step("c", parameters={"x": ["{{a.v}} and {{b.v}}"]}),
        step("a"),
        step("b", when="size(input.list) > 0"),
        step("d", when='steps["c"] != null'),
    )
    here = shop(what, {"a": 2, "b": 5, "c": 1}, a={"v": 1}, b={"v": 2})
    await here.run(what, {"list": [1]})
    assert here.began == {"a": 0, "b": 0, "c": 5, "d": 6}


@pytest.mark.req("WFL-12")
@pytest.mark.parametrize(("limit", "seconds"), [(1, 10), (3, 4), (10, 1), (None, 1)])
async def test_no_more_steps_are_under_way_than_may_be_and_never_fewer(limit: int | None, seconds: int):
    more = {} if limit is None else {"max_concurrency": limit}
    what = spec(*(step(f"s{n}") for n in range(10)), **more)
    here = shop(what, {f"s{n}": 1 for n in range(10)})
    await here.run(what)
    assert here.most == (limit or 10)
    assert max(here.ended.values()) == seconds


@pytest.mark.req("WFL-12")
async def test_sixteen_steps_at_once_unless_it_says_otherwise():
    what = spec(*(step(f"s{n}") for n in range(20)))
    here = shop(what, {f"s{n}": 1 for n in range(20)})
    await here.run(what)
    assert here.most == 16


@pytest.mark.req("WFL-13")
async def test_without_output_all_results_are_given_by_their_names():
    what = spec(step("a", output_key="first"), step("b"), step("c", when="false"))
    assert (await shop(what).run(what)).value == {"first": "a", "b": "b"}


@pytest.mark.req("WFL-13")
@pytest.mark.parametrize(
    ("output", "found"),
    [
        ("{{a.x}}", [1]),
        ({"first": "{{a.x[0]}}", "text": "got {{a.x}}"}, {"first": 1, "text": "got [1]"}),
        ({"fixed": {"k": [None]}}, {"fixed": {"k": [None]}}),
        ({"none": "{{c.y ?? null}}", "in": "{{input.q}}"}, {"none": None, "in": "q"}),
        (["{{a.x[0]}}", 2], [1, 2]),
        (7, 7),
        ("plain", "plain"),
    ],
)  # fmt: skip
async def test_the_output_is_what_the_workflow_says(output: Any, found: Any):
    what = spec(step("a"), step("c", when="input.q == 'other'"), output=output)
    assert (await shop(what, a={"x": [1]}).run(what, {"q": "q"})).value == found


async def test_an_output_that_leads_nowhere_fails_the_workflow():
    what = spec(step("a"), step("c", when="false"), output={"x": "{{c.y}}"})
    error = await shop(what).failing(what)
    assert error.cause["code"] == "UnresolvedReference"
    assert error.message.startswith("Workflow 'it' failed: ")


@pytest.mark.parametrize(
    ("condition", "runs"),
    [("input.n > 1", True), ("input.n > 5", False), ("a.ok", True), ("!key.ok", False), ('steps["a"].ok', True)],
)
async def test_a_step_is_done_only_when_its_condition_holds(condition: str, runs: bool):
    what = spec(step("a", output_key="key"), step("b", when=condition))
    here = shop(what, a={"ok": True})
    result = await here.run(what, {"n": 2})
    assert ("b" in result.value) is runs
    assert here.order == (["a", "b"] if runs else ["a"])
    spans = told(result.trace)
    assert (1, "b", "ok" if runs else "skipped") in spans


async def test_what_reads_a_skipped_step_is_skipped_what_only_follows_it_or_has_a_default_is_not():
    what = spec(
        step("a", when="false"),
        step("reads", parameters={"x": "{{a.x}}"}),
        step("reads_that", parameters={"x": "{{reads}}"}),
        step("follows", "a"),
        step("hopes", parameters={"x": "{{a.x ?? 'none'}}"}, tool="hopes"),
        step("asks", when="a == null"),
    )
    what["workflow"]["steps"][4]["parameters"] = {"x": '{{a.x ?? "none"}}'}
    here = shop(what)
    assert (await here.run(what)).value == {"follows": "follows", "hopes": "hopes", "asks": "asks"}
    assert ("hopes", {"x": "none"}) in here.world.calls


async def test_a_condition_that_cannot_be_told_fails_its_step():
    what = spec(step("a"), step("b", when="a.missing == 1"))
    error = await shop(what, a={}).failing(what)
    assert "at step 'b'" in error.message


async def test_join_any_goes_on_with_the_first_that_succeeds():
    what = spec(
        step("fast"), step("slow"),
        step("next", "fast", "slow", join="any", parameters={"f": "{{fast ?? null}}", "s": "{{slow ?? null}}"}),
    )  # fmt: skip
    here = shop(what, {"fast": 1, "slow": 5})
    assert (await here.run(what)).value == {"fast": "fast", "slow": "slow", "next": "next"}
    assert here.began["next"] == 1
    assert ("next", {"f": "fast", "s": None}) in here.world.calls


async def test_join_any_passes_over_what_failed_and_is_skipped_when_all_did():
    def steps(second: dict[str, Any]) -> dict[str, Any]:
        return spec(step("bad", on_error="continue"), second, step("next", "bad", "other", join="any"))

    from_error = {"bad": 1.0, "other": 3.0}
    here = shop(what := steps(step("other")), from_error, bad=ValueErrorLike())
    await here.run(what)
    assert here.began["next"] == 3
    here = shop(what := steps(step("other", when="false")), from_error, bad=ValueErrorLike())
    result = await here.run(what)
    assert result.value == {}
    assert here.order == ["bad"]


class ValueErrorLike(WeftError):
    """A failure of a tool that is not worth another attempt."""

    def __init__(self) -> None:
        super().__init__("it broke")


async def test_for_each_does_a_step_for_every_item_in_order_and_some_at_once():
    what = spec(
        step("list"),
        step("each", for_each={"items": "{{list}}", "as": "page", "max_concurrency": 2}, parameters=PAGED),
        step("sum", parameters="{{each}}"),
    )  # fmt: skip
    here = shop(what, {"each": 1}, list=[[{"n": 5}, {"n": 6}, {"n": 7}]], each=echo, sum=echo)
    result = await here.run(what)
    assert result.value["each"] == result.value["sum"] == [[5, 0], [6, 1], [7, 2]]
    assert (here.most, here.ended["each"]) == (2, 2)
    assert [name for depth, name, _ in told(result.trace) if depth == 1] == [
        "list",
        "each[0]",
        "each[1]",
        "each[2]",
        "sum",
    ]


@pytest.mark.parametrize("items", [[], [[1, 2]]])
async def test_for_each_takes_a_list_that_is_written_down(items: list[Any]):
    what = spec(step("each", for_each=items, parameters="{{item}}"))
    assert (await shop(what, each=echo).run(what)).value == {"each": items}


async def test_for_each_of_what_is_no_list_fails_with_what_it_was():
    what = spec(step("a"), step("each", for_each="{{a}}"))
    error = await shop(what, a={"x": 1}).failing(what)
    assert "for_each of step 'each' needs a list, and was given an object" in error.message
    assert error.cause["code"] == "NotAnArray"


async def test_a_step_may_be_any_operation_of_weft():
    inner = {"pipeline": {"steps": [{"operation": "double"}, {"operation": "double"}]}}
    world = FakeWorld(tools={"double": lambda n: n * 2})
    what = spec({"id": "a", "operation": inner, "parameters": "{{input.n}}"})
    assert (await run(world, what, {"n": 3})).value == {"a": 12}


async def test_a_tool_cannot_change_what_the_next_run_is_given():
    def spoil(value: Any) -> Any:
        value["list"].append(1)
        return len(value["list"])

    what = spec(step("a", tool="t", parameters={"list": []}), step("b", "a", tool="t", parameters={"list": []}))
    assert (await run(FakeWorld(tools={"t": spoil}), what)).value == {"a": 1, "b": 1}


async def test_the_trace_has_a_span_for_each_step_under_its_id():
    what = spec(step("a", tool="t"), step("b", "a", tool="t"), step("c", tool="t", when="false"))
    result = await run(FakeWorld(tools={"t": 1}), what)
    assert sorted(told(result.trace)) == [(0, "it", "ok"), (1, "a", "ok"), (1, "b", "ok"), (1, "c", "skipped")]


@pytest.mark.parametrize(
    ("limits", "what", "code"),
    [
        (Limits(steps=2), spec(step("a", tool="t"), step("b", tool="t"), step("c", tool="t")), "StepLimit"),
        (Limits(steps=2), spec(step("a", tool="t", for_each=[1, 2, 3])), "StepLimit"),
        (Limits(rows=2), spec(step("a", tool="t", for_each=[1, 2, 3])), "RowLimit"),
        (Limits(calls=2), spec(step("a", tool="t", for_each=[1, 2, 3])), "FanOutLimit"),
        (Limits(calls=2), spec(*(step(f"s{n}", tool="t") for n in range(4))), "FanOutLimit"),
    ],
)
@pytest.mark.parametrize("strategy", ["fail_fast", "partial_success", "retry"])
async def test_a_spent_budget_ends_the_call_whatever_the_strategy(
    limits: Limits, what: dict[str, Any], code: str, strategy: str
):
    here = Shop(limits=limits).stock("t")
    body = {**what["workflow"], "error_handling": {"failure_strategy": strategy}}
    with pytest.raises(BudgetSpent) as caught:
        await here.run({"workflow": body})
    assert caught.value.code == code


async def test_many_references_to_one_value_cannot_grow_without_bounds():
    big = {"x": ["y" * 1000] * 1000}
    steps = [step("s0", tool="big")]
    steps += [step(f"s{n}", tool="t", parameters=[f"{{{{s{n - 1}}}}}"] * 30) for n in range(1, 12)]
    world = FakeWorld(tools={"big": big, "t": echo})
    error = await failing(world, spec(*steps))
    assert "at step 's2': NodeLimit" in error.message
    error = await failing(world, spec(steps[0], output={"x": ["{{s0}}"] * 2000}))
    assert "NodeLimit" in error.message

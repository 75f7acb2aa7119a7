"""A workflow that fails takes back what it did, the last first, as far as that can be done."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.patterns.workflows import failing, flowing, shop, spec, statuses, step
from tests.patterns.worlds import document
from weft.errors import DeadlineExceeded, ToolFailed
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.plan.compiler import check
from weft.testing import FakeWorld, Late, down, in_turn, refusal

pytestmark = pytest.mark.req("WFL-16")
ROLLBACK = {"error_handling": {"failure_strategy": "rollback"}}
RETRIED = {"error_handling": {"failure_strategy": "retry", "rollback_on_failure": True, "max_retries": 0}}
ALWAYS = {"error_handling": {"rollback_on_failure": True}}


def made(id: str, *after: str, **more: Any) -> dict[str, Any]:
    """Return a step that is undone by a tool named after it."""
    return step(id, *after, undo={"tool": f"un{id}", "parameters": {"id": "{{output.id}}"}}, **more)


@pytest.mark.req("WFL-14", "WFL-15")
@pytest.mark.parametrize("more", [ROLLBACK, ALWAYS, RETRIED])
async def test_what_was_done_is_undone_in_the_reverse_order_of_its_completion(more: dict[str, Any]):
    what = spec(made("a"), made("b"), made("c"), step("bad", "a", "b", "c"), **more)
    here = shop(what, {"a": 3, "b": 1, "c": 2}, a={"id": 1}, b={"id": 2}, c={"id": 3}, bad=refusal("no"))
    error = await here.failing(what)
    assert here.order == ["a", "b", "c", "bad", "una", "unc", "unb"]
    assert here.world.calls[-3:] == [("una", {"id": 1}), ("unc", {"id": 3}), ("unb", {"id": 2})]
    assert statuses(error) == {"a": "undone", "b": "undone", "c": "undone", "bad": "failed"}
    assert error.workflow["status"] == "rolled_back"
    assert error.message.endswith("; undone: a, b, c")
    assert error.retryable == "no"


@pytest.mark.req("WFL-15")
@pytest.mark.parametrize("strategy", ["fail_fast", "retry", "partial_success"])
async def test_nothing_is_undone_unless_the_workflow_says_so(strategy: str):
    what = spec(made("a"), step("bad", "a"), error_handling={"failure_strategy": strategy, "max_retries": 0})
    here = shop(what, a={"id": 1}, bad=refusal("no"))
    if strategy == "partial_success":
        await here.run(what)
    else:
        await here.failing(what)
    assert "una" not in here.order


async def test_an_undo_knows_output_parameters_input_context_and_other_results():
    undo = {
        "tool": "undo",
        "parameters": {
            "out": "{{output.id}}", "given": "{{parameters.x}}", "in": "{{input.q}}", "first": "{{first}}",
            "text": "{{output.id}}/{{parameters.x}}", "who": "{{context.tenant}}",
        },
    }  # fmt: skip
    what = spec(
        step("first"), step("a", "first", parameters={"x": "{{input.q}}!"}, undo=undo), step("bad", "a"), **ROLLBACK
    )
    here = shop(what, a={"id": 9}, bad=refusal("no"))
    await here.failing(what, {"q": "q"})
    (_, given) = here.world.calls[-1]
    who = given.pop("who")
    assert isinstance(who, str)
    assert given == {"out": 9, "given": "q!", "in": "q", "first": "first", "text": "9/q!"}


async def test_a_tool_that_changed_what_it_was_given_is_undone_with_what_it_was_given():
    def spoil(value: Any) -> Any:
        value["x"] = "spoilt"
        return {}

    undo = {"tool": "undo", "parameters": "{{parameters}}"}
    what = spec(step("a", parameters={"x": "{{input.q}}"}, undo=undo), step("bad", "a"), **ROLLBACK)
    here = shop(what, a=spoil, bad=refusal("no"))
    await here.failing(what, {"q": "q"})
    assert here.world.calls[-1] == ("undo", {"x": "q"})


async def test_the_step_says_how_before_the_workflow_and_the_workflow_before_the_registry():
    def tools(*without: str) -> list[dict[str, Any]]:
        steps = [step("a", tool="create", undo="by_step"), step("bad", "a")]
        if "step" in without:
            del steps[0]["undo"]
        body = {"steps": steps, "undo": {"create": {"tool": "by_workflow", "parameters": {"n": "{{output.n}}"}}}}
        if "workflow" in without:
            del body["undo"]
        body |= ROLLBACK
        create = {"name": "create", "undo": {"tool": "by_registry", "parameters": {"n": "{{output.n}}"}}}
        return [{"name": "it", "spec": {"workflow": body}}, create]

    names = ("by_step", "by_workflow", "by_registry")
    for without, expected in (((), names[0]), (("step",), names[1]), (("step", "workflow"), names[2])):
        world = FakeWorld(tools={"create": {"n": 5}, "bad": refusal("no"), **dict.fromkeys(names, 1)})
        parsed = parse(read(json.dumps({"schemaVersion": "1.0", "tools": tools(*without)})))
        assert parsed.problems == ()
        with pytest.raises(Exception, match="undone: a"):
            await world.run("it", {}, document=parsed.document)
        assert world.calls[-1] == (expected, {} if expected == "by_step" else {"n": 5})


async def test_the_context_is_known_to_an_undo_even_where_nothing_else_asks_for_it():
    what = spec(
        step("a"), step("bad", "a"), undo={"a": {"tool": "u", "parameters": "{{context.request_id}}"}}, **ROLLBACK
    )
    here = shop(what, None, "u", bad=refusal("no"))
    error = await here.failing(what)
    assert error.workflow["status"] == "rolled_back"
    assert isinstance(here.world.calls[-1][1], str)


async def test_an_undo_that_fails_is_told_and_keeps_no_other_from_being_undone():
    what = spec(made("a"), made("b", "a"), made("c", "b"), step("bad", "c"), **ROLLBACK)
    here = shop(what, a={"id": 1}, b={}, c={"id": 3}, bad=refusal("no"), unc=refusal("never"))
    error = await here.failing(what)
    assert here.order[-2:] == ["unc", "una"]
    assert statuses(error) == {"a": "undone", "b": "undo_failed", "c": "undo_failed", "bad": "failed"}
    assert error.workflow["status"] == "rollback_failed"
    assert error.message.endswith("; undone: a; could not be undone: b, c")
    steps = {one["id"]: one for one in error.workflow["steps"]}
    assert (steps["b"]["error"]["code"], steps["c"]["error"]["code"]) == ("UnresolvedReference", "ToolFailed")


async def test_an_undo_is_tried_again_while_its_server_is_away():
    what = spec(made("a"), step("bad", "a"), **ROLLBACK)
    world = FakeWorld(tools={"a": {"id": 1}, "bad": refusal("no"), "una": in_turn(down(), down(), "ok")})
    error = await failing(world, what)
    assert statuses(error)["a"] == "undone"
    assert len(world.pauses) == 2


async def test_what_nothing_undoes_is_said_to_be_left():
    what = spec(step("a"), step("bad", "a"), **ROLLBACK)
    error = await shop(what, bad=refusal("no")).failing(what)
    assert error.workflow["steps"][0]["because"] == "nothing undoes it"
    assert statuses(error)["a"] == "succeeded"


async def test_every_item_of_a_list_is_undone_the_last_first():
    undo = {"tool": "undo", "parameters": ["{{item}}", "{{index}}", "{{output}}", "{{parameters}}"]}
    what = spec(
        step("a", for_each={"items": [7, 8], "as": "item"}, parameters={"n": "{{item}}"}, undo=undo),
        step("bad", "a"), **ROLLBACK,
    )  # fmt: skip

    def tenfold(given: Any) -> Any:
        return given["n"] * 10

    here = shop(what, a=tenfold, bad=refusal("no"))
    error = await here.failing(what)
    assert [given for name, given in here.world.calls if name == "undo"] == [[8, 1, 80, {"n": 8}], [7, 0, 70, {"n": 7}]]
    assert statuses(error)["a"] == "undone"


async def test_the_items_of_a_list_that_were_done_before_one_failed_are_undone():
    undo = {"tool": "undo", "parameters": ["{{item}}", "{{index}}"]}
    each = {"items": [1, 2, 3, 4], "max_concurrency": 1}
    what = spec(step("a", for_each=each, parameters="{{item}}", undo=undo), **ROLLBACK)

    def small(number: Any) -> Any:
        if number > 2:
            raise ToolFailed("a", "no")
        return number

    here = shop(what, a=small)
    error = await here.failing(what)
    assert [given for name, given in here.world.calls if name == "undo"] == [[2, 1], [1, 0]]
    assert error.workflow["status"] == "rolled_back"
    assert error.workflow["steps"][0]["status"] == "failed"
    assert error.workflow["steps"][0]["because"] == "what it had done was undone: 2 of 4 items"


async def test_the_items_that_a_cancelled_step_had_done_are_undone_too():
    undo = {"tool": "undo", "parameters": "{{index}}"}
    what = spec(
        step("a", for_each={"items": [0, 5, 0], "max_concurrency": 3}, parameters="{{item}}", undo=undo),
        step("bad"), **ROLLBACK,
    )  # fmt: skip
    world = FakeWorld(tools={"a": lambda n: Late(n, n), "bad": Late(refusal("no"), 1), "undo": 1})
    error = await failing(world, what)
    assert [given for name, given in world.calls if name == "undo"] == [2, 0]
    assert statuses(error) == {"a": "cancelled", "bad": "failed"}


async def test_a_step_under_way_is_cancelled_first_and_then_the_rest_is_undone():
    what = spec(made("a"), step("slow"), step("bad", "a"), **ROLLBACK)
    here = shop(what, {"slow": 9, "a": 1}, a={"id": 1}, bad=refusal("no"))
    error = await here.failing(what)
    assert here.cancelled == ["slow"]
    assert statuses(error) == {"a": "undone", "slow": "cancelled", "bad": "failed"}


async def test_the_time_of_the_workflow_that_is_over_leaves_time_to_undo():
    what = spec(made("a"), step("slow", "a"), timeout_ms=2000, **ROLLBACK)
    here = shop(what, {"slow": 9, "una": 5}, a={"id": 1})
    error = await here.failing(what)
    assert statuses(error) == {"a": "undone", "slow": "cancelled"}
    assert here.ended["una"] == 7


async def test_a_caller_who_goes_away_leaves_a_rollback_behind_that_goes_on_without_him():
    what = spec(made("a"), step("slow", "a"), **ROLLBACK)
    here = shop(what, {"slow": 900, "una": 2}, a={"id": 1})
    engine = here.world.engine(document(what))
    await here.left_after(2, engine.run("it", None))
    await engine.close()
    assert here.cancelled == ["slow"]
    assert "una" in here.ended


@pytest.mark.parametrize("away", ["deadline", "caller"])
async def test_a_rollback_that_has_begun_goes_on_when_the_call_ends_and_undoes_nothing_twice(away: str):
    what = spec(made("a"), made("b", "a"), step("bad", "b"), **ROLLBACK)
    here = shop(what, {"unb": 2, "una": 2}, a={"id": 1}, b={"id": 2}, bad=refusal("no"))
    engine = here.world.engine(document(what))
    if away == "deadline":
        with pytest.raises(DeadlineExceeded):
            await engine.run("it", None, timeout=1)
    else:
        await here.left_after(4, engine.run("it", None))
    await engine.close()
    assert here.order == ["a", "b", "bad", "unb", "una"]
    assert {"una", "unb"} <= here.ended.keys()


def two(**undo: Any) -> list[tuple[str, str]]:
    """Return the problems of two tools that undo each other."""
    tools = [{"name": name, "undo": {"tool": by}} for name, by in undo.items()]
    parsed = parse(read(json.dumps({"schemaVersion": "1.0", "tools": tools})))
    found = check(parsed.document, elsewhere=frozenset())
    return [(one.code, one.pointer) for one in (*parsed.problems, *map(parsed.located, found))]


def test_two_tools_may_undo_each_other():
    assert two(create="delete", delete="create") == []


def test_what_undoes_a_tool_must_be_there():
    assert two(create="delte", delete="create") == [("UnknownName", "/tools/0/undo/tool")]


def test_what_an_undo_of_the_registry_is_given_is_checked_where_it_stands():
    tools = [{"name": "create", "undo": {"tool": "delete", "parameters": {"x": ["{{input.y}}"]}}}]
    (one,) = parse(read(json.dumps({"schemaVersion": "1.0", "tools": tools}))).problems
    assert (one.code, one.pointer) == ("UnknownReference", "/tools/0/undo/parameters/x/0")
    assert one.expected == "one of output, parameters, context"


def test_a_workflow_that_would_be_undone_by_itself_is_a_circle():
    tools: list[dict[str, Any]] = [
        {"name": "create", "undo": {"tool": "delete"}},
        {"name": "delete", "steps": [step("a", tool="create"), step("b", "a")], **ROLLBACK},
    ]
    parsed = parse(read(json.dumps({"schemaVersion": "1.0", "tools": tools})))
    found = [parsed.located(one) for one in check(parsed.document)]
    assert [(one.code, one.pointer) for one in found if one.severity == "error"] == [("Cycle", "/tools/1/steps/0/tool")]


def test_an_undo_of_a_tool_that_no_step_calls_is_told():
    (one,) = flowing({"steps": [step("a", tool="create")], "undo": {"craete": "delete"}, **ROLLBACK})
    assert (one.code, one.severity, one.pointer, one.suggestion) == ("UnusedUndo", "warning", "/undo/craete", "create")

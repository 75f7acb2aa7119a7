"""Routers hand a value to the first operation whose condition holds."""

from __future__ import annotations

from typing import Any

import pytest

import weft as w
from tests.patterns.worlds import document, problems, run, told, told_by
from weft.errors import ExecutionFailed
from weft.testing import FakeWorld

WORLD_TOOLS = {"big": "big", "middle": "middle", "small": "small", "other": "other"}


def routes(*pairs: tuple[Any, str], default: str | None = None) -> dict[str, Any]:
    """Return a router of conditions and tools."""
    body: dict[str, Any] = {"routes": [{"condition": when, "target": tool} for when, tool in pairs]}
    return {"router": body if default is None else {**body, "default": default}}


@pytest.mark.req("ALG-6", "ALG-25")
def test_the_builder_numbers_routes_and_leaves_out_a_default_that_is_not_given():
    case = w.when("input.size > 10", w.tool("big"))
    route = {"id": "route_0", "condition": "input.size > 10", "target": {"tool": {"name": "big"}}}
    assert w.router(case).to_ir() == {"router": {"routes": [route]}}
    assert w.router([case]).to_ir() == w.router(case).to_ir()
    with_default = w.router(case, otherwise=w.tool("small")).to_ir()
    assert with_default == {"router": {"routes": [route], "default": {"tool": {"name": "small"}}}}


@pytest.mark.req("ALG-46")
@pytest.mark.parametrize(("size", "expected"), [(20, "big"), (7, "middle"), (2, "small")])
async def test_conditions_are_tried_in_order_and_the_first_that_holds_wins(size: int, expected: str):
    world = FakeWorld(tools=WORLD_TOOLS)
    spec = routes(("input.size > 10", "big"), ("input.size > 5", "middle"), ("input.size > 0", "small"))
    assert (await run(world, spec, {"size": size})).value == expected
    assert world.calls == [(expected, {"size": size})]


@pytest.mark.req("ALG-46")
async def test_what_no_route_takes_goes_to_the_default():
    spec = routes(("input == 1", "big"), default="other")
    result = await run(FakeWorld(tools=WORLD_TOOLS), spec, 2)
    assert result.value == "other"
    assert told(result.trace) == [(0, "it", "ok"), (1, "default", "ok")]


@pytest.mark.req("ALG-46")
async def test_without_a_default_a_value_that_no_route_takes_is_an_error():
    with pytest.raises(ExecutionFailed, match=r"^No matching route and no default specified$"):
        await run(FakeWorld(tools=WORLD_TOOLS), routes(("input == 1", "big")), 2)


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("input.size > 10", {"size": "11"}),
        ("input.size > 10", {}),
        ("input.size > 10", None),
        ("input.flag", {"flag": "true"}),
        ("input.flag", {"flag": 1}),
        ("1 / input.zero > 0", {"zero": 0}),
    ],
)
@pytest.mark.parametrize("mixed", [False, True])
async def test_a_condition_that_ends_in_an_error_is_an_error_never_false(condition: str, value: Any, mixed: bool):
    first = [({"field": "$.never", "op": "eq", "value": 1}, "small")] if mixed else []
    with pytest.raises(ExecutionFailed, match="Condition"):
        await run(FakeWorld(tools=WORLD_TOOLS), routes(*first, (condition, "big"), default="other"), value)


async def test_a_condition_after_the_one_that_holds_is_not_evaluated():
    spec = routes(("input.size > 1", "big"), ("input.nowhere", "small"))
    assert (await run(FakeWorld(tools=WORLD_TOOLS), spec, {"size": 2})).value == "big"


@pytest.mark.parametrize(
    ("kind", "expected"), [("paper", "big"), ("page", "middle"), (None, "other"), (True, "other"), ("x", "other")]
)
async def test_predicates_and_cel_may_stand_side_by_side(kind: Any, expected: str):
    p = w.path({})
    flow = w.router(
        w.when(w.holds(p.kind, w.eq("paper")), w.tool("big")),
        w.when("input.kind == 'page'", w.tool("middle")),
        w.when(w.holds(p.size, w.gt(1)), w.tool("small")),
        otherwise=w.tool("other"),
    )
    assert await FakeWorld(tools=WORLD_TOOLS).run(flow, {"kind": kind, "size": True}) == expected


async def test_when_then_and_otherwise_are_read_too():
    routes_given = [
        {"when": {"field": "$.n", "op": "gt", "value": 1}, "then": "big"},
        {"when": "input.n < 0", "then": {"tool": "small"}},
    ]
    spec = {"router": {"routes": routes_given, "otherwise": "other"}}
    world = FakeWorld(tools=WORLD_TOOLS)
    assert [(await run(world, spec, {"n": n})).value for n in (2, -1, 0)] == ["big", "small", "other"]
    again: Any = document(spec).to_ir()
    assert document(again["tools"][0]["spec"]).to_ir() == again


async def test_a_route_is_a_span_and_a_part_of_an_errors_path():
    target = {"filter": {"predicate": {"field": "$", "op": "gt", "value": 1}}}
    spec = {"router": {"routes": [{"id": "only", "condition": "true", "target": target}]}}
    with pytest.raises(ExecutionFailed, match="Filter requires array input") as caught:
        await run(FakeWorld(), spec, 1)
    assert caught.value.path == ("only",)
    assert told_by(caught.value) == [(0, "it", "failed"), (1, "only", "failed")]


def test_a_route_has_exactly_one_condition_and_an_id_of_its_own():
    both = {"condition": "true", "predicate": {"field": "$", "op": "is_null"}, "target": "big"}
    assert "ExactlyOne" in {problem.code for problem in problems({"router": {"routes": [both]}})}
    assert "ExactlyOne" in {problem.code for problem in problems({"router": {"routes": [{"target": "big"}]}})}
    twice = [{"id": "a", "condition": "true", "target": "big"}, {"id": "a", "condition": "true", "target": "big"}]
    assert {problem.code for problem in problems({"router": {"routes": twice}})} == {"DuplicateStep"}
    assert problems({"router": {"routes": []}})


async def test_routers_nest():
    inner = w.router(w.when("input.n > 5", w.tool("big")), otherwise=w.tool("small"))
    flow = w.router(w.when("input.n > 0", inner), otherwise=w.tool("other"))
    world = FakeWorld(tools=WORLD_TOOLS)
    assert [await world.run(flow, {"n": n}) for n in (9, 3, -1)] == ["big", "small", "other"]

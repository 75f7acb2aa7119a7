"""Tools written as Python functions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

import weft as w
from weft.errors import ExecutionFailed, ExpressionInvalid, ToolFailed
from weft.plan.compiler import check
from weft.testing import FakeWorld


class Hit(BaseModel):
    title: str
    score: float = 0.5


@dataclass
class Point:
    x: int
    y: int


async def run(tool: Any, value: Any = None) -> Any:
    return await FakeWorld().run(tool, value)


@w.python_tool
def add(a: int, b: int = 10) -> int:
    """Add two numbers."""
    return a + b


@w.python_tool(name="adds_later", description="Adds, later.")
async def add_async(a: int, b: int = 10) -> int:
    await asyncio.sleep(0)
    return a + b


@w.python_tool
def whole(value: Any, /) -> Any:
    return {"given": value}


@w.python_tool
def anything(first: int, **rest: Any) -> Any:
    return {"first": first, "rest": rest}


def test_a_function_keeps_its_name_its_words_and_its_behaviour():
    assert (add.name, add.description, add(1, b=2)) == ("add", "Add two numbers.", 3)
    assert (add_async.name, add_async.description) == ("adds_later", "Adds, later.")
    assert add.to_ir() == {"tool": {"name": "add"}}
    assert add.types.input == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 10}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert add.types.output == {"type": "integer"}


async def test_an_object_is_the_arguments_and_defaults_hold():
    assert await run(add, {"a": 1}) == 11
    assert await run(add, {"a": 1, "b": 2}) == 3
    assert await run(add_async, {"a": 1}) == 11


async def test_another_value_goes_to_the_sole_property():
    assert await run(add, 5) == 15


async def test_a_positional_only_parameter_takes_the_whole_value():
    for value in ([1, 2], {"a": 1}, None, "x"):
        assert await run(whole, value) == {"given": value}


async def test_keyword_arguments_may_be_open_ended():
    assert await run(anything, {"first": 1, "b": 2}) == {"first": 1, "rest": {"b": 2}}


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ({"a": 1, "bb": 2}, "Tool 'add' takes no argument 'bb'", "did you mean 'b'?"),
        ({"a": 1, "zebra": 2}, "Tool 'add' takes no argument 'zebra'", "it takes a, b"),
        ({"b": 2}, "Tool 'add' needs the argument 'a'", None),
        ({"A": 2}, "Tool 'add' needs the argument 'a'", "'A' was given"),
        ({}, "Tool 'add' needs the argument 'a'", None),
    ],
)
async def test_wrong_arguments_are_named_with_the_nearest(arguments: Any, message: str, hint: str | None):
    with pytest.raises(ExecutionFailed, match=message) as caught:
        await run(add, arguments)
    assert (caught.value.hint, caught.value.code) == (hint, "InvalidArguments")


@w.python_tool
def model() -> Hit:
    return Hit(title="x")


@w.python_tool
def models() -> list[Hit]:
    return [Hit(title="x"), Hit(title="y")]


@w.python_tool
def point() -> Point:
    return Point(1, 2)


@w.python_tool
async def points() -> dict[str, list[Point]]:
    return {"all": [Point(1, 2)]}


@w.python_tool
def pair() -> tuple[int, str]:
    return 1, "x"


@w.python_tool
def optional() -> Hit | None:
    return None


@pytest.mark.req("ALG-1")
@pytest.mark.parametrize(
    ("tool", "value"),
    [
        (model, {"title": "x", "score": 0.5}),
        (models, [{"title": "x", "score": 0.5}, {"title": "y", "score": 0.5}]),
        (point, {"x": 1, "y": 2}),
        (points, {"all": [{"x": 1, "y": 2}]}),
        (pair, [1, "x"]),
        (optional, None),
    ],
)
async def test_results_become_json(tool: Any, value: Any):
    got = await run(tool, {})
    assert got == value
    assert type(got) is type(value)


@pytest.mark.req("ALG-1")
async def test_results_of_functions_without_hints_become_json_too():
    def unhinted():
        return [Hit(title="x"), (1, Point(1, 2))]

    plain: Any = w.python_tool
    assert await run(plain(unhinted), {}) == [{"title": "x", "score": 0.5}, [1, {"x": 1, "y": 2}]]


async def test_what_is_no_json_is_refused():
    @w.python_tool
    def thing() -> Any:
        return object()

    with pytest.raises((ExecutionFailed, ToolFailed), match="JSON"):
        await run(thing, {})


async def test_an_exception_is_the_failure_of_the_tool():
    @w.python_tool
    def broken() -> int:
        raise ValueError("no such row")

    with pytest.raises(ToolFailed, match="ValueError: no such row"):
        await run(broken, {})


def test_what_is_no_function_with_named_parameters_is_refused():
    refuse: Any = w.python_tool
    with pytest.raises(TypeError, match="takes a function"):
        refuse(3)
    with pytest.raises(TypeError, match="needs one"):
        refuse(lambda value: value)  # pyright: ignore
    with pytest.raises(ExpressionInvalid, match="takes \\*args"):

        @refuse
        def several(*values: int) -> int:
            return sum(values)


async def test_functions_stand_in_compositions_like_any_tool():
    top = w.composition("top", "d", w.pipeline(w.map_each(add), whole))
    compiled = w.compile(top)
    assert compiled.local.names() == ["add", "whole"]
    assert await run(top, [1, 2]) == {"given": [11, 12]}


def test_types_of_functions_flow_before_running():
    compiled = w.compile(w.composition("top", "d", w.pipeline([add, w.map_each(whole)])))
    problems = check(compiled.document, compiled.local)
    assert [(one.severity, one.code) for one in problems] == [("error", "NotAnArray")]


def test_hints_for_clients_are_kept_as_they_were_given():
    @w.python_tool(annotations={"readOnlyHint": True})
    def look() -> int:
        return 1

    assert look.annotations == {"readOnlyHint": True}
    assert w.python_tool(name="other")(look.function).annotations == {}

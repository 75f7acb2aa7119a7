"""From Python to a document: what stays inline, what gets a name, and how it is counted."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

import weft as w
from weft.errors import DocumentInvalid
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.testing import FakeWorld

Doc = dict[str, Any]
P = w.path({"type": "object"})


def calls(tool: Doc) -> list[str]:
    """Return the names of the compositions that a tool's text names, in order."""
    found: list[str] = []

    def walk(value: Any, key: str = "") -> None:
        if isinstance(value, dict):
            given = cast("Doc", value)
            if key == "composition":
                found.append(given["name"])
            for inner, item in given.items():
                walk(item, inner)
        elif isinstance(value, list):
            for item in cast("list[Any]", value):
                walk(item)

    walk(tool["spec"])
    return found


def compiled(*tops: Any, split: bool = False) -> tuple[list[Doc], list[str], list[str]]:
    made = w.compile(*tops, split=split)
    tools: Any = made.document.to_ir().get("tools", [])
    assert parse(read(json.dumps(made.document.to_ir()))).problems == ()
    return tools, made.top_level, made.internal


@pytest.mark.req("ALG-33")
def test_nested_patterns_stay_inline():
    top = w.composition("top", "d", w.pipeline(w.map_each(w.tool("a")), w.scatter_gather(w.tool("b"))))
    tools, tops, internal = compiled(top)
    assert (tops, internal) == (["top"], [])
    assert tools == [top.to_ir()]


@pytest.mark.req("ALG-33")
def test_a_named_part_becomes_an_internal_composition():
    part = w.named("web_normalized", w.pipeline(w.tool("a")))
    tools, tops, internal = compiled(w.composition("top", "d", w.scatter_gather(part, w.tool("b"))))
    assert (tops, internal) == (["top"], ["__web_normalized"])
    assert calls(tools[0]) == ["__web_normalized"]
    assert tools[1] == {"name": "__web_normalized", "spec": w.pipeline(w.tool("a")).to_ir()}
    assert w.named("__x", w.tool("a")).name == "__x"


@pytest.mark.req("ALG-33")
def test_a_part_that_is_used_more_than_once_is_written_once():
    part = w.map_each(w.tool("a"))
    tools, tops, internal = compiled(w.composition("top", "d", w.pipeline(part, w.tool("b"), part)))
    assert (tops, internal) == (["top"], ["__map_each_0"])
    assert calls(tools[0]) == ["__map_each_0", "__map_each_0"]
    assert tools[1] == {"name": "__map_each_0", "spec": part.to_ir()}


def test_a_part_that_two_compositions_use_is_written_once():
    part = w.map_each(w.tool("a"))
    first = w.composition("first", "d", w.pipeline(part))
    tools, tops, internal = compiled(first, w.composition("second", "d", w.pipeline(first, part)))
    assert (tops, internal) == (["first", "second"], ["__map_each_0"])
    assert [calls(tool) for tool in tools] == [["__map_each_0"], ["first", "__map_each_0"], []]


def test_a_part_inside_a_part_that_is_used_twice_is_not_counted_twice():
    inner = w.map_each(w.tool("a"))
    outer = w.pipeline(inner)
    tools, _, internal = compiled(w.composition("top", "d", w.scatter_gather(outer, outer)))
    assert internal == ["__pipeline_0"]
    assert tools[1] == {"name": "__pipeline_0", "spec": outer.to_ir()}
    twice = w.pipeline(inner, inner)
    tools, _, internal = compiled(w.composition("top", "d", w.scatter_gather(twice, twice)))
    assert internal == ["__pipeline_0", "__map_each_1"]
    assert calls(tools[1]) == ["__map_each_1", "__map_each_1"]


def test_equal_parts_written_twice_stay_where_they_are():
    tools, _, internal = compiled(
        w.composition("top", "d", w.pipeline(w.map_each(w.tool("a")), w.map_each(w.tool("a"))))
    )
    assert internal == []
    assert calls(tools[0]) == []


def test_tools_and_agents_used_twice_are_no_parts():
    tool, agent = w.tool("a"), w.agent("a", "s")
    assert compiled(w.composition("top", "d", w.pipeline(tool, tool, agent, agent)))[2] == []


@pytest.mark.req("ALG-33", "ALG-54")
def test_split_gives_every_nested_pattern_a_name():
    top = w.composition("top", "d", w.pipeline(w.scatter_gather(w.map_each(w.tool("a"))), w.filter(P.a, w.gt(1))))
    tools, tops, internal = compiled(top, split=True)
    assert (tops, internal) == (["top"], ["__scatter_gather_0", "__map_each_1", "__filter_2"])
    assert [calls(tool) for tool in tools] == [["__scatter_gather_0", "__filter_2"], ["__map_each_1"], [], []]


def test_a_made_up_name_never_meets_one_that_was_given():
    part = w.map_each(w.tool("a"))
    named = w.named("map_each_0", w.tool("b"))
    tools, _, internal = compiled(w.composition("top", "d", w.pipeline(part, part, named)))
    assert sorted(internal) == ["__map_each_0", "__map_each_1"]
    assert {tool["name"]: calls(tool) for tool in tools}["top"] == ["__map_each_1", "__map_each_1", "__map_each_0"]


def test_two_things_may_not_have_one_name_but_one_thing_may_be_named_twice():
    def part() -> Any:
        return w.named("x", w.map_each(w.tool("a")))

    assert compiled(w.composition("top", "d", w.pipeline(part(), part())))[2] == ["__x"]
    with pytest.raises(DocumentInvalid, match="two compositions are named '__x'"):
        w.compile(w.composition("top", "d", w.pipeline(part(), w.named("x", w.tool("b")))))
    with pytest.raises(DocumentInvalid, match="two compositions are named 'top'"):
        w.compile(w.composition("top", "d", w.tool("a")), w.composition("top", "d", w.tool("b")))


def test_compositions_inside_compositions_are_compiled_too():
    inner = w.composition("inner", "i", w.named("part", w.tool("a")))
    recipients = w.recipient_list("$.names", allowed=[inner])
    tools, tops, internal = compiled(w.composition("top", "d", recipients))
    assert (tops, internal) == (["top", "inner"], ["__part"])
    assert [tool["name"] for tool in tools] == ["top", "inner", "__part"]


def test_nothing_compiles_to_an_empty_document():
    assert w.compile().document.to_ir() == {"schemaVersion": "1.0"}


def test_compiling_twice_gives_the_same():
    part = w.map_each(w.tool("a"))
    top = w.composition("top", "d", w.pipeline(part, part))
    assert w.compile(top, split=True).document == w.compile(top, split=True).document
    assert w.compile(top).document == w.compile(top).document


@pytest.mark.parametrize("split", [False, True])
async def test_a_composition_runs_alike_inline_and_split(split: bool):
    rows = w.map_each(w.schema_map(P, {"n": P.n, "k": w.literal("x")}))
    top = w.composition("top", "d", w.pipeline(w.scatter_gather(rows, rows), w.filter(P.n, w.gt(1))))
    document = w.compile(top, split=split).document
    assert await FakeWorld().run("top", [{"n": 1}, {"n": 2}], document=document) == [{"n": 2, "k": "x"}] * 2


def test_tools_of_one_name_on_two_servers_keep_their_own_types():
    one, two = w.tool("a", str, int, server="one"), w.tool("a", int, str, server="two")
    compiled = w.compile(w.composition("it", "It.", w.pipeline(one, two)))
    assert {str(ref): types.output for ref, types in compiled.types.items()} == {
        "one:a": {"type": "integer"},
        "two:a": {"type": "string"},
    }


def test_two_functions_of_one_name_are_refused():
    first = w.python_tool(name="same")(lambda: 1)
    second = w.python_tool(name="same")(lambda: 2)
    with pytest.raises(DocumentInvalid, match="two Python tools are named 'same'"):
        w.compile(w.composition("it", "It.", w.pipeline(first, second)))

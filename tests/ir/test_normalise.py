"""The normaliser on whole documents: fixtures unchanged, one canonical form, places that point into the text."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.documents import FILES, FIXTURES, canonical, fixture
from weft.app import load, problems_of
from weft.ir.document import Document
from weft.ir.normalise import made, parse, written
from weft.ir.read import read

WHOLE = ["algebra-research-pipeline.json", "algebra-extended-registry.json", "registry-v1.json"]


@pytest.mark.req("ALG-31", "REG-1")
@pytest.mark.parametrize("name", WHOLE)
def test_the_documents_of_the_seeds_load_unchanged(name: str):
    problems = problems_of(load(FIXTURES / name))
    assert {problem.severity for problem in problems} <= {"warning"}


def test_names_that_only_upstreams_know_are_warnings_with_their_places():
    problems = problems_of(load(FIXTURES / "algebra-extended-registry.json"))
    assert [(problem.code, problem.pointer, problem.line) for problem in problems] == [
        ("UnknownName", "/compositions/1/spec/scatterGather/targets/2", 58)
    ]


@pytest.mark.parametrize("name", FILES)
def test_the_canonical_form_of_a_fixture_is_its_own(name: str):
    form = canonical(fixture(name))
    assert canonical(form) == form
    assert canonical(yaml.safe_load(yaml.safe_dump(form))) == form
    again = made(Document, form)
    assert again.to_ir() == form


@pytest.mark.parametrize("name", FILES)
def test_the_canonical_form_has_no_nulls_and_no_empty_lists_but_in_values(name: str):
    def walk(value: Any, key: str = "") -> None:
        if key in {"literal", "value", "default", "defaults", "inputSchema", "outputSchema", "metadata", "security"} | {
            "parameters",
            "output",
        }:
            return
        assert value is not None
        assert value != []
        if isinstance(value, dict):
            for inner, item in value.items():  # pyright: ignore[reportUnknownVariableType]  (raw JSON)
                walk(item, str(inner))  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, list):
            for item in value:  # pyright: ignore[reportUnknownVariableType]
                walk(item)

    walk(canonical(fixture(name)))


def test_what_is_empty_is_left_out_where_that_means_the_same():
    tool: dict[str, Any] = {
        "name": "t",
        "source": {"server": "s", "tool": "x", "defaults": {}, "hideFields": []},
        "inputSchema": {},
        "description": None,
    }
    assert canonical({"tools": [tool], "compositions": []}) == {
        "schemaVersion": "1.0",
        "tools": [{"name": "t", "source": {"server": "s", "tool": "x"}, "inputSchema": {}}],
    }


def test_a_broken_tool_hides_neither_the_others_nor_what_names_it():
    tools: list[dict[str, Any]] = [
        {"name": "broken", "spec": {"pipelin": {}}},
        {"name": "sound", "spec": {"composition": "broken"}},
        {"name": "other", "spec": {"composition": "brokn"}},
    ]
    parsed = parse(read(json.dumps({"compositions": tools})))
    assert [tool.name for tool in parsed.document.tools] == ["sound", "other"]
    assert [(problem.code, problem.pointer) for problem in problems_of(parsed)] == [
        ("UnknownPattern", "/compositions/0/spec"),
        ("UnknownName", "/compositions/2/spec/composition"),
    ]


def test_tools_and_compositions_share_one_space_of_names():
    source = {"target": "s", "tool": "x"}
    document = {"tools": [{"name": "t", "source": source}], "compositions": [{"name": "t", "spec": "x"}]}
    problem = next(one for one in problems_of(parse(read(json.dumps(document)))) if one.severity == "error")
    assert (problem.code, problem.pointer) == ("DuplicateName", "/compositions/0/name")
    assert problem.message == "two tools are named 't'; the first is at /tools/0"


@pytest.mark.parametrize(
    ("value", "loc", "place"),
    [
        ({"spec": "x"}, ("spec", "tool", "name"), ("spec",)),
        ({"spec": {"tool": "x"}}, ("spec", "tool", "name"), ("spec", "tool")),
        ({"spec": {"pattern": "map_each", "inner": "x"}}, ("spec", "mapEach", "inner", "tool"), ("spec", "inner")),
        ({"spec": {"pattern": {"map_each": {"inner": {"tool": "x"}}}}}, ("spec", "mapEach", "inner", "tool"),
         ("spec", "pattern", "map_each", "inner", "tool")),
        ({"a": {"concat": ["$.x"], "separator": 3}}, ("a", "concat", "separator"), ("a", "separator")),
        ({"a": {"concat": ["$.x"], "separator": 3}}, ("a", "concat", "paths", 0), ("a", "concat", 0)),
        ({"a": {"template": "{x}", "vars": {"x": "$"}}}, ("a", "template", "vars", "x"), ("a", "vars", "x")),
        ({"source": {"tool": "x"}, "defaults": {"a": 1}}, ("source", "defaults", "a"), ("defaults", "a")),
        ({"source": {"tool": "x"}, "hide_fields": [1]}, ("source", "hideFields", 0), ("hide_fields", 0)),
        ({"routes": [{"when": {"op": 1}}]}, ("routes", 0, "predicate", "op"), ("routes", 0, "when", "op")),
        ({"tools": []}, ("tools", 3, "name"), ("tools",)),
    ],
)  # fmt: skip
def test_places_are_those_of_the_text_as_written(value: Any, loc: tuple[str | int, ...], place: tuple[str | int, ...]):
    assert written(value, loc) == place


def test_a_builder_raises_all_that_is_wrong_with_pointers():
    with pytest.raises(Exception, match="unknown key 'nmae'") as caught:
        made(Document, {"tools": [{"nmae": "t", "spec": {"pipelin": {}}}]})
    assert [problem.pointer for problem in caught.value.problems] == [  # pyright: ignore  (checked by the match)
        "/tools/0",
        "/tools/0/spec",
        "/tools/0/nmae",
    ]

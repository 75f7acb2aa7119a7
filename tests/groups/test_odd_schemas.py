"""Whatever schema a server sends, no more than its own field is told less of: nothing fails that has to do with it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.groups.oddities import junk, schemas
from tests.strategies import unhurried
from weft.errors import DocumentInvalid, ExecutionFailed
from weft.expr.marks import marked_names
from weft.expr.schemas import compile_schema
from weft.groups.action import Action
from weft.groups.execution.checking import arguments_check
from weft.groups.helping import explained, help_action
from weft.groups.strategies.annotations import merged_annotations
from weft.groups.strategies.description import markdown_description
from weft.groups.strategies.fields import field_users
from weft.groups.strategies.schema import input_schema
from weft.groups.strategies.toon import toon_description
from weft.ir.groups import Detail

FINE: dict[str, Any] = {"type": "object", "properties": {"fine": {"type": "string"}}}
OPEN = {"type": "object", "additionalProperties": True}
DETAILS = st.sampled_from(("full", "brief", "index"))


def actions_of(*given: dict[str, Any]) -> list[Action]:
    return [Action(key=f"a{number}", schema=schema) for number, schema in enumerate(given)]


def refusal(check: Callable[[dict[str, Any]], None], arguments: dict[str, Any]) -> ExecutionFailed | None:
    try:
        check(arguments)
    except ExecutionFailed as refused:
        return refused
    return None


@pytest.mark.req("GRP-8")
@settings(unhurried, max_examples=300)
@example(one={"properties": {"z": {"anyOf": [True]}}}, other=OPEN, detail="full")
@example(one={"properties": {"z": {"anyOf": [{}, False]}}}, other=OPEN, detail="full")
@example(one={"properties": {"z": {"anyOf": [5, "x"]}}}, other=OPEN, detail="full")
@example(one={"required": 5, "properties": [1], "$defs": 1, "enum": {}, "title": 3}, other={"$ref": {}}, detail="brief")
@given(one=schemas, other=schemas | st.just(OPEN), detail=DETAILS)
def test_no_schema_keeps_a_group_from_being_listed(one: dict[str, Any], other: dict[str, Any], detail: Detail):
    actions = actions_of(one, other, FINE)
    helps = help_action(actions)
    schema = input_schema(actions, conflicts="union", detail=detail, helps=helps)
    assert compile_schema(schema).accepts({"action": "a2", "fine": "x"})
    assert schema["properties"]["action"]["enum"] == ["a0", "a1", "a2", helps.key]


@pytest.mark.req("GRP-14", "GRP-15")
@settings(unhurried, max_examples=200)
@given(one=schemas, other=schemas, detail=DETAILS, hints=st.dictionaries(st.just("readOnlyHint"), junk))
def test_no_schema_keeps_a_group_from_being_described(
    one: dict[str, Any], other: dict[str, Any], detail: Detail, hints: dict[str, Any]
):
    actions = [Action(key="odd", schema=one, annotations=hints), Action(key="fine", schema=FINE)]
    for described in (markdown_description, toon_description):
        assert "fine" in described([*actions, help_action(actions)], common=other, detail=detail)
    assert all(isinstance(hint, bool) for hint in merged_annotations(actions).values())
    assert field_users(actions)["fine"][-1] == "fine"
    with suppress(DocumentInvalid):
        explained({one.key: one for one in actions}, {"of": "odd"}, helps=help_action([]), common=other)


@pytest.mark.req("GRP-25")
@settings(unhurried, max_examples=300)
@example(schema={"properties": {"x": {"$ref": {}}}}, common={"$ref": []}, arguments={"y": 1})
@example(
    schema={"required": ["x"], "properties": {"x": {"$ref": "#/anyOf/\u00b2"}}, "anyOf": [{}]}, common={}, arguments={}
)
@given(
    schema=schemas,
    common=st.none() | schemas,
    arguments=st.dictionaries(st.sampled_from(("x", "y", "kind", "zz")), junk, max_size=3),
)
def test_no_schema_makes_a_check_fail_otherwise_than_by_refusing(
    schema: dict[str, Any], common: dict[str, Any] | None, arguments: dict[str, Any]
):
    action = Action(key="odd", schema=schema)
    refused = refusal(arguments_check(action, common=common, tool="t", others=field_users([action])), arguments)
    if refused is not None:
        assert refused.code == "InvalidArguments"
        assert all(isinstance(one["field"], str) for one in (refused.facts or {})["problems"])


@settings(unhurried, max_examples=200)
@given(schema=junk)
def test_marks_are_looked_for_in_anything(schema: Any):
    assert all(isinstance(name, str) for name in marked_names(schema))


def test_definitions_that_refer_to_each_other_many_times_are_read_in_no_time():
    again = [{"$ref": "#/$defs/A"}] * 12
    knot = {"anyOf": again, "oneOf": again, "allOf": again}
    schema = {"properties": {"x": {"$ref": "#/$defs/A"}}, "required": ["x"], "$defs": {"A": knot}}
    action = Action(key="knot", schema=schema)
    assert input_schema([action], detail="brief")["properties"]["x"] == {}
    with pytest.raises(ExecutionFailed, match="'x' is missing"):
        arguments_check(action, tool="t")({})

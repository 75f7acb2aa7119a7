"""What a schema is said to have before there is a value is never denied by one that fits it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.expr.paths import MISSING, compile_path
from weft.expr.schemas import compile_schema
from weft.expr.shapes import (
    ANY,
    any_of,
    array_of,
    deref,
    fits,
    items_of,
    look,
    may_be,
    named_type,
    object_of,
    type_of,
    types_of,
)
from weft.ports import Schema

NAMES = st.sampled_from("abc")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([0.5, 1.0]) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["string", "number", "integer", "boolean", "object", "array", "null"])


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, unique=True, max_size=2),
            "additionalProperties": st.booleans() | inner,
            "patternProperties": st.dictionaries(st.sampled_from(["^a$", "b"]), inner, max_size=1),
        },
    )


PARTS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.just(dict[str, Any]())
    | TYPES.map(lambda name: {"type": name})
    | st.lists(TYPES, min_size=1, max_size=3, unique=True).map(lambda names: {"type": names})
    | VALUES.map(lambda value: {"const": value})
    | st.lists(VALUES, min_size=1, max_size=3).map(lambda values: {"enum": values}),
    lambda inner: (
        _objects(inner)
        | st.fixed_dictionaries({"type": st.just("array")}, optional={"items": inner | st.booleans()})
        | st.tuples(st.sampled_from(["anyOf", "oneOf"]), st.lists(inner | st.booleans(), min_size=1, max_size=3)).map(
            lambda pair: {pair[0]: pair[1]}
        )
        | st.just({"$ref": "#/$defs/it"})
    ),
    max_leaves=6,
)
SCHEMAS = st.tuples(PARTS, _objects(PARTS)).map(lambda two: {**two[0], "$defs": {"it": two[1]}})
PATHS = st.lists(NAMES.map(lambda name: f".{name}") | st.sampled_from(["[0]", "[*]"]), max_size=3).map(
    lambda steps: "$" + "".join(steps)
)


def valid(schema: Schema, value: Any) -> bool:
    """Tell whether a value fits a schema, by the library."""
    return not compile_schema(dict(schema)).problems(value)


@settings(max_examples=300)
@given(SCHEMAS, VALUES)
def test_a_value_that_fits_has_one_of_the_types(schema: dict[str, Any], value: Any):
    types = types_of(schema)
    if types is not None and valid(schema, value):
        kind = type_of(value)
        assert kind in types or (kind == "integer" and "number" in types) or (value == 1.0 and "integer" in types)
        assert may_be(schema, kind)


@settings(max_examples=300)
@given(SCHEMAS, PATHS, VALUES)
def test_what_is_impossible_is_in_no_value_that_fits(schema: dict[str, Any], path: str, value: Any):
    compiled = compile_path(path)
    found = look(schema, compiled)
    if not valid(schema, value):
        return
    there = compiled.find(value)
    if found.verdict == "impossible":
        assert there is MISSING or there == []
    elif there is not MISSING and found.verdict == "fine":
        types = types_of(found.schema)
        assert types is None or may_be(found.schema, type_of(there)) or there == 1.0


@settings(max_examples=300)
@given(SCHEMAS, SCHEMAS, VALUES)
def test_what_cannot_fit_never_does(given_schema: dict[str, Any], wanted: dict[str, Any], value: Any):
    # An empty list fits lists of anything; that two kinds of lists do not fit is said nevertheless.
    if fits(given_schema, wanted)[0] == "impossible" and "[]" not in repr(value) and valid(given_schema, value):
        assert not valid(wanted, value)


@given(SCHEMAS, VALUES)
def test_a_schema_that_a_value_fits_also_fits_itself(schema: dict[str, Any], value: Any):
    if valid(schema, value):
        assert fits(schema, schema)[0] != "impossible"


PAPER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "authors": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "score": {"type": ["number", "null"]},
        "more": {"$ref": "#/$defs/more"},
    },
    "additionalProperties": False,
    "$defs": {"more": {"type": "object", "properties": {"again": {"$ref": "#/$defs/more"}, "n": {"type": "integer"}}}},
}


@pytest.mark.req("ALG-14", "ALG-56")
@pytest.mark.parametrize(
    ("path", "verdict", "types"),
    [
        ("$", "fine", {"object"}),
        ("$.title", "fine", {"string"}),
        ("$.nonexistent", "impossible", None),
        ("$.title.more", "impossible", None),
        ("$.title[0]", "impossible", None),
        ("$[0]", "impossible", None),
        ("$.authors[0].name", "fine", {"string"}),
        ("$.authors[*].name", "fine", {"array"}),
        ("$.authors[0].nam", "perhaps", None),
        ("$.authors.name", "impossible", None),
        ("$.score", "fine", {"number", "null"}),
        ("$.more.again.again.n", "fine", {"integer"}),
        ("$.authors[:2]", "fine", {"array"}),
    ],
)
def test_what_a_schema_has_at_a_path(path: str, verdict: str, types: set[str] | None):
    found = look(PAPER, compile_path(path))
    assert found.verdict == verdict
    if types is not None:
        assert types_of(found.schema) == types


def test_a_field_that_was_mistyped_is_guessed():
    assert look(PAPER, compile_path("$.tilte")).suggestion == "title"
    assert look(PAPER, compile_path("$.authors[0].nam")).suggestion == "name"


@pytest.mark.parametrize(
    ("given_schema", "wanted", "verdict"),
    [
        ({}, {"type": "string"}, "fine"),
        ({"type": "string"}, {}, "fine"),
        ({"type": "integer"}, {"type": "number"}, "fine"),
        ({"type": "number"}, {"type": "integer"}, "perhaps"),
        ({"type": "string"}, {"type": "number"}, "impossible"),
        ({"type": ["string", "null"]}, {"type": "string"}, "perhaps"),
        ({"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "number"}}, "impossible"),
        (object_of({"a": {"type": "string"}}), {"type": "object", "required": ["b"]}, "impossible"),
        (object_of({"a": {"type": "string"}}), object_of({"a": {"type": "number"}}), "impossible"),
        ({"type": "object", "properties": {"a": {}}}, {"type": "object", "required": ["b"]}, "perhaps"),
        ({"type": "object", "properties": {"a": {"type": "string"}}},
         {"type": "object", "properties": {"a": {"type": "number"}}}, "perhaps"),
        (named_type("Paper[]"), named_type("Page[]"), "perhaps"),
        (named_type("Paper"), named_type("Paper"), "fine"),
        (named_type("string[]"), {"type": "array"}, "fine"),
    ],
)  # fmt: skip
def test_whether_a_value_of_one_schema_is_taken_where_another_is_wanted(given_schema: Any, wanted: Any, verdict: str):
    assert fits(given_schema, wanted)[0] == verdict


def test_schemas_are_put_together():
    assert items_of(array_of({"type": "string"})) == {"type": "string"}
    assert any_of([]) == any_of([{"type": "string"}, {}]) == ANY
    assert any_of([{"type": "string"}, {"type": "string"}]) == {"type": "string"}
    assert types_of(any_of([{"type": "string"}, {"type": "null"}])) == {"string", "null"}


@pytest.mark.parametrize("ref", ["#/$defs/nowhere", "https://example.com/schema", "#", 7])
def test_a_reference_that_leads_nowhere_says_nothing(ref: Any):
    assert deref({"$ref": ref, "$defs": {}}) == ({"$ref": ref, "$defs": {}} if ref == 7 else ANY)


def test_a_reference_in_a_circle_says_nothing():
    circle = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert deref(circle) == ANY
    assert look(circle, compile_path("$.a.b.c")).verdict == "fine"

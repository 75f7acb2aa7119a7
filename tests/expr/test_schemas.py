"""Schemas are checked before values are, fetch nothing, and cost no more than they may."""

from __future__ import annotations

import time
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import ExpressionInvalid, LimitExceeded, WeftError
from weft.expr.schemas import MAX_PROBLEMS, compile_schema

REFS: dict[str, dict[str, Any]] = {
    "Query:1.0.0": {"type": "object", "properties": {"q": {"$ref": "#Text"}}, "required": ["q"]},
    "Text:1.0.0": {"type": "string", "minLength": 2},
    "Dup:1.0.0": {"type": "string"},
    "Dup:2.0.0": {"type": "number"},
    "Plain": {"$ref": "#/$defs/x", "$defs": {"x": {"type": "integer"}}},
    "Tree:1.0.0": {"type": "object", "properties": {"next": {"$ref": "#Tree:1.0.0"}, "n": {"type": "integer"}}},
}


def refused(schema: Any, refs: dict[str, Any] | None = None) -> ExpressionInvalid:
    started = time.process_time()
    with pytest.raises(ExpressionInvalid) as caught:
        compile_schema(schema, refs)
    assert time.process_time() - started < 1.0
    return caught.value


def nested(depth: int, keyword: str, inner: dict[str, Any]) -> dict[str, Any]:
    for _ in range(depth):
        inner = {keyword: [inner, inner]}
    return inner


def doubled_by_reference(depth: int, keyword: str, last: dict[str, Any]) -> dict[str, Any]:
    definitions: dict[str, Any] = {"d0": last}
    for level in range(depth):
        definitions[f"d{level + 1}"] = {keyword: [{"$ref": f"#/$defs/d{level}"}] * 2}
    return {"$ref": f"#/$defs/d{depth}", "$defs": definitions}


def test_problems_say_where_what_and_by_which_keyword():
    check = compile_schema({"type": "object", "properties": {"a/b": {"items": {"type": "string"}}}, "required": ["c"]})
    found = {(one.pointer, one.keyword) for one in check.problems({"a/b": ["x", 1]})}
    assert found == {("/a~1b/1", "type"), ("", "required")}
    assert check.problems({"a/b": [], "c": 1}) == []
    assert check.accepts({"c": 1})
    assert not check.accepts([])


def test_problems_are_bounded_in_number_and_length():
    found = compile_schema({"items": {"type": "string"}}).problems([["x" * 10_000]] * 500)
    assert len(found) == MAX_PROBLEMS
    assert all(len(one.message) <= 200 for one in found)


def test_a_large_value_is_told_its_first_problem_in_no_time():
    check = compile_schema({"items": {"type": "string"}})
    started = time.process_time()
    assert [one.pointer for one in check.problems(["x", *range(500_000)])] == ["/1"]
    assert time.process_time() - started < 1.0


def test_a_schema_may_be_any_mapping():
    schema = MappingProxyType({"properties": MappingProxyType({"a": MappingProxyType({"type": "string"})})})
    assert not compile_schema(schema).accepts({"a": 1})


@pytest.mark.parametrize(
    "draft", ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"]
)
def test_the_draft_is_the_one_that_the_schema_names(draft: str):
    check = compile_schema({"$schema": draft, "items": [{"type": "string"}]} if "07" in draft else {"$schema": draft})
    assert check.accepts([1]) is ("07" not in draft)


@pytest.mark.parametrize("draft", ["http://127.0.0.1:9/mine", "file:///etc/passwd", "urn:x", 5, None, "", {}])
def test_bad_input_30_an_unknown_draft_is_refused_never_fetched(draft: Any):
    for schema in ({"$schema": draft}, {"items": {"$schema": draft}}, {"$ref": "#Bad"}):
        error = refused(schema, {"Bad": {"$schema": draft}})
        assert error.code == "InvalidSchema"
        assert "no such draft" in error.message


def test_true_is_not_one():
    assert not compile_schema({"const": 1}).accepts(True)
    assert compile_schema({"const": 1}).accepts(1.0)


@pytest.mark.parametrize("ref", ["#Query:1.0.0", "#Query", "#/schemas/Query:1.0.0"])
def test_references_lead_to_the_registry(ref: str):
    check = compile_schema({"properties": {"query": {"$ref": ref}}}, REFS)
    assert check.accepts({"query": {"q": "hi"}})
    (problem,) = check.problems({"query": {"q": "h"}})
    assert (problem.pointer, problem.keyword) == ("/query/q", "minLength")


def test_references_inside_a_document_stay_inside_it():
    assert compile_schema({"$ref": "#Plain"}, REFS).accepts(3)
    own = {
        "$id": "https://example.com/own",
        "$ref": "https://example.com/own#/$defs/x",
        "$defs": {"x": {"type": "string"}},
    }
    assert not compile_schema(own).accepts(3)
    anchored = {"$ref": "#Text", "$defs": {"x": {"$anchor": "Text", "type": "null"}}}
    assert compile_schema(anchored, REFS).accepts(None)
    spaced = {"$ref": "#/$defs/a%20b~1c", "$defs": {"a b/c": {"type": "null"}}}
    assert not compile_schema(spaced).accepts(1)


def test_a_recursive_schema_checks_every_level():
    check = compile_schema({"$ref": "#Tree:1.0.0"}, REFS)
    value: dict[str, Any] = {"n": "no"}
    for _ in range(60):
        value = {"next": value}
    assert [one.pointer for one in check.problems(value)] == ["/next" * 60 + "/n"]


def test_a_name_that_is_a_keyword_is_only_a_name():
    check = compile_schema({"properties": {"$ref": {"type": "string"}, "anyOf": {"const": {"$ref": "http://x/y"}}}})
    assert not check.accepts({"$ref": 1})
    assert check.accepts({"anyOf": {"$ref": "http://x/y"}})


@pytest.mark.parametrize(
    "ref",
    ["http://example.com/x", "https://example.com/x.json#/a", "file:///etc/passwd", "other.json", "urn:x", "//host/x"],
)
def test_bad_input_30_a_remote_reference_is_refused_never_fetched(ref: str):
    assert refused({"properties": {"a": {"$ref": ref}}}).code == "RemoteRef"
    assert refused({"$ref": "#Bad"}, {"Bad": {"allOf": [{"$ref": ref}]}}).code == "RemoteRef"


@pytest.mark.parametrize(
    ("ref", "code", "meant"),
    [
        ("#Quary:1.0.0", "UnknownRef", "#Query:1.0.0"),
        ("#Query:9.9.9", "UnknownRef", "#Query:1.0.0"),
        ("#Dup", "AmbiguousRef", "#Dup:2.0.0"),
        ("#/$defs/nope", "UnknownRef", None),
        ("#/properties", "UnknownRef", None),
    ],
)
def test_bad_input_30_a_reference_that_leads_nowhere_is_refused(ref: str, code: str, meant: str | None):
    error = refused({"properties": {"a": {"$ref": ref}}}, REFS)
    assert error.code == code
    assert error.suggestion == meant
    assert "#/properties/a" in error.message


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"$ref": "#A"},
        {"anyOf": [{"type": "null"}, {"$ref": "#"}]},
        {"properties": {"x": {"not": {"$ref": "#/properties/x"}}}},
    ],
)
def test_bad_input_30_a_circle_of_references_is_refused(schema: dict[str, Any]):
    assert refused(schema, {"A": {"$ref": "#B"}, "B": {"$ref": "#A"}}).code == "RefLoop"


@pytest.mark.parametrize(
    ("schema", "pointer", "meant"),
    [
        ({"type": "strng"}, "/type", "string"),
        ({"properties": {"a": {"type": ["string", "nul"]}}}, "/properties/a/type", "null"),
        ({"required": "a"}, "/required", None),
        ({"properties": []}, "/properties", None),
        ({"items": 5}, "/items", None),
        ({"minLength": -1}, "/minLength", None),
        ({"$defs": {"x": {"enum": 5}}}, "/$defs/x/enum", None),
        ({"type": 5}, "/type", None),
        ({"$ref": 5}, "/$ref", None),
        ({"properties": {"a": {"$id": "http://x/y"}}}, "/properties/a", None),
    ],
)
def test_bad_input_31_an_invalid_schema_is_refused_with_its_place(schema: Any, pointer: str, meant: str | None):
    error = refused(schema)
    assert (error.code, error.suggestion) == ("InvalidSchema", meant)
    assert f"#{pointer}:" in error.message


def test_bad_input_31_an_invalid_schema_behind_a_reference_is_refused_by_name():
    error = refused({"$ref": "#Bad:1.0.0"}, {"Bad:1.0.0": {"type": "strng"}})
    assert error.code == "InvalidSchema"
    assert "Bad:1.0.0#/type" in error.message


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
@pytest.mark.parametrize("build", [nested, doubled_by_reference])
def test_bad_input_32_nested_alternatives_that_multiply_are_refused(build: Any, keyword: str):
    assert refused(build(14, keyword, {"type": "integer"})).code == "SchemaTooComplex"
    assert not compile_schema(build(7, keyword, {"type": "integer"})).accepts("x")


def test_bad_input_32_alternatives_that_multiply_from_level_to_level_are_refused():
    definitions: dict[str, Any] = {"d0": {"type": "integer"}}
    for level in range(4):
        below = {"properties": {"a": {"$ref": f"#/$defs/d{level}"}}}
        definitions[f"d{level + 1}"] = {"anyOf": [below] * 20}
    assert refused({"$ref": "#/$defs/d4", "$defs": definitions}).code == "SchemaTooComplex"


@pytest.mark.parametrize("keyword", ["not", "items", "additionalProperties", "if"])
def test_bad_input_32_a_deep_schema_is_refused(keyword: str):
    schema: dict[str, Any] = {}
    for _ in range(500):
        schema = {keyword: schema}
    assert refused(schema).code == "SchemaTooComplex"


def test_bad_input_32_a_schema_of_many_subschemas_is_refused():
    many = {"properties": {f"p{n}": {"type": "string"} for n in range(20_000)}}
    assert refused(many).code == "SchemaTooComplex"
    split: dict[str, Any] = {f"S{n}": {"properties": {f"p{m}": {} for m in range(1000)}} for n in range(6)}
    assert refused({"allOf": [{"$ref": f"#S{n}"} for n in range(6)]}, split).code == "SchemaTooComplex"


def test_bad_input_32_a_long_chain_of_references_is_refused():
    definitions = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(1000)} | {"d1000": {}}
    assert refused({"$ref": "#/$defs/d0", "$defs": definitions}).code == "SchemaTooComplex"
    below = {f"d{n}": {"items": {"$ref": f"#/$defs/d{n + 1}"}} for n in range(1000)} | {"d1000": {}}
    assert refused({"$ref": "#/$defs/d0", "$defs": below}).code == "SchemaTooComplex"


def test_a_deep_value_under_recursive_alternatives_is_refused_not_tried_for_ever():
    kind = {"type": "object", "properties": {"inner": {"$ref": "#"}}}
    check = compile_schema({"anyOf": [kind, kind]})
    value: Any = 5
    for _ in range(60):
        value = {"inner": value}
    started = time.process_time()
    with pytest.raises(LimitExceeded) as caught:
        check.problems(value)
    assert caught.value.code == "SchemaCost"
    shallow: Any = {"inner": {"inner": {"inner": 5}}}
    assert not check.accepts(shallow)
    assert check.problems(shallow)
    for _ in range(12):
        shallow = {"inner": shallow}
    assert [one.keyword for one in check.problems(shallow)] == ["anyOf"]
    assert time.process_time() - started < 1.0


def test_a_recursive_schema_without_shared_alternatives_takes_values_of_any_depth():
    schema = {
        "anyOf": [
            {"type": "null"},
            {"type": "array", "items": {"$ref": "#"}},
            {"additionalProperties": {"$ref": "#"}, "type": "object"},
        ]
    }
    check = compile_schema(schema)
    value: Any = None
    for depth in range(60):
        value = [value] if depth % 2 else {"a": value}
    assert check.accepts(value)


@pytest.mark.parametrize("schema", [{"pattern": "^(a+)+$"}, {"patternProperties": {"^(a+)+$": False}}])
def test_bad_input_33_a_pattern_that_hangs_elsewhere_takes_linear_time_here(schema: dict[str, Any]):
    check = compile_schema(schema)
    text = "a" * 100_000 + "!"
    started = time.process_time()
    check.accepts(text)
    check.accepts({text: 1})
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize("pattern", ["(?=a)b", "(?!a)b", "(?<=a)b", "(?<!a)b", r"(a)\1"])
def test_bad_input_33_a_pattern_that_needs_backtracking_is_refused(pattern: str):
    assert refused({"items": {"pattern": pattern}}).code == "RegexNotAllowed"
    assert refused({"patternProperties": {pattern: {}}}).code == "RegexNotAllowed"


def test_bad_input_33_a_pattern_that_is_no_regular_expression_is_an_invalid_schema():
    assert refused({"pattern": "["}).code == "InvalidSchema"
    assert refused({"pattern": "((a{0,900}){0,900}){0,900}"}).code == "InvalidSchema"


def test_too_many_patterns_are_refused():
    assert refused({"anyOf": [{"pattern": f"a{n}"} for n in range(600)]}).code == "SchemaTooComplex"
    letters = {f"p{n}": {"pattern": rf"^\p{{L}}{{1,{90 + n}}}$"} for n in range(40)}
    with pytest.raises(ExpressionInvalid, match="large patterns"):
        compile_schema({"properties": letters})
    assert compile_schema({"pattern": letters["p9"]["pattern"]}).accepts("né")


@pytest.mark.parametrize("value", ["\ud800", {"a": object()}, {1: 2}])
def test_a_value_that_is_not_json_is_a_problem_not_a_crash(value: Any):
    check = compile_schema({"type": "string", "properties": {"a": {"type": "string"}}})
    assert not check.accepts(value)
    assert check.problems(value)


@pytest.mark.parametrize("schema", [{1: 2}, {"const": object()}, {"properties": {1: {}}}, {"enum": ["\ud800"]}])
def test_a_schema_that_is_not_json_is_refused(schema: Any):
    assert refused(schema).code == "InvalidSchema"


SCHEMAS = st.recursive(
    st.sampled_from(
        [{}, True, False, {"type": "string"}, {"$ref": "#"}, {"$ref": "#/$defs/a"}, {"$ref": "#A"}, 5, "x", []]
    ),
    lambda inner: st.dictionaries(
        st.sampled_from(
            ["anyOf", "properties", "items", "not", "$defs", "type", "$id", "$anchor", "pattern", "dependencies"]
        ),
        inner | st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "type"]), inner, max_size=2),
        max_size=3,
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["anyOf", "items", "$defs", "properties"]), SCHEMAS | st.lists(SCHEMAS), max_size=3)
)
def test_any_json_compiles_or_raises_an_error_of_weft(schema: dict[str, Any]):
    with suppress(WeftError):
        compile_schema(schema, {"A": {"items": {"$ref": "#A"}}}).problems({"a": ["x"]})

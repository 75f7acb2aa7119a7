"""The check of arguments: what it takes, what it refuses, and what a model is told of all that is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.groups.calls import Call, calls
from tests.groups.strategies import DEFINITIONS, Sample, samples, schemas, values
from tests.strategies import unhurried
from weft.errors import ExecutionFailed, Loc
from weft.expr.schemas import SchemaProblem, compile_schema
from weft.groups.action import Action, is_closed
from weft.groups.execution.checking import arguments_check
from weft.groups.execution.misfits import field_name
from weft.groups.execution.resolving import resolve
from weft.groups.strategies.schema import input_schema
from weft.ir.groups import Detail
from weft.ports import Schema

CREATE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "email": {"type": "string", "format": "email", "description": "Where to write to"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "state": {"enum": ["open", "closed"]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "home": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]},
        "stops": {"type": "array", "items": {"$ref": "#/$defs/Point"}},
    },
    "required": ["email"],
    "$defs": DEFINITIONS,
}
COMMON = {"type": "object", "properties": {"workspace": {"type": "string"}}, "required": ["workspace"]}
SQUARE: dict[str, Any] = {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number"}}}
ROUND: dict[str, Any] = {"type": "object", "properties": {"kind": {"const": "round"}, "radius": {"type": "number"}}}


def refusal(schema: Schema, arguments: dict[str, Any], **more: Any) -> ExecutionFailed:
    check = arguments_check(Action(key="users.create", schema=schema), tool="platform", **more)
    with pytest.raises(ExecutionFailed) as caught:
        check(arguments)
    assert (caught.value.code, caught.value.origin) == ("InvalidArguments", "caller")
    return caught.value


def problems(schema: Schema, arguments: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return list((refusal(schema, arguments, **more).facts or {})["problems"])


def problem(form: Any, value: Any, **more: Any) -> dict[str, Any]:
    """Return the only problem of a value with the form of its field, without the field's name."""
    (found,) = problems({"type": "object", "properties": {"it": form}, **more}, {"it": value})
    return {name: one for name, one in found.items() if name != "field"}


def accepted(schema: Schema, arguments: dict[str, Any], common: Schema | None = None) -> bool:
    try:
        arguments_check(Action(key="users.create", schema=schema), common=common, tool="platform")(arguments)
    except ExecutionFailed:
        return False
    return True


@pytest.mark.req("GRP-24")
def test_arguments_that_fit_are_taken_and_left_as_they_are():
    arguments = {"email": "a@b.c", "age": 3, "home": None, "stops": [{"x": 1, "y": 2}]}
    check = arguments_check(Action(key="users.create", schema=CREATE), tool="platform")
    assert check(arguments) is None
    assert arguments == {"email": "a@b.c", "age": 3, "home": None, "stops": [{"x": 1, "y": 2}]}


@pytest.mark.req("GRP-25")
def test_all_that_is_wrong_is_told_at_once():
    arguments = {
        "emial": "a@b.c",
        "limit": 3,
        "age": "5",
        "state": "Open",
        "tags": ["a", 2],
        "home": {"x": "far"},
        "stops": [{"x": 1}, {"y": -1, "z": 0}],
    }
    error = refusal(CREATE, arguments, others={"limit": ["users.list", "users.search", "users.create"]})
    assert error.message.split("\n- ") == [
        "Invalid arguments for 'users.create' of 'platform':",
        "'emial' is no field of users.create; did you mean 'email'?",
        "'limit' is no field of users.create, it is for users.list, users.search",
        "'email' (Where to write to) is missing: a string (an e-mail address)",
        "'age' is \"5\"; expected an integer (from 0 to 150); send it without the quotes",
        '\'state\' is "Open"; expected one of "open", "closed"; did you mean \'open\'?',
        "'tags[1]' is 2; expected a string",
        "'home.x' is \"far\"; expected an integer",
        *(one for one in error.message.split("\n- ") if one.startswith("'stops")),
    ]
    assert sorted(one for one in error.message.split("\n- ") if one.startswith("'stops")) == [
        "'stops[1].x' is missing: an integer",
        "'stops[1].y' is -1; expected an integer (at least 0)",
        "'stops[1].z' is no field of 'stops[1]', which has x, y",
    ]
    assert error.hint == "users.create needs email and also takes age, state, tags, home, stops"


@pytest.mark.req("GRP-25")
def test_one_problem_is_one_sentence():
    assert refusal(CREATE, {"email": 1}).message == (
        "Invalid arguments for 'users.create' of 'platform': 'email' is 1; expected a string (an e-mail address)"
    )


@pytest.mark.req("GRP-25")
def test_machines_get_each_problem_as_facts():
    assert problems(CREATE, {"emial": "x", "state": None}) == [
        {"field": "emial", "sent": "x", "expected": "no such field", "suggestion": "email"},
        {"field": "email", "expected": "a string (an e-mail address)"},
        {"field": "state", "sent": None, "expected": 'one of "open", "closed"', "choices": ["open", "closed"]},
    ]


def test_no_more_than_twenty_problems_are_told():
    error = refusal(CREATE, {f"no{index}": 1 for index in range(30)})
    assert len((error.facts or {})["problems"]) == 20
    assert error.message.endswith("\n- and there is more")


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        ({"type": "integer", "exclusiveMinimum": 0}, 0, "an integer (more than 0)"),
        ({"type": "number", "maximum": 1}, 2, "a number (at most 1)"),
        ({"type": "integer", "multipleOf": 5}, 3, "an integer (a multiple of 5)"),
        ({"type": "string", "minLength": 2, "maxLength": 4}, "x", "a string (2 to 4 characters)"),
        ({"type": "string", "pattern": "^[a-z]+$"}, "1", "a string (that matches ^[a-z]+$)"),
        ({"type": "string", "format": "date"}, 3, "a string (a date such as 2026-01-31)"),
        ({"type": "string", "format": "odd"}, 3, "a string (in the format odd)"),
        ({"type": "boolean"}, "yes", "true or false"),
        ({"type": ["string", "null"]}, 3, "a string or null"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", "an integer or null"),
        ({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, "x", "an integer or true or false"),
        ({"const": "x"}, "y", '"x"'),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "x", None),
        ({"type": "array", "uniqueItems": True}, [1, 1], "a list (without duplicates)"),
        ({"type": "object", "properties": {"a": {}, "b": {}}}, 3, "an object (with a, b)"),
        ({"type": "object", "minProperties": 2}, {}, "an object (at least 2 fields)"),
        ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, 1, "a number (at least 3)"),
        ({"not": {"type": "string"}}, "x", "not a string"),
        (False, 1, "nothing, it must be left out"),
        ({"minimum": 3}, 1, "a number (at least 3)"),
    ],
)
def test_what_is_expected_is_told_in_words(form: Any, value: Any, expected: str | None):
    assert problem(form, value)["expected"] == (expected or "a list (without duplicates, each item a string)")


def test_references_are_followed_for_words_and_choices():
    definitions = {"State": {"enum": ["on", "off"]}, "Also": {"$ref": "#/$defs/State"}}
    found = problem({"$ref": "#/$defs/Also"}, "of", **{"$defs": definitions})
    assert found == {"sent": "of", "expected": 'one of "on", "off"', "choices": ["on", "off"], "suggestion": "off"}


def test_a_recursive_schema_names_the_place_deep_inside():
    tree = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
        "additionalProperties": False,
    }
    (found,) = problems(tree, {"kids": [{"n": 1}, {"kids": [{"n": "x"}]}]})
    assert found["field"] == "kids[1].kids[0].n"
    assert problems(tree, {"kids": [{"m": 1}]})[0]["field"] == "kids[0].m"


def test_of_alternatives_the_one_that_was_meant_is_explained():
    shapes = {"oneOf": [{**SQUARE, "required": ["kind", "side"]}, {**ROUND, "required": ["kind", "radius"]}]}
    schema = {"type": "object", "properties": {"shape": shapes}}
    assert [one["field"] for one in problems(schema, {"shape": {"kind": "round", "radius": "2"}})] == ["shape.radius"]
    assert [one["field"] for one in problems(schema, {"shape": 5})] == ["shape"]


def test_of_alternatives_that_are_told_apart_by_a_few_values_of_a_field_the_one_that_has_the_value_is_explained():
    large = {"properties": {"kind": {"enum": ["cow", "ox"]}, "tons": {"type": "number"}}}
    small = {"properties": {"kind": {"enum": ["cat", "rat"]}, "grams": {"type": "number"}}}
    schema = {"properties": {"pet": {"anyOf": [large, small]}}}
    assert [one["field"] for one in problems(schema, {"pet": {"kind": "rat", "tons": "x", "grams": "y"}})] == [
        "pet.grams"
    ]


@pytest.mark.req("GRP-25")
@pytest.mark.parametrize("nested", [False, True])
def test_a_wrong_tag_hears_the_tags_of_all_alternatives_and_the_nearest(nested: bool):
    refs = [{"$ref": "#/$defs/Square"}, {"$ref": "#/$defs/Round"}, {"properties": {"kind": {"const": "line"}}}]
    shapes: dict[str, Any] = {"oneOf": [refs[0], {"oneOf": refs[1:]}]} if nested else {"oneOf": refs}
    field = {"anyOf": [shapes, {"type": "null"}]}
    schema = {"properties": {"shape": field}, "$defs": {"Square": SQUARE, "Round": ROUND}}
    assert problems(schema, {"shape": {"kind": "rond", "radius": "wide"}}) == [
        {
            "field": "shape.kind",
            "sent": "rond",
            "expected": 'one of "square", "round", "line"',
            "choices": ["square", "round", "line"],
            "suggestion": "round",
        },
        {"field": "shape.radius", "sent": "wide", "expected": "a number"},
    ]
    assert [one["field"] for one in problems(schema, {"shape": {"kind": 5, "radius": "wide"}})] == ["shape.kind"]


@pytest.mark.req("GRP-25")
def test_a_tag_of_the_whole_that_is_wrong_or_missing_is_told_with_what_is_wrong_in_each_alternative():
    needs, closed = {"required": ["kind"]}, {"additionalProperties": False}
    size = {"type": "integer"}
    branches: list[dict[str, Any]] = [
        {**needs, **closed, "properties": {**one["properties"], "size": size}} for one in (SQUARE, ROUND)
    ]
    schema = {"type": "object", "oneOf": branches}
    wrong = refusal(schema, {"kind": "x", "size": "big", "side": 1, "odd": 1}).message.split("\n- ")
    assert wrong[1] == '\'kind\' is "x"; expected one of "square", "round"'
    assert sorted(wrong[2:]) == [
        "'odd' is no field of what was sent, which has kind, side, size",
        "'size' is \"big\"; expected an integer",
    ]
    assert refusal(schema, {"side": 1}).message.endswith('\'kind\' is missing: one of "square", "round"')


def test_what_was_sent_as_a_secret_tag_is_not_repeated():
    branches = [{"properties": {"token": {"const": one}}} for one in ("alpha", "beta")]
    error = refusal({"properties": {"it": {"oneOf": branches}}}, {"it": {"token": "alpah-1"}})
    assert "alpah-1" not in error.message + str(error.facts)


@pytest.mark.req("GRP-25")
def test_when_the_fields_fit_no_alternative_those_that_are_wrong_in_the_best_one_are_named():
    schema = {"type": "object", "anyOf": [{**SQUARE, "required": ["side"]}, {**ROUND, "required": ["radius", "kind"]}]}
    error = refusal(schema, {"colour": "red"})
    assert error.message.split("\n- ")[1:] == [
        "the fields together are not as expected: an object (with side) or an object (with radius, kind)",
        "'side' is missing: a number",
    ]


@pytest.mark.req("GRP-25")
def test_an_unknown_field_is_refused_though_the_schema_is_silent_about_more():
    assert problems({"type": "object", "properties": {"a": {}}}, {"b": 1})[0]["field"] == "b"
    assert problems({}, {"b": 1})[0]["field"] == "b"
    assert refusal({}, {"b": 1}).hint == "users.create takes no fields"


@pytest.mark.req("GRP-25")
@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        (
            {"oneOf": [{**SQUARE, "required": ["side"]}, {**ROUND, "required": ["radius"]}]},
            "users.create takes kind, side, radius",
        ),
        ({"$ref": "#/$defs/It", "$defs": {"It": {"properties": {"a": {"type": "null"}}}}}, "users.create takes a"),
        ({"patternProperties": {"^a": {"type": "null"}}}, None),
        ({"additionalProperties": {"type": "null"}}, None),
        ({"properties": {"a": {"type": "null"}, "x": False}}, "users.create takes a"),
    ],
)
def test_the_hint_names_the_fields_wherever_a_schema_has_them_or_says_nothing(schema: dict[str, Any], hint: str | None):
    assert refusal(schema, {"a": 1}).hint == hint


@pytest.mark.parametrize(
    "more", [{"additionalProperties": True}, {"additionalProperties": {"type": "integer"}}, {"patternProperties": {}}]
)
def test_a_schema_that_takes_more_gets_more(more: dict[str, Any]):
    assert accepted({"type": "object", "properties": {"a": {}}, **more}, {"b": 1})


@pytest.mark.req("GRP-24")
@pytest.mark.parametrize("definitions", [{}, {"$defs": DEFINITIONS}])
def test_common_fields_are_taken_with_those_of_the_action(definitions: dict[str, Any]):
    own = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False, **definitions}
    assert accepted(own, {"workspace": "w", "a": 1}, COMMON)
    assert [one["field"] for one in problems(own, {"a": 1}, common=COMMON)] == ["workspace"]
    assert [one["field"] for one in problems(own, {"workspace": 1, "a": "x", "b": 1}, common=COMMON)] == [
        "b",
        "workspace",
        "a",
    ]
    assert refusal(own, {}, common=COMMON).hint == "users.create needs workspace and also takes a"


def test_definitions_of_the_same_name_do_not_meet():
    def of(kind: str, name: str) -> dict[str, Any]:
        return {"type": "object", "properties": {name: {"$ref": "#/$defs/Id"}}, "$defs": {"Id": {"type": kind}}}

    assert accepted(of("integer", "a"), {"a": 1, "b": "x"}, of("string", "b"))
    assert not accepted(of("integer", "a"), {"a": "x", "b": "x"}, of("string", "b"))


def test_what_an_open_action_takes_beside_common_fields_is_its_own():
    own = {"type": "object", "additionalProperties": {"type": "integer"}}
    assert accepted(own, {"workspace": "w", "b": 1}, COMMON)
    assert not accepted(own, {"workspace": "w", "b": "x"}, COMMON)


def test_common_fields_that_are_open_take_what_the_action_does_not():
    own: dict[str, Any] = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    assert accepted(own, {"workspace": "w", "a": 1, "b": 1}, {**COMMON, "additionalProperties": True})


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "https://example.com/else"}, "b": {"description": "The b"}}, "required": ["b"]},
        {"properties": {"a": {"pattern": "(?=x)"}, "b": {"description": "The b"}}, "required": ["b"]},
        {"properties": {"a": {"type": "strnig"}, "b": {"description": "The b"}}, "required": ["b"]},
    ],
)
def test_of_a_schema_that_cannot_be_read_unknown_and_missing_fields_are_still_told(schema: dict[str, Any]):
    assert accepted(schema, {"a": object(), "b": 1})
    assert refusal(schema, {"a": 1, "c": 2}).message.split("\n- ")[1:] == [
        "'c' is no field of users.create",
        "'b' (The b) is missing: a value",
    ]


@pytest.mark.parametrize("form", [{"type": "integer", "writeOnly": True}, {"type": "integer", "x-secret": True}])
def test_what_a_schema_marks_as_secret_is_not_repeated(form: dict[str, Any]):
    error = refusal({"properties": {"pin": form, "at": {"properties": {"pin": form}}}}, {"pin": "4711", "at": "x"})
    assert "4711" not in error.message + str(error.facts)
    nested = refusal({"properties": {"pin": form, "at": {"type": "string"}}}, {"at": {"pin": "4711"}})
    assert "4711" not in nested.message + str(nested.facts)


def test_what_is_secret_by_its_name_or_form_is_not_repeated():
    schema = {"properties": {"password": {"type": "integer"}, "note": {"type": "integer"}, "state": {"enum": ["a"]}}}
    token = "ghp_" + "a1" * 18
    sent = {"password": "hunter22", "note": {"apiKey": "k-99887766", "about": f"use {token}"}, "api_key": "k-1122"}
    error = refusal(schema, {**sent, "state": token})
    for secret in ("hunter22", "k-99887766", "k-1122", token):
        assert secret not in error.message + str(error.facts)
    assert '"[redacted]"; expected an integer' in error.message


def test_what_was_sent_under_a_mistyped_name_of_a_secret_is_not_repeated():
    pin = {"type": "integer", "writeOnly": True}
    at = {"type": "object", "properties": {"pin": pin}, "additionalProperties": False}
    schema = {"properties": {"pin": pin, "password": {}, "at": at, "note": {"type": "string"}}}
    wrong = {"pni": 4711, "pasword": "hunter22", "at": {"pinn": 4712}, "note": {"paswordd": "hunter23"}}
    error = refusal(schema, {**wrong, "acess_token": "t-9988"}, others={"access_token": ["log_in"]})
    for secret in ("4711", "hunter22", "4712", "hunter23", "t-9988"):
        assert secret not in error.message + str(error.facts)


def test_of_a_field_that_nobody_asked_for_little_is_repeated():
    found = problems({"properties": {"a": {}}}, {"b": "x" * 100, "c": {"d": {"e": 1}}})
    assert [one["sent"] for one in found] == ["x" * 40 + "...", {"d": "..."}]


def test_what_was_sent_is_shown_short():
    error = refusal({"properties": {"it": {"type": "integer"}}}, {"it": [{"a" * 50: ["x" * 5000] * 50}] * 500})
    assert len(error.message) < 300
    assert len(str(error.facts)) < 1000
    assert len(str(refusal({}, {"n" * 100_000: 1}).facts)) < 1000


def test_a_value_that_is_not_json_is_refused_without_a_traceback():
    assert "is not JSON" in refusal({"properties": {"it": {"type": "string"}}}, {"it": object()}).message


def test_an_invisible_field_name_does_not_break_the_lines():
    message = refusal({}, {"a\nIgnore all\u202e": 1, "b": 2}).message
    assert len(message.split("\n")) == 3
    assert "\u202e" not in message


@pytest.mark.req("GRP-24")
@unhurried
@given(schema=schemas(), arguments=st.dictionaries(st.sampled_from("abcdeu"), values, max_size=4))
def test_the_check_refuses_what_the_strict_schema_refuses_and_nothing_else(
    schema: dict[str, Any], arguments: dict[str, Any]
):
    strict = {**schema, "additionalProperties": False} if is_closed(schema) else schema
    assert accepted(schema, arguments) == compile_schema(strict).accepts(arguments)


@pytest.mark.req("GRP-24")
@unhurried
@given(call=calls())
def test_a_call_that_is_valid_for_its_action_is_taken(call: Call):
    key, action, own = resolve({one.key: one for one in call.actions}, call.arguments, tool="platform")
    assert key == call.action
    arguments_check(action, common=call.common, tool="platform")(own)


def _taken(sample: Sample) -> None:
    _, action, own = resolve({one.key: one for one in sample.actions}, sample.arguments, tool="platform")
    arguments_check(action, common=sample.common, tool="platform")(own)


def _places(found: Iterable[SchemaProblem]) -> Iterable[str]:
    for one in found:
        locs: list[Loc] = [(*one.loc, name) for name in one.names] or [one.loc]
        yield from map(field_name, locs)


def _is_within(one: str, other: str) -> bool:
    return one == other or bool(re.match(rf"{re.escape(other)}[.\[]", one))


@st.composite
def spoilt(draw: st.DrawFn) -> Sample:
    """Return a valid call with other values under some names, or without one."""
    call = draw(calls())
    others = draw(st.dictionaries(st.sampled_from(("a", "b", "c", "id", "t", "zz")), values, max_size=2))
    arguments = {**call.arguments, **others}
    gone = draw(st.sets(st.sampled_from(sorted(arguments)), max_size=1))
    return Sample(call.actions, call.common, {name: one for name, one in arguments.items() if name not in gone})


@pytest.mark.req("GRP-25")
@unhurried
@given(sample=samples() | spoilt(), detail=st.sampled_from(("full", "brief")))
def test_what_the_schema_of_a_group_rejects_is_refused_with_the_right_field_named(sample: Sample, detail: Detail):
    schema = input_schema(sample.actions, common=sample.common, conflicts="union", detail=detail)
    wrong = list(_places(compile_schema(schema).problems(sample.arguments)))
    if not wrong:
        return
    with pytest.raises(ExecutionFailed) as caught:
        _taken(sample)
    facts = caught.value.facts or {}
    if caught.value.code != "InvalidArguments":
        assert facts["field"] in wrong
        return
    named = [one["field"] for one in facts["problems"]]
    for place in wrong:
        assert any(_is_within(one, place) or _is_within(place, one) for one in named), (place, named)

"""The schema of a grouped tool: its fields, whose they are, and what becomes of those about which actions disagree."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.shared.inbound import find_invalid_x_mcp_header

from weft.errors import DocumentInvalid
from weft.expr.schemas import compile_schema
from weft.groups.action import Action
from weft.groups.strategies.fields import field_users
from weft.groups.strategies.schema import input_schema

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "integer"}
ODD: list[dict[str, Any]] = [
    {"properties": None, "required": "abc"},
    {"properties": {"a": None, "b": True, "c": False, "": 3}, "required": [1, None]},
    {"properties": {"a": {"items": None, "properties": [1], "allOf": {}, "type": [["string"], {}]}}},
    {"$schema": 7, "$id": 3, "$ref": 5, "$defs": [1], "anyOf": None, "allOf": [None, 3]},
    {"properties": {"a": {"description": 5, "title": [], "examples": "x", "$ref": "#%zz", "$id": 9}}},
    {"$ref": "#/properties/a", "properties": {"a": {"$ref": "#/properties/a"}}},
    {"properties": {"a": {"$schema": "https://example.com/", "enum": [], "anyOf": []}}},
]


def takes(*required: str, more: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(required), **(more or {})}


def action(key: str, *required: str, more: dict[str, Any] | None = None, **fields: Any) -> Action:
    return Action(key=key, schema=takes(*required, more=more, **fields))


def field(name: str, *actions: Action, **options: Any) -> dict[str, Any]:
    return input_schema(actions, **options)["properties"][name]


def problems(*actions: Action, **options: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(DocumentInvalid) as failed:
        input_schema(actions, **options)
    return [(one.code, one.pointer, f"{one.message}; {one.expected}") for one in failed.value.problems]


@pytest.mark.req("GRP-8")
def test_the_discriminator_has_all_keys_in_their_order_and_is_required():
    schema = input_schema([action("users.create"), action("list")], discriminator="do")
    assert list(schema["properties"]) == ["do"]
    assert schema["properties"]["do"]["enum"] == ["users.create", "list"]
    assert schema["required"] == ["do"]


def test_fields_stand_in_order_of_first_use_after_the_common_ones_and_before_those_of_weft():
    schema = input_schema(
        [action("one", b=TEXT, a=TEXT), action("two", a=TEXT, c=TEXT)],
        common=takes(z=TEXT),
        extra={"_select": {"type": "array"}},
    )
    assert list(schema["properties"]) == ["action", "z", "b", "a", "c", "_select"]
    assert schema["properties"]["_select"] == {"type": "array"}


@pytest.mark.req("GRP-9")
def test_a_required_common_field_is_always_required_and_an_optional_one_has_no_tier():
    schema = input_schema(
        [action("list")], common=takes("tenant", tenant={**TEXT, "description": "Whose."}, trace=TEXT)
    )
    assert schema["properties"]["tenant"]["description"] == "Whose. (always required)"
    assert schema["properties"]["trace"] == TEXT
    assert schema["required"] == ["action", "tenant"]


@pytest.mark.req("GRP-10", "GRP-11", "GRP-12", "GRP-13")
@pytest.mark.parametrize(
    ("needing", "taking", "tier"),
    [
        (["create", "update"], [], "Required for: create, update"),
        (["create"], ["update"], "Required for: create. For: update"),
        ([], ["list", "search"], "For: list, search"),
    ],
)
@pytest.mark.parametrize(
    ("own", "told"), [("", ""), ("Its name.", "Its name. "), ("No stop", "No stop "), (" A\n", "A ")]
)
def test_the_tier_follows_the_description_of_the_field(
    needing: list[str], taking: list[str], tier: str, own: str, told: str
) -> None:
    said = {**TEXT, "description": own} if own else TEXT
    actions = [action(key, "name", name=said) for key in needing] + [action(key, name=said) for key in taking]
    assert field("name", *actions) == {**TEXT, "description": told + tier}


def test_a_common_field_that_an_action_names_too_stays_one_and_says_who_needs_it():
    common = takes(tenant={**TEXT, "description": "Whose."})
    found = field("tenant", action("list"), action("create", "tenant", tenant=TEXT), common=common)
    assert found == {**TEXT, "description": "Whose. Required for: create"}


def test_different_descriptions_are_all_told_with_their_actions():
    found = field(
        "name",
        action("create", "name", name={**TEXT, "description": "The new name"}),
        action("update", name={**TEXT, "description": "Another name."}),
        action("rename", "name", name={**TEXT, "description": "The new name"}),
        action("find", name=TEXT),
    )
    assert found["description"] == (
        "create, rename: The new name. update: Another name. Required for: create, rename. For: update, find"
    )


def test_a_default_of_all_stays_and_different_ones_are_told():
    ten, twenty = {**NUMBER, "default": 10}, {**NUMBER, "default": 20}
    assert field("limit", action("a", limit=ten), action("b", limit=ten))["default"] == 10
    several = field("limit", action("a", limit=ten), action("b", limit=twenty), action("c", limit=NUMBER))
    assert several == {**NUMBER, "description": "Default: 10 (a), 20 (b). For: a, b, c"}
    assert "default" not in field("on", action("a", on={"default": True}), action("b", on={"default": 1}))


def test_titles_that_say_the_name_again_are_left_out_and_examples_are_gathered():
    one = {**TEXT, "title": "User Id", "examples": ["a"]}
    other = {**TEXT, "title": "user_id", "examples": ["b", "a"]}
    found = field("user_id", action("x", user_id=one), action("y", user_id=other))
    assert found == {**TEXT, "description": "For: x, y", "examples": ["a", "b"]}


def test_fields_with_different_forms_are_an_error_that_says_what_each_is_and_what_to_do():
    clash = [action("create", id=NUMBER, n=TEXT), action("list", id=TEXT, n=NUMBER), action("find", id=TEXT)]
    first, second = problems(*clash)
    assert first[:2] == ("FieldConflict", "/properties/id")
    assert "'id' has several forms: integer (create), string (list, find)" in first[2]
    assert all(way in first[2] for way in ("rename", "common", 'conflicts="union"'))
    assert second[1] == "/properties/n"


def test_a_union_takes_each_form_and_says_whose_it_is():
    found = field("id", action("create", "id", id=NUMBER), action("list", id=TEXT), conflicts="union")
    assert found == {
        "anyOf": [NUMBER, TEXT],
        "description": "Forms: integer (create), string (list). Required for: create. For: list",
    }


def test_a_number_and_an_integer_are_two_forms_and_so_are_two_kinds_of_text():
    both = field("n", action("a", n=NUMBER), action("b", n={"type": "number"}), conflicts="union")
    assert both["anyOf"] == [NUMBER, {"type": "number"}]
    texts = field("n", action("a", n={**TEXT, "maxLength": 3}), action("b", n=TEXT), conflicts="union")
    assert texts["description"] == "Forms: string with maxLength 3 (a), string (b). For: a, b"


@pytest.mark.parametrize("conflicts", ["error", "union"])
def test_a_field_that_has_the_name_of_another_thing_is_always_an_error(conflicts: Any):
    assert "discriminator" in problems(action("a", action=TEXT), conflicts=conflicts)[0][2]
    assert problems(action("a", do=TEXT), discriminator="do", conflicts=conflicts)[0][:2] == (
        "ReservedField",
        "/properties/do",
    )
    assert "weft's own" in problems(action("a", of=TEXT), extra={"of": TEXT}, conflicts=conflicts)[0][2]
    (common,) = problems(action("a", t=NUMBER), common=takes(t=TEXT), conflicts=conflicts)
    assert common[0] == "FieldConflict"
    assert "'t' is integer (a), and the common field of that name string" in common[2]


def test_a_form_beside_the_common_one_is_told_with_the_keywords_in_which_they_differ():
    common = takes(code={**TEXT, "pattern": "^a+$", "description": "A code."})
    (found,) = problems(action("a", code=TEXT), action("b", code={**TEXT, "maxLength": 3}), common=common)
    assert (
        "'code' is string (a), string with maxLength 3 (b), and the common field of that name string with " in found[2]
    )
    assert 'string with pattern "^a+$"' in found[2]


@pytest.mark.parametrize("detail", ["full", "brief"])
def test_what_leads_to_definitions_where_they_stood_before_is_left_out(detail: Any):
    defs = {name: takes(kind={"const": name}) for name in ("cat", "dog")}
    mapping = {name: f"#/definitions/{name}" for name in defs}
    pet = {"oneOf": [{"$ref": one} for one in mapping.values()], "discriminator": {"mapping": mapping}}
    schema = input_schema([action("a", pet=pet, discriminator=TEXT, more={"definitions": defs})], detail=detail)
    assert "#/definitions" not in json.dumps(schema)
    assert schema["properties"]["discriminator"]["type"] == "string"


def test_equal_definitions_are_shared_and_unequal_ones_of_one_name_get_a_number():
    item = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Item"}}}
    older = {"type": "object", "properties": {"next": {"$ref": "#/definitions/Item"}}}
    schema = input_schema(
        [
            action("a", x={"$ref": "#/$defs/Item"}, more={"$defs": {"Item": item, "Unused": TEXT}}),
            action("b", x={"$ref": "#/definitions/Item"}, more={"definitions": {"Item": older}}),
            action("c", y={"$ref": "#/$defs/Item"}, more={"$defs": {"Item": NUMBER}}),
        ]
    )
    assert schema["$defs"] == {"Item": item, "Item2": NUMBER}
    assert schema["properties"]["x"]["$ref"] == "#/$defs/Item"
    assert schema["properties"]["y"]["$ref"] == "#/$defs/Item2"


def test_definitions_that_only_differ_in_what_they_refer_to_are_kept_apart():
    def of(inner: dict[str, Any]) -> dict[str, Any]:
        return {"$defs": {"Outer": {"type": "array", "items": {"$ref": "#/$defs/Inner"}}, "Inner": inner}}

    a = action("a", x={"$ref": "#/$defs/Outer"}, more=of(TEXT))
    b = action("b", y={"$ref": "#/$defs/Outer"}, more=of(NUMBER))
    check = compile_schema(input_schema([a, b]))
    assert check.accepts({"action": "a", "x": ["text"]})
    assert check.accepts({"action": "b", "y": [1]})
    assert not check.accepts({"action": "b", "y": ["text"]})


@pytest.mark.parametrize(
    ("ref", "more"),
    [
        ("#", {}),
        ("#/properties/name", {}),
        ("#/$defs/A%20b~1c/items", {"$defs": {"A b/c": {"items": TEXT}}}),
        ("#here", {"$defs": {"A": {**TEXT, "$anchor": "here"}}}),
        ("https://example.com/s#/properties/name", {"$id": "https://example.com/s"}),
    ],
)
def test_a_reference_into_the_schema_of_the_action_still_leads_to_the_same(ref: str, more: dict[str, Any]):
    schema = input_schema([action("users.make", name={**TEXT, "maxLength": 3}, it={"$ref": ref}, more=more)])
    good: Any = {"it": {"name": "x"}} if ref == "#" else "abc"
    bad: Any = {"it": {"name": 1}} if ref == "#" else 7
    assert compile_schema(schema).accepts({"action": "users.make", "it": good})
    assert not compile_schema(schema).accepts({"action": "users.make", "it": bad})


@pytest.mark.parametrize(
    "field_schema",
    [
        {"$ref": "https://example.com/other"},
        {"$ref": "#/$defs/Missing"},
        {"not": {"$ref": "https://example.com/other"}},
        {"oneOf": [TEXT, NUMBER, {"$ref": "https://example.com/other"}]},
        {"if": {"$ref": "https://example.com/other"}, "then": TEXT},
        {"allOf": [{"$ref": "other.json"}], "unevaluatedProperties": False},
        {"$id": "https://example.com/inner", "$ref": "#/$defs/X"},
    ],
)
def test_what_cannot_be_known_is_left_open(field_schema: dict[str, Any]):
    check = compile_schema(input_schema([action("get", far=field_schema)]))
    for value in ("text", 1, None, {"a": 1}):
        assert check.accepts({"action": "get", "far": value})


@pytest.mark.parametrize(
    ("odd", "kept"),
    [
        ({"type": "strin"}, {}),
        ({"type": "string", "pattern": "(?=a)b"}, {"type": "string"}),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, {"type": "integer"}),
    ],
)
def test_a_field_that_no_check_can_take_is_told_briefly_and_the_others_stay(odd: dict[str, Any], kept: dict[str, Any]):
    schema = input_schema([action("get", odd={**odd, "description": "Odd."}, fine={**TEXT, "maxLength": 3})])
    assert schema["properties"]["odd"] == {**kept, "description": "Odd. For: get"}
    assert schema["properties"]["fine"]["maxLength"] == 3
    compile_schema(schema)


@pytest.mark.parametrize("detail", ["full", "brief"])
def test_a_header_of_the_requests_of_one_tool_is_none_of_the_group(detail: Any):
    """Clients refuse a tool that asks for one header twice, or in an alternative."""
    region = {**TEXT, "x-mcp-header": "Region"}
    within = {"type": "object", "properties": {"zone": {**TEXT, "x-mcp-header": "Zone"}}}
    actions = [
        action("one", region=region, at=within),
        action("two", area=region, at=within),
        action("three", region=TEXT, area=NUMBER),
    ]
    schema = input_schema(actions, conflicts="union", detail=detail)
    assert "x-mcp-header" not in json.dumps(schema)
    assert find_invalid_x_mcp_header(schema) is None
    assert schema["properties"]["region"]["type"] == "string"


@pytest.mark.parametrize("schema", ODD)
@pytest.mark.parametrize("detail", ["full", "brief"])
def test_what_is_no_schema_at_all_does_no_harm_to_the_other_actions(schema: Any, detail: Any):
    actions = [Action(key="odd", schema=schema), action("get", fine=TEXT)]
    made = input_schema(actions, detail=detail)
    assert compile_schema(made).accepts({"action": "get", "fine": "text"})
    assert made["properties"]["action"]["enum"] == ["odd", "get"]


def test_older_drafts_are_written_in_the_words_of_the_newest():
    old = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"Name": {**TEXT, "maxLength": 3}},
    }
    pair = {"type": "array", "items": [TEXT, NUMBER], "additionalItems": False}
    ref = {"$ref": "#/definitions/Name", "minLength": 2, "description": "Short."}
    schema = input_schema([action("get", pair=pair, name=ref, more=old)])
    assert schema["properties"]["pair"]["prefixItems"] == [TEXT, NUMBER]
    assert schema["properties"]["pair"]["items"] is False
    assert schema["properties"]["name"] == {"$ref": "#/$defs/Name", "description": "Short. For: get"}


@pytest.mark.parametrize(
    ("more", "common", "closed"),
    [
        ({}, None, True),
        ({"additionalProperties": False}, takes(t=TEXT), True),
        ({"additionalProperties": True}, None, False),
        ({"allOf": [{"required": ["x"]}]}, None, False),
        ({}, takes(more={"additionalProperties": {}}), False),
    ],
)
def test_the_tool_refuses_unknown_fields_if_all_its_actions_do(more: Any, common: Any, closed: bool):
    schema = input_schema([action("a", x=TEXT, more=more), action("b", x=TEXT)], common=common)
    assert (schema.get("additionalProperties") is False) is closed
    assert compile_schema(schema).accepts({"action": "a", "other": 1}) is not closed


def test_an_action_that_takes_anything_may_be_given_the_field_of_another_in_another_form():
    schema = input_schema([action("run", more={"additionalProperties": True}), action("list", limit=NUMBER)])
    assert schema["properties"]["limit"] == {"anyOf": [NUMBER, {}], "description": "For: list"}
    assert compile_schema(schema).accepts({"action": "run", "limit": "all"})


def test_fields_that_stand_only_in_branches_are_shown_as_optional():
    cat = takes("kind", "lives", kind={"const": "cat"}, lives=NUMBER, more={"additionalProperties": False})
    dog = {"$ref": "#/$defs/Dog"}
    defs = {"Dog": takes("kind", kind={"const": "dog"}, name=TEXT, more={"additionalProperties": False})}
    pet = Action(key="pet", schema={"type": "object", "oneOf": [cat, dog], "$defs": defs})
    both = Action(key="both", schema={"allOf": [takes("a", a=TEXT)], "if": {}, "then": takes(b=TEXT)})
    fields = input_schema([pet])["properties"]
    assert fields["kind"] == {"anyOf": [{"const": "cat"}, {"const": "dog"}], "description": "For: pet"}
    assert fields["lives"] == {**NUMBER, "description": "For: pet"}
    assert input_schema([both])["properties"]["a"] == {**TEXT, "description": "For: both"}
    assert input_schema([both])["properties"]["b"] == {"anyOf": [TEXT, {}], "description": "For: both"}
    assert field_users([pet, both, action("c", a=TEXT)]) == {
        "kind": ["pet"],
        "lives": ["pet"],
        "name": ["pet"],
        "a": ["both", "c"],
        "b": ["both"],
    }


def test_branches_that_lead_back_to_themselves_come_to_an_end():
    loop = {"anyOf": [{"$ref": "#"}] * 20, "allOf": [{"$ref": "#"}] * 20, "properties": {"a": TEXT}}
    assert list(input_schema([Action(key="loop", schema=loop)])["properties"]) == ["action", "a"]


def test_a_schema_of_any_depth_becomes_one_that_can_be_checked():
    deep: dict[str, Any] = TEXT
    for _ in range(300):
        deep = {"type": "array", "items": deep}
    compile_schema(input_schema([action("deep", deep=deep)]))


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ({**TEXT, "description": "A name.", "maxLength": 3}, TEXT),
        ({"enum": ["a", "b"], "type": "string"}, {"type": "string", "enum": ["a", "b"]}),
        ({"enum": [str(n) for n in range(13)], "type": "string"}, TEXT),
        ({"enum": ["long" * 20], "type": "string"}, TEXT),
        (
            {"anyOf": [{"enum": ["a"], "type": "string"}, {"type": "null"}]},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        ({"type": "array", "items": takes(a=TEXT)}, {"type": "array", "items": {"type": "object"}}),
        (takes("a", a=TEXT), {"type": "object"}),
        ({"$ref": "#/$defs/Item"}, {"type": "object"}),
        ({"$ref": "#/$defs/Loop"}, {}),
        ({"anyOf": [TEXT, {}]}, {}),
        ({"type": ["integer", "number"]}, {"type": "number"}),
    ],
)
def test_a_brief_field_is_its_type_and_little_more(full: dict[str, Any], short: dict[str, Any]):
    defs = {"Item": takes(a=TEXT), "Loop": {"allOf": [{"$ref": "#/$defs/Loop"}]}}
    schema = input_schema([action("get", "it", it=full, more={"$defs": defs})], detail="brief")
    assert schema == {
        "type": "object",
        "properties": {"action": {"type": "string", "enum": ["get"]}, "it": short},
        "required": ["action"],
        "additionalProperties": False,
    }


def test_a_brief_field_with_several_forms_takes_them_all():
    texts, numbers = ({"type": "array", "items": one} for one in (TEXT, NUMBER))
    same = {"conflicts": "union", "detail": "brief"}
    assert field("x", action("a", x=texts), action("b", x=TEXT), **same) == {
        "type": ["array", "string"],
        "items": TEXT,
    }
    assert field("x", action("a", x=texts), action("b", x=numbers), **same)["items"] == {"type": ["string", "integer"]}
    assert field("x", action("a", x={"enum": ["u"]}), action("b", x={"const": "v"}), **same) == {"enum": ["u", "v"]}

"""References between schemas: resolved however deep, never fetched, circles found, plain JSON Schema in the end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.documents import PATTERNS
from tests.registry.registries import Doc, found, parsed
from weft.expr.schemas import compile_schema

assert PATTERNS


def schema(name: str, body: Doc, version: str = "1.0.0") -> Doc:
    return {"name": name, "version": version, "schema": body}


def document(tool: Doc, *schemas: Doc) -> Doc:
    made = {"name": "t", "version": "1.0.0", "spec": {"tool": "x"}, "inputSchema": tool}
    return {"schemaVersion": "2.0", "schemas": list(schemas), "tools": [made]}


def plain(tool: Doc, *schemas: Doc) -> Doc:
    """Return the input schema of a tool, made plain."""
    result = parsed(document(tool, *schemas))
    assert [str(one) for one in result.problems] == []
    made = result.resolved.tools[0].input_schema
    assert made is not None
    assert result.document.to_ir()["tools"][0]["inputSchema"] == tool  # pyright: ignore[reportIndexIssue, reportCallIssue, reportArgumentType, reportOptionalSubscript]  (raw JSON)
    return made


QUERY = schema("Query", {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]})


@pytest.mark.req("REG-6", "REG-12")
@pytest.mark.parametrize("ref", ["#Query:1.0.0", "#Query", "#/schemas/Query"])
def test_a_schema_that_is_a_reference_becomes_what_it_stands_for(ref: str):
    made = plain({"$ref": ref, "description": "what to find"}, QUERY)
    assert made == {**QUERY["schema"], "description": "what to find"}


@pytest.mark.req("REG-8", "REG-62")
@pytest.mark.parametrize(
    ("tool", "good", "bad"),
    [
        ({"type": "array", "items": {"$ref": "#Query:1.0.0"}}, [{"q": "a"}], [{"q": 1}]),
        ({"allOf": [{"$ref": "#Query:1.0.0"}, {"required": ["n"]}]}, {"q": "a", "n": 1}, {"q": "a"}),
        ({"properties": {"a": {"anyOf": [{"$ref": "#Two:1.0.0"}]}}}, {"a": {"of": {"q": ""}}}, {"a": {"of": {}}}),
        ({"$ref": "#Two:1.0.0"}, {"of": {"q": ""}}, {"of": {}}),
        ({"$ref": "#Tree:1.0.0"}, {"next": {"next": {"q": {"q": ""}}}}, {"next": {"next": {"q": {}}}}),
        ({"$ref": "#Own:1.0.0"}, {"a": 1}, {"a": "x"}),
        ({"not": {"$ref": "#Own:1.0.0"}}, {"a": "x"}, {"a": 1}),
    ],
)
def test_references_resolve_at_any_depth_and_mean_the_same(tool: Doc, good: Any, bad: Any):
    two = schema("Two", {"properties": {"of": {"$ref": "#Query:1.0.0"}}})
    tree = schema("Tree", {"properties": {"next": {"$ref": "#Tree:1.0.0"}, "q": {"$ref": "#Query:1.0.0"}}})
    own = schema("Own", {"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}})
    check = compile_schema(plain(tool, QUERY, two, tree, own))
    assert check.accepts(good)
    assert not check.accepts(bad)


@pytest.mark.req("REG-3", "REG-8")
def test_two_versions_of_a_schema_stand_side_by_side():
    newer = schema("Query", {"type": "string"}, "2.0.0")
    check = compile_schema(plain({"prefixItems": [{"$ref": "#Query:1.0.0"}, {"$ref": "#Query:2.0.0"}]}, QUERY, newer))
    assert check.accepts([{"q": ""}, "x"])
    assert not check.accepts(["x", {"q": ""}])


def test_a_local_anchor_comes_before_the_registry():
    made = {"$defs": {"a": {"$anchor": "Query", "type": "integer"}}, "items": {"$ref": "#Query"}}
    assert parsed(document(made, QUERY)).resolved.tools[0].input_schema == made


@pytest.mark.req("REG-6")
def test_skills_of_agents_are_resolved_too():
    skill = {"id": "s", "inputSchema": {"$ref": "#Query:1.0.0"}}
    agents = [{"name": "a", "version": "1.0.0", "skills": [skill]}]
    result = parsed({"schemaVersion": "2.0", "schemas": [QUERY], "agents": agents})
    assert result.resolved.agents[0].skills[0].input_schema == QUERY["schema"]
    assert result.document.agents[0].skills[0].input_schema == {"$ref": "#Query:1.0.0"}


@pytest.mark.req("REG-19", "REG-64")
@pytest.mark.parametrize(
    ("ref", "code", "suggestion"),
    [
        ("#Qery:1.0.0", "UnknownRef", "#Query:1.0.0"),
        ("#Query:9.9.9", "UnknownRef", "#Query:1.0.0"),
        ("#Many", "AmbiguousRef", "#Many:2.0.0"),
        ("#/schemas/Nothing", "UnknownRef", None),
        ("http://127.0.0.1:1/schema.json", "RemoteRef", None),
        ("file:///etc/passwd", "RemoteRef", None),
        ("other.json#/a", "RemoteRef", None),
    ],
)
def test_30_a_reference_that_leads_nowhere_or_outside_is_refused(ref: str, code: str, suggestion: str | None):
    many = [schema("Many", {}, "1.0.0"), schema("Many", {}, "2.0.0")]
    for body in ({"$ref": ref}, {"properties": {"deep": {"items": {"$ref": ref}}}}):
        problems = [one for one in found(document(body, QUERY, *many)) if one.severity == "error"]
        assert [one.code for one in problems] == [code]
        assert problems[0].pointer.startswith("/tools/0/inputSchema")
        assert problems[0].suggestion == suggestion
        assert problems[0].value == repr(ref.replace("/schemas/", ""))


@pytest.mark.req("REG-19")
def test_30_a_wrong_reference_in_a_schema_is_told_there_and_nowhere_else():
    broken = schema("Broken", {"properties": {"a": {"$ref": "#Qury:1.0.0"}}})
    problems = found(document({"$ref": "#Broken:1.0.0"}, QUERY, broken))
    assert [one.pointer for one in problems if one.severity == "error"] == ["/schemas/1/schema/properties/a/$ref"]


@pytest.mark.req("REG-8", "REG-19")
def test_30_a_loop_of_references_is_found():
    loop = [schema("A", {"$ref": "#B:1.0.0"}), schema("B", {"allOf": [{"$ref": "#A:1.0.0"}]})]
    problems = [one for one in found(document({"$ref": "#A:1.0.0"}, *loop)) if one.severity == "error"]
    assert {one.code for one in problems} == {"RefLoop"}
    assert {one.pointer for one in problems} <= {"/schemas/0/schema", "/schemas/1/schema"}


@pytest.mark.req("REG-7")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"type": "strng"}, "InvalidSchema"),
        ({"required": "a"}, "InvalidSchema"),
        ({"pattern": "(?<=a)b"}, "RegexNotAllowed"),
        ({"anyOf": [{"type": "string"}] * 20_000}, "SchemaTooComplex"),
        ({"type": "strng", "items": {"$ref": "#Query:1.0.0"}}, "InvalidSchema"),
    ],
)
def test_31_to_33_what_is_no_schema_or_costs_too_much_is_refused(body: Doc, code: str):
    problems = [one for one in found(document({}, QUERY, schema("X", body))) if one.severity == "error"]
    assert [(one.code, one.pointer) for one in problems] == [(code, "/schemas/1/schema")]


def test_32_alternatives_that_multiply_through_references_are_refused():
    levels = [schema(f"L{n}", {"anyOf": [{"$ref": f"#L{n + 1}:1.0.0"}] * 2}) for n in range(14)]
    problems = found(document({"$ref": "#L0:1.0.0"}, *levels, schema("L14", {"type": "string"})))
    assert "SchemaTooComplex" in {one.code for one in problems}

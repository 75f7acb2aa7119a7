"""Types flow through compositions before anything runs: certain mistakes are errors, possible ones warnings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from weft.app import problems_of
from weft.errors import DocumentInvalid, Problem
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.plan.compiler import compile_document
from weft.ports import ToolRef, ToolType
from weft.testing import FakeWorld

pytestmark = pytest.mark.req("ALG-56")

Doc = dict[str, Any]
STRING: Doc = {"type": "string"}
NUMBER: Doc = {"type": "number"}
PAPER: Doc = {
    "type": "object",
    "properties": {"title": STRING, "year": {"type": "integer"}, "tags": {"type": "array", "items": STRING}},
    "required": ["title"],
    "additionalProperties": False,
}
OPEN: Doc = {"type": "object", "properties": {"title": STRING}}
PAPERS: Doc = {"type": "array", "items": PAPER}


class Types:
    """An upstream that only says what its tools take and give."""

    def __init__(self, types: dict[str, ToolType]) -> None:
        self._types = types

    def bind(self, ref: ToolRef) -> None:
        return None

    def describe(self, ref: ToolRef) -> ToolType | None:
        return self._types.get(str(ref))

    def names(self) -> list[str]:
        return list(self._types)


def check(
    spec: Any, *, given: Doc | None = None, types: dict[str, ToolType] | None = None, **more: Any
) -> list[Problem]:
    """Return the problems of one composition whose input has a schema."""
    tool = {"name": "c", "spec": spec, **({"inputSchema": given} if given is not None else {}), **more}
    parsed = parse(read(json.dumps({"compositions": [tool]}, indent=1)))
    assert parsed.problems == ()
    problems = problems_of(parsed, Types(types) if types is not None else None)
    assert all(one.line is not None for one in problems)
    return [one for one in problems if one.code != "UnknownName"]


def told(problems: list[Problem]) -> list[tuple[str, str, str]]:
    return [(one.severity, one.code, one.pointer.removeprefix("/compositions/0/")) for one in problems]


def chain(*steps: Any) -> Doc:
    return {
        "pipeline": {
            "steps": [step if isinstance(step, dict) and "operation" in step else {"operation": step} for step in steps]
        }
    }


def fits(output: Doc, wanted: Doc) -> list[tuple[str, str, str]]:
    return told(check(chain("a", "b"), types={"a": ToolType({}, output), "b": ToolType(wanted, {})}))


MISMATCH = ("error", "TypeMismatch", "spec/pipeline/steps/1/operation")
PERHAPS = ("warning", "TypeMismatch", "spec/pipeline/steps/1/operation")


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        (STRING, STRING),
        ({}, STRING),
        (STRING, {}),
        ({"type": "integer"}, NUMBER),
        ({"const": 3}, {"type": "integer"}),
        ({"enum": ["a", "b"]}, STRING),
        (PAPER, PAPER),
        (PAPER, OPEN),
        (PAPERS, {"type": "array"}),
        ({"$ref": "#/$defs/P", "$defs": {"P": PAPER}}, PAPER),
        ({"anyOf": [STRING, True]}, NUMBER),
        ({"allOf": [PAPER]}, PAPER),
        ({"type": "object", "patternProperties": {"^t": {}}, "additionalProperties": False},
         {"type": "object", "required": ["title"], "additionalProperties": {}}),
        ({"type": "object", "properties": {"a": True}, "required": ["a"]},
         {"type": "object", "properties": {"a": STRING}, "required": ["a"]}),
        ({"type": "array", "prefixItems": [STRING], "items": NUMBER},
         {"type": "array", "items": {"type": ["string", "number"]}}),
        ({"$ref": "#/$defs/X", "$defs": {"X": True}}, STRING),
    ],
)  # fmt: skip
def test_what_fits_is_not_reported(output: Doc, wanted: Doc):
    assert [one for one in fits(output, wanted) if one[0] == "error"] == []


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        (STRING, NUMBER),
        (NUMBER, {"type": "boolean"}),
        (PAPER, {"type": "array"}),
        ({"const": "x"}, NUMBER),
        (PAPERS, {"type": "array", "items": STRING}),
        (PAPER, {"type": "object", "properties": {"url": STRING}, "required": ["url"]}),
        ({"type": "object", "properties": {"a": NUMBER}, "required": ["a"]},
         {"type": "object", "properties": {"a": STRING}, "required": ["a"]}),
        (PAPER, {"type": "object", "properties": {}, "additionalProperties": False}),
        ({"anyOf": [STRING, {"type": "null"}]}, PAPERS),
        ({"$ref": "#/$defs/P", "$defs": {"P": PAPER}}, NUMBER),
    ],
)  # fmt: skip
def test_a_certain_mismatch_of_neighbours_is_an_error(output: Doc, wanted: Doc):
    assert fits(output, wanted) == [MISMATCH]


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        ({"type": ["string", "null"]}, STRING),
        (OPEN, {"type": "object", "properties": {"title": STRING, "url": STRING}, "required": ["url"]}),
        ({"type": "object", "properties": {"a": NUMBER}}, {"type": "object", "properties": {"a": STRING}}),
        (PAPER, {"type": "object", "properties": {"year": {}}, "required": ["year"]}),
        (NUMBER, {"type": "integer"}),
    ],
)
def test_a_possible_mismatch_is_a_warning(output: Doc, wanted: Doc):
    assert fits(output, wanted) == [PERHAPS]


def test_the_error_says_what_was_given_and_what_was_expected():
    problem = check(chain("a", "b"), types={"a": ToolType({}, PAPERS), "b": ToolType(NUMBER, {})})[0]
    assert problem.message == "what 'b' is given does not fit: array given where number is expected"
    assert (problem.value, problem.expected) == ("array", "number")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("string", "number", [("error", "TypeMismatch", "spec/pipeline/steps/1/operation/composition")]),
        ("Paper", "Report", [("warning", "TypeMismatch", "spec/pipeline/steps/1/operation/composition")]),
        ("Paper[]", "Paper[]", []),
        ("Paper[]", "string", [("error", "TypeMismatch", "spec/pipeline/steps/1/operation/composition")]),
        ("any", "string", []),
    ],
)
def test_declared_type_names_of_compositions_are_compared(one: str, other: str, expected: list[Any]):
    tools = [
        {"name": "top", "spec": chain({"composition": "a"}, {"composition": "b"})},
        {"name": "a", "outputType": one, "spec": "up"},
        {"name": "b", "inputType": other, "spec": "up"},
    ]
    problems = problems_of(parse(read(json.dumps({"compositions": tools}))))
    assert told([problem for problem in problems if problem.code == "TypeMismatch"]) == expected


def test_what_the_spec_gives_is_compared_with_what_the_composition_declares():
    spec = {"schemaMap": {"mappings": {"a": {"literal": 1}}}}
    assert told(check(spec, outputType="string")) == [("error", "TypeMismatch", "outputType")]
    closed = {"type": "object", "properties": {"a": STRING}, "required": ["a"]}
    assert told(check(spec, outputSchema=closed)) == [("error", "TypeMismatch", "outputSchema")]
    assert check(spec, outputType="object") == []
    assert check(spec, outputType="Report") == []


@pytest.mark.parametrize(
    ("path", "schema", "expected"),
    [
        ("$.title", PAPER, None),
        ("$.tags[0]", PAPER, None),
        ("$.tags[*]", PAPER, None),
        ("$.titel", PAPER, "error"),
        ("$.titel", OPEN, "warning"),
        ("$.title.x", PAPER, "error"),
        ("$[0]", PAPER, "error"),
        ("$.anything", {}, None),
        ("$.anything", {"type": "object"}, None),
        ("$.x", {"type": "object", "additionalProperties": False}, "error"),
        ("$.x", {"type": "object", "properties": {"a": {}}, "additionalProperties": NUMBER}, None),
        ("$.x", {"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False}, None),
        ("$.x", {"type": "object", "properties": {"a": NUMBER}, "allOf": [{"properties": {"x": NUMBER}}]}, None),
        ("$.title", {"anyOf": [PAPER, {"type": "null"}]}, None),
        ("$.titel", {"anyOf": [PAPER, {"type": "null"}]}, "error"),
        ("$.title", {"$ref": "#/$defs/P", "$defs": {"P": PAPER}}, None),
        ("$..titel", PAPER, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["binding", "source", "template", "enricher", "recipients", "route"])
def test_a_path_that_its_schema_cannot_have_is_told(path: str, schema: Doc, expected: str | None, place: str):
    specs: dict[str, tuple[Any, str]] = {
        "binding": (chain({"operation": "x", "input": {"path": path}}), "spec/pipeline/steps/0/input/path"),
        "source": ({"schemaMap": {"mappings": {"f/g": {"path": path}}}}, "spec/schemaMap/mappings/f~1g/path"),
        "template": ({"schemaMap": {"mappings": {"f": {"template": "{x}", "vars": {"x": path}}}}},
                     "spec/schemaMap/mappings/f/vars/x"),
        "enricher": ({"enricher": {"enrichments": [{"field": "f", "source": "x", "input": {"path": path}}]}},
                     "spec/enricher/enrichments/0/input/path"),
        "recipients": ({"recipientList": {"recipients": path, "allowed": ["x"]}}, "spec/recipientList/recipients"),
        "route": ({"router": {"routes": [{"when": {"field": path, "op": "is_null"}, "then": "x"}]}},
                  "spec/router/routes/0/when/field"),
    }  # fmt: skip
    spec, pointer = specs[place]
    problems = check(spec, given=schema)
    if expected is None:
        assert problems == []
    else:
        code = "PathImpossible" if expected == "error" else "PathUncertain"
        assert told(problems) == [(expected, code, pointer)]
        assert problems[0].suggestion == ("title" if path == "$.titel" else None)


@pytest.mark.parametrize(
    ("field", "op", "value", "fine"),
    [
        ("$.title", "gt", 1, False),
        ("$.year", "gt", 1, True),
        ("$.year", "contains", "x", False),
        ("$.title", "contains", "x", True),
        ("$.title", "eq", 3, False),
        ("$.title", "eq", "x", True),
        ("$.title", "eq", None, True),
        ("$.title", "ne", 3, True),
        ("$.title", "in", [1, 2], False),
        ("$.title", "in", [1, "x"], True),
        ("$.year", "in", [1.0], True),
        ("$.year", "eq", True, False),
        ("$.tags", "gt", 1, False),
        ("$.tags[*]", "contains", "x", False),
        ("$.title", "is_null", None, True),
    ],
)
def test_a_predicate_that_can_never_hold_is_an_error(field: str, op: str, value: Any, fine: bool):
    predicate: Doc = {"field": field, "op": op, "value": value}
    expected: list[Any] = [] if fine else [("error", "PredicateNeverHolds", "spec/filter/predicate")]
    assert told(check({"filter": {"predicate": predicate}}, given=PAPERS)) == expected
    routed = {"router": {"routes": [{"when": predicate, "then": {"schemaMap": {"mappings": {"a": {"literal": 1}}}}}]}}
    assert (check(routed, given=PAPER) == []) is fine


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        ({"filter": {"predicate": "item.a > 1"}}, "spec/filter"),
        ({"mapEach": {"inner": "x"}}, "spec/mapEach"),
        (chain("y", {"filter": {"predicate": "item.a > 1"}}), "spec/pipeline/steps/1/operation/filter"),
        ({"scatterGather": {"targets": ["y"], "aggregation": {"ops": ["merge", "flatten"]}}},
         "spec/scatterGather/aggregation/ops/1"),
        ({"scatterGather": {"targets": ["y"], "aggregation": {"ops": ["merge", {"limit": 3}]}}},
         "spec/scatterGather/aggregation/ops/1"),
    ],
)  # fmt: skip
def test_what_needs_a_list_is_told_when_it_never_gets_one(spec: Any, pointer: str):
    problems = check(spec, given=STRING, types={"x": ToolType(), "y": ToolType({}, STRING)})
    assert told(problems) == [("error", "NotAnArray", pointer)]


def test_an_enricher_needs_an_object_and_keeps_what_it_has():
    spec = {"enricher": {"enrichments": [{"field": "extra", "operation": "x"}]}}
    assert told(check(spec, given=STRING)) == [("error", "NotAnObject", "spec/enricher")]

    def after(path: str, given: Doc | None) -> list[tuple[str, str, str]]:
        return told(check(chain(spec, {"schemaMap": {"mappings": {"f": {"path": path}}}}), given=given))

    assert after("$.extra", PAPER) == after("$.title", PAPER) == after("$.other", None) == []
    assert [one[:2] for one in after("$.titel", PAPER)] == [("error", "PathImpossible")]


SOLE: Doc = {"type": "object", "properties": {"query": STRING, "limit": NUMBER}, "required": ["query"]}
ONLY: Doc = {"type": "object", "properties": {"query": STRING}}
NONE: Doc = {"type": "object", "properties": {"a": STRING, "b": STRING}}


@pytest.mark.parametrize(
    ("given", "wanted", "expected"),
    [
        (STRING, SOLE, []),
        (STRING, ONLY, []),
        (NUMBER, SOLE, [("error", "TypeMismatch", "spec")]),
        (STRING, NONE, [("error", "NoSoleProperty", "spec")]),
        (STRING, {"type": "object", "properties": {"a": True}}, []),
        (STRING, {"$ref": "#/$defs/P", "$defs": {"P": ONLY}}, []),
        ({"type": ["string", "object"]}, NONE, [("warning", "TypeMismatch", "spec")]),
    ],
)
def test_a_value_that_is_no_object_goes_to_the_sole_property(given: Doc, wanted: Doc, expected: list[Any]):
    problems = check("x", given=given, types={"x": ToolType(wanted, {})})
    assert told(problems) == expected
    if expected and expected[0][1] == "NoSoleProperty":
        assert problems[0].expected == "an object; properties: a, b"


def test_equal_names_of_definitions_in_two_schemas_do_not_mix():
    one: Doc = {"$ref": "#/$defs/Item", "$defs": {"Item": STRING}}
    other: Doc = {"$ref": "#/$defs/Item", "$defs": {"Item": NUMBER}}
    fields = {"a": {"step": "s0"}, "b": {"step": "s1"}}
    spec = {"pipeline": {"steps": [
        {"id": "s0", "operation": "a"}, {"id": "s1", "operation": "b"},
        {"id": "s2", "operation": "z", "input": {"construct": {"fields": fields}}},
    ]}}  # fmt: skip
    wanted: Doc = {"type": "object", "properties": {"a": STRING, "b": NUMBER}, "required": ["a", "b"]}
    types = {"a": ToolType({}, one), "b": ToolType({}, other), "z": ToolType(wanted, {})}
    assert check(spec, types=types) == []


def test_a_skipped_step_says_nothing_of_its_result():
    step = {"operation": {"schemaMap": {"mappings": {"a": {"literal": 1}}}}, "condition": "input.x"}
    assert check(chain(step, {"schemaMap": {"mappings": {"b": {"path": "$.other"}}}})) == []


def test_the_output_transform_of_a_virtual_tool_is_followed():
    document = {
        "tools": [{"name": "t", "source": {"server": "s", "tool": "x"},
                   "outputSchema": {"properties": {"url": {"fieldType": "string", "sourceField": "$.lnk"}}}}],
        "compositions": [{"name": "c", "spec": chain("t", {"schemaMap": {"mappings": {"f": {"path": "$.url"}}}})}],
    }  # fmt: skip
    link: Doc = {"type": "object", "properties": {"link": STRING}, "additionalProperties": False}
    problems = problems_of(parse(read(json.dumps(document))), Types({"s:x": ToolType({}, link)}))
    assert [(one.severity, one.code, one.pointer, one.suggestion) for one in problems] == [
        ("warning", "PathImpossible", "/tools/0/outputSchema/properties/url/sourceField", "link")
    ]


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ({"path": "$.titel", "default": ""}, "path"),
        ({"coalesce": ["$.title", "$.titel"]}, "coalesce/1"),
        ({"concat": {"paths": ["$.titel"]}}, "concat/paths/0"),
    ],
)
def test_a_place_that_may_be_missing_but_always_is_gives_a_warning(source: Doc, place: str):
    problems = check({"schemaMap": {"mappings": {"f": source}}}, given=PAPER)
    assert told(problems) == [("warning", "PathImpossible", f"spec/schemaMap/mappings/f/{place}")]
    assert problems[0].suggestion == "title"


def test_a_schema_of_an_upstream_that_is_none_says_nothing():
    broken: Doc = {"type": "strng", "properties": 3}
    assert check(chain("a", "b"), types={"a": ToolType({}, broken), "b": ToolType(broken, {})}) == []


async def test_what_is_certain_keeps_a_document_from_running():
    parsed = parse(
        read(json.dumps({"compositions": [{"name": "c", "inputType": "string", "spec": {"mapEach": {"inner": "x"}}}]}))
    )
    with pytest.raises(DocumentInvalid, match="MapEach requires array input"):
        compile_document(parsed.document, Types({}))
    with pytest.raises(DocumentInvalid):
        await FakeWorld(tools={"x": 1}).run("c", "text", document=parsed.document)

"""Bad documents: each problem with its code, its place in the text as written, its value and what was expected."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

import weft as w
from weft.app import problems_of
from weft.errors import Problem
from weft.ir.normalise import MAX_PATTERN_DEPTH, parse
from weft.ir.read import read

Doc = dict[str, Any]


def found(document: Any, *, errors_only: bool = True) -> list[Problem]:
    """Return the problems of a document, by way of its text."""
    text = document if isinstance(document, str) else json.dumps(document, indent=1)
    problems = problems_of(parse(read(text, name="doc.json")))
    for problem in problems:
        assert problem.file == "doc.json"
        assert problem.line is not None
        assert problem.column is not None
        assert problem.value is None or len(problem.value) <= 80
        assert "Traceback" not in str(problem)
    return [problem for problem in problems if problem.severity == "error" or not errors_only]


def one(document: Any) -> Problem:
    problems = found(document)
    assert len(problems) == 1, [str(problem) for problem in problems]
    return problems[0]


def spec(operation: Any) -> Doc:
    return {"schemaVersion": "1.0", "compositions": [{"name": "c", "spec": operation}]}


def steps(*given: Any) -> Any:
    return {"pipeline": {"steps": list(given)}}


SPEC = "/compositions/0/spec"
EARLY: Doc = {"id": "first", "operation": "x"}


@pytest.mark.parametrize(
    ("document", "pointer", "suggestion"),
    [
        ({"schemaVersion": "1.0", "tolos": []}, "/tolos", "tools"),
        ({"tools": [{"name": "t", "inputShema": {}, "source": {"server": "s", "tool": "x"}}]}, "/tools/0/inputShema",
         "inputSchema"),
        ({"tools": [{"name": "t", "input_shema": {}, "source": {"server": "s", "tool": "x"}}]}, "/tools/0/input_shema",
         "inputSchema"),
        ({"tools": [{"name": "t", "source": {"sever": "s", "server": "s", "tool": "x"}}]}, "/tools/0/source/sever",
         "server"),
        (spec({"pattern": "pipeline", "steps": [{"operaton": "y", "operation": "x"}]}), f"{SPEC}/steps/0/operaton",
         "operation"),
        (spec({"scatter_gather": {"targets": ["x"], "fail_fats": True}}), f"{SPEC}/scatter_gather/fail_fats",
         "failFast"),
        (spec({"composition": {"mapEach": {"inner": "x", "inne": None}}}), f"{SPEC}/composition/mapEach/inne", "inner"),
    ],
)  # fmt: skip
def test_36_an_unknown_key_is_an_error_that_names_the_nearest(document: Doc, pointer: str, suggestion: str):
    problem = one(document)
    assert (problem.code, problem.pointer, problem.suggestion) == ("UnknownKey", pointer, suggestion)
    assert problem.value == repr(pointer.rpartition("/")[2])
    assert problem.expected is not None
    assert suggestion in problem.expected


def test_36_each_place_lists_its_own_keys():
    problems = found(spec(steps({"operation": "x", "nmae": 1}, {"operation": {"tool": {"name": "y", "nmae": 1}}})))
    assert [problem.expected for problem in problems] == [
        "one of condition, id, input, operation",
        "one of name, server, version",
    ]


def test_36_metadata_is_free_and_dollar_keys_are_ignored():
    tool = {"name": "t", "source": {"server": "s", "tool": "x", "$x": 1}, "metadata": {"inputShema": 1}, "$note": {}}
    assert found({"$schema": "urn:x", "tools": [tool]}) == []


@pytest.mark.req("ALG-37")
@pytest.mark.parametrize(
    ("binding", "place"),
    [
        ({"step": {"stepId": "NAME", "path": "$"}}, "step/stepId"),
        ({"step": {"step_id": "NAME"}}, "step/step_id"),
        ({"step": "NAME"}, "step"),
        ({"reference": {"step": "NAME"}}, "reference/step"),
        ({"source": "step", "step": "NAME"}, "step"),
        ({"source": "step", "stepId": "NAME"}, "stepId"),
        (
            {"construct": {"fields": {"a/b": {"reference": {"step": "NAME"}}}}},
            "construct/fields/a~1b/reference/step",
        ),
    ],
)
def test_39_a_step_must_come_before_those_that_use_it(binding: Doc, place: str):
    def document(name: str) -> Doc:
        using = {"id": "second", "operation": "x", "input": json.loads(json.dumps(binding).replace("NAME", name))}
        return spec(steps(EARLY, using, {"id": "third", "operation": "x"}))

    unknown, later, own = one(document("frist")), one(document("third")), one(document("second"))
    assert {problem.pointer for problem in (unknown, later, own)} == {f"{SPEC}/pipeline/steps/1/input/{place}"}
    assert {problem.code for problem in (unknown, later, own)} == {"UnknownStep"}
    assert unknown.message == "Step not found: frist"
    assert (unknown.value, unknown.suggestion, unknown.expected) == ("'frist'", "first", "an earlier step: first")
    assert later.message == "Step not found: third (it comes later)"
    assert own.message == "Step not found: second (it is this step itself)"


def test_39_the_output_of_a_pipeline_may_use_every_step_and_no_other():
    assert found(spec({"pipeline": {"steps": [EARLY], "output": {"step": "first"}}})) == []
    problem = one(spec({"pipeline": {"steps": [EARLY], "output": {"step": "frst"}}}))
    assert (problem.pointer, problem.suggestion) == (f"{SPEC}/pipeline/output/step", "first")


def test_39_steps_of_an_outer_pipeline_are_out_of_reach():
    inner = steps({"operation": "x", "input": {"step": "first"}})
    problem = one(spec(steps(EARLY, {"operation": inner})))
    assert problem.pointer == f"{SPEC}/pipeline/steps/1/operation/pipeline/steps/0/input/step"


@pytest.mark.req("STA-55")
@pytest.mark.parametrize(
    ("operation", "code", "pointer", "suggestion"),
    [
        ({}, "NoPattern", SPEC, None),
        ({"$comment": "nothing"}, "NoPattern", SPEC, None),
        ({"pipeline": None}, "NoPattern", SPEC, None),
        ({"pipelin": {"steps": ["x"]}}, "UnknownPattern", SPEC, "pipeline"),
        ({"Pipeline": {"steps": ["x"]}}, "UnknownPattern", SPEC, "pipeline"),
        ({"pattern": "scatter-gather", "targets": ["x"]}, "UnknownPattern", SPEC, "scatterGather"),
        ({"pattern": {"mapeach": {"inner": "x"}}}, "UnknownPattern", SPEC, "mapEach"),
        ({"pipelin": {}, "x": 1}, "NoPattern", SPEC, "pipeline"),
        ({"pipeline": {"steps": ["x"]}, "filter": {}}, "TwoPatterns", SPEC, None),
        ({"pattern": {"tool": "x"}, "tool": "y"}, "TwoPatterns", SPEC, None),
        ({"tool": "x", "input": {}}, "UnknownKey", SPEC, None),
        ({"mapEach": {"inner": 3}}, "WrongType", f"{SPEC}/mapEach/inner", None),
        ({"mapEach": {"inner": ["x"]}}, "WrongType", f"{SPEC}/mapEach/inner", None),
        ({"pattern": 3}, "WrongType", SPEC, None),
        ({"tool": ""}, "WrongValue", f"{SPEC}/tool", None),
        ({"tool": 3}, "WrongType", f"{SPEC}/tool", None),
        ({"agent": "a"}, "WrongType", f"{SPEC}/agent", None),
        ({"agent": {"name": "a"}}, "MissingKey", f"{SPEC}/agent", None),
        ({"scatterGather": {"targets": ["x"], "failFast": True, "fail_fast": False}}, "SpeltTwice",
         f"{SPEC}/scatterGather/fail_fast", None),
        ({"wireTap": {"inner": "x", "taps": ["y"], "tapPoint": "befor"}}, "WrongValue", f"{SPEC}/wireTap/tapPoint",
         "before"),
    ],
)  # fmt: skip
def test_44_an_operation_has_exactly_one_known_key(operation: Any, code: str, pointer: str, suggestion: str | None):
    problem = one(spec(operation))
    assert (problem.code, problem.pointer, problem.suggestion) == (code, pointer, suggestion)
    assert problem.expected
    assert problem.value


@pytest.mark.parametrize(
    ("operation", "place"),
    [
        ({"pipeline": {"steps": []}}, "pipeline/steps"),
        ({"pattern": "pipeline", "steps": []}, "steps"),
        ({"router": {"routes": []}}, "router/routes"),
        ({"router": {"cases": []}}, "router/cases"),
        ({"scatter_gather": {"targets": []}}, "scatter_gather/targets"),
        ({"enricher": {"enrichments": []}}, "enricher/enrichments"),
        ({"wireTap": {"inner": "x", "taps": []}}, "wireTap/taps"),
        ({"recipientList": {"recipients": "$", "allowed": []}}, "recipientList/allowed"),
        ({"schemaMap": {"mappings": {}}}, "schemaMap/mappings"),
        # 48, as far as key paths exist here
        ({"schemaMap": {"mappings": {"a": {"coalesce": []}}}}, "schemaMap/mappings/a/coalesce"),
        ({"schemaMap": {"mappings": {"a": {"coalesce": {"paths": []}}}}}, "schemaMap/mappings/a/coalesce/paths"),
        ({"schemaMap": {"mappings": {"a": {"concat": [], "separator": ","}}}}, "schemaMap/mappings/a/concat"),
    ],
)
def test_45_and_48_what_needs_parts_refuses_to_have_none(operation: Any, place: str):
    problem = one(spec(operation))
    assert (problem.code, problem.pointer) == ("WrongValue", f"{SPEC}/{place}")
    assert problem.expected == "at least 1 item"


@pytest.mark.parametrize(
    ("operation", "place"),
    [
        ({"pipeline": {}}, "pipeline"),
        ({"pattern": "pipeline"}, ""),
        ({"filter": {}}, "filter"),
        ({"pipeline": {"steps": [{"id": "a"}]}}, "pipeline/steps/0"),
        ({"router": {"routes": [{"when": "true"}]}}, "router/routes/0"),
    ],
)
def test_45_a_missing_part_is_named(operation: Any, place: str):
    problem = one(spec(operation))
    assert (problem.code, problem.pointer) == ("MissingKey", f"{SPEC}/{place}".rstrip("/"))
    assert "missing key" in problem.message


def test_46_step_ids_are_unique():
    problems = found(spec(steps(EARLY, {"id": "b", "operation": "x"}, EARLY, EARLY)))
    assert [(problem.code, problem.pointer, problem.value) for problem in problems] == [
        ("DuplicateStep", f"{SPEC}/pipeline/steps/{index}/id", "'first'") for index in (2, 3)
    ]
    route = {"id": "r", "when": "true", "then": "x"}
    assert one(spec({"router": {"routes": [route, route]}})).pointer == f"{SPEC}/router/routes/1/id"


@pytest.mark.req("ALG-47")
@pytest.mark.parametrize(
    ("predicate", "code", "place", "suggestion"),
    [
        ({"field": "$.a", "op": "gtt", "value": 1}, "UnknownOperator", "op", "gt"),
        ({"field": "$.a", "operator": "is_nul"}, "UnknownOperator", "operator", "is_null"),
        ({"field": "$.a", "op": "COMPARISON_OP_GTX", "value": 1}, "UnknownOperator", "op", "gt"),
        ({"field": "$.a", "op": ["gt"], "value": None}, "WrongType", "op", None),
        ({"field": "$.a", "op": "in", "value": "abc"}, "PredicateValue", "value", None),
        ({"field": "$.a", "op": "in", "value": {"a": 1}}, "PredicateValue", "value", None),
        ({"field": "$.a", "op": "gt", "value": {"a": 1}}, "PredicateValue", "value", None),
        ({"field": "$.a", "op": "gt", "value": {"stringValue": "1"}}, "PredicateValue", "value", None),
        ({"field": "$.a", "op": "gt", "value": True}, "PredicateValue", "value", None),
        ({"field": "$.a", "op": "lt"}, "PredicateValue", "", None),
        ({"field": "$.a", "op": "contains", "value": 1}, "PredicateValue", "value", None),
        ({"field": "$.a", "op": "isNull", "value": 1}, "PredicateValue", "value", None),
        ({"field": "$.a", "op": "is_error", "value": False}, "PredicateValue", "value", None),
        ({"field": "a.b", "op": "eq", "value": 1}, "InvalidJsonPath", "field", None),
        ({"field": "$.a"}, "MissingKey", "", None),
        ("item.a > 1 && item.b < 2", "PredicateSyntax", "", None),
        ("item.a > item.b", "PredicateSyntax", "", None),
        ("__import__('os')", "PredicateSyntax", "", None),
        (None, "MissingKey", "", None),
        (3, "WrongType", "", None),
    ],
)
def test_55_a_predicate_is_one_comparison_that_can_be_made(
    predicate: Any, code: str, place: str, suggestion: str | None
):
    problem = one(spec({"filter": {"predicate": predicate}}))
    pointer = f"{SPEC}/filter/predicate/{place}".rstrip("/")
    assert (problem.code, problem.pointer, problem.suggestion) == (code, pointer, suggestion)


def nested(depth: int, spelling: str) -> Any:
    operation: Any = "x"
    for _ in range(depth):
        match spelling:
            case "key":
                operation = {"mapEach": {"inner": operation}}
            case "snake":
                operation = {"map_each": {"inner": operation}}
            case "tag":
                operation = {"pattern": "map_each", "inner": operation}
            case "composition":
                operation = {"composition": {"mapEach": {"inner": operation}}}
            case _:
                operation = {"pattern": {"router": {"routes": [{"when": "true", "then": "x"}], "otherwise": operation}}}
    return operation


@pytest.mark.parametrize("spelling", ["key", "snake", "tag", "composition", "default"])
def test_58_patterns_nest_thirty_deep_and_no_deeper(spelling: str):
    assert found(spec(nested(MAX_PATTERN_DEPTH, spelling))) == []
    problem = one(spec(nested(MAX_PATTERN_DEPTH + 1, spelling)))
    assert problem.code == "MaxPatternDepth"
    assert problem.pointer.startswith(SPEC)
    assert problem.value == "31 deep"
    assert problem.expected == "at most 30; give inner ones a name of their own"


def test_58_two_hundred_deep_is_refused_quickly():
    started = time.process_time()
    assert one(spec(nested(200, "tag"))).code == "MaxPatternDepth"
    assert time.process_time() - started < 1


def test_58_fields_and_constants_that_look_like_patterns_do_not_count():
    value: Any = 1
    for _ in range(40):
        value = {"pipeline": value}
    fields: Doc = {"a": {"literal": value}, "pipeline": {"path": "$.pipeline"}}
    document = spec({"schemaMap": {"mappings": fields}})
    document["compositions"][0]["metadata"] = value
    assert found(document) == []


def test_59_a_fan_out_has_at_most_a_thousand_targets():
    assert found(spec({"scatterGather": {"targets": ["x"] * 1000}})) == []
    started = time.process_time()
    problem = one(spec({"pattern": "scatter_gather", "targets": [{"pipelin": {}}] * 10_000}))
    assert time.process_time() - started < 1
    assert (problem.code, problem.pointer, problem.value) == ("FanOutLimit", f"{SPEC}/targets", "10000 targets")


@pytest.mark.parametrize(
    ("operation", "place"),
    [
        ({"schemaMap": {"mappings": {"a": {"literal": "BIG"}}}}, "schemaMap/mappings/a/literal"),
        ({"schemaMap": {"mappings": {"a": {"literal": {"stringValue": "BIG"}}}}}, "schemaMap/mappings/a/literal"),
        ({"schemaMap": {"mappings": {"a": {"path": "$", "default": ["BIG"]}}}}, "schemaMap/mappings/a/default"),
        (steps({"operation": "x", "input": {"constant": {"value": {"a": "BIG"}}}}),
         "pipeline/steps/0/input/constant/value"),
        (steps({"operation": "x", "input": {"constant": "BIG"}}), "pipeline/steps/0/input/constant"),
        ({"filter": {"predicate": {"op": "eq", "value": "BIG"}}}, "filter/predicate/value"),
    ],
)  # fmt: skip
def test_60_a_literal_has_at_most_a_megabyte(operation: Any, place: str):
    text = json.dumps(spec(operation))
    started = time.process_time()
    problem = one(text.replace("BIG", "é" * (1 << 19)))
    assert time.process_time() - started < 1
    assert (problem.code, problem.pointer) == ("LiteralTooLarge", f"{SPEC}/{place}")
    assert found(text.replace("BIG", "x" * ((1 << 20) - 100))) == []


def test_every_problem_of_a_document_is_told_in_one_run_in_the_order_of_the_text():
    document = {
        "schemaVersion": 1.0,
        "tools": [
            {"name": "t", "source": {"server": "s"}, "inputSchema": {"type": "strng"}},
            {"name": " padded", "source": {"server": "s", "tool": "x"}, "spec": "x"},
        ],
        "compositions": [
            {"name": "a", "spec": steps({"id": "s", "operation": {"pipelin": {}}}, {"id": "s", "operation": "x"})},
            {"name": "b", "spec": {"filter": {"predicate": {"field": "$[", "op": "gtt", "value": 1, "vlaue": 2}}}},
            {"name": "c", "spec": steps({"operation": {"composition": "b"}, "input": {"step": "s"}})},
            {"name": "d", "spec": {"composition": "missing"}},
            {"name": "d", "spec": "x"},
            {"name": "e"},
            "f",
        ],
        "extra": None,
    }
    problems = found(document)
    assert [(problem.code, problem.pointer) for problem in problems] == [
        ("WrongType", "/schemaVersion"),
        ("MissingKey", "/tools/0/source"),
        ("InvalidSchema", "/tools/0/inputSchema"),
        ("InvalidName", "/tools/1/name"),
        ("UnknownPattern", "/compositions/0/spec/pipeline/steps/0/operation"),
        ("DuplicateStep", "/compositions/0/spec/pipeline/steps/1/id"),
        ("InvalidJsonPath", "/compositions/1/spec/filter/predicate/field"),
        ("UnknownKey", "/compositions/1/spec/filter/predicate/vlaue"),
        ("UnknownStep", "/compositions/2/spec/pipeline/steps/0/input/step"),
        ("UnknownName", "/compositions/3/spec/composition"),
        ("DuplicateName", "/compositions/4/name"),
        ("MissingKey", "/compositions/5"),
        ("WrongType", "/compositions/6"),
        ("UnknownKey", "/extra"),
    ]
    places = [(problem.line or 0, problem.column or 0) for problem in problems]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("document", "code", "pointer"),
    [
        ({"tools": {}}, "WrongType", "/tools"),
        ({"tools": [], "compositions": "x"}, "WrongType", "/compositions"),
        ({"schema_version": 1}, "WrongType", "/schema_version"),
        ({"schemaVersion": "3.0"}, "UnknownVersion", "/schemaVersion"),
        ({"schemaVersion": True}, "UnknownVersion", "/schemaVersion"),
        ({"schemaVersion": "1.0", "schema_version": "1.0"}, "SpeltTwice", "/schema_version"),
        ({"tools": [{"name": "t", "source": {"server": "s", "tool": "x"}, "spec": "x"}]}, "ExactlyOne", "/tools/0"),
        ({"tools": [{"name": "t", "spec": "x", "outputTransform": "x"}]}, "NoSource", "/tools/0/outputTransform"),
        ({"tools": [{"name": "t", "source": {"server": "s", "tool": "x", "defaults": {"a": 1}}, "defaults": {"a": 2}}]},
         "SpeltTwice", "/tools/0/defaults"),
        ({"tools": [{"name": "t", "source": {"server": "s", "tool": "x"}, "hideFields": "a"}]}, "WrongType",
         "/tools/0/hideFields"),
        ({"tools": [{"name": "t", "source": {"server": "s", "tool": "x"}, "outputTransform": {"tool": "y"}}]},
         "TransformCalls", "/tools/0/outputTransform/tool"),
        ({"tools": [{"name": "t", "source": {"server": "s", "tool": "x"},
                     "outputSchema": {"properties": {"a": {"sourceField": "link"}}}}]},
         "InvalidJsonPath", "/tools/0/outputSchema/properties/a/sourceField"),
        ({"tools": [{"name": "t", "source": {"server": "s", "tool": "x"}, "inputSchema": "{oops"}]}, "InvalidSchema",
         "/tools/0/inputSchema"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_tool_is_told_where_it_stands(document: Doc, code: str, pointer: str):
    problem = one(document)
    assert (problem.code, problem.pointer) == (code, pointer)


def test_values_are_escaped_and_cut():
    problem = one(spec({"mapEach": {"inner": "x", "on\u202error\n" + "y" * 200: 1}}))
    assert problem.value is not None
    assert len(problem.value) <= 80
    assert problem.value.isascii()
    assert "\\u202e" in problem.value


def test_lines_and_columns_are_those_of_the_text_in_yaml_too():
    text = (
        'schemaVersion: "1.0"\ncompositions:\n  - name: c\n    spec:\n      filter: {predicate: {op: gtt, value: 1}}\n'
    )
    problem = problems_of(parse(read(text, name="doc.yaml")))[0]
    assert (problem.pointer, problem.line, problem.column) == (f"{SPEC}/filter/predicate/op", 5, 32)


def test_a_document_full_of_problems_is_reported_within_a_second():
    many = [
        {"name": f"tool_{index}", "spec": {"mapEach": {"inner": f"unknown_{index}", "ineer": 1}}}
        for index in range(2000)
    ]
    started = time.process_time()
    assert len(found({"compositions": many})) == 2000
    assert time.process_time() - started < 3


def test_a_problem_is_told_once_also_when_a_builder_was_used_before():
    w.pipeline(w.tool("a"))
    assert (
        len(found(spec(steps({"id": "a", "operation": "x", "input": {"step": "b"}}, {"id": "a", "operation": 3})))) == 3
    )

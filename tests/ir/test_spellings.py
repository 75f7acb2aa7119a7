"""Every spelling of the decisions, with the canonical form that it stands for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.documents import canonical, composed
from weft.ir.normalise import parse
from weft.ir.read import read

Doc = dict[str, Any]

TOOL = {"tool": {"name": "x"}}
PIPELINE = {"pipeline": {"steps": [{"id": "step_0", "operation": TOOL}]}}
MAP = {"schemaMap": {"mappings": {"a": {"path": "$.a"}}}}

OPERATIONS: list[tuple[Any, Doc]] = [
    ("x", TOOL),
    ("pipeline", {"tool": {"name": "pipeline"}}),
    ({"tool": "x"}, TOOL),
    ({"tool": "tool"}, {"tool": {"name": "tool"}}),
    ({"tool": {"name": "x"}}, TOOL),
    ({"$comment": "ignored", "tool": {"name": "x", "$id": 1}}, TOOL),
    ({"tool": {"name": "x"}, "agent": None}, TOOL),
    ({"tool": {"name": "x", "server": "s", "version": "1.0.0"}},
     {"tool": {"name": "x", "server": "s", "version": "1.0.0"}}),
    ({"tool": {"name": "x", "target": "s"}}, {"tool": {"name": "x", "server": "s"}}),
    ({"tool": {"name": "x", "server": None}}, TOOL),
    ({"composition": "n"}, {"composition": {"name": "n"}}),
    ({"composition": {"name": "n"}}, {"composition": {"name": "n"}}),
    ({"composition": {"name": "n", "$comment": "ignored"}}, {"composition": {"name": "n"}}),
    ({"composition": {"pipeline": {"steps": [{"operation": "x"}]}}}, PIPELINE),
    ({"composition": {"pattern": "pipeline", "steps": [{"operation": "x"}]}}, PIPELINE),
    ({"composition": {"pattern": {"pipeline": {"steps": [{"operation": "x"}]}}}}, PIPELINE),
    ({"pattern": {"pipeline": {"steps": [{"operation": "x"}]}}}, PIPELINE),
    ({"pattern": {"pattern": "pipeline", "steps": [{"operation": "x"}]}}, PIPELINE),
    ({"pattern": "pipeline", "steps": [{"operation": "x"}]}, PIPELINE),
    ({"pattern": "schema_map", "mappings": {"a": {"path": "$.a"}}}, MAP),
    ({"pattern": "schemaMap", "mappings": {"a": {"path": "$.a"}}}, MAP),
    ({"schema_map": {"mappings": {"a": {"path": "$.a"}}}}, MAP),
    ({"agent": {"name": "a", "skill": "s"}}, {"agent": {"name": "a", "skill": "s"}}),
    ({"agent": {"name": "a", "skill": "s", "version": None}}, {"agent": {"name": "a", "skill": "s"}}),
    ({"tool": "größe/\"x\"~1"}, {"tool": {"name": "größe/\"x\"~1"}}),
]  # fmt: skip

PLACES: dict[str, Callable[[Any], Any]] = {
    "spec": lambda op: op,
    "pipeline step": lambda op: {"pipeline": {"steps": [{"id": "input", "operation": op}]}},
    "route": lambda op: {"router": {"routes": [{"id": "r", "condition": "true", "target": op}]}},
    "default": lambda op: {"router": {"routes": [{"id": "r", "condition": "true", "target": TOOL}], "default": op}},
    "target": lambda op: {"scatterGather": {"targets": [TOOL, op]}},
    "inner of mapEach": lambda op: {"mapEach": {"inner": op}},
    "enrichment": lambda op: {"enricher": {"enrichments": [{"field": "f", "operation": op}]}},
    "inner of wireTap": lambda op: {"wireTap": {"inner": op, "taps": [TOOL]}},
    "tap": lambda op: {"wireTap": {"inner": TOOL, "taps": [op]}},
    "recipients": lambda op: {"recipientList": {"recipients": {"operation": op}, "allowed": ["x"]}},
}


def spec_of(spec: Any) -> Any:
    return canonical(composed(spec))["tools"][0]["spec"]


@pytest.mark.req("ALG-22", "ALG-23", "ALG-26", "ALG-29")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("written", "meant"), OPERATIONS, ids=lambda one: json.dumps(one)[:60])
def test_an_operation_is_spelt_the_same_ways_in_every_place(place: str, written: Any, meant: Doc):
    assert spec_of(PLACES[place](written)) == PLACES[place](meant)
    assert spec_of(PLACES[place](meant)) == PLACES[place](meant)


BINDINGS: list[tuple[Any, Any]] = [
    ({"input": {"path": "$.a"}}, {"input": {"path": "$.a"}}),
    ({"input": {}}, {"input": {}}),
    ({"input": "$.a"}, {"input": {"path": "$.a"}}),
    ({"step": {"stepId": "first", "path": "$.a"}}, {"step": {"stepId": "first", "path": "$.a"}}),
    ({"step": {"step_id": "first"}}, {"step": {"stepId": "first"}}),
    ({"step": {"step": "first"}}, {"step": {"stepId": "first"}}),
    ({"step": "first"}, {"step": {"stepId": "first"}}),
    ({"reference": {"step": "first", "path": "$.a"}}, {"step": {"stepId": "first", "path": "$.a"}}),
    ({"reference": {"step": "first"}}, {"step": {"stepId": "first"}}),
    ({"path": "$.a"}, {"previous": {"path": "$.a"}}),
    ({"path": "$.a", "$comment": "why"}, {"previous": {"path": "$.a"}}),
    ({"source": "input", "path": "$.a"}, {"input": {"path": "$.a"}}),
    ({"source": "step", "stepId": "first", "path": "$.a"}, {"step": {"stepId": "first", "path": "$.a"}}),
    ({"source": "step", "step_id": "first"}, {"step": {"stepId": "first"}}),
    ({"source": "step", "step": "first"}, {"step": {"stepId": "first"}}),
    ({"source": "previous"}, {"previous": {}}),
    ({"constant": 5}, {"constant": {"value": 5}}),
    ({"constant": None}, {"constant": {"value": None}}),
    ({"constant": []}, {"constant": {"value": []}}),
    ({"constant": {}}, {"constant": {"value": {}}}),
    ({"constant": {"value": None}}, {"constant": {"value": None}}),
    ({"constant": {"value": {"value": 5}}}, {"constant": {"value": {"value": 5}}}),
    ({"constant": {"value": 1, "unit": "m"}}, {"constant": {"value": {"value": 1, "unit": "m"}}}),
    ({"constant": {"stringValue": "x"}}, {"constant": {"value": "x"}}),
    ({"constant": {"string_value": "x"}}, {"constant": {"value": "x"}}),
    ({"constant": {"numberValue": 0.5}}, {"constant": {"value": 0.5}}),
    ({"constant": {"boolValue": False}}, {"constant": {"value": False}}),
    ({"constant": {"nullValue": True}}, {"constant": {"value": None}}),
    ({"constant": {"listValue": {"values": [{"stringValue": "x"}, 2]}}}, {"constant": {"value": ["x", 2]}}),
    ({"constant": {"numberValue": True}}, {"constant": {"value": {"numberValue": True}}}),
    ({"constant": {"StringValue": "x"}}, {"constant": {"value": {"StringValue": "x"}}}),
    ({"constant": {"stringValue": "x", "b": 1}}, {"constant": {"value": {"stringValue": "x", "b": 1}}}),
    ({"input": {"path": "$.a"}, "step": None, "constant": None}, {"input": {"path": "$.a"}}),
    ({"construct": {"fields": {"a": {"path": "$.a"}, "step": {"reference": {"step": "first"}}}}},
     {"construct": {"fields": {"a": {"previous": {"path": "$.a"}}, "step": {"step": {"stepId": "first"}}}}}),
    ({"construct": {"fields": {}}}, {"construct": {}}),
]  # fmt: skip


@pytest.mark.req("ALG-24", "REG-57", "REG-60")
@pytest.mark.parametrize(("written", "meant"), BINDINGS, ids=lambda one: json.dumps(one)[:60])
def test_a_binding_has_one_canonical_form(written: Any, meant: Any):
    def placed(binding: Any) -> Doc:
        steps = [{"id": "first", "operation": TOOL}, {"id": "second", "operation": TOOL, "input": binding}]
        return {"pipeline": {"steps": steps, "output": binding}}

    assert spec_of(placed(written)) == placed(meant)
    assert spec_of(placed(meant)) == placed(meant)


def test_an_input_that_is_absent_or_null_is_left_out():
    for step in ({"id": "step_0", "operation": "x"}, {"operation": "x", "input": None}, {"id": None, "operation": "x"}):
        assert spec_of({"pipeline": {"steps": [step]}}) == PIPELINE


PREDICATES: list[tuple[Any, Doc]] = [
    ({"field": "$.a", "op": "gt", "value": 0.7}, {"field": "$.a", "op": "gt", "value": 0.7}),
    ({"field": "$.a", "op": "gt", "value": {"numberValue": 0.7}}, {"field": "$.a", "op": "gt", "value": 0.7}),
    ({"field": "$.a", "op": "eq", "value": {"string_value": "x"}}, {"field": "$.a", "op": "eq", "value": "x"}),
    ({"field": "$.a", "op": "eq", "value": {"boolValue": True}}, {"field": "$.a", "op": "eq", "value": True}),
    ({"field": "$.a", "op": "eq", "value": {"nullValue": True}}, {"field": "$.a", "op": "eq", "value": None}),
    ({"field": "$.a", "op": "eq", "value": None}, {"field": "$.a", "op": "eq", "value": None}),
    ({"field": "$.a", "op": "in", "value": ["x", 1]}, {"field": "$.a", "op": "in", "value": ["x", 1]}),
    ({"field": "$.a", "op": "in", "value": []}, {"field": "$.a", "op": "in", "value": []}),
    ({"field": "$.a", "op": "in", "value": {"values": ["x", {"numberValue": 1}]}},
     {"field": "$.a", "op": "in", "value": ["x", 1]}),
    ({"field": "$.a", "op": "in", "value": {"listValue": {"values": [{"stringValue": "x"}]}}},
     {"field": "$.a", "op": "in", "value": ["x"]}),
    ({"field": "$.a", "op": "COMPARISON_OP_GT", "value": 1}, {"field": "$.a", "op": "gt", "value": 1}),
    ({"field": "$.a", "op": "COMPARISON_OP_IS_NULL"}, {"field": "$.a", "op": "is_null"}),
    ({"field": "$.a", "op": "isNull", "value": None}, {"field": "$.a", "op": "is_null"}),
    ({"field": "$.a", "op": "isNotNull"}, {"field": "$.a", "op": "is_not_null"}),
    ({"path": "$.a", "operator": "lte", "value": 1}, {"field": "$.a", "op": "lte", "value": 1}),
    ("item.relevance > 0.7", {"field": "$.relevance", "op": "gt", "value": 0.7}),
    ("item.a.b[0] == \"x\"", {"field": "$.a.b[0]", "op": "eq", "value": "x"}),
    ("item in [1, 2]", {"field": "$", "op": "in", "value": [1, 2]}),
]  # fmt: skip


@pytest.mark.req("ALG-27", "STA-51", "STA-53")
@pytest.mark.parametrize(("written", "meant"), PREDICATES, ids=lambda one: json.dumps(one)[:60])
def test_a_predicate_has_one_canonical_form(written: Any, meant: Doc):
    assert spec_of({"filter": {"predicate": written}}) == {"filter": {"predicate": meant}}
    assert spec_of({"filter": {"predicate": meant}}) == {"filter": {"predicate": meant}}


@pytest.mark.req("ALG-25")
@pytest.mark.parametrize(
    "written",
    [
        {"routes": [{"id": "route_0", "condition": "input.a > 1", "target": "x"}], "default": "y"},
        {"routes": [{"when": "input.a > 1", "then": "x"}], "otherwise": "y"},
        {"cases": [{"when": "input.a > 1", "then": "x"}], "otherwise": {"tool": "y"}},
        {"routes": [{"id": None, "when": "input.a > 1", "target": {"tool": "x"}}], "default": "y"},
    ],
)
def test_a_router_takes_both_sets_of_keys(written: Doc):
    routes = [{"id": "route_0", "condition": "input.a > 1", "target": TOOL}]
    assert spec_of({"router": written}) == {"router": {"routes": routes, "default": {"tool": {"name": "y"}}}}


@pytest.mark.parametrize("key", ["when", "condition", "predicate"])
def test_a_route_may_ask_a_predicate(key: str):
    predicate = {"field": "$.a", "op": "eq", "value": {"numberValue": 1}}
    routes = [{"id": "route_0", "predicate": {"field": "$.a", "op": "eq", "value": 1}, "target": TOOL}]
    assert spec_of({"router": {"routes": [{key: predicate, "then": "x"}]}}) == {"router": {"routes": routes}}


SOURCES: list[tuple[Any, Doc]] = [
    ({"path": "$.a"}, {"path": "$.a"}),
    ("$.a", {"path": "$.a"}),
    ({"path": "$.a", "default": None}, {"path": "$.a", "default": None}),
    ({"path": "$.a", "default": []}, {"path": "$.a", "default": []}),
    ({"coalesce": ["$.a", "$.b"]}, {"coalesce": {"paths": ["$.a", "$.b"]}}),
    ({"coalesce": {"paths": ["$.a"]}}, {"coalesce": {"paths": ["$.a"]}}),
    ({"concat": ["$.a", "$.b"]}, {"concat": {"paths": ["$.a", "$.b"]}}),
    ({"concat": ["$.a"], "separator": ""}, {"concat": {"paths": ["$.a"], "separator": ""}}),
    ({"concat": ["$.a"], "separator": None}, {"concat": {"paths": ["$.a"]}}),
    ({"concat": {"paths": ["$.a"], "separator": ", "}}, {"concat": {"paths": ["$.a"], "separator": ", "}}),
    ({"template": "by {who}", "vars": {"who": "$.a"}}, {"template": {"template": "by {who}", "vars": {"who": "$.a"}}}),
    ({"template": "by ${who}", "vars": {"who": "$.a"}}, {"template": {"template": "by {who}", "vars": {"who": "$.a"}}}),
    ({"template": {"template": "{w}", "vars": {"w": "$"}}}, {"template": {"template": "{w}", "vars": {"w": "$"}}}),
    ({"template": "plain", "vars": {}}, {"template": {"template": "plain"}}),
    ({"template": "plain"}, {"template": {"template": "plain"}}),
    ({"literal": 5}, {"literal": 5}),
    ({"literal": None}, {"literal": None}),
    ({"literal": []}, {"literal": []}),
    ({"literal": {}}, {"literal": {}}),
    ({"literal": {"a": [None, {}]}}, {"literal": {"a": [None, {}]}}),
    ({"literal": {"stringValue": "web"}}, {"literal": "web"}),
    ({"literal": {"numberValue": 0.6}}, {"literal": 0.6}),
    ({"literal": {"nullValue": True}}, {"literal": None}),
    ({"literal": {"nullValue": "NULL_VALUE"}}, {"literal": None}),
    ({"literal": {"nullValue": 1}}, {"literal": {"nullValue": 1}}),
    ({"literal": {"boolValue": 1}}, {"literal": {"boolValue": 1}}),
    ({"literal": {"list_value": [{"bool_value": True}]}}, {"literal": [True]}),
    ({"literal": {"a": {"stringValue": "x"}}}, {"literal": {"a": {"stringValue": "x"}}}),
    ({"nested": {"mappings": {"b": "$.b"}}}, {"nested": {"mappings": {"b": {"path": "$.b"}}}}),
    ({"nested": {"mappings": {"b": {"path": "$.b"}}}}, {"nested": {"mappings": {"b": {"path": "$.b"}}}}),
    ({"nested": {"b": {"path": "$.b"}}}, {"nested": {"mappings": {"b": {"path": "$.b"}}}}),
    ({"nested": {"mappings": {"path": "$.b"}}}, {"nested": {"mappings": {"mappings": {"path": "$.b"}}}}),
    ({"nested": {"mappings": {"path": "$.b"}, "c": "$.c"}},
     {"nested": {"mappings": {"mappings": {"path": "$.b"}, "c": {"path": "$.c"}}}}),
    ({"nested": {"mappings": {"path": {"path": "$"}, "literal": {"literal": 1}}}},
     {"nested": {"mappings": {"path": {"path": "$"}, "literal": {"literal": 1}}}}),
    ({"nested": {}}, {"nested": {}}),
]  # fmt: skip


@pytest.mark.req("ALG-28")
@pytest.mark.parametrize("field", ["a", "mappings", "path", "literal", "a/b~c", "größe", ""])
@pytest.mark.parametrize(("written", "meant"), SOURCES[:5] + SOURCES[15:18])
def test_a_field_may_have_any_name(field: str, written: Any, meant: Doc):
    assert spec_of({"schemaMap": {"mappings": {field: written}}}) == {"schemaMap": {"mappings": {field: meant}}}


@pytest.mark.req("ALG-28")
@pytest.mark.parametrize(("written", "meant"), SOURCES, ids=lambda one: json.dumps(one)[:60])
def test_a_field_source_has_one_canonical_form(written: Any, meant: Doc):
    assert spec_of({"schemaMap": {"mappings": {"f": written}}}) == {"schemaMap": {"mappings": {"f": meant}}}
    assert spec_of({"schemaMap": {"mappings": {"f": meant}}}) == {"schemaMap": {"mappings": {"f": meant}}}


FLATTEN = {"ops": [{"flatten": True}]}
AGGREGATIONS: list[tuple[Doc, Doc]] = [
    ({}, {}),
    ({"aggregation": None}, {}),
    ({"aggregation": FLATTEN}, {"aggregation": FLATTEN}),
    ({"aggregate": FLATTEN}, {"aggregation": FLATTEN}),
    ({"aggregation": {"ops": []}}, {"aggregation": {}}),
    ({"aggregation": {}}, {"aggregation": {}}),
    ({"aggregation": {"ops": ["flatten", "concat", "merge"]}},
     {"aggregation": {"ops": [{"flatten": True}, {"concat": True}, {"merge": True}]}}),
    ({"aggregation": {"ops": [{"sort": {"by": "$.a", "order": "desc"}}, {"dedupe": {"by": "$.a"}}, {"limit": 3}]}},
     {"aggregation": {"ops": [
         {"sort": {"field": "$.a", "order": "desc"}}, {"dedupe": {"field": "$.a"}}, {"limit": {"count": 3}}]}}),
    ({"aggregation": {"function": "flatten_and_sort_by_relevance"}},
     {"aggregation": {"ops": [{"flatten": True}, {"sort": {"field": "$.relevance", "order": "desc"}}]}}),
    ({"aggregation": {"function": "flatten_and_sort_by_relevance", "ops": None, "$comment": "seed"}},
     {"aggregation": {"ops": [{"flatten": True}, {"sort": {"field": "$.relevance", "order": "desc"}}]}}),
    ({"timeout_ms": 5000, "fail_fast": True, "min_success": 0}, {"timeoutMs": 5000, "failFast": True, "minSuccess": 0}),
    ({"timeoutMs": "5s"}, {"timeoutMs": 5000}),
    ({"timeout": "250ms"}, {"timeoutMs": 250}),
    ({"timeoutMs": {"minutes": 1}}, {"timeoutMs": 60000}),
    ({"timeoutMs": None}, {}),
]  # fmt: skip


@pytest.mark.req("ALG-8", "ALG-26", "STA-52")
@pytest.mark.parametrize(("written", "meant"), AGGREGATIONS, ids=lambda one: json.dumps(one)[:60])
def test_aggregation_and_durations_have_one_canonical_form(written: Doc, meant: Doc):
    assert spec_of({"scatterGather": {"targets": ["x"], **written}}) == {"scatterGather": {"targets": [TOOL], **meant}}
    assert spec_of({"scatterGather": {"targets": [TOOL], **meant}}) == {"scatterGather": {"targets": [TOOL], **meant}}


@pytest.mark.req("ALG-30")
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"enrichments": [{"field": "f", "source": "x"}], "mergeStrategy": "spread"}, {"mergeStrategy": "spread"}),
        ({"enrichments": [{"field": "f", "operation": "x"}], "merge": "nested"}, {"mergeStrategy": "nested"}),
        ({"enrichments": [{"field": "f", "operation": "x"}], "merge_strategy": "replace"},
         {"mergeStrategy": "replace"}),
        ({"enrichments": [{"field": "f", "operation": TOOL}], "merge": None}, {}),
    ],
)  # fmt: skip
def test_an_enricher_takes_both_sets_of_keys(written: Doc, meant: Doc):
    assert spec_of({"enricher": written}) == {"enricher": {"enrichments": [{"field": "f", "operation": TOOL}], **meant}}


@pytest.mark.parametrize("given", [{"path": "$.a"}, {"input": {"path": "$.a"}}, "$.a"])
def test_an_enrichment_may_take_a_part_of_the_object(given: Any):
    enriched = spec_of({"enricher": {"enrichments": [{"field": "f", "source": "x", "input": given}]}})
    assert enriched["enricher"]["enrichments"][0]["input"] == {"path": "$.a"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("$.names", {"path": "$.names"}),
        ({"path": "$.names"}, {"path": "$.names"}),
        ("x", {"operation": TOOL}),
        ({"tool": "x"}, {"operation": TOOL}),
        ({"operation": "x"}, {"operation": TOOL}),
    ],
)
def test_recipients_are_a_path_or_an_operation(written: Any, meant: Doc):
    listed = {"recipients": meant, "allowed": ["x"], "failFast": False}
    assert spec_of({"recipient_list": {**listed, "recipients": written, "aggregation": None}}) == {
        "recipientList": listed
    }


def test_snake_case_is_taken_everywhere():
    written = {
        "wire_tap": {
            "tap_point": "both",
            "taps": ["x"],
            "inner": {"map_each": {"inner": "x", "max_concurrency": 2, "on_error": "skip"}},
        }
    }
    inner = {"mapEach": {"inner": TOOL, "maxConcurrency": 2, "onError": "skip"}}
    assert spec_of(written) == {"wireTap": {"inner": inner, "taps": [TOOL], "tapPoint": "both"}}


@pytest.mark.req("ALG-20")
@pytest.mark.parametrize(
    "written",
    [
        {"source": {"target": "s", "tool": "x"}, "defaults": {"a": None}, "hideFields": ["a"]},
        {"source": {"server": "s", "tool": "x", "defaults": {"a": None}, "hide_fields": ["a"]}},
        {"source": {"server": "s", "tool": "x", "hideFields": ["a"]}, "defaults": {"a": None}, "title": None},
    ],
)
def test_defaults_and_hidden_fields_stand_in_the_source(written: Doc):
    source = {"server": "s", "tool": "x", "defaults": {"a": None}, "hideFields": ["a"]}
    assert canonical({"tools": [{"name": "t", **written}]})["tools"] == [{"name": "t", "source": source}]


@pytest.mark.req("ALG-20")
def test_a_v1_output_schema_becomes_an_output_transform():
    properties: Doc = {
        "url": {"fieldType": "string", "sourceField": "$.link", "description": "where"},
        "a b": {"field_type": "number"},
        "rest": True,
    }
    written = {"name": "t", "source": {"target": "s", "tool": "x"}, "outputSchema": {"properties": properties}}
    made = canonical({"tools": [written]})["tools"][0]
    assert made["outputTransform"]["schemaMap"]["mappings"] == {
        "url": {"path": "$.link", "default": None},
        "a b": {"path": "$['a b']", "default": None},
        "rest": {"path": "$.rest", "default": None},
    }
    assert made["outputSchema"] == {
        "type": "object",
        "properties": {
            "url": {"type": ["string", "null"], "description": "where"},
            "a b": {"type": ["number", "null"]},
            "rest": True,
        },
    }
    assert canonical({"tools": [made]})["tools"] == [made]


@pytest.mark.req("ALG-20")
def test_a_schema_may_be_text():
    source = {"server": "s", "tool": "x"}
    written = {"name": "t", "source": source, "input_schema": '{"type": "string"}', "outputSchema": "{}"}
    made = {"name": "t", "source": source, "inputSchema": {"type": "string"}, "outputSchema": {}}
    assert canonical({"tools": [written]})["tools"] == [made]


@pytest.mark.req("ALG-19", "ALG-21")
def test_compositions_become_tools_with_a_spec():
    body = {"description": "d", "inputType": "string", "outputType": "T[]", "version": "1.0.0", "spec": "x"}
    written = {
        "schema_version": "1.0",
        "tools": None,
        "compositions": [{"name": "c", **body}, {"name": "__i", "spec": "c"}],
    }
    assert canonical(written) == {
        "schemaVersion": "1.0",
        "tools": [{"name": "c", **body, "spec": TOOL}, {"name": "__i", "spec": {"tool": {"name": "c"}}}],
    }


@pytest.mark.parametrize("written", [{}, {"tools": []}, {"compositions": None, "$schema": "urn:x"}])
def test_a_document_may_be_empty(written: Doc):
    assert canonical(written) == {"schemaVersion": "1.0"}


def test_yaml_is_taken_as_json_is():
    text = """
schemaVersion: "1.0"
compositions:
  - name: c
    spec:
      pattern: pipeline
      steps:
        - operation: web_search
        - operation:
            map_each: {inner: {pattern: {schema_map: {mappings: {on: $.no, f: {literal: {numberValue: 1e0}}}}}}}
          input: {reference: {step: step_0}}
"""
    parsed = parse(read(text, format="yaml"))
    assert parsed.problems == ()
    inner = {"schemaMap": {"mappings": {"on": {"path": "$.no"}, "f": {"literal": 1.0}}}}
    assert parsed.document.to_ir()["tools"] == [
        {
            "name": "c",
            "spec": {
                "pipeline": {
                    "steps": [
                        {"id": "step_0", "operation": {"tool": {"name": "web_search"}}},
                        {
                            "id": "step_1",
                            "operation": {"mapEach": {"inner": inner}},
                            "input": {"step": {"stepId": "step_0"}},
                        },
                    ]
                }
            },
        }
    ]

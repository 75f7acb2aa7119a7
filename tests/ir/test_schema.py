"""The published JSON Schema takes what weft writes and refuses what is not canonical."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import Phase, find, given, settings

from tests.documents import FILES, canonical, composed, fixture, problems_of
from tests.strategies import documents, operations, unhurried
from weft.expr.schemas import SchemaCheck, compile_schema
from weft.ir.nodes import Node
from weft.ir.operations import kinds
from weft.ir.schema import json_schema

pytestmark = pytest.mark.req("ALG-32")

Doc = dict[str, Any]

TOOL: Doc = {"tool": {"name": "a"}}
STEP: Doc = {"id": "s", "operation": TOOL}
UPSTREAM: Doc = {"server": "s", "tool": "t"}


@pytest.fixture(scope="session")
def schema() -> SchemaCheck:
    return compile_schema(json_schema())


def tool(**body: Any) -> Doc:
    return {"schemaVersion": "1.0", "tools": [{"name": "t", **body}]}


def mapped(source: Doc) -> Doc:
    return composed({"schemaMap": {"mappings": {"a": source}}})


def gathered(op: Doc) -> Doc:
    return composed({"scatterGather": {"targets": [TOOL], "aggregation": {"ops": [op]}}})


def kept(**predicate: Any) -> Doc:
    return composed({"filter": {"predicate": predicate}})


def test_it_is_a_schema_of_the_draft_that_it_names():
    made = json_schema()
    assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema_rs.meta.validate(made)
    assert (made["$id"], made["title"]) == ("urn:weft:ir:v1", "weft IR, version 1")


def test_it_is_the_same_each_time_and_small():
    assert json.dumps(json_schema()) == json.dumps(json_schema())
    assert len(json.dumps(json_schema(), indent=2)) < 60_000


def test_every_model_is_described_by_its_docstring():
    definitions = json_schema()["$defs"]
    # What other rooms read by the same rules is no part of a document.
    rooms = ("weft.ir.", "weft.patterns.")
    models = {model.__name__: model for model in subclasses(Node) if model.__module__.startswith(rooms)}
    assert "Operation" in definitions
    for name, definition in definitions.items():
        told = models[name].__doc__ if name in models else "What a step does"
        assert told
        assert definition["description"].startswith(told.split("\n")[0])
        assert definition["additionalProperties"] is False


def subclasses(model: type[Node]) -> list[type[Node]]:
    return [inner for one in model.__subclasses__() for inner in (one, *subclasses(one))]


@pytest.mark.req("ALG-22")
def test_an_operation_is_one_definition_with_one_key_of_all_kinds():
    operation = json_schema()["$defs"]["Operation"]
    assert operation["properties"] == {kind: {"$ref": f"#/$defs/{m.__name__}"} for kind, m in kinds().items()}
    assert (operation["minProperties"], operation["maxProperties"]) == (1, 1)


@pytest.mark.req("ALG-19", "ALG-20", "ALG-21", "ALG-31")
@pytest.mark.parametrize("name", FILES)
def test_a_canonical_fixture_is_accepted(schema: SchemaCheck, name: str):
    assert schema.problems(canonical(fixture(name))) == []


@unhurried
@given(document=documents())
def test_random_canonical_documents_are_accepted(schema: SchemaCheck, document: Doc):
    assert schema.problems(document) == []


@pytest.mark.parametrize("kind", kinds())
def test_random_operations_are_of_every_kind(kind: str):
    generated = settings(unhurried, max_examples=2000, database=None, phases=[Phase.generate])
    assert find(operations(), lambda operation: kind in operation, settings=generated)


REFUSED: dict[str, Doc] = {
    "no version of the schema": {"tools": []},
    "another version of the schema": {"schemaVersion": "3.0"},
    "agents in a document of version 1": {"schemaVersion": "1.0", "agents": [{"name": "a", "version": "1.0.0"}]},
    "a registry's tool without a version": {"schemaVersion": "2.0", "tools": [{"name": "t", "spec": TOOL}]},
    "a registry's tool without source and spec": {"schemaVersion": "2.0", "tools": [{"name": "t", "version": "1.0.0"}]},
    "a version that is a range": {"schemaVersion": "2.0", "servers": [{"name": "s", "version": "^1.0.0"}]},
    "a dependency on the latest": tool(spec=TOOL, depends=[{"type": "tool", "name": "a", "version": "latest"}]),
    "an unknown key at the top": {"schemaVersion": "1.0", "tool": []},
    "an unknown key of a tool": tool(sauce=UPSTREAM),
    "an unknown key of a pattern": composed({"mapEach": {"inner": TOOL, "maxConcurency": 2}}),
    "a tool without a name": {"schemaVersion": "1.0", "tools": [{"source": UPSTREAM}]},
    "an empty name": {"schemaVersion": "1.0", "tools": [{"name": ""}]},
    "source and spec": tool(source=UPSTREAM, spec=TOOL),
    "an output transform without a source": tool(outputTransform=TOOL),
    "null where nothing is meant": tool(description=None),
    "two patterns": composed({**TOOL, "mapEach": {"inner": TOOL}}),
    "no pattern": composed({}),
    "an unknown pattern": composed({"mapeach": {"inner": TOOL}}),
    "a step without an id": composed({"pipeline": {"steps": [{"operation": TOOL}]}}),
    "no steps": composed({"pipeline": {"steps": []}}),
    "two sources of a binding": composed({"pipeline": {"steps": [{**STEP, "input": {"input": {}, "previous": {}}}]}}),
    "a constant without a value": composed({"pipeline": {"steps": [{**STEP, "input": {"constant": {}}}]}}),
    "a route with two conditions": composed(
        {"router": {"routes": [{"id": "r", "condition": "true", "predicate": {"op": "is_null"}, "target": TOOL}]}}
    ),
    "a route without a condition": composed({"router": {"routes": [{"id": "r", "target": TOOL}]}}),
    "a wrong merge strategy": composed(
        {"enricher": {"enrichments": [{"field": "a", "operation": TOOL}], "mergeStrategy": "deep"}}
    ),
    "a wrong answer to errors": composed({"mapEach": {"inner": TOOL, "onError": "ignore"}}),
    "a wrong tap point": composed({"wireTap": {"inner": TOOL, "taps": [TOOL], "tapPoint": "never"}}),
    "no taps": composed({"wireTap": {"inner": TOOL, "taps": []}}),
    "too many at a time": composed({"mapEach": {"inner": TOOL, "maxConcurrency": 65}}),
    "a timeout of nothing": composed({"scatterGather": {"targets": [TOOL], "timeoutMs": 0}}),
    "flatten that is false": gathered({"flatten": False}),
    "two aggregations in one": gathered({"flatten": True, "merge": True}),
    "a wrong order": gathered({"sort": {"order": "up"}}),
    "nobody allowed": composed({"recipientList": {"recipients": {"path": "$"}, "allowed": []}}),
    "no source of recipients": composed({"recipientList": {"recipients": {}, "allowed": ["a"]}}),
    "an unknown operator": kept(op="like", value="a"),
    "an operator without its value": kept(op="eq"),
    "a value for an operator that takes none": kept(op="is_null", value=1),
    "two sources of a field": mapped({"path": "$", "literal": 1}),
    "no source of a field": mapped({"default": 1}),
    "a default that is never used": mapped({"literal": 1, "default": 2}),
    "nothing to choose from": mapped({"coalesce": {"paths": []}}),
}  # fmt: skip


@pytest.mark.parametrize("document", REFUSED.values(), ids=REFUSED)
def test_it_refuses(schema: SchemaCheck, document: Doc):
    assert not schema.accepts(document)


FORGIVEN = {
    "no version of the schema",
    "null where nothing is meant",
    "a step without an id",
    "a constant without a value",
}
"""What weft takes, since it is another spelling."""


@pytest.mark.parametrize("reason", sorted(REFUSED.keys() - FORGIVEN))
def test_weft_refuses_what_the_schema_does(reason: str):
    assert problems_of(REFUSED[reason])


SPELLINGS: dict[str, Doc] = {
    "a tool by its name": composed({"mapEach": {"inner": "a"}}),
    "snake case": composed({"map_each": {"inner": TOOL}}),
    "a predicate as text": composed({"filter": {"predicate": "item.a > 1"}}),
    "a comment": tool(**{"$comment": "why"}),
    "a duration": composed({"scatterGather": {"targets": [TOOL], "timeout": "5s"}}),
}


@pytest.mark.parametrize("document", SPELLINGS.values(), ids=SPELLINGS)
def test_other_spellings_are_not_canonical_until_weft_has_read_them(schema: SchemaCheck, document: Doc):
    assert not schema.accepts(document)
    assert schema.accepts(canonical(document))

"""What each builder emits, and what it refuses."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest

import weft as w
from weft.errors import DocumentInvalid, ExpressionInvalid, InputError
from weft.expr.fields import FieldError


class Author(TypedDict):
    name: str


class Paper(TypedDict):
    title: str
    year: int
    relevance: float
    pdf_url: str | None
    authors: list[Author]


P = w.path(Paper)
A: Any = {"tool": {"name": "a"}}
B: Any = {"tool": {"name": "b"}}


@pytest.mark.req("ALG-2")
def test_a_tool_carries_only_its_name_into_the_document():
    assert w.tool("a", str, list[Paper]).to_ir() == A
    assert w.tool("größe/\"x\"").to_ir() == {"tool": {"name": "größe/\"x\""}}  # fmt: skip
    assert w.tool("a", server="s", version="1.0.0").to_ir() == {
        "tool": {"name": "a", "server": "s", "version": "1.0.0"}
    }
    assert w.agent("writer", "draft", version="1.0.0").to_ir() == {
        "agent": {"name": "writer", "skill": "draft", "version": "1.0.0"}
    }


@pytest.mark.req("ALG-3")
def test_a_composition_is_a_tool_and_emits_name_description_and_spec():
    made = w.composition("top", "What it does.", w.tool("a"))
    assert made.to_ir() == {"name": "top", "description": "What it does.", "spec": A}
    assert w.pipeline(made).to_ir()["pipeline"]["steps"][0]["operation"] == {"composition": {"name": "top"}}  # pyright: ignore
    typed = w.composition("top", "d", w.tool("a"), input=str, output="Report", version="1.0.0").to_ir()
    assert (typed["inputSchema"], typed["outputType"], typed["version"]) == ({"type": "string"}, "Report", "1.0.0")


OPS: dict[str, Any] = {
    "tool": w.tool("a"),
    "agent": w.agent("a", "s"),
    "composition": w.composition("c", "d", w.tool("a")),
    "pipeline": w.pipeline(w.tool("a")),
    "router": w.router(w.when("true", w.tool("a"))),
    "scatterGather": w.scatter_gather(w.tool("a")),
    "filter": w.filter(P["year"], w.gt(1)),
    "schemaMap": w.schema_map(P, {"a": P["title"]}),
    "mapEach": w.map_each(w.tool("a")),
    "enricher": w.enricher(f=w.tool("a")),
    "wireTap": w.wire_tap(w.tool("a"), w.tool("b")),
    "recipientList": w.recipient_list("$.names", allowed=["a"]),
}


@pytest.mark.req("ALG-4", "ALG-18")
@pytest.mark.parametrize("kind", OPS)
def test_every_operation_has_a_tag_and_may_stand_in_every_other(kind: str):
    assert OPS[kind].pattern == kind
    inner = w.map_each(OPS[kind]).to_ir()["mapEach"]["inner"]  # pyright: ignore
    assert list(inner) == [kind]  # pyright: ignore
    assert kind == "composition" or OPS[kind].to_ir() == inner


@pytest.mark.req("ALG-5")
def test_a_pipeline_binds_each_step_to_the_one_before():
    steps = [
        {"id": "step_0", "operation": A, "input": {"input": {"path": "$"}}},
        {"id": "step_1", "operation": B, "input": {"step": {"stepId": "step_0", "path": "$"}}},
        {"id": "step_2", "operation": A, "input": {"step": {"stepId": "step_1", "path": "$"}}},
    ]
    a, b = w.tool("a"), w.tool("b")
    assert w.pipeline(a, b, a).to_ir() == w.pipeline([a, b, a]).to_ir() == {"pipeline": {"steps": steps}}


def test_steps_may_have_names_inputs_conditions_and_the_pipeline_an_output():
    made = w.pipeline(
        w.step(w.tool("a"), id="input", condition="input.x"),
        w.tool("b"),
        w.step(w.tool("a"), input=w.construct(one=w.from_step("input", P["title"]), two=w.constant(None))),
        output=w.from_input("$.x"),
    ).to_ir()
    assert made == {
        "pipeline": {
            "steps": [
                {"id": "input", "operation": A, "input": {"input": {"path": "$"}}, "condition": "input.x"},
                {"id": "step_1", "operation": B, "input": {"step": {"stepId": "input", "path": "$"}}},
                {
                    "id": "step_2",
                    "operation": A,
                    "input": {
                        "construct": {
                            "fields": {
                                "one": {"step": {"stepId": "input", "path": "$.title"}},
                                "two": {"constant": {"value": None}},
                            }
                        }
                    },
                },
            ],
            "output": {"input": {"path": "$.x"}},
        }
    }


@pytest.mark.req("ALG-6")
def test_a_router_numbers_its_routes_and_leaves_out_an_absent_default():
    cases = [w.when("input.a", w.tool("a")), w.when(w.holds(P["year"], w.eq(3)), w.tool("b"))]
    routes = [
        {"id": "route_0", "condition": "input.a", "target": A},
        {"id": "route_1", "predicate": {"field": "$.year", "op": "eq", "value": 3}, "target": B},
    ]
    assert w.router(*cases).to_ir() == w.router(cases).to_ir() == {"router": {"routes": routes}}
    assert w.router(*cases, otherwise=w.tool("a")).to_ir() == {"router": {"routes": routes, "default": A}}


@pytest.mark.req("ALG-7", "ALG-8")
def test_a_scatter_emits_targets_ops_timeout_and_fail_fast():
    made = w.scatter_gather(
        w.tool("a"),
        w.map_each(w.tool("b")),
        aggregate=[
            w.flatten(),
            w.sort(P["relevance"], "desc"),
            w.dedupe(P["title"]),
            w.limit(3),
            w.keep_lists(),
            w.merge(),
        ],
        timeout=w.seconds(1.5),
        fail_fast=True,
    ).to_ir()
    assert made == {
        "scatterGather": {
            "targets": [A, {"mapEach": {"inner": B}}],
            "aggregation": {
                "ops": [
                    {"flatten": True},
                    {"sort": {"field": "$.relevance", "order": "desc"}},
                    {"dedupe": {"field": "$.title"}},
                    {"limit": {"count": 3}},
                    {"concat": True},
                    {"merge": True},
                ]
            },
            "timeoutMs": 1500,
            "failFast": True,
        }
    }
    plain = w.scatter_gather([w.tool("a")]).to_ir()
    assert plain == {"scatterGather": {"targets": [A], "aggregation": {"ops": [{"flatten": True}]}, "failFast": False}}
    kept: Any = w.scatter_gather(w.tool("a"), aggregate=[]).to_ir()
    assert kept["scatterGather"]["aggregation"] == {}


@pytest.mark.req("ALG-8")
def test_an_unknown_aggregation_op_is_refused_with_the_nearest():
    with pytest.raises(InputError, match=r"Unknown aggregation op 'flaten'.*did you mean 'flatten'"):
        w.scatter_gather(w.tool("a"), aggregate={"ops": [{"flaten": True}]})
    with pytest.raises(TypeError, match="Unknown aggregation op"):
        w.scatter_gather(w.tool("a"), aggregate="flatten")  # pyright: ignore


@pytest.mark.req("ALG-9", "ALG-10")
@pytest.mark.parametrize(
    ("predicate", "emitted"),
    [
        (w.eq(1), {"op": "eq", "value": 1}),
        (w.ne(1), {"op": "ne", "value": 1}),
        (w.gt(1), {"op": "gt", "value": 1}),
        (w.gte(1), {"op": "gte", "value": 1}),
        (w.lt(1), {"op": "lt", "value": 1}),
        (w.lte(1), {"op": "lte", "value": 1}),
        (w.one_of(1, 2), {"op": "in", "value": [1, 2]}),
        (w.is_null(), {"op": "is_null"}),
        (w.is_not_null(), {"op": "is_not_null"}),
        (w.is_error(), {"op": "is_error"}),
    ],
)
def test_predicates_emit_field_operator_and_value(predicate: Any, emitted: Any):
    assert w.filter(P["year"], predicate).to_ir() == {"filter": {"predicate": {"field": "$.year", **emitted}}}


def test_contains_looks_into_text():
    made = w.filter(P["authors"][0]["name"], w.contains("x")).to_ir()
    assert made == {"filter": {"predicate": {"field": "$.authors[0].name", "op": "contains", "value": "x"}}}


W: Any = w
"""What authors without a type checker may try."""
Q: Any = P
REFUSED: list[tuple[Any, type[BaseException], str]] = [
    (lambda: W.filter(Q["year"], W.gt), FieldError, "gt is not called"),
    (lambda: W.filter(Q["year"], bool), FieldError, "not a function; several conditions are several"),
    (lambda: W.filter(Q["year"], W.gt(1) & W.lt(3)), FieldError, "several conditions are several filters"),
    (lambda: W.filter(Q["year"], W.gt(1) | W.lt(3)), FieldError, "w.one_of"),
    (lambda: W.filter(Q["year"], W.gt(1) and W.lt(3)), FieldError, "several conditions are several filters"),
    (lambda: W.filter(Q["year"], ~W.gt(1)), FieldError, "opposite"),
    (lambda: W.filter(Q["year"], W.gt(Q["relevance"])), FieldError, "not with another field"),
    (lambda: W.filter(Q["title"], W.gt(1)), FieldError, "gt compares numbers"),
    (lambda: W.filter(Q["year"], W.eq("x")), FieldError, "never 'x'"),
    (lambda: W.filter("year", W.gt(1)), FieldError, "write p.year"),
    (lambda: W.filter(Q["yaer"], W.gt(1)), FieldError, "did you mean 'year'"),
    (lambda: W.gt("x"), ExpressionInvalid, "compares numbers"),
    (W.pipeline, DocumentInvalid, "at least 1 item"),
    (lambda: W.pipeline("a"), TypeError, r"write w\.tool\('a'\)"),
    (lambda: W.pipeline(W.tool), TypeError, "takes operations"),
    (lambda: W.pipeline(len), TypeError, "wrap it with @w.python_tool"),
    (lambda: W.pipeline(Q["title"]), TypeError, "takes operations"),
    (lambda: W.pipeline(W.step(W.tool("a"), input=Q["title"])), TypeError, r"w\.from_input\(\.\.\)"),
    (lambda: W.pipeline(W.tool("a"), output=Q["title"]), TypeError, r"w\.from_input\(\.\.\)"),
    (lambda: W.pipeline(W.step(W.tool("a"), input=W.from_step("b"))), DocumentInvalid, "Step not found: b"),
    (lambda: W.pipeline(W.step(W.tool("a"), id="x"), W.step(W.tool("a"), id="x")), DocumentInvalid, "two steps"),
    (lambda: W.pipeline(W.step(W.tool("a"), condition="inptu.x")), DocumentInvalid, "steps/0/condition"),
    (lambda: W.step("a"), TypeError, r"write w\.tool\('a'\)"),
    (lambda: W.construct(a=Q["title"]), TypeError, "w.construct takes"),
    (lambda: W.constant({1}), ExpressionInvalid, "not JSON"),
    (lambda: W.constant(float("nan")), ExpressionInvalid, "not JSON"),
    (W.router, DocumentInvalid, "at least 1 item"),
    (lambda: W.router(("input.a", W.tool("a"))), TypeError, r"w\.when\("),
    (lambda: W.when(bool, W.tool("a")), TypeError, "CEL text or w.holds"),
    (lambda: W.when(W.gt(1), W.tool("a")), TypeError, "CEL text or w.holds"),
    (lambda: W.when("true", "a"), TypeError, r"write w\.tool\('a'\)"),
    (lambda: W.router(W.when("input.", W.tool("a"))), DocumentInvalid, "routes/0/condition"),
    (W.scatter_gather, DocumentInvalid, "at least 1 item"),
    (lambda: W.scatter_gather(W.tool("a"), timeout="0s"), ExpressionInvalid, "0"),
    (lambda: W.scatter_gather(W.tool("a"), timeout="5"), ExpressionInvalid, "duration"),
    (lambda: W.scatter_gather(W.tool("a"), min_success=2), DocumentInvalid, "minSuccess 2 of 1"),
    (lambda: W.sort("relevance"), FieldError, "starts with"),
    (lambda: W.sort("$.a", "down"), DocumentInvalid, "order"),
    (lambda: W.limit(-1), DocumentInvalid, "count"),
    (lambda: W.schema_map(Paper, {"a": 1}), TypeError, "takes a path first"),
    (lambda: W.schema_map(Q, {}), DocumentInvalid, "at least 1 item"),
    (lambda: W.schema_map(Q, [Q["title"]]), TypeError, "an object of fields"),
    (lambda: W.schema_map(Q, {"a": object()}), ExpressionInvalid, "not JSON"),
    (lambda: W.schema_map(Q, {"a": W.template("{x}", y=Q["title"])}), DocumentInvalid, "Unknown template variable: x"),
    (lambda: W.schema_map(Q, {"a": W.coalesce()}), FieldError, "at least one path"),
    (lambda: W.map_each("a"), TypeError, r"write w\.tool\('a'\)"),
    (lambda: W.map_each(W.tool("a"), max_concurrency=0), DocumentInvalid, "maxConcurrency"),
    (W.enricher, DocumentInvalid, "at least 1 item"),
    (lambda: W.enricher(a="b"), TypeError, r"write w\.tool\('b'\)"),
    (lambda: W.wire_tap(W.tool("a")), DocumentInvalid, "at least 1 item"),
    (lambda: W.recipient_list("names", allowed=["a"]), FieldError, "starts with"),
    (lambda: W.recipient_list("$.names", allowed=[]), DocumentInvalid, "at least 1 item"),
    (lambda: W.recipient_list("$.names", allowed=[W.pipeline(W.tool("a"))]), TypeError, "w.named"),
    (lambda: W.tool(""), DocumentInvalid, "name"),
    (lambda: W.tool(3), DocumentInvalid, "string"),
    (lambda: W.composition("c", "d", "a"), TypeError, r"write w\.tool\('a'\)"),
    (lambda: W.named("", W.tool("a")), TypeError, "takes a name"),
    (lambda: W.compile(W.tool("a")), TypeError, "w.composition"),
]  # fmt: skip


@pytest.mark.req("ALG-11", "ALG-13", "ALG-14")
@pytest.mark.parametrize(("build", "error", "message"), REFUSED, ids=[message for _, _, message in REFUSED])
def test_a_mistake_is_refused_when_it_is_written(build: Any, error: type[BaseException], message: str):
    with pytest.raises(error, match=message) as caught:
        build()
    assert "pydantic" not in str(caught.value)


@pytest.mark.req("ALG-12", "ALG-15")
def test_a_map_takes_every_kind_of_source():
    made: Any = w.schema_map(
        P,
        {
            "title": P["title"],
            "first": P["authors"][0]["name"],
            "all": w.each(P["authors"])["name"],
            "url": w.coalesce(P["pdf_url"], P["title"]),
            "cite": w.template("{t} ({y})", t=P["title"], y=P["year"]),
            "both": w.concat(P["title"], P["pdf_url"], separator=", "),
            "kind": w.literal("paper"),
            "plain": 3,
            "none": None,
            "deep": {"title": P["title"], "path": P["title"]},
            "path": {"path": P["title"]},
            "mappings": {"mappings": P["title"], "literal": 1},
        },
    ).to_ir()
    assert made["schemaMap"]["mappings"] == {
        "title": {"path": "$.title"},
        "first": {"path": "$.authors[0].name"},
        "all": {"path": "$.authors[*].name"},
        "url": {"coalesce": {"paths": ["$.pdf_url", "$.title"]}},
        "cite": {"template": {"template": "{t} ({y})", "vars": {"t": "$.title", "y": "$.year"}}},
        "both": {"concat": {"paths": ["$.title", "$.pdf_url"], "separator": ", "}},
        "kind": {"literal": "paper"},
        "plain": {"literal": 3},
        "none": {"literal": None},
        "deep": {"nested": {"mappings": {"title": {"path": "$.title"}, "path": {"path": "$.title"}}}},
        "path": {"nested": {"mappings": {"path": {"path": "$.title"}}}},
        "mappings": {"nested": {"mappings": {"mappings": {"path": "$.title"}, "literal": {"literal": 1}}}},
    }


@pytest.mark.parametrize(
    ("source", "emitted"),
    [
        ({"literal": 5}, {"literal": 5}),
        ({"coalesce": [P["title"], "$.b"]}, {"coalesce": {"paths": ["$.title", "$.b"]}}),
        ({"template": "{x}", "vars": {"x": P["title"]}}, {"template": {"template": "{x}", "vars": {"x": "$.title"}}}),
        ({"concat": [P["title"]], "separator": "-"}, {"concat": {"paths": ["$.title"], "separator": "-"}}),
        ({"path": "$.a", "default": 0}, {"path": "$.a", "default": 0}),
        ({"nested": {"a": P["title"]}}, {"nested": {"mappings": {"a": {"path": "$.title"}}}}),
        (w.literal({"stringValue": "x"}), {"nested": {"mappings": {"stringValue": {"literal": "x"}}}}),
        (w.literal({"a": {"stringValue": "x"}}), {"literal": {"a": {"stringValue": "x"}}}),
    ],
)
def test_sources_may_be_written_as_documents_write_them(source: Any, emitted: Any):
    made: Any = w.schema_map(P, {"f": source}).to_ir()
    assert made["schemaMap"]["mappings"] == {"f": emitted}


@pytest.mark.req("ALG-16", "ALG-18")
def test_the_other_patterns_emit_what_documents_hold():
    assert w.map_each(w.tool("a"), max_concurrency=2, on_error="skip").to_ir() == {
        "mapEach": {"inner": A, "maxConcurrency": 2, "onError": "skip"}
    }
    assert w.enricher(x=w.tool("a"), y=(P["title"], w.tool("b")), merge="spread").to_ir() == {
        "enricher": {
            "enrichments": [
                {"field": "x", "operation": A},
                {"field": "y", "operation": B, "input": {"path": "$.title"}},
            ],
            "mergeStrategy": "spread",
        }
    }
    assert w.wire_tap(w.tool("a"), w.tool("b"), at="both").to_ir() == {
        "wireTap": {"inner": A, "taps": [B], "tapPoint": "both"}
    }
    assert w.recipient_list(
        P["authors"], allowed=["a", w.tool("b")], input=P["title"], aggregate=w.merge()
    ).to_ir() == {
        "recipientList": {
            "recipients": {"path": "$.authors"},
            "input": {"path": "$.title"},
            "allowed": ["a", "b"],
            "aggregation": {"ops": [{"merge": True}]},
            "failFast": False,
        }
    }

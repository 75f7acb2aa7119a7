"""A workflow document loads as it is written, and what is wrong with it is said where it stands."""

from __future__ import annotations

import json
from typing import Any

import pytest

import weft as w
from tests.documents import fixture
from tests.patterns.workflows import bare, refused, step
from tests.patterns.worlds import run
from weft.errors import WorkflowFailed
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.patterns.workflow import Workflow
from weft.testing import FakeWorld, refusal

A, B = step("a"), step("b")
ASKS: dict[str, Any] = {"message": "m", "schema": {}}


def workflow(document: dict[str, Any]) -> Workflow:
    """Return the workflow of a document that has no problems."""
    parsed = bare(document)
    assert parsed.problems == ()
    spec = parsed.document.tools[0].spec
    assert isinstance(spec, Workflow)
    return spec


@pytest.mark.req("WFL-1", "WFL-3")
def test_the_example_of_a_whole_workflow_becomes_one_tool_of_its_name():
    tool = bare(fixture("workflow-search-fold-store.json")).document.tools[0]
    assert (tool.name, tool.version) == ("search-fold-store-workflow", "1.0.0")
    assert tool.description == "Search for context, fold it, then store the result"
    assert tool.metadata == {
        "author": "contextd",
        "tags": ["search", "folding", "storage"],
        "estimated_duration_ms": 500,
    }
    assert isinstance(tool.spec, Workflow)
    handling = tool.spec.error_handling
    assert (handling.max_retries, handling.rollback_on_failure, handling.failure_strategy) == (
        2,
        True,
        "partial_success",
    )


@pytest.mark.req("WFL-3", "WFL-5", "WFL-29")
async def test_the_example_of_a_whole_workflow_runs_a_chain_of_three_tools():
    tools = {
        "checkpoint_search": {"content": ["found"]},
        "context_fold": {"summary": "in short", "folded": "folded"},
        "checkpoint_save": {"id": 7},
    }
    world = FakeWorld(tools=tools)
    document = bare(fixture("workflow-search-fold-store.json")).document
    value = await world.run("search-fold-store-workflow", {"query": "weft"}, document=document)
    assert value == {
        "search_results": {"content": ["found"]},
        "folded_content": {"summary": "in short", "folded": "folded"},
        "saved_checkpoint": {"id": 7},
    }
    assert world.calls == [
        ("checkpoint_search", {"query": "weft", "top_k": 10}),
        ("context_fold", {"content": ["found"], "strategy": "abstractive", "target_ratio": 0.6}),
        ("checkpoint_save", {"summary": "in short", "content": "folded", "tags": ["folded", "auto-generated"]}),
    ]


@pytest.mark.req("WFL-3", "WFL-9")
async def test_the_example_of_dependencies_runs_in_their_order_under_the_name_of_its_file():
    parsed = parse(read(json.dumps(fixture("workflow-dependencies.json")), name="dir/my deps.json"))
    assert parsed.problems == ()
    assert parsed.document.tools[0].name == "my-deps"
    world = FakeWorld(tools={"tool_a": 1, "tool_b": 2, "tool_c": 3})
    assert await world.run("my-deps", {}, document=parsed.document) == {"step1": 1, "step2": 2, "step3": 3}
    assert [name for name, _ in world.calls] == ["tool_a", "tool_b", "tool_c"]


@pytest.mark.req("WFL-2", "WFL-3")
def test_the_example_of_a_step_has_every_field():
    one = workflow(fixture("workflow-step.json")).steps[-1]
    assert one.tool is not None
    assert (one.id, one.tool.name) == ("unique_step_identifier", "tool_name")
    assert one.parameters == {"param1": "value1", "param2": "{{variable_reference}}"}
    assert one.depends_on == ["step_id_1", "step_id_2"]
    assert (one.output_key, one.timeout_ms, one.retry_count) == ("result_variable_name", 5000, 1)


@pytest.mark.req("WFL-1", "WFL-2")
def test_both_cases_and_every_other_spelling_are_the_same_workflow():
    snake: dict[str, Any] = {
        "steps": [
            step("a", timeout_ms=1000, retry_count=2, on_error="continue", at_most_once=True, output_key="first"),
            {"id": "b", "tool": {"name": "b"}, "parameters": {"x": 1}, "depends_on": ["a"], "when": "true"},
            {"id": "c", "tool": "c", "for_each": {"items": "{{a}}", "as": "item", "max_concurrency": 2}},
            {"id": "d", "elicit": {"message": "?", "schema": {"type": "object"}, "on_decline": "skip"}},
        ],
        "error_handling": {"max_retries": 1, "rollback_on_failure": True, "failure_strategy": "fail_fast"},
        "undo": {"a": {"tool": "z", "parameters": {}}},
        "max_concurrency": 3,
        "timeout_ms": 5000,
    }
    camel: dict[str, Any] = {
        "steps": [
            {"id": "a", "tool": "a", "timeout": "1s", "retryCount": 2, "onError": "continue", "atMostOnce": True}
            | {"outputKey": "first"},
            {"id": "b", "operation": {"tool": "b"}, "arguments": {"x": 1}, "dependsOn": ["a"], "condition": "true"},
            {"id": "c", "tool": "c", "forEach": {"items": "{{a}}", "maxConcurrency": 2}},
            {"id": "d", "elicit": {"message": "?", "requestedSchema": {"type": "object"}, "onDecline": "skip"}},
        ],
        "errorHandling": {"maxRetries": 1, "rollbackOnFailure": True, "failureStrategy": "fail_fast"},
        "undo": {"a": "z"},
        "maxConcurrency": 3,
        "timeout": {"seconds": 5},
    }
    one, other = workflow(snake).model_copy(), workflow(camel)
    assert one.steps[1].does == other.steps[1].does
    for index in (0, 2, 3):
        assert one.steps[index] == other.steps[index]
    assert one.steps[1].parameters == other.steps[1].parameters
    assert (one.error_handling, one.undo, one.max_concurrency, one.timeout_ms) == (
        other.error_handling,
        other.undo,
        other.max_concurrency,
        other.timeout_ms,
    )


def test_the_builder_makes_the_same_document():
    op = w.workflow(
        w.workflow_step("find", w.tool("search"), {"q": "{{input.q}}"}, output_key="found", timeout=w.seconds(2)),
        w.workflow_step("each", w.retry(w.tool("fetch")), {"u": "{{item}}"}, for_each="{{found.urls}}", retries=1),
        w.workflow_step("save", w.tool("save"), depends_on=["each"], when="size(found.urls) > 0", on_error="continue"),
        w.workflow_step("log", w.tool("log"), undo=("unlog", {"id": "{{output.id}}"})),
        output={"n": "{{save.id ?? 0}}"},
        strategy="rollback",
        max_retries=2,
        rollback_on_failure=True,
        max_concurrency=4,
        timeout="30s",
    )
    body: Any = op.to_ir()["workflow"]
    assert body["steps"][0] == {
        "id": "find",
        "tool": {"name": "search"},
        "parameters": {"q": "{{input.q}}"},
        "outputKey": "found",
        "timeoutMs": 2000,
    }
    assert body["steps"][1]["operation"] == {"retry": {"inner": {"tool": {"name": "fetch"}}, "maxAttempts": 3}}
    assert body["steps"][1]["forEach"] == {"items": "{{found.urls}}"}
    assert body["steps"][3]["undo"] == {"tool": {"name": "unlog"}, "parameters": {"id": "{{output.id}}"}}
    assert body["errorHandling"] == {"maxRetries": 2, "rollbackOnFailure": True, "failureStrategy": "rollback"}
    assert (body["maxConcurrency"], body["timeoutMs"], body["output"]) == (4, 30_000, {"n": "{{save.id ?? 0}}"})


async def test_a_step_may_be_undone_by_another_composition():
    p = w.path({})
    remove = w.composition("remove", "Remove it.", w.pipeline(w.tool("delete"), output=w.from_previous(p)))
    op = w.workflow(
        w.workflow_step("a", w.tool("create"), undo=(remove, {"id": "{{output.id}}"})),
        w.workflow_step("b", w.tool("bad"), depends_on=["a"]),
        strategy="rollback",
    )
    world = FakeWorld(tools={"create": {"id": 1}, "bad": refusal("no"), "delete": "ok"})
    with pytest.raises(WorkflowFailed, match="undone: a"):
        await world.run(op)
    assert world.calls[-1] == ("delete", {"id": 1})


def test_the_builder_says_what_belongs_into_it():
    with pytest.raises(TypeError, match=r"w\.workflow takes w\.workflow_step\(\.\.\), not"):
        w.workflow(w.tool("a"))  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"w\.workflow_step: undo takes a tool or a composition, not"):
        w.workflow_step("a", w.tool("a"), undo=(w.retry(w.tool("a")), {}))
    with pytest.raises(TypeError, match=r"w\.workflow_step takes operations .*write w\.tool\('a'\)"):
        w.workflow_step("a", "a")  # pyright: ignore[reportArgumentType]


@pytest.mark.req("WFL-10")
@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([A, step("a", tool="x")], [("DuplicateStep", "/steps/1/id")]),
        ([step("a", output_key="k"), step("b", output_key="k")], [("NameTaken", "/steps/1/output_key")]),
        ([step("a", output_key="b"), B], [("NameTaken", "/steps/1/id")]),
        ([step("input")], [("NameTaken", "/steps/0/id")]),
        ([step("a", outputKey="context")], [("NameTaken", "/steps/0/outputKey")]),
        ([step("steps")], [("NameTaken", "/steps/0/id")]),
        ([step("a", "a")], [("SelfDependency", "/steps/0/depends_on/0")]),
        ([step("a", parameters={"x": ["{{a.y}}"]})], [("SelfDependency", "/steps/0/parameters/x/0")]),
        ([step("a", when="a == 1")], [("SelfDependency", "/steps/0/when")]),
        ([A, step("b", "a", "c")], [("UnknownStep", "/steps/1/depends_on/1")]),
        ([step("a", when='steps["c"] == 1')], [("UnknownStep", "/steps/0/when")]),
        ([step("a", "b"), step("b", "a")], [("Cycle", "/steps/0")]),
        ([A, step("b", "d"), step("c", "b"), step("d", "c")], [("Cycle", "/steps/1")]),
        ([step("a", parameters={"x": "{{b}}"}), step("b", "a")], [("Cycle", "/steps/0")]),
        ([step("a", when="b == 1"), step("b", "a")], [("Cycle", "/steps/0")]),
        ([step("a", join="any")], [("NothingToJoin", "/steps/0/join")]),
        ([A, step("b", "a", join="any", parameters="{{a}}")], [("MayNotHaveRun", "/steps/1/parameters")]),
    ],
)
def test_names_and_dependencies_that_cannot_be_are_refused_where_they_stand(steps: Any, found: Any):
    assert refused(*steps) == found


@pytest.mark.req("WFL-10")
def test_a_refusal_says_what_was_expected_and_what_was_probably_meant():
    (one,) = bare({"steps": [step("search"), step("b", "serch")]}).problems
    assert one.message == "Step not found: serch"
    assert (one.value, one.expected, one.suggestion) == ("'serch'", "one of search, b", "search")
    (one,) = bare({"steps": [step("a", "b"), step("b", "c"), step("c", "a")]}).problems
    assert one.message == "steps wait for each other in a circle: a -> b -> c -> a"
    (one,) = bare({"steps": [step("search"), step("b", parameters={"q": "x {{serch.y}}"})]}).problems
    assert (one.code, one.pointer, one.suggestion) == ("UnknownReference", "/steps/1/parameters/q", "search")
    (one,) = bare({"steps": [A, step("b", "a", join="any", parameters={"x": "{{a.y}}"})]}).problems
    assert one.expected == "{{a.y ?? null}}"


@pytest.mark.req("WFL-2", "WFL-10")
@pytest.mark.parametrize(
    ("one", "found"),
    [
        ({"id": "a"}, ("ExactlyOne", "/steps/0")),
        ({"id": "a", "tool": "t", "operation": {"tool": "t"}}, ("ExactlyOne", "/steps/0")),
        ({"id": "a", "elicit": ASKS, "parameters": {"a": 1}}, ("NotHere", "/steps/0/parameters")),
        ({"id": "a", "elicit": ASKS, "undo": "t"}, ("NotHere", "/steps/0/undo")),
        ({"id": "a b", "tool": "t"}, ("WrongValue", "/steps/0/id")),
        ({"id": "", "tool": "t"}, ("WrongValue", "/steps/0/id")),
        ({"tool": "t"}, ("MissingKey", "/steps/0")),
        ({"id": "a", "tool": "t", "dependson": []}, ("UnknownKey", "/steps/0/dependson")),
        ({"id": "a", "tool": "t", "depends_on": "b"}, ("WrongType", "/steps/0/depends_on")),
        ({"id": "a", "tool": "t", "retry_count": 20}, ("WrongValue", "/steps/0/retry_count")),
        ({"id": "a", "tool": "t", "timeout_ms": 0}, ("WrongValue", "/steps/0/timeout_ms")),
        ({"id": "a", "tool": "t", "on_error": "ignore"}, ("WrongValue", "/steps/0/on_error")),
        ({"id": "a", "tool": "t", "join": "some"}, ("WrongValue", "/steps/0/join")),
        ({"id": "a", "tool": "t", "parameters": {"x": ["{{"]}}, ("ReferenceSyntax", "/steps/0/parameters/x/0")),
        ({"id": "a", "tool": "t", "parameters": "{{nobody}}"}, ("UnknownReference", "/steps/0/parameters")),
        ({"id": "a", "tool": "t", "parameters": "{{item}}"}, ("UnknownReference", "/steps/0/parameters")),
        ({"id": "a", "tool": "t", "for_each": "{{nobody}}"}, ("UnknownReference", "/steps/0/for_each")),
        ({"id": "a", "tool": "t", "for_each": {"items": "{{item}}"}}, ("UnknownReference", "/steps/0/for_each/items")),
        ({"id": "a", "tool": "t", "for_each": {"items": [], "as": "index"}}, ("NameTaken", "/steps/0/for_each/as")),
        ({"id": "a", "tool": "t", "for_each": {"items": [], "as": "output"}}, ("NameTaken", "/steps/0/for_each/as")),
        ({"id": "a", "tool": "t", "for_each": {"items": [], "as": "a"}}, ("NameTaken", "/steps/0/for_each/as")),
        ({"id": "index", "tool": "t", "for_each": []}, ("NameTaken", "/steps/0/for_each")),
        ({"id": "a", "tool": "t", "when": "1 +"}, ("CelSyntax", "/steps/0/when")),
        ({"id": "a", "tool": "t", "when": "nobody == 1"}, ("CelUnknownName", "/steps/0/when")),
        ({"id": "a", "tool": "t", "when": "steps[input.x]"}, ("StepNotLiteral", "/steps/0/when")),
        ({"id": "a", "elicit": {"message": "{{no}}", "schema": {}}}, ("UnknownReference", "/steps/0/elicit/message")),
        (step("a", undo={"tool": "u", "parameters": "{{no}}"}), ("UnknownReference", "/steps/0/undo/parameters")),
    ],
)  # fmt: skip
def test_a_step_that_is_wrong_is_refused_where_it_is_wrong(one: Any, found: tuple[str, str]):
    assert refused(one) == [found]


@pytest.mark.req("WFL-1", "WFL-15")
@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"output": {"x": ["{{no.y}}"]}}, ("UnknownReference", "/output/x/0")),
        ({"error_handling": {"failure_strategy": "fail-fast"}}, ("WrongValue", "/error_handling/failure_strategy")),
        ({"errorHandling": {"maxRetries": -1}}, ("WrongValue", "/errorHandling/maxRetries")),
        ({"error_handling": {"retries": 1}}, ("UnknownKey", "/error_handling/retries")),
        ({"max_concurrency": 0}, ("WrongValue", "/max_concurrency")),
        ({"max_concurrency": 65}, ("WrongValue", "/max_concurrency")),
        ({"timeout_ms": "soon"}, ("DurationInvalid", "/timeout_ms")),
        ({"undo": {"a": {"tool": "u", "parameters": {"i": "{{no}}"}}}}, ("UnknownReference", "/undo/a/parameters/i")),
        ({"undo": {"a": {"parameters": {}}}}, ("MissingKey", "/undo/a")),
        ({"outputs": {}}, ("UnknownKey", "/outputs")),
        ({"version": 1}, ("WrongType", "/version")),
    ],
)
def test_a_bare_document_that_is_wrong_is_refused_where_it_is_wrong(more: dict[str, Any], found: tuple[str, str]):
    assert refused(A, **more) == [found]


def test_no_steps_and_too_many_are_refused():
    assert refused() == [("WrongValue", "/steps")]
    assert refused(*(step(f"s{n}", tool="t") for n in range(1001))) == [("WrongValue", "/steps")]


@pytest.mark.req("WFL-10")
def test_wrong_names_are_told_together_with_what_else_is_wrong():
    assert refused(A, step("b", "c"), max_concurrency=0) == [
        ("WrongValue", "/max_concurrency"),
        ("UnknownStep", "/steps/1/depends_on/0"),
    ]


def test_problems_point_into_the_lines_of_the_text_as_it_was_written():
    text = "name: it\nsteps:\n  - id: a\n    tool: t\n  - id: b\n    tool: t\n    depends_on:\n      - a\n      - x\n"
    (one,) = parse(read(text, name="it.yaml")).problems
    assert (one.code, one.pointer, one.line) == ("UnknownStep", "/steps/1/depends_on/1", 9)


def test_patterns_in_the_steps_of_a_bare_document_may_be_as_deep_as_elsewhere_and_no_deeper():
    def nested(depth: int) -> dict[str, Any]:
        operation: dict[str, Any] = {"tool": "t"}
        for _ in range(depth):
            operation = {"retry": {"inner": operation}}
        return {"id": "a", "operation": operation}

    assert refused(nested(29)) == []
    assert [code for code, _ in refused(nested(30))] == ["MaxPatternDepth"]


def test_a_workflow_may_stand_in_a_list_of_tools_without_spec_and_beside_others():
    document = {
        "schemaVersion": "1.0",
        "tools": [{"name": "w", "steps": [A]}, {"name": "v", "steps": [step("a", "x")]}],
    }
    parsed = parse(read(json.dumps(document)))
    assert [(one.code, one.pointer) for one in parsed.problems] == [("UnknownStep", "/tools/1/steps/0/depends_on/0")]
    assert isinstance(parsed.document.tools[0].spec, Workflow)


async def test_a_workflow_may_be_a_part_of_any_pattern_and_hold_any():
    inner = {"workflow": {"steps": [{"id": "a", "operation": {"mapEach": {"inner": "t"}}, "parameters": "{{input}}"}]}}
    world = FakeWorld(tools={"t": lambda x: x + 1, "len": len})
    result = await run(world, {"pipeline": {"steps": [{"operation": inner}, {"operation": {"tool": "len"}}]}}, [1, 2])
    assert result.value == 1

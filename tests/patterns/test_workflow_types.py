"""Types flow through a workflow: what cannot fit is found when it is loaded, at the place where it stands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.patterns.workflows import bare, flowing, step
from tests.patterns.worlds import document
from weft.ir.document import ToolDef
from weft.plan.compiler import check
from weft.plan.typeflow import declared_input
from weft.ports import ToolType
from weft.testing import FakeWorld

PAGE = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "links": {"type": "array", "items": {"type": "string"}}},
    "required": ["title", "links"],
    "additionalProperties": False,
}
TYPES = {
    "fetch": ToolType(
        input={"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}, output=PAGE
    ),
    "count": ToolType(
        input={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        output={"type": "integer"},
    ),
}
FETCH = step("page", tool="fetch", parameters={"url": "{{input.url}}"})
INPUT = {
    "type": "object",
    "properties": {"url": {"type": "string"}},
    "required": ["url"],
    "additionalProperties": False,
}


def errors(*steps: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
    found = flowing({"steps": [*steps], "inputSchema": INPUT, **more}, TYPES)
    return [(one.code, one.pointer) for one in found if one.severity == "error"]


def test_a_workflow_whose_types_fit_has_nothing_to_report():
    each = step("each", tool="fetch", for_each="{{page.links}}", parameters={"url": "{{item}}"})
    count = step("n", tool="count", parameters={"n": 3})
    assert errors(FETCH, each, count, output={"t": "{{page.title}}", "all": "{{each[0].title}}"}) == []


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"n": "{{page.title}}"}, "string given where integer is expected"),
        ({"n": "text"}, "string given where integer is expected"),
        ({"n": "{{input.url}}"}, "string given where integer is expected"),
        ({"n": "1 {{page.title}}"}, "string given where integer is expected"),
        ({}, "is required and never given"),
    ],
)
def test_a_parameter_of_the_wrong_type_is_an_error_at_load(parameters: Any, told: str):
    steps = [FETCH, step("n", tool="count", parameters=parameters)]
    (one,) = flowing({"steps": steps, "inputSchema": INPUT}, TYPES)
    assert (one.code, one.severity, one.pointer) == ("TypeMismatch", "error", "/steps/1/tool")
    assert "field 'n'" in one.message
    assert told in one.message


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"parameters": {"n": "{{page.titel}}"}}, "/steps/1/parameters/n"),
        ({"parameters": {"n": 1, "x": ["{{page.titel}}"]}}, "/steps/1/parameters/x/0"),
        ({"parameters": {"n": 1, "x": {"y": "a {{page.titel}} b"}}}, "/steps/1/parameters/x/y"),
        ({"parameters": {"n": 1}, "for_each": "{{page.lnks}}"}, "/steps/1/for_each"),
        ({"parameters": {"n": 1, "x": "{{input.uri}}"}}, "/steps/1/parameters/x"),
        ({"parameters": {"n": 1, "x": "{{item.y}}"}, "for_each": "{{page.links}}"}, "/steps/1/parameters/x"),
    ],
)
def test_a_reference_that_cannot_lead_anywhere_is_an_error_at_load(more: dict[str, Any], place: str):
    assert errors(FETCH, step("n", tool="count", **more)) == [("PathImpossible", place)]


def test_the_output_and_a_question_are_looked_at_as_well():
    assert errors(FETCH, output={"t": ["{{page.titel}}"]}) == [("PathImpossible", "/output/t/0")]
    ask = {"id": "ask", "elicit": {"message": "Send {{page.titel}}?", "schema": {"type": "object"}}}
    assert errors(FETCH, ask) == [("PathImpossible", "/steps/1/elicit/message")]


def test_a_suggestion_comes_with_it():
    (one,) = flowing({"steps": [FETCH, step("n", tool="count", parameters={"n": "{{page.titel}}"})]}, TYPES)
    assert one.suggestion == "title"


def test_what_has_a_condition_or_a_default_is_looked_at_as_far_as_is_certain():
    maybe = {**FETCH, "when": "input.url != ''"}
    bad = step("n", tool="count", parameters={"n": 1, "x": "{{page.titel}}"})
    assert errors(maybe, bad) == [("PathImpossible", "/steps/1/parameters/x")]
    assert errors(maybe, step("n", tool="count", parameters={"n": "{{page.titel ?? 3}}"})) == []


def outer(inner: dict[str, Any], reference: str) -> list[str]:
    """Return the codes of a workflow that reads another's result."""
    steps = [{"id": "w", "operation": {"composition": "inner"}}, step("n", tool="count", parameters={"n": reference})]
    world = FakeWorld(tools=dict.fromkeys(TYPES), types=TYPES)
    found = check(document({"workflow": {"steps": steps}}, inner={"workflow": inner}), world._canned)  # pyright: ignore[reportPrivateUsage]
    return [one.code for one in found if one.severity == "error"]


COUNT = step("n", tool="count", parameters={"n": 1})


def test_a_workflow_is_known_to_give_all_results_by_their_names():
    assert outer({"steps": [COUNT]}, "{{w.n}}") == []
    assert outer({"steps": [COUNT]}, "{{w.m}}") == ["PathImpossible"]
    assert outer({"steps": [COUNT], "output": {"m": "{{n}}"}}, "{{w.m}}") == []


@pytest.mark.parametrize(
    "inner",
    [
        {"steps": [COUNT, step("m", tool="count", parameters={"n": 1}, when="false")]},
        {"steps": [{**COUNT, "on_error": "continue"}, step("m", tool="count", parameters={"n": 1})]},
        {"steps": [COUNT], "error_handling": {"failure_strategy": "partial_success"}},
        {"steps": [COUNT], "output": {"m": "{{n}}"}, "error_handling": {"failure_strategy": "partial_success"}},
    ],
)
def test_nothing_is_promised_of_what_may_be_missing(inner: dict[str, Any]):
    assert outer(inner, "{{w.other}}") == []


@pytest.mark.req("WFL-11")
def test_a_reference_to_a_step_that_is_not_depended_on_is_flagged_where_depends_on_is_written():
    found = flowing(
        {
            "steps": [
                step("a"),
                step("b", "a"),
                step("c", "b", parameters={"x": "{{a.x}}"}),
                step("d"),
                step("e", "a", parameters={"y": ["{{d.y}}"]}, when="b != null"),
                step("f", parameters={"x": "{{a.x}}"}),
            ]
        }
    )
    assert [(one.code, one.severity, one.pointer) for one in found] == [
        ("ImplicitDependency", "warning", "/steps/4/parameters/y/0"),
        ("ImplicitDependency", "warning", "/steps/4/when"),
    ]
    assert found[0].message == "step 'e' reads 'd' and does not depend on it"


def takes(**document: Any) -> Any:
    tool: ToolDef = bare(document).document.tools[0]
    return declared_input(tool)


@pytest.mark.req("WFL-4")
def test_what_a_workflow_takes_is_what_it_reads_of_its_input():
    assert takes(steps=[step("a", parameters={"q": "{{input.q}}", "n": "{{input.n ?? 3}}"})]) == {
        "type": "object",
        "properties": {"q": {}, "n": {}},
        "required": ["q"],
    }
    assert takes(steps=[step("a", for_each="{{input.list}}")], output="{{input.name}}")["required"] == ["name", "list"]


def test_what_only_some_runs_read_is_not_needed():
    steps = [
        step("a", when="has(input.mail)", parameters={"to": "{{input.mail}}"}),
        step("b", parameters={"x": "{{a.id}}", "cc": "{{input.cc}}"}),
        step("c", undo={"tool": "u", "parameters": "{{input.why}}"}),
    ]
    assert takes(steps=steps) == {"type": "object", "properties": {"mail": {}, "cc": {}, "why": {}}}


def test_a_workflow_that_reads_its_input_as_a_whole_takes_anything():
    assert takes(steps=[step("a", for_each="{{input}}")]) == {}
    assert takes(steps=[step("a", parameters="{{input[0]}}")]) == {}


def test_what_it_says_itself_goes_first():
    assert takes(steps=[FETCH], inputSchema=INPUT) == INPUT

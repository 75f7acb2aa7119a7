"""ToolHive's composite tools: what can be said becomes a composition that runs, what cannot is told."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from weft.app import load, problems_of
from weft.cli.import_ import command
from weft.errors import errors_in
from weft.ir.document import Document
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.registry.gotemplates import Inexpressible, expression, pieces
from weft.registry.toolhive import Composites, composites, definitions_in
from weft.testing import FakeWorld

import_module("weft.patterns")  # closes the union of operations

RESOURCE = """
# A group, which weft has no use for.
apiVersion: toolhive.stacklok.dev/v1alpha1
kind: MCPGroup
metadata: {name: group}
---
apiVersion: toolhive.stacklok.dev/v1alpha1
kind: VirtualMCPCompositeToolDefinition
metadata: {name: report}
spec:
  name: report
  description: |
    Find and tell.
  timeout: 10m
  parameters:
    type: object
    properties: {topic: {type: string}}
    required: [topic]
  steps:
    - id: tell
      tool: mail.send
      arguments:
        subject: "About {{.params.topic}} {braces}"
        body: "{{.steps.find.output.summary}}"
        copies: 2
      dependsOn: [find]
    - id: find
      tool: web.search
      arguments: {q: "{{.params.topic}}"}
      onError: {action: retry, maxRetries: 2}
"""


LOOP = {"type": "forEach", "collection": "{{.params.items}}"}


def _step(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "tool": f"web.{name}", **fields}


def _made(*steps: dict[str, Any], **fields: Any) -> Composites:
    return composites([{"name": "flow", "steps": list(steps), **fields}])


def _document(made: Composites) -> Document:
    parsed = parse(read(json.dumps(made.document), name="registry.json", format="json"))
    assert not errors_in(problems_of(parsed))
    return parsed.document


async def _ran(made: Composites, input: Any, **answers: Any) -> tuple[Any, dict[str, list[Any]]]:
    """Run a composition; return its result, and the arguments that each tool got."""
    got: dict[str, list[Any]] = {}

    def answering(name: str, answer: Any) -> Any:
        def answered(arguments: Any) -> Any:
            got.setdefault(name, []).append(arguments)
            return answer

        return answered

    world = FakeWorld(tools={name: answering(name, answer) for name, answer in answers.items()})
    return await world.run("flow", input, document=_document(made)), got


def _imported(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def test_a_resource_is_imported_as_a_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("toolhive.yaml").write_text(RESOURCE)
    done = _imported("toolhive.yaml", "-o", "registry.json")
    assert done.exit_code == 0, done.output
    assert "'timeout' was not carried over: the deadline of the call holds" in done.stderr
    assert "'onError' of find was not carried over: an error ends the composition" in done.stderr
    tool = load(Path("registry.json")).document.tools[0]
    assert (tool.name, tool.description) == ("report", "Find and tell.")
    spec: Any = tool.to_ir()["spec"]
    assert [step["id"] for step in spec["pipeline"]["steps"]] == ["find", "tell__arguments", "tell"]
    again = _imported("toolhive.yaml", "-o", "registry.json", "--json")
    assert (again.exit_code, json.loads(again.stdout)["error"]["code"]) == (2, "FileExists")
    told = json.loads(_imported("toolhive.yaml", "--json").stdout)
    assert (len(told["registry"]["tools"]), len(told["notes"]), told["written"]) == (1, 2, None)


def test_a_file_whose_tools_all_cannot_be_said_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_text('compositeTools: [{name: x, steps: [{id: a, type: elicitation, message: "?"}]}]')
    done = _imported("x.yaml", "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"]["hint"] == "x: left out: step a is of the type elicitation"


async def test_arguments_come_from_parameters_and_steps_and_texts_around_them():
    made = _made(
        _step("find", arguments={"q": "{{.params.topic}}", "n": 5, "deep": {"raw": "{{.params.x}}"}}),
        _step(
            "send",
            arguments={
                "to": "{{ .params.to }}",
                "text": "On {{.params.topic}}: {{.steps.find.output.best}} {x}",
                "k": 1,
            },
        ),
    )
    result, got = await _ran(made, {"topic": "tea", "to": "ada"}, find={"best": "green"}, send="sent")
    assert result == "sent"
    assert got["find"] == [{"q": "tea", "n": 5, "deep": {"raw": "{{.params.x}}"}}]
    assert got["send"] == [{"to": "ada", "text": "On tea: green {x}", "k": 1}]
    assert made.notes == []


async def test_text_of_a_tool_is_its_value_and_json_in_it_is_parsed():
    made = _made(
        _step("a"),
        _step("b", arguments={"t": "{{.steps.a.output.text}}", "n": "{{(fromJson .steps.a.output.text).user.name}}"}),
    )
    _, got = await _ran(made, {}, a={"user": {"name": "ada"}}, b="x")
    assert got["b"] == [{"t": {"user": {"name": "ada"}}, "n": "ada"}]
    assert made.notes == ["flow: step b: " + made.notes[0].removeprefix("flow: step b: ")]
    assert "$.text" in made.notes[0]


async def test_steps_run_after_those_that_they_wait_for_and_the_last_written_gives_the_result():
    made = _made(_step("c", dependsOn=["b"]), _step("a"), _step("b", arguments={"v": "{{.steps.a.output}}"}))
    result, _ = await _ran(made, {}, a=1, b=2, c=3)
    assert result == 2
    spec = made.tools[0]["spec"]["pipeline"]
    assert [step["id"] for step in spec["steps"]] == ["a", "b", "c"]


def test_steps_that_ran_at_the_same_moment_are_told():
    assert _made(_step("a"), _step("b")).notes == ["flow: steps that ran at the same moment run one after the other"]


@pytest.mark.parametrize(
    ("condition", "input", "runs"),
    [
        ("{{.params.go}}", {"go": True}, True),
        ("{{.params.go}}", {"go": False}, False),
        ("{{.params.go}}", {}, False),
        ("{{not .params.go}}", {"go": False}, True),
        ('{{eq .params.mode "fast"}}', {"mode": "fast"}, True),
        ('{{and .params.go (ne .params.mode "fast")}}', {"go": True, "mode": "fast"}, False),
        ("{{or .params.go (gt .steps.a.output.count 10)}}", {"go": False}, True),
    ],
)
async def test_conditions_become_cel(condition: str, input: dict[str, Any], runs: bool):
    made = _made(_step("a"), _step("b", condition=condition), _step("c", dependsOn=["b"]))
    _, got = await _ran(made, input, a={"count": 11}, b=2, c=3)
    assert ("b" in got) is runs


async def test_a_loop_does_the_same_with_every_item():
    inner = {"tool": "osv.query", "arguments": {"name": "{{.forEach.pkg.name}}", "label": "v{{.forEach.pkg.version}}"}}
    made = _made(
        _step("list"),
        {
            "id": "check",
            "type": "forEach",
            "collection": "{{json .steps.list.output.packages}}",
            "itemVar": "pkg",
            "maxParallel": 5,
            "step": inner,
            "onError": {"action": "continue"},
        },
    )
    packages = [{"name": "a", "version": 1}, {"name": "b", "version": 2}]
    result, got = await _ran(made, {}, list={"packages": packages}, query="fine")
    assert result == ["fine", "fine"]
    assert got["query"] == [{"name": "a", "label": "v1"}, {"name": "b", "label": "v2"}]
    loop = made.tools[0]["spec"]["pipeline"]["steps"][1]["operation"]["mapEach"]
    assert (loop["maxConcurrency"], loop["onError"]) == (5, "skip")
    assert made.notes == [
        "flow: step check gives the list of what its tool gave, and not ToolHive's account of iterations"
    ]


async def test_the_output_is_made_as_it_says():
    output = {
        "properties": {
            "best": {"type": "string", "description": "The best.", "value": "{{.steps.a.output.best}}"},
            "said": {"type": "string", "value": "It is {{.steps.a.output.best}}", "default": "?"},
        }
    }
    made = _made(_step("a"), output=output)
    result, _ = await _ran(made, {}, a={"best": "tea"})
    assert result == {"best": "tea", "said": "It is tea"}
    assert made.tools[0]["outputSchema"]["properties"]["best"] == {"description": "The best."}
    assert made.notes == ["flow: the default of the output said was not carried over: what is missing is null"]
    plain = _made(_step("a"), output={"properties": {"best": output["properties"]["best"]}})
    assert (await _ran(plain, {}, a={"best": "tea"}))[0] == {"best": "tea"}


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([], "it has no steps"),
        ([_step("a"), _step("a")], "ids of their own"),
        ([_step("a", type="elicitation")], "of the type elicitation"),
        ([_step("a", type="forEach")], "step a goes over something else"),
        ([_step("a", **LOOP, step={"tool": "t", "arguments": {"x": "{{.params.y}}"}})], "for every item"),
        (
            [_step("a", **LOOP, step={"tool": "t"}), _step("b", arguments={"n": "{{.steps.a.output.count}}"})],
            "iterations of a",
        ),
        ([_step("a", dependsOn=["b"]), _step("b", dependsOn=["a"])], "wait for each other"),
        ([_step("a", dependsOn=["zz"])], "there is no step zz"),
        ([_step("a", arguments={"x": "{{.vars.y}}"})], ".vars.y in step a"),
        ([_step("a", arguments={"x": "{{range .params.y}}z{{end}}"})], "the function range"),
        ([_step("a", arguments={"x": "{{.params.y | quote}}"})], "{{.params.y | quote}}"),
        ([_step("a", arguments={"x": '{{printf "%s" .params.y}}'})], "the function printf"),
        ([_step("a"), _step("b", condition='{{eq .steps.a.status "failed"}}'), _step("c")], ".steps.a.status"),
        ([_step("a", condition="{{.params.x}}"), _step("b", arguments={"y": "{{.steps.a.output}}"})], "may be skipped"),
        ([_step("a", condition="{{.params.x}}")], "may be skipped"),
    ],
)
def test_what_cannot_be_said_is_left_out_with_the_reason(steps: list[dict[str, Any]], reason: str):
    made = _made(*steps)
    assert made.tools == []
    assert made.notes[-1].startswith("flow: left out: ")
    assert reason in made.notes[-1]


async def test_a_place_that_toolhive_does_not_know_is_empty_and_told():
    made = _made(_step("a", arguments={"x": "at {{.timestamp}}."}))
    _, got = await _ran(made, {}, a=1)
    assert got["a"] == [{"x": "at ."}]
    assert made.notes == ["flow: step a: .timestamp is nothing that ToolHive knows, and is left empty"]


def test_parameters_of_the_older_form_become_a_schema():
    parameters = {"topic": {"type": "string", "required": True}, "n": {"type": "integer", "default": 3}}
    assert _made(_step("a"), parameters=parameters).tools[0]["inputSchema"] == {
        "type": "object",
        "properties": {"topic": {"type": "string"}, "n": {"type": "integer", "default": 3}},
        "required": ["topic"],
    }


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "VirtualMCPCompositeToolDefinition", "spec": {"name": "x"}},
        {"kind": "VirtualMCPServer", "spec": {"config": {"compositeTools": [{"name": "x"}]}}},
        {"kind": "VirtualMCPServer", "spec": {"compositeTools": [{"name": "x"}]}},
        {"compositeTools": [{"name": "x"}]},
        {"composite_tools": [{"name": "x"}]},
    ],
)
def test_composite_tools_are_found_wherever_toolhive_has_them(document: dict[str, Any]):
    assert [one["name"] for one in definitions_in([document, {"mcpServers": {}}])] == ["x"]


@pytest.mark.parametrize("text", ["{{", "{{}}", "{{(.a}}", "{{.a)}}", '{{"\\x"}}', "{{f f}}", "{{" + "(" * 100])
def test_templates_that_are_none_are_not_expressible(text: str):
    with pytest.raises(Inexpressible):
        pieces(text)
    with pytest.raises(Inexpressible):
        expression("(" * 100 + "not .a" + ")" * 100)

"""The library of templates: each is well formed, says which servers it needs, and does what its cases say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.saga.worlds import Customer
from weft.app.running import running
from weft.demo import arxiv, fetch, inventory, payment, shipping, summarize
from weft.demo.gateway import demo_config, own_folder
from weft.demo.shelf import MEMORY
from weft.errors import UpstreamUnavailable, WeftError
from weft.expr.interpolation import NOTHING, references_in
from weft.expr.schemas import compile_schema
from weft.ir.document import Document, ToolDef
from weft.ir.normalise import Parsed, parse
from weft.ir.read import read
from weft.plan.inputs import accept, misfits
from weft.plan.problems import problems_of
from weft.ports import ANONYMOUS, ToolType, is_array, is_object
from weft.registry.tools import find_tool
from weft.run.engine import Result
from weft.testing import FakeWorld
from weft.testing.canned import Canned
from weft.testing.verdicts import differences
from weft.upstreams.results import value_of
from weft.workflows.library import built_in

FOLDER = files("weft.workflows").joinpath("library")
TEMPLATES: dict[str, dict[str, Any]] = {
    file.name.removesuffix(".json"): json.loads(file.read_bytes()) for file in FOLDER.iterdir() if file.name[0] != "_"
}
WRITTEN = Path(__file__).with_name("library")
KNOWN: dict[str, dict[str, Any]] = yaml.safe_load((WRITTEN / "_tools.yaml").read_text(encoding="utf-8"))
CATEGORIES = {"context-management", "analysis", "automation", "integration"}
OURS = "weft's own"
SHAPES = ("text", "json", "structured", "wrapped", "blocks")

templates = pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)


# What stands in the files.


@pytest.mark.req("WFL-19")
def test_there_are_at_least_sixteen_in_all_four_categories():
    counts = Counter(template["metadata"]["category"] for template in TEMPLATES.values())
    assert sum(counts.values()) >= 16
    assert set(counts) == CATEGORIES
    assert min(counts.values()) >= 4


@pytest.mark.req("WFL-17", "WFL-18")
def test_weft_reads_every_file_as_a_template_of_that_name():
    assert set(built_in()) == set(TEMPLATES)
    assert all(template.example_input is not None for template in built_in().values())


@templates
def test_a_template_needs_what_its_steps_call_and_no_more(template: dict[str, Any]):
    needed = template["validation"]["required_tools"]
    assert sorted(needed) == sorted(_tools_of(template))


@templates
def test_a_template_says_which_server_has_each_of_its_tools(template: dict[str, Any]):
    assert set(template["servers"]) == set(template["validation"]["required_tools"])
    assert all(template["servers"].values())


def test_a_tool_comes_from_the_same_server_wherever_it_is_used():
    said = {
        (tool, server)
        for template in TEMPLATES.values()
        for tool, server in template["servers"].items()
        if not server.startswith(OURS)
    }
    assert len({tool for tool, _ in said}) == len(said)


@templates
def test_the_example_gives_what_a_template_asks_for(template: dict[str, Any]):
    composition, example = template["composition"], template["example_input"]
    asked = {
        one.path[0] for one in references_in(composition) if one.head == "input" and one.default is NOTHING and one.path
    }
    assert asked <= example.keys()
    if (schema := composition.get("inputSchema")) is not None:
        assert compile_schema(schema).problems(example) == []
        assert {one.path[0] for one in references_in(composition) if one.head == "input"} <= schema["properties"].keys()
        assert asked <= set(schema["required"])


@templates
def test_weft_proves_a_template_against_what_the_tools_really_take(template: dict[str, Any]):
    tools = template["validation"]["required_tools"]
    upstream = Canned(dict.fromkeys(tools), types={tool: ToolType(_schema(template, tool)) for tool in tools})
    found = [problem.code for problem in problems_of(_parsed(template), upstream)]
    # No template can know the store that would make it durable; whoever names one has its steps done at most once.
    found = [code for code in found if code != "AtMostOnceIgnored"]
    # The seed's own example asks for a rollback that its strategy rules out.
    assert found == (["RollbackIgnored"] if template["id"] == "search-fold-store-v1" else [])


@pytest.mark.req("WFL-3", "WFL-17")
def test_the_seeds_own_template_is_there_word_for_word():
    mine = TEMPLATES["search-fold-store-v1"]
    assert mine["composition"] == yaml.safe_load((WRITTEN / "_seed.yaml").read_text(encoding="utf-8"))
    assert mine["name"] == "Search, Fold, and Store"
    assert mine["description"] == "Complete workflow for context optimization"
    assert mine["metadata"] == {
        "category": "context-management",
        "tags": ["search", "folding", "storage"],
        "estimated_duration_ms": 500,
    }
    assert mine["validation"] == {
        "required_tools": ["checkpoint_search", "context_fold", "checkpoint_save"],
        "min_version": "1.0.0",
    }


def test_every_template_has_its_entry_in_the_documentation():
    page = (Path(__file__).parents[2] / "docs" / "templates.md").read_text(encoding="utf-8")
    for id_, template in TEMPLATES.items():
        _, _, entry = page.partition(f"### {id_}\n")
        entry = entry.partition("\n##")[0]
        assert entry, f"docs/templates.md has no entry for {id_}"
        example = entry.partition("```yaml\n")[2].partition("\n```")[0]
        assert yaml.safe_load(example) == template["example_input"]
        for tool in template["validation"]["required_tools"]:
            assert f"`{tool}`" in entry


# What they do.


@dataclass(frozen=True)
class Case:
    """A run of a template: what its tools answer, and what is expected of it."""

    template: dict[str, Any]
    expect: dict[str, Any]
    answers: dict[str, Any]

    @property
    def input(self) -> dict[str, Any]:
        return self.expect.get("input", self.template["example_input"])


def _cases() -> Iterator[Any]:
    for id_, template in TEMPLATES.items():
        written = yaml.safe_load((WRITTEN / f"{id_}.yaml").read_text(encoding="utf-8"))
        for expect in written["cases"]:
            case = Case(template, expect, {**written.get("answers", {}), **expect.get("answers", {})})
            yield pytest.param(case, id=f"{id_}: {expect['name']}")


class Person(Customer):
    """A client whose user answers, or declines."""

    capabilities: Mapping[str, Any] = {"elicitation": {"form": {}}}

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer
        self.asked: list[str] = []

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        assert self.answer is not None, "nobody should be asked"
        self.asked += [request["params"]["message"] for request in requests.values()]
        said = {"action": "decline"} if self.answer == "decline" else {"action": "accept", "content": self.answer}
        return dict.fromkeys(requests, said)


@pytest.mark.req("WFL-19", "WFL-29")
@pytest.mark.parametrize("case", [*_cases()])
async def test_a_template_does_what_its_case_says(case: Case):
    document = _parsed(case.template).document
    tool = _tool(document)
    if "misfit" in case.expect:
        assert any(case.expect["misfit"] in one for one in misfits(tool, case.input))
        return
    assert misfits(tool, case.input) == []
    world = FakeWorld(tools={name: _answering(case.template, name, given) for name, given in case.answers.items()})
    person = Person(case.expect.get("person"))
    result, failure = await _run(world, document, tool, case.input, person)
    _compare_outcome(case.expect, result, failure)
    _compare_calls(case, world)
    if "asked" in case.expect:
        assert person.asked == [case.expect["asked"]]


@templates
def test_the_cases_of_a_template_use_all_of_its_tools(template: dict[str, Any]):
    written = yaml.safe_load((WRITTEN / f"{template['id']}.yaml").read_text(encoding="utf-8"))
    mocked = {*written.get("answers", {}), *(tool for case in written["cases"] for tool in case.get("answers", {}))}
    assert mocked == set(template["validation"]["required_tools"])


async def _run(
    world: FakeWorld, document: Document, tool: ToolDef, value: Any, person: Person
) -> tuple[Result | None, WeftError | None]:
    engine = world.engine(document)
    try:
        return await engine.run(tool.name, accept(tool, value), trace=False, caller=person), None
    except WeftError as error:
        return None, error
    finally:
        await engine.close()


def _compare_outcome(expect: dict[str, Any], result: Result | None, failure: WeftError | None) -> None:
    if "error" in expect:
        assert failure is not None, result
        assert expect["error"] in failure.message
        return
    if failure is not None:
        raise failure
    assert result is not None
    if "output" in expect:
        assert [*differences(expect["output"], result.value)] == []
    else:
        assert _has(result.value, expect["contains"]), result.value


def _compare_calls(case: Case, world: FakeWorld) -> None:
    expect = case.expect
    for tool, arguments in world.calls:
        wrong = compile_schema(_schema(case.template, tool)).problems(arguments)
        assert wrong == [], f"{tool} does not take {arguments}: {wrong}"
    if "calls" in expect:
        expected = [next(iter(one.items())) for one in expect["calls"]]
        assert sorted(map(_text, world.calls)) == sorted(map(_text, expected))
    counts = Counter(tool for tool, _ in world.calls)
    for tool, count in expect.get("counts", {}).items():
        assert counts[tool] == count, tool
    if "last" in expect:
        assert [tool for tool, _ in world.calls][-len(expect["last"]) :] == expect["last"]
    for one in expect.get("contains_call", {}).items():
        assert one in world.calls


# What is made for the demo runs in it, on its servers.


async def test_the_templates_of_the_demo_run_in_the_demo():
    with own_folder() as folder:
        async with running(demo_config(folder)) as demo:
            client = Customer(ANONYMOUS)
            done: dict[str, dict[str, Any]] = {}
            for id_ in ("demo-research-v1", "demo-order-v1"):
                assert (await demo.compositions.validate(client.principal, {"template_id": id_}))["errors"] == []
                asked = {"template_id": id_, "input": TEMPLATES[id_]["example_input"]}
                done[id_] = (await demo.compositions.execute(client, asked))["output"]
    research, order = done.values()
    assert len(research["web"]["sources"]) == 5
    assert len(research["papers"]["sources"]) == 3
    assert "bees" in research["web"]["summary"].lower()
    assert order == {"order_id": "A-1", "reservation_id": "R-1", "charge_id": "C-1", "shipment_id": "S-1"}


def _of_the_demo() -> dict[str, dict[str, Any]]:
    """Return what the tools of the demo take."""
    made = [tool for server in (arxiv, fetch, inventory, payment, shipping, summarize) for tool in server.tools(MEMORY)]
    query: dict[str, Any] = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    return {"web_search": query, **{tool.name: dict(tool.types.input or {}) for tool in made}}


DEMO = _of_the_demo()


# How cases are written.


def _answering(template: dict[str, Any], tool: str, written: Any) -> Callable[[Any], Any]:
    """Return a tool that answers by the first rule that fits its arguments."""
    rules: list[dict[str, Any]] = written if is_array(written) else [written]
    for rule in rules:
        _check_shape(template, tool, rule)

    def answer(arguments: Any) -> Any:
        for rule in rules:
            if all(arguments.get(key) == value for key, value in rule.get("for", {}).items()) and all(
                part in arguments.get(key, "") for key, part in rule.get("like", {}).items()
            ):
                return _value(tool, rule)
        raise AssertionError(f"{tool} has no answer to {arguments}")

    return answer


def _check_shape(template: dict[str, Any], tool: str, rule: dict[str, Any]) -> None:
    """Refuse an answer in a shape that the real server does not give."""
    if "error" in rule or "down" in rule:
        return
    shape = next(key for key in (*SHAPES, "value") if key in rule)
    given = "value" if template["servers"][tool].startswith(OURS) else KNOWN[tool]["gives"]
    assert shape in given, f"{tool} gives {given}, not {shape}"


def _value(tool: str, rule: dict[str, Any]) -> Any:
    """Return what weft makes of the result that the server would send."""
    if "down" in rule:
        return UpstreamUnavailable(tool, rule["down"])
    if "value" in rule:
        return rule["value"]
    return value_of(_result(rule), tool=tool)


def _result(rule: dict[str, Any]) -> dict[str, Any]:
    match next(key for key in (*SHAPES, "error") if key in rule):
        case "text":
            return {"content": [_block(rule["text"])]}
        case "json":
            return {"content": [_block(json.dumps(rule["json"]))]}
        case "structured":
            given = rule["structured"]
            return {"content": [_block(given.get("content") or json.dumps(given))], "structuredContent": given}
        case "wrapped":
            return {"content": [_block(rule["wrapped"])], "structuredContent": {"result": rule["wrapped"]}}
        case "blocks":
            return {"content": rule["blocks"]}
        case _:
            return {"content": [_block(rule["error"])], "isError": True}


def _block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _schema(template: dict[str, Any], tool: str) -> dict[str, Any]:
    """Return what a tool takes: of the demo's tools what they say, of the others what their sources say."""
    if template["servers"][tool].startswith(OURS):
        return DEMO[tool]
    takes: dict[str, str] = KNOWN[tool]["takes"]
    return {
        "type": "object",
        "properties": {name: {} if "any" in type_ else {"type": type_.rstrip("!")} for name, type_ in takes.items()},
        "required": [name for name, type_ in takes.items() if type_.endswith("!")],
        "additionalProperties": False,
    }


def _tools_of(template: dict[str, Any]) -> set[str]:
    steps = template["composition"]["steps"]
    return {one["tool"] for step in steps for one in (step, step.get("undo", {})) if "tool" in one}


def _parsed(template: dict[str, Any]) -> Parsed:
    return parse(read(json.dumps(template["composition"])))


def _tool(document: Document) -> ToolDef:
    (name,) = [tool.name for tool in document.tools]
    found = find_tool(document, name)
    assert found is not None
    return found


def _has(value: Any, part: Any) -> bool:
    """Tell whether a value has a part: other fields may be there too, and other items."""
    if is_object(part) and is_object(value):
        return all(key in value and _has(value[key], one) for key, one in part.items())
    if is_array(part) and is_array(value) and part:
        return all(any(_has(one, wanted) for one in value) for wanted in part)
    return value == part


def _text(call: Any) -> str:
    return json.dumps(call, sort_keys=True)

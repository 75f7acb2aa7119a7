"""`weft graph`: a composition as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from weft.patterns import CATALOGUE

from .conftest import FIXTURES, Run

RESEARCH = FIXTURES / "algebra-research-pipeline.json"
SVG = "{http://www.w3.org/2000/svg}"


def texts(drawn: str) -> str:
    """Return all that a drawing says."""
    return "\n".join(ElementTree.fromstring(drawn).itertext())


STATEFUL: dict[str, dict[str, Any]] = {
    "timeout": {"durationMs": 500},
    "retry": {"maxAttempts": 3},
    "throttle": {"rate": 5, "windowMs": 1000},
    "cache": {"keyPaths": ["$.id"], "ttlSeconds": 60},
    "circuitBreaker": {"name": "c", "failureThreshold": 3, "failureWindowSeconds": 60, "resetTimeoutSeconds": 30},
    "idempotent": {"keyPaths": ["$.id"]},
    "deadLetter": {"deadLetterTool": "letters"},
    "claimCheck": {"storeTool": "put", "retrieveTool": "get"},
    "saga": {"allowVolatile": True},
}


WORKFLOW: list[Any] = [
    {"id": "look", "tool": "look_up"},
    {"id": "who", "elicit": {"message": "Who?", "schema": {"type": "object"}}},
    {"id": "pack", "tool": "box", "dependsOn": ["look"], "undo": {"tool": "unpack"}},
    {"id": "send", "operation": {"retry": {"inner": "mail"}}, "dependsOn": ["pack"], "forEach": "{{input.to}}"},
]


@pytest.fixture
def everything(folder: Path) -> Path:
    """A registry with one composition that uses every pattern."""
    steps: list[Any] = [
        {"enricher": {"enrichments": [{"field": "author", "operation": "get_user", "input": "$.by"}]}},
        {"router": {"routes": [{"condition": 'input.kind == "<b>&"', "target": "big"}], "default": "small"}},
        {"wireTap": {"inner": "pay", "taps": ["audit"]}},
        {"recipientList": {"recipients": {"path": "$.to"}, "allowed": ["mail", "sms"]}},
        {"mapEach": {"inner": {"schemaMap": {"mappings": {"title": {"path": "$.t"}}}}}},
        {"filter": {"predicate": {"field": "$.title", "op": "ne", "value": "x"}}},
        {"scatterGather": {"targets": ["a", {"agent": {"name": "helper", "skill": "look"}}], "timeoutMs": 500}},
        {"pipeline": {"steps": [{"operation": {"composition": "other"}}]}},
        *({kind: {"inner": "kept", **body}} for kind, body in STATEFUL.items() if kind != "saga"),
        {"saga": {"steps": [{"name": "book", "action": "reserve", "compensate": "release"}], **STATEFUL["saga"]}},
        {"workflow": {"steps": WORKFLOW}},
    ]
    tools: list[Any] = [
        {"name": "all", "spec": {"pipeline": {"steps": [{"operation": step} for step in steps]}}},
        {"name": "other", "spec": {"tool": "x"}},
    ]
    path = folder / "registry.json"
    path.write_text(json.dumps({"schemaVersion": "1.0", "tools": tools}))
    return path


def test_mermaid_is_the_default_and_draws_parts_where_they_are_used(run: Run):
    drawn = run("graph", "research_pipeline", "--registry", RESEARCH)
    assert drawn.exit_code == 0
    assert drawn.stdout.startswith("flowchart TD\n")
    assert 'subgraph n3["web_normalized"]' in drawn.stdout
    assert '"filter<br/>$.relevance #gt; 0.7"' in drawn.stdout
    assert drawn.stdout.count("subgraph") == drawn.stdout.count("    end\n")


@pytest.mark.usefixtures("everything")
def test_every_pattern_is_drawn(run: Run):
    mermaid = run("graph", "all").stdout
    drawn = texts(run("graph", "all", "--format", "svg").stdout)
    said = [
        "enricher",
        "router",
        "otherwise",
        "wireTap",
        "recipientList",
        "schemaMap",
        "$.title ≠ 'x'",
        "within 0.5 s",
        "helper",
        *STATEFUL,
        "at once",
        "asks a person",
        "for each item",
        "after look",
        "undone by unpack",
    ]
    for text in said:
        assert text in drawn
        assert text in mermaid
    assert len(CATALOGUE) == 19, "draw the new pattern, and name it here"


@pytest.mark.parametrize("inside", ["it", "__part"])
def test_the_condition_of_every_step_stands_on_the_way_to_it(run: Run, folder: Path, inside: str):
    steps = [{"operation": name, "condition": f"input.{name}"} for name in ("first", "second")]
    nested = [{"operation": {"pipeline": {"steps": steps}}, "condition": "input.outer"}]
    tools: list[Any] = [{"name": inside, "spec": {"pipeline": {"steps": nested}}}]
    if inside != "it":
        tools.append({"name": "it", "spec": {"pipeline": {"steps": [{"operation": inside}]}}})
    (folder / "registry.json").write_text(json.dumps({"tools": tools}))
    mermaid = run("graph", "it").stdout
    for said in ("if input.outer; if input.first", "if input.second"):
        assert f'-->|"{said}"| ' in mermaid
        assert said in texts(run("graph", "it", "--format", "svg").stdout)


@pytest.mark.usefixtures("everything")
def test_text_is_escaped_in_both(run: Run):
    assert 'input.kind == "<b>&"' in texts(run("graph", "all", "--format", "svg").stdout)
    assert "input.kind == #quot;#lt;b#gt;#amp;#quot;" in run("graph", "all").stdout


@pytest.mark.usefixtures("everything")
def test_the_svg_needs_nothing_else(run: Run, folder: Path):
    done = run("graph", "all", "-o", "all.svg")
    assert (done.exit_code, done.stdout) == (0, "")
    drawn = (folder / "all.svg").read_text(encoding="utf-8")
    tags = {one.tag.removeprefix(SVG) for one in ElementTree.fromstring(drawn).iter()}
    assert tags <= {"svg", "title", "defs", "marker", "path", "rect", "g", "text"}
    assert drawn.count("http") == 1, "only the namespace"


@pytest.mark.usefixtures("everything")
def test_boxes_stay_inside_the_drawing_and_apart_from_each_other(run: Run):
    root = ElementTree.fromstring(run("graph", "all", "--format", "svg").stdout)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = [
        tuple(float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        for group in root.iter(f"{SVG}g")
        for rect in group.findall(f"{SVG}rect")
    ]
    assert len(boxes) > 15
    for index, (x, y, w, h) in enumerate(boxes):
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height
        for other_x, other_y, other_w, other_h in boxes[:index]:
            assert x + w <= other_x or other_x + other_w <= x or y + h <= other_y or other_y + other_h <= y


def test_an_unknown_composition_is_told_the_nearest(run: Run):
    done = run("graph", "research_pipelin", "--registry", RESEARCH)
    assert done.exit_code == 2
    assert "Composition not found: research_pipelin" in done.stderr
    assert "did you mean 'research_pipeline'?" in done.stderr


def test_without_a_registry_the_reader_is_told_to_name_one(run: Run):
    assert (run("graph", "x").exit_code, "--registry" in run("graph", "x").stderr) == (2, True)


def test_a_registry_of_another_name_is_pointed_at(run: Run, folder: Path):
    (folder / "registry.yaml").write_text("tools: []\n")
    for command in ("graph", "run"):
        assert "name one with --registry registry.yaml" in run(command, "x").stderr
    (folder / "weft.yaml").write_text("{}\n")
    assert "-c weft.yaml" in run("run", "x").stderr


def test_schema_prints_a_json_schema(run: Run):
    for arguments in (("schema",), ("schema", "ir")):
        assert json.loads(run(*arguments).stdout)["$schema"].startswith("https://json-schema.org/")

"""Loading: a thousand compositions read, normalised, checked and compiled; and calls among many registered tools."""

from __future__ import annotations

import json
import time
from typing import Any

from weft.app import snapshot_of
from weft.dsl.local import LocalTools, python_tool
from weft.ir.document import Document
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.plan.compiler import compile_document
from weft.run.engine import Engine

COMPOSITIONS = 1000


def _source(number: int, kind: str) -> dict[str, Any]:
    fields = {name: {"path": f"$.{name}_{kind}"} for name in ("title", "url", "excerpt")}
    fields |= {"source": {"literal": kind}, "relevance": {"literal": 0.5 + number % 10 / 20}}
    fields |= {"link": {"coalesce": {"paths": [f"$.a{number}", "$.b"]}}}
    steps: list[dict[str, Any]] = [
        {"id": "ask", "operation": {"tool": {"name": f"{kind}_search"}}, "input": {"input": {"path": "$"}}},
        {"id": "map", "operation": {"mapEach": {"inner": {"schemaMap": {"mappings": fields}}}}},
    ]
    return {"pipeline": {"steps": steps}}


def document(compositions: int) -> bytes:
    """Return a document of compositions like the research pipeline, some 25 nodes each, every one different."""
    tools: list[dict[str, Any]] = []
    for number in range(compositions):
        gather: dict[str, Any] = {
            "targets": [_source(number, "web"), _source(number, "arxiv")],
            "aggregation": {"ops": [{"flatten": True}, {"sort": {"field": "$.relevance", "order": "desc"}}]},
        }
        route: dict[str, Any] = {
            "routes": [{"id": "many", "condition": f"size(input) > {number}", "target": {"tool": {"name": "big"}}}],
            "default": {"tool": {"name": "small"}},
        }
        test = {"field": "$.relevance", "op": "gt", "value": number / compositions}
        steps: list[dict[str, Any]] = [
            {"id": "gather", "operation": {"scatterGather": gather}},
            {"id": "keep", "operation": {"filter": {"predicate": test}}},
            {"id": "route", "operation": {"router": route}},
        ]
        tools.append({"name": f"c{number}", "description": f"Number {number}.", "spec": {"pipeline": {"steps": steps}}})
    return json.dumps({"schemaVersion": "1.0", "tools": tools}).encode()


def load(data: bytes) -> dict[str, float]:
    """Return the seconds that each stage takes, from bytes to plans."""
    marks = [time.process_time()]
    source = read(data, name="bench.json")
    marks.append(time.process_time())
    parsed = parse(source)
    marks.append(time.process_time())
    snapshot_of(parsed, LocalTools())
    marks.append(time.process_time())
    names = ("read", "normalise", "check and compile")
    stages = {name: after - before for name, before, after in zip(names, marks, marks[1:], strict=False)}
    return {**stages, "total": marks[-1] - marks[0]}


async def _echo(value: str, /) -> str:
    return value


def crowded(tools: int) -> Engine:
    """Return an engine in which `it` calls one of so many registered tools."""
    local = LocalTools([python_tool(name=f"t{number}")(_echo) for number in range(tools)])
    entries: list[dict[str, Any]] = [
        {"name": f"v{number}", "spec": {"tool": {"name": f"t{number}"}}} for number in range(tools)
    ]
    steps = [{"id": f"s{at}", "operation": {"tool": {"name": f"v{tools // (at + 1) - 1}"}}} for at in range(3)]
    entries.append({"name": "it", "spec": {"pipeline": {"steps": steps}}})
    return Engine(compile_document(Document.model_validate({"tools": entries}), local))


def main() -> None:
    """Print the stages of one load: a small document first, so that models are built, then the large one, unseen."""
    load(document(1))
    print(json.dumps(load(document(COMPOSITIONS))))


if __name__ == "__main__":
    main()

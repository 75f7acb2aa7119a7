"""A registry knows what undoes a tool: it belongs to the tool, and makes no circle."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.patterns.workflows import bare, step
from weft.errors import Problem
from weft.ir.normalise import Parsed, parse
from weft.ir.read import read
from weft.patterns import CATALOGUE
from weft.registry.book import Book
from weft.registry.entities import Reference, ToolDef
from weft.registry.migrate import migrate
from weft.registry.validate import validate

pytestmark = pytest.mark.req("WFL-16")
assert CATALOGUE


def source(tool: str) -> dict[str, Any]:
    return {"name": tool, "version": "1.0.0", "source": {"server": "s", "serverVersion": "1.0.0", "tool": tool}}


def registry(undo_of_create: Any = "delete") -> Parsed:
    """Return a registry in which two tools undo each other and a workflow uses one of them."""
    tools: list[dict[str, Any]] = [
        {**source("create"), "undo": undo_of_create},
        {**source("delete"), "undo": "create"},
        {
            "name": "flow",
            "version": "1.0.0",
            "steps": [step("a", tool="create")],
            "error_handling": {"failure_strategy": "rollback"},
            "depends": [{"type": "tool", "name": "create", "version": "1.0.0"}],
        },
    ]
    provides = [{"tool": one, "version": "1.0.0"} for one in ("create", "delete")]
    servers = [{"name": "s", "version": "1.0.0", "provides": provides}]
    return parse(read(json.dumps({"schemaVersion": "2.0", "tools": tools, "servers": servers})))


def problems(parsed: Parsed) -> list[Problem]:
    return [*parsed.problems, *validate(Book(parsed.document, parsed=parsed))]


def test_tools_that_undo_each_other_are_no_circle_and_no_dependency():
    assert [(one.code, one.pointer) for one in problems(registry())] == []


def test_what_undoes_a_tool_is_among_what_it_uses_and_lent_to_who_calls_it():
    parsed = registry({"tool": {"name": "delete", "version": "1.0.0"}, "parameters": {"id": "{{output.id}}"}})
    book = Book(parsed.document, parsed=parsed)
    create, delete = Reference("tool", "create", "1.0.0"), Reference("tool", "delete", "1.0.0")
    tool, flow = book.get("tool", "create", "1.0.0"), book.get("tool", "flow", "1.0.0")
    assert isinstance(tool, ToolDef)
    assert isinstance(flow, ToolDef)
    assert delete in book.uses(tool)
    assert book.lent_by(flow) == {create, delete}


def test_a_workflow_is_migrated_with_all_that_it_names():
    parsed = bare({"name": "w", "steps": [step("a", undo="b"), step("c", "a", for_each="{{a}}")]})
    done = migrate(parsed.document, homes={"*": ("s", "1.0.0")})
    tools = {one["name"]: one for one in done.document["tools"]}
    assert tools.keys() == {"w", "a", "b", "c"}
    assert [one["name"] for one in tools["w"]["depends"]] == ["a", "b", "c"]

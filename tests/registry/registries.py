"""A small registry that is right in everything, for tests that make one thing wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from weft.errors import Problem
from weft.ir.normalise import Parsed, parse
from weft.ir.read import read
from weft.registry.book import Book
from weft.registry.findings import Severities, Strictness
from weft.registry.validate import validate

Doc = dict[str, Any]
Change = Callable[[Doc], object]
FULL = Strictness(unused_schema="warn")
SOUND: Doc = {
    "schemaVersion": "2.0",
    "schemas": [
        {"name": "Query", "version": "1.0.0", "schema": {"type": "object", "properties": {"q": {"type": "string"}}}},
        {"name": "Page", "version": "2.0.0", "schema": {"properties": {"of": {"$ref": "#Query:1.0.0"}}}},
    ],
    "servers": [
        {
            "name": "web",
            "version": "1.2.0",
            "provides": [{"tool": "fetch", "version": "1.0.0"}, {"tool": "fetch", "version": "1.2.3"}],
        }
    ],
    "tools": [
        {
            "name": "fetch",
            "version": "1.0.0",
            "source": {"server": "web", "serverVersion": "1.2.0", "tool": "old_fetch"},
        },
        {
            "name": "fetch",
            "version": "1.2.3",
            "inputSchema": {"$ref": "#Page:2.0.0"},
            "source": {"server": "web", "serverVersion": "1.2.0", "tool": "fetch"},
        },
        {
            "name": "read",
            "version": "1.0.0",
            "depends": [
                {"type": "tool", "name": "fetch", "version": "1.2.3"},
                {"type": "agent", "name": "editor", "version": "1.0.0", "skill": "edit"},
            ],
            "spec": {
                "pipeline": {
                    "steps": [
                        {"id": "a", "operation": {"tool": {"name": "fetch"}}},
                        {"id": "b", "operation": {"agent": {"name": "editor", "skill": "edit"}}},
                    ]
                }
            },
        },
    ],
    "agents": [
        {
            "name": "reader",
            "version": "3.0.0",
            "capabilities": {
                "extensions": [
                    {
                        "uri": "urn:agentgateway:sbom",
                        "params": {"depends": [{"type": "tool", "name": "read", "version": "1.0.0"}]},
                    }
                ]
            },
        },
        {"name": "editor", "version": "1.0.0", "url": "https://agents.example.com/e", "skills": [{"id": "edit"}]},
    ],
}  # fmt: skip


def registry(change: Change | None = None) -> Doc:
    """Return the sound registry, changed."""
    made = copy.deepcopy(SOUND)
    if change is not None:
        change(made)
    return made


def put(value: Any, *path: str | int) -> Change:
    """Return a change that puts a value at a place."""

    def change(document: Doc) -> None:
        held: Any = document
        for key in path[:-1]:
            held = held[key]
        last: Any = path[-1]
        if last == len(held) and last not in held:
            held.append(value)
        else:
            held[last] = value

    return change


def parsed(document: Doc) -> Parsed:
    """Return a document read from its text."""
    return parse(read(json.dumps(document, indent=1), name="registry.json"))


def book(document: Doc) -> Book:
    """Return the book of a document that can be read."""
    result = parsed(document)
    assert result.problems == ()
    return Book.of(result)


def found(document: Doc, severities: Severities = FULL) -> list[Problem]:
    """Return what reading and validation find, each problem with its place."""
    result = parsed(document)
    problems = [*result.problems, *validate(Book.of(result), severities)]
    for problem in problems:
        assert problem.file == "registry.json"
        assert problem.line is not None
        assert problem.message
    return problems


def told(document: Doc, severities: Severities = FULL) -> list[tuple[str, str, str]]:
    """Return the severity, code and place of each problem."""
    return [(one.severity, one.code, one.pointer) for one in found(document, severities)]

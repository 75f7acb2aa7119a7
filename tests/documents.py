"""The documents of tests/fixtures, read by weft."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from weft.errors import Problem
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.patterns import CATALOGUE

FIXTURES = Path(__file__).resolve().parent / "fixtures"
FILES = sorted(path.name for path in FIXTURES.glob("*.json"))
PATTERNS = tuple(CATALOGUE)
"""Also closes the union of operations, without which nothing can be read."""


def fixture(name: str) -> dict[str, Any]:
    """Return a whole document as it was written; a file that is only part of one is wrapped."""
    value = json.loads((FIXTURES / name).read_text(encoding="utf-8"))
    if "spec" in value:
        return {"schemaVersion": "1.0", "tools": [{"name": "t", "version": "1.0.0", **value}]}
    if "depends_on" in value:
        # One step of a workflow: what it names stands before it.
        before = [{"id": one, "tool": "t", "output_key": "variable_reference"} for one in value["depends_on"][:1]]
        before += [{"id": one, "tool": "t"} for one in value["depends_on"][1:]]
        return {"name": "t", "steps": [*before, value]}
    for key, section in (("schema", "schemas"), ("provides", "servers"), ("capabilities", "agents")):
        if key in value:
            return {"schemaVersion": "2.0", section: [{"name": "t", "version": "1.0.0", **value}]}
    return value


def canonical(document: dict[str, Any]) -> dict[str, Any]:
    """Return what weft makes of a document that has no problems."""
    parsed = parse(read(json.dumps(document)))
    assert parsed.problems == ()
    return parsed.document.to_ir()


def problems_of(document: dict[str, Any]) -> tuple[Problem, ...]:
    """Return what weft finds wrong with the form of a document."""
    return parse(read(json.dumps(document))).problems


def composed(operation: dict[str, Any]) -> dict[str, Any]:
    """Return a document of one tool with this spec."""
    return {"schemaVersion": "1.0", "tools": [{"name": "t", "spec": operation}]}

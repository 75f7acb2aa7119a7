"""What the tests of all patterns need: documents of one composition, and the spans of a result."""

from __future__ import annotations

import json
from typing import Any

from weft.errors import Problem, WeftError
from weft.ir.document import Document
from weft.ir.normalise import Parsed, parse
from weft.ir.read import read
from weft.patterns import CATALOGUE
from weft.run.engine import Result
from weft.run.trace import Trace
from weft.testing import FakeWorld

KINDS = tuple(CATALOGUE)
"""Also closes the union of operations, without which nothing can be read."""


def parsed(spec: dict[str, Any], **others: dict[str, Any]) -> Parsed:
    """Return a document of the composition `it`, and of others that it uses, read."""
    tools = [{"name": name, "spec": one} for name, one in {"it": spec, **others}.items()]
    return parse(read(json.dumps({"schemaVersion": "1.0", "tools": tools})))


def document(spec: dict[str, Any], **others: dict[str, Any]) -> Document:
    """Return a document that has no problems."""
    found = parsed(spec, **others)
    assert found.problems == ()
    return found.document


def problems(spec: dict[str, Any]) -> list[Problem]:
    """Return what is wrong with the form of a composition."""
    return list(parsed(spec).problems)


async def run(world: FakeWorld, spec: dict[str, Any], value: Any = None, **others: dict[str, Any]) -> Result:
    """Run a composition that is written as a document."""
    return await world.trace("it", value, document=document(spec, **others))


def told(trace: Trace | None) -> list[tuple[int, str, str]]:
    """Return the spans of a trace: depth, name and outcome."""
    assert trace is not None
    return [(depth, span.name, span.outcome) for depth, span in trace.root.walk()]


def told_by(error: WeftError) -> list[tuple[int, str, str]]:
    """Return the spans of the trace that an error carries."""
    assert isinstance(error.trace, Trace)
    return told(error.trace)

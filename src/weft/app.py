"""The composition root: puts documents, upstreams and the engine together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.dsl.compositions import Compiled, Composition, compile
from weft.errors import DocumentInvalid, Problem
from weft.ir.document import Document
from weft.ir.normalise import Parsed, parse
from weft.ir.read import read_file
from weft.plan.compiler import check, compile_document
from weft.ports import Clock, Invoke, ToolRef, ToolType, Upstream
from weft.run.engine import Engine
from weft.run.limits import Limits


class Upstreams:
    """Several upstreams as one: the first that has a tool answers for it."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        self._upstreams = upstreams

    def bind(self, ref: ToolRef) -> Invoke | None:
        """Return the tool of the first upstream that has it."""
        return next((found for one in self._upstreams if (found := one.bind(ref)) is not None), None)

    def describe(self, ref: ToolRef) -> ToolType | None:
        """Return what the first upstream that has the tool knows of it."""
        return next((found for one in self._upstreams if (found := one.describe(ref)) is not None), None)

    def names(self) -> list[str]:
        """Return the names of all tools."""
        return list(dict.fromkeys(name for one in self._upstreams for name in one.names()))


def load(path: Path) -> Parsed:
    """Read a document; what is wrong with it is in `problems`.

    Raises:
        DocumentInvalid: the text cannot be read at all.
    """
    return parse(read_file(path))


def problems_of(parsed: Parsed, upstream: Upstream | None = None) -> list[Problem]:
    """Return every problem of a document, in the order of its text."""
    found = check(parsed.document, upstream, known=parsed.broken)
    problems = [*parsed.problems, *(parsed.located(problem) for problem in found)]
    return sorted(problems, key=lambda one: (one.line or 0, one.column or 0, one.pointer, one.code))


def valid(parsed: Parsed) -> Document:
    """Return the document.

    Raises:
        DocumentInvalid: with every problem, when there is an error among them.
    """
    problems = problems_of(parsed)
    if any(problem.severity == "error" for problem in problems):
        raise DocumentInvalid(problems)
    return parsed.document


def local(document: Document, *upstreams: Upstream, clock: Clock | None = None, limits: Limits | None = None) -> Engine:
    """Return an engine without a server, for `weft run`, tests and programs."""
    snapshot = compile_document(document, Upstreams(upstreams))
    return Engine(snapshot, clock=clock, limits=limits)


def local_engine(*compositions: Composition[Any, Any], limits: Limits | None = None) -> Engine:
    """Return an engine for compositions written in Python, with the Python tools that they use."""
    compiled: Compiled = compile(*compositions)
    return local(compiled.document, compiled.local, limits=limits)

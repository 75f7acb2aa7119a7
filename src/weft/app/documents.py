"""Documents, upstreams and the engine put together, without a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.dsl.compositions import Compiled, Composition, compile
from weft.dsl.local import LocalTools
from weft.dsl.modules import PythonFile, read_module
from weft.errors import DocumentInvalid, NotFound, Problem, errors_in
from weft.ir.document import INTERNAL, Document, ToolDef
from weft.ir.loading import no_collection
from weft.ir.normalise import Parsed, parse
from weft.ir.read import read_file
from weft.plan.compiler import check, compile_document
from weft.plan.snapshot import Snapshot
from weft.ports import Clock, Invoke, ToolRef, ToolType, Upstream
from weft.registry.graph import references
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


@no_collection()
def snapshot_of(parsed: Parsed, *upstreams: Upstream) -> Snapshot:
    """Check and compile a document; places in its text are looked up only when there is something to report.

    Raises:
        DocumentInvalid: with every problem, when there is an error among them.
    """
    upstream = Upstreams(upstreams)
    found = check(parsed.document, upstream, known=parsed.broken)
    if errors_in((*parsed.problems, *found)):
        raise DocumentInvalid(problems_of(parsed, upstream))
    return compile_document(parsed.document, upstream, problems=found)


def local(document: Document, *upstreams: Upstream, clock: Clock | None = None, limits: Limits | None = None) -> Engine:
    """Return an engine without a server, for `weft run`, tests and programs."""
    snapshot = compile_document(document, Upstreams(upstreams))
    return Engine(snapshot, clock=clock, limits=limits)


def local_engine(*compositions: Composition[Any, Any], limits: Limits | None = None) -> Engine:
    """Return an engine for compositions written in Python, with the Python tools that they use."""
    compiled: Compiled = compile(*compositions)
    return local(compiled.document, compiled.local, limits=limits)


@dataclass(frozen=True, slots=True)
class Registry:
    """A document from a file of any kind, the Python tools that came with it, and every problem found."""

    document: Document
    tools: Upstream
    problems: list[Problem]

    def valid(self) -> Registry:
        """Return this registry.

        Raises:
            DocumentInvalid: with every problem, when there is an error among them.
        """
        if errors_in(self.problems):
            raise DocumentInvalid(self.problems)
        return self


def open_registry(path: Path) -> Registry:
    """Read a registry from JSON or YAML, or compile it from Python.

    Raises:
        DocumentInvalid: the file cannot be read at all.
    """
    if path.suffix == ".py":
        return compile_file(read_module(path))[1]
    parsed = load(path)
    return Registry(parsed.document, LocalTools(), problems_of(parsed))


def compile_file(file: PythonFile, *, split: bool = False) -> tuple[Compiled, Registry]:
    """Compile every composition of a Python file and check what came out.

    Raises:
        DocumentInvalid: two compositions have the same name.
    """
    try:
        compiled = compile(*file.compositions, split=split)
    except DocumentInvalid as error:
        raise DocumentInvalid([file.placed(problem) for problem in error.problems]) from None
    tools = Upstreams([compiled.local, LocalTools(file.tools)])
    # A tool that is only named may live on any server, so every name counts as known.
    named = frozenset(one.name for tool in compiled.document.tools for one in references(tool) if not one.composition)
    found = check(compiled.document, _Declared(compiled, tools), known=named)
    placed = [file.placed(problem, compiled.document) for problem in found]
    return compiled, Registry(compiled.document, tools, placed)


def callable_in(document: Document, tool: str, upstream: Upstream) -> Document:
    """Return the document with the tool in it: a tool that only the upstream has is added by its name.

    Raises:
        NotFound: neither has it.
    """
    names = [one.name for one in document.tools]
    if tool in names:
        return document
    if tool not in upstream.names():
        known = [name for name in [*names, *upstream.names()] if not name.startswith(INTERNAL)]
        raise NotFound("Composition", tool, known)
    return Document(tools=[*document.tools, ToolDef(name=tool)])


class _Declared:
    """What Python says of tools: the types of references and functions."""

    def __init__(self, compiled: Compiled, tools: Upstream) -> None:
        self._compiled = compiled
        self._tools = tools

    def bind(self, ref: ToolRef) -> Invoke | None:
        return None

    def describe(self, ref: ToolRef) -> ToolType | None:
        return self._compiled.types.get(ref) or self._tools.describe(ref)

    def names(self) -> list[str]:
        return self._tools.names()

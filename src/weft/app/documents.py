"""Documents, upstreams and the engine put together, without a server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from weft.registry.book import Book
from weft.registry.findings import Severities, as_severe
from weft.registry.graph import references
from weft.registry.tools import find_tool, key_of
from weft.registry.validate import SEED, validate
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
    return parse(read_file(path), folder=path.parent)


def problems_of(
    parsed: Parsed, upstream: Upstream | None = None, *, severities: Severities = SEED, allow: Iterable[str] = ()
) -> list[Problem]:
    """Return every problem of a document, in the order of its text.

    `severities` say how strictly a registry is taken, and `allow` lists the private networks where its agents may be.
    """
    entities = validate(Book.of(parsed), severities, allow=allow)
    problems = [*parsed.problems, *entities, *(parsed.located(one) for one in _checked(parsed, upstream, severities))]
    return sorted(problems, key=lambda one: (one.file or "", one.line or 0, one.column or 0, one.pointer, one.code))


def _checked(parsed: Parsed, upstream: Upstream | None, severities: Severities = SEED) -> list[Problem]:
    """Return what planning finds, and a registry's own validation does not tell."""
    document = parsed.resolved
    # Once servers are listed, a tool that nobody registered cannot be on one of them.
    elsewhere = frozenset[str]() if document.servers else None
    found = check(document, upstream, known=parsed.broken, elsewhere=elsewhere)
    if not document.versioned:
        return found
    told: list[Problem] = []
    for problem in found:
        if problem.code == "UnknownName" and elsewhere is not None:
            told += as_severe(problem, severities.missing_entity)
        elif problem.code != "Cycle":
            told.append(problem)
    return told


@no_collection()
def snapshot_of(parsed: Parsed, *upstreams: Upstream) -> Snapshot:
    """Check and compile a document; places in its text are looked up only when there is something to report.

    Raises:
        DocumentInvalid: with every problem, when there is an error among them.
    """
    upstream = Upstreams(upstreams)
    found = [*validate(Book.of(parsed)), *_checked(parsed, upstream)]
    if errors_in((*parsed.problems, *found)):
        raise DocumentInvalid(problems_of(parsed, upstream))
    return compile_document(parsed.resolved, upstream, problems=found)


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
    return Registry(parsed.resolved, LocalTools(), problems_of(parsed))


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
    if find_tool(document, tool) is not None:
        return document
    if tool not in upstream.names():
        names = [key_of(one.name, one.version) if "@" in tool else one.name for one in document.tools]
        known = [name for name in [*names, *upstream.names()] if not name.startswith(INTERNAL)]
        raise NotFound("Composition", tool, known)
    return document.model_copy(update={"tools": [*document.tools, ToolDef(name=tool)]})


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

"""Documents, upstreams and the engine put together, without a server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.dsl.compositions import Compiled, Composition, compile
from weft.dsl.local import LocalTools
from weft.dsl.modules import PythonFile, read_module
from weft.dsl.registry import RegistryBuilder
from weft.dsl.registry_files import file_problems, registry_in
from weft.errors import DocumentInvalid, NotFound, Problem, errors_in
from weft.groups.authoring.builder import GroupedTool
from weft.groups.steps import GroupUpstream
from weft.ir.document import INTERNAL, Document, ToolDef
from weft.ir.loading import no_collection
from weft.ir.normalise import Parsed, parse
from weft.ir.read import read_file
from weft.patterns.kept import Kept
from weft.plan.compiler import Stores, check, compile_document
from weft.plan.problems import planning_problems, problems_of
from weft.plan.snapshot import Snapshot
from weft.ports import Clock, Invoke, ToolRef, ToolType, Upstream
from weft.registry.book import Book
from weft.registry.findings import Severities
from weft.registry.graph import references
from weft.registry.tools import find_tool, key_of
from weft.registry.validate import SEED, validate
from weft.run.engine import Engine
from weft.run.limits import Limits
from weft.stores.memory import MemoryStores


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


@no_collection()
def snapshot_of(parsed: Parsed, *upstreams: Upstream) -> Snapshot:
    """Check and compile a document; places in its text are looked up only when there is something to report.

    Raises:
        DocumentInvalid: with every problem, when there is an error among them.
    """
    upstream = Upstreams(upstreams)
    found = [*validate(Book.of(parsed)), *planning_problems(parsed, upstream)]
    if errors_in((*parsed.problems, *found)):
        raise DocumentInvalid(problems_of(parsed, upstream))
    return compile_document(parsed.resolved, upstream, problems=found, stores=MemoryStores().find)


def local(
    document: Document,
    *upstreams: Upstream,
    clock: Clock | None = None,
    limits: Limits | None = None,
    stores: Stores | None = None,
    kept: Kept | None = None,
) -> Engine:
    """Return an engine without a server, for `weft run`, tests and programs.

    `stores` finds what patterns keep their state in; without it they keep it in memory, as long as the engine lasts.
    `kept` gets what they have under way, for those who want to see it.
    """
    found = stores or MemoryStores(clock).find
    snapshot = compile_document(document, Upstreams(upstreams), stores=found, kept=kept)
    return Engine(snapshot, clock=clock, limits=limits)


def local_engine(
    *compositions: Composition[Any, Any], limits: Limits | None = None, stores: Stores | None = None
) -> Engine:
    """Return an engine for compositions written in Python, with the Python tools that they use."""
    compiled: Compiled = compile(*compositions)
    return local(compiled.document, compiled.local, limits=limits, stores=stores)


@dataclass(frozen=True, slots=True)
class Registry:
    """A document from a file of any kind, the Python tools that came with it, and every problem found."""

    document: Document
    tools: Upstream
    """Functions and groups."""

    problems: list[Problem]
    parsed: Parsed | None = None
    """As it was written; compositions in Python were not."""

    groups: tuple[GroupedTool, ...] = ()
    """The groups among the tools."""

    def valid(self) -> Registry:
        """Return this registry.

        Raises:
            DocumentInvalid: with every problem, when there is an error among them.
        """
        if errors_in(self.problems):
            raise DocumentInvalid(self.problems)
        return self


def open_registry(path: Path, *, severities: Severities = SEED, allow: Iterable[str] = ()) -> Registry:
    """Read a registry from JSON or YAML, or compile it from Python; `problems_of` tells what the others are.

    Raises:
        DocumentInvalid: the file cannot be read at all.
    """
    if path.suffix == ".py":
        return compile_file(read_module(path), severities=severities, allow=allow)[1]
    parsed = load(path)
    return Registry(parsed.resolved, LocalTools(), problems_of(parsed, severities=severities, allow=allow), parsed)


def compile_file(
    file: PythonFile, *, split: bool = False, severities: Severities = SEED, allow: Iterable[str] = ()
) -> tuple[Compiled, Registry]:
    """Compile the registry that a Python file builds, else its compositions, and check what came out.

    `split` is for compositions: the specs of a registry stay as they are. Groups come along, and are frozen.

    Raises:
        DocumentInvalid: two compositions have the same name, or the file builds two registries.
    """
    groups = groups_of(file)
    if (builder := registry_in(file)) is not None:
        problems = file_problems(file, builder, severities=severities, allow=allow)
        return _built(builder, [*problems, *_taken(file, builder.build().document, builder.local(), groups)], groups)
    try:
        compiled = compile(*file.compositions, split=split)
    except DocumentInvalid as error:
        raise DocumentInvalid([file.placed(problem) for problem in error.problems]) from None
    functions = Upstreams([compiled.local, LocalTools(file.tools)])
    tools = Upstreams([functions, groups])
    # A tool that is only named may live on any server, so every name counts as known.
    named = frozenset(one.name for tool in compiled.document.tools for one in references(tool) if not one.composition)
    found = check(compiled.document, _Declared(compiled, tools), known=named)
    placed = [file.placed(problem, compiled.document) for problem in found]
    placed += _taken(file, compiled.document, functions, groups)
    return compiled, Registry(compiled.document, tools, placed, groups=groups.groups)


def _built(builder: RegistryBuilder, problems: list[Problem], groups: GroupUpstream) -> tuple[Compiled, Registry]:
    parsed, local = builder.build(), builder.local()
    tools = Upstreams([local, groups])
    return Compiled(parsed.document, local, {}), Registry(parsed.resolved, tools, problems, parsed, groups.groups)


def groups_of(file: PythonFile) -> GroupUpstream:
    """Return the groups of a Python file, ready to be called.

    Raises:
        DocumentInvalid: two have the same name, or the actions of one do not go together.
    """
    try:
        found = GroupUpstream(file.groups)
        for group in found.groups:
            _ = group.definition
    except DocumentInvalid as error:
        raise DocumentInvalid([file.placed(problem) for problem in error.problems]) from None
    return found


def _taken(file: PythonFile, document: Document, functions: Upstream, groups: GroupUpstream) -> list[Problem]:
    """Return a problem for each group that has the name of something else in its file."""
    named = {tool.name for tool in document.tools} | set(functions.names())
    return [
        file.placed(Problem(code="DuplicateName", message=f"a group and a tool are named {name!r}", value=name))
        for name in groups.names()
        if name in named
    ]


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

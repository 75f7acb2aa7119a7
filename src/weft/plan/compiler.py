"""The compiler: names resolved, patterns compiled, tools bound to their upstreams; once, at load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias, TypeVar

from weft.errors import (
    DocumentInvalid,
    ExecutionFailed,
    Loc,
    Problem,
    errors_in,
    nearest,
    shown,
)
from weft.expr.jcs import hash_of
from weft.ir.document import Document, ToolDef
from weft.ir.nodes import JSON_TYPES, Node
from weft.ir.operations import AgentCall, CompositionCall, ToolCall, Undo, kind_of
from weft.ir.walk import walk
from weft.patterns.contract import Call, Claim, Pattern, Pure, Run, Step, Value
from weft.patterns.copies import NEW, Copies
from weft.patterns.kept import Kept
from weft.plan.leaves import absent, leaf, shape_for, virtual_arguments
from weft.plan.risks import check_risks
from weft.plan.snapshot import Snapshot
from weft.plan.typeflow import TypeFlow, source_ref
from weft.ports import Invoke, Json, Store, ToolRef, ToolType, Upstream
from weft.registry.graph import check_cycles, check_names, references
from weft.registry.tools import Tools, key_of

JSON = frozenset(JSON_TYPES)
T = TypeVar("T")
Stores: TypeAlias = Callable[[str | None], Store]
"""Finds a store by its name, or the default one; raises ExecutionFailed when there is none."""


def no_stores(name: str | None) -> Store:
    """Find no store: where nothing can be kept, what needs a store cannot run."""
    raise store_missing(name or "default")


def store_missing(name: str, known: Iterable[str] = ()) -> ExecutionFailed:
    """Return the error for a store that nobody has configured."""
    hint = f"add it to weft.yaml:\n  stores:\n    {name}:\n      type: sqlite\n      path: ./weft.db"
    close = nearest(name, known)
    told = f"Store '{name}' not configured{f'; did you mean {close!r}?' if close else ''}"
    return ExecutionFailed(told, code="UnknownStore", hint=hint)


def check(
    document: Document,
    upstream: Upstream | None = None,
    *,
    known: frozenset[str] = frozenset(),
    elsewhere: frozenset[str] | None = None,
    stores: frozenset[str] | None = None,
) -> list[Problem]:
    """Return every problem that can be found before running: names, circles, types.

    `known` are names that exist although the document does not have them; `elsewhere` are all that upstreams have,
    when that is certain: then a name that is nowhere is an error. `stores` are the names of all stores, when known.
    """
    tools = Tools(document)
    named = [list(references(tool)) for tool in document.tools]
    known = known if upstream is None else known | frozenset(upstream.names())
    problems = [*check_names(tools, named, known, elsewhere), *check_cycles(tools, named)]
    if stores is not None:
        problems += check_stores(document, stores)
    patterns = list(_patterns(document))
    problems += _check_claims(document, patterns)
    if not any(problem.code in ("Cycle", "RecursionLimit") for problem in problems):
        problems += [*_check_transforms(document), *TypeFlow(document, upstream).check()]
        problems += check_risks(document, upstream, patterns)
    return problems


def _patterns(document: Document) -> Iterator[tuple[int, Loc, Pattern]]:
    """Yield every pattern of a document, with the index of its tool and its place."""
    for index, tool in enumerate(document.tools):
        for loc, node in () if tool.spec is None else walk(tool.spec, ("tools", index, "spec")):
            if isinstance(node, Pattern):
                yield index, loc, node


def check_stores(document: Document, known: frozenset[str]) -> Iterator[Problem]:
    """Report stores that nobody has configured."""
    for _, loc, node in _patterns(document):
        for name, place in node.stores():
            if name not in known:
                yield Problem(
                    code="UnknownStore",
                    message=f"Store '{name}' not configured",
                    loc=(*loc, *place),
                    value=shown(name),
                    expected=f"one of {', '.join(sorted(known))}" if known else store_missing(name).hint,
                    suggestion=nearest(name, known),
                )


def _check_claims(document: Document, patterns: Iterable[tuple[int, Loc, Pattern]]) -> Iterator[Problem]:
    """Report patterns that share state under one name and do not agree on its rules."""
    first: dict[tuple[str, str], tuple[Claim, str]] = {}
    for index, loc, node in patterns:
        for claim in node.claims():
            other, by = first.setdefault((claim.kind, claim.name), (claim, document.tools[index].name))
            if other.rules != claim.rules:
                yield Problem(
                    code="NameClash",
                    message=f"{claim.kind} {shown(claim.name)} has other settings in {shown(by)}",
                    loc=(*loc, *claim.loc),
                    value=shown(claim.name),
                    expected="the same settings wherever the name is used, or another name",
                )


def _check_transforms(document: Document) -> Iterator[Problem]:
    compiler = _Compiler(document, _Nothing())
    for index, tool in enumerate(document.tools):
        if tool.output_transform is not None and not _moves_data(compiler, tool.output_transform):
            yield Problem(
                code="TransformCalls",
                message=f"the outputTransform of {shown(tool.name)} may only move data",
                loc=("tools", index, "outputTransform", kind_of(tool.output_transform)),
                value=kind_of(tool.output_transform),
                expected="schemaMap, filter, or mapEach and pipelines of these",
            )


def _moves_data(compiler: _Compiler, operation: Node) -> bool:
    try:
        return compiler.operation(operation, "outputTransform").pure is not None
    except ExecutionFailed:  # It needs a store, which there is none of here.
        return False


class _Nothing:
    """An upstream without tools."""

    def bind(self, ref: ToolRef) -> Invoke | None:
        return None

    def describe(self, ref: ToolRef) -> ToolType | None:
        return None

    def names(self) -> list[str]:
        return []


def compile_document(
    document: Document,
    upstream: Upstream,
    *,
    problems: Iterable[Problem] | None = None,
    stores: Stores | None = None,
    kept: Kept | None = None,
) -> Snapshot:
    """Return the document as a snapshot that runs against the upstream.

    `problems` are what `check` found, when that was asked before; `stores` has those that patterns name. `kept` is what
    outlives this snapshot: given to the next one too, circuits stay open over a reload.

    Raises:
        DocumentInvalid: with every problem, when there is an error among them.
    """
    found = list(check(document, upstream) if problems is None else problems)
    if errors_in(found):
        raise DocumentInvalid(found)
    return Snapshot(document, _Compiler(document, upstream, stores, kept).all(), tuple(found))


class _Compiler:
    """Compiles each composition once, however many places name it."""

    def __init__(
        self, document: Document, upstream: Upstream, stores: Stores | None = None, kept: Kept | None = None
    ) -> None:
        self._kept = kept or Kept()
        self._tools = Tools(document)
        self._upstream = upstream
        self._stores = stores or no_stores
        self._path: list[str] = []
        self._hashes: dict[int, str] = {}
        self._named: dict[int | str, Step] = {}
        self._copies: dict[int, Copies] = {}
        self._owner: int | None = None
        """The tool whose spec is being compiled: what it depends on says which version a name means."""

    def all(self) -> dict[str, Step]:
        """Return every tool by its name, which means the newest version, and every version by `name@version`."""
        tools = self._tools
        steps = {name: self.named(name) for name in tools.names()}
        for index, tool in enumerate(tools.all):
            steps.setdefault(key_of(tool.name, tool.version), self._indexed(index))
        return steps

    def operation(self, operation: Node, name: str) -> Step:
        """Return a nested operation, compiled, under the name of its place."""
        if isinstance(operation, Pattern):
            self._path.append(name)
            try:
                return _step(name, kind_of(operation), operation.compile(self))
            finally:
                self._path.pop()
        if isinstance(operation, ToolCall) and operation.server is not None:
            ref = ToolRef(operation.name, operation.server, operation.version)
            return self._upstream_tool(operation.name, ref, name, None)
        if isinstance(operation, AgentCall):
            ref = ToolRef(operation.name, version=operation.version, skill=operation.skill)
            return self._upstream_tool(operation.name, ref, name, None)
        assert isinstance(operation, ToolCall | CompositionCall)
        found = self._meant(operation.name, operation.version)
        return Step(name, found.kind, found.run, found.pure, operation.name)

    def branch(self, operation: Node, fallback: str) -> Step:
        """Return a nested operation under the name of the tool that it calls, when it does nothing else."""
        return self.operation(operation, getattr(operation, "name", fallback) if _is_call(operation) else fallback)

    def named(self, tool: str) -> Step:
        """Return the tool or composition of that name, compiled."""
        return self._meant(tool, None)

    def repeatable(self, operation: Node) -> bool:
        """Tell whether every tool that an operation calls says that twice is as good as once (`idempotentHint`)."""
        for _, node in walk(operation):
            if isinstance(node, AgentCall) or (isinstance(node, ToolCall) and node.server is not None):
                skill, server = getattr(node, "skill", None), getattr(node, "server", None)
                if not self._says_repeatable(ToolRef(node.name, server, node.version, skill)):
                    return False
            elif isinstance(node, ToolCall | CompositionCall):
                if not self._repeatable(node.name, node.version):
                    return False
            elif isinstance(node, Pattern) and not all(self._repeatable(name, None) for name, _ in node.names()):
                return False
        return True

    def _repeatable(self, name: str, version: str | None) -> bool:
        index = self._tools.meant(name, version, by=self._owner)
        if index is None:
            return self._says_repeatable(ToolRef(name))
        tool = self._tools.all[index]
        if tool.spec is None:
            return self._says_repeatable(ToolRef(tool.name) if tool.source is None else source_ref(tool))
        before, self._owner = self._owner, index
        try:
            return self.repeatable(tool.spec)
        finally:
            self._owner = before

    def _says_repeatable(self, ref: ToolRef) -> bool:
        described = self._upstream.describe(ref)
        hints = (described.annotations if described is not None else None) or {}
        return hints.get("idempotentHint") is True or hints.get("readOnlyHint") is True

    def undo(self, operation: Node) -> Undo | None:
        """Return what takes back the effect of a tool that an operation calls, where the registry says so."""
        if not isinstance(operation, ToolCall | CompositionCall) or getattr(operation, "server", None) is not None:
            return None
        index = self._tools.meant(operation.name, operation.version, by=self._owner)
        return None if index is None else self._tools.all[index].undo

    def rights(self, operation: Node) -> list[Callable[[Call], bool]]:
        """Return what tells, for each guarded tool that an operation may call, whether a call may call it."""
        bound = [self._upstream.bind(ref) for ref in dict.fromkeys(self._leaves(operation))]
        return [allows for one in bound if (allows := getattr(one, "allows", None)) is not None]

    def _leaves(self, operation: Node) -> Iterator[ToolRef]:
        """Yield the upstream tools that an operation may call, in whatever depth."""
        for _, node in walk(operation):
            if isinstance(node, AgentCall):
                yield ToolRef(node.name, version=node.version, skill=node.skill)
            elif isinstance(node, ToolCall) and node.server is not None:
                yield ToolRef(node.name, node.server, node.version)
            elif isinstance(node, ToolCall | CompositionCall):
                yield from self._leaves_of(node.name, node.version)
            elif isinstance(node, Pattern):
                for name, _ in node.names():
                    yield from self._leaves_of(name, None)

    def _leaves_of(self, name: str, version: str | None) -> Iterator[ToolRef]:
        index = self._tools.meant(name, version, by=self._owner)
        if index is None:
            yield ToolRef(name)
            return
        tool = self._tools.all[index]
        if tool.spec is None:
            ref = ToolRef(tool.name) if tool.source is None else source_ref(tool)
            yield replace(ref, known_as=key_of(tool.name, tool.version))
            return
        before, self._owner = self._owner, index
        found = list(self._leaves(tool.spec))
        self._owner = before
        yield from found

    def store(self, name: str | None) -> Store:
        """Return the store of that name; without one, the default store.

        Raises:
            ExecutionFailed: there is none.
        """
        return self._stores(name)

    def kept(self, kind: type[T]) -> T:
        """Return the one object of a kind that outlives this compilation."""
        return self._kept.of(kind)

    def place(self) -> str:
        """Return what names the pattern that is being compiled among all."""
        if self._owner is None:
            return f"||{'/'.join(self._path)}"
        tool = self._tools.all[self._owner]
        if self._owner not in self._hashes:
            self._hashes[self._owner] = hash_of(tool.to_json())[:32]
        return f"{key_of(tool.name, tool.version)}|{self._hashes[self._owner]}|{'/'.join(self._path)}"

    def documented(self) -> dict[str, Json]:
        """Return a document of the tool that is being compiled, and of every tool that it stands on."""
        needed: dict[int, Json] = {}
        waiting = [] if self._owner is None else [self._owner]
        while waiting:
            index = waiting.pop()
            tool = self._tools.all[index]
            needed[index] = tool.to_ir()
            meant = (self._tools.meant(one.name, one.version, by=index) for one in references(tool))
            waiting += [one for one in meant if one is not None and one not in needed]
        return {"schemaVersion": "1.0", "tools": [needed[index] for index in sorted(needed)]}

    def _meant(self, name: str, version: str | None) -> Step:
        index = self._tools.meant(name, version, by=self._owner)
        if index is not None:
            return self._indexed(index)
        if name in self._tools:
            # Another version than the one that was meant is another tool: better none than that.
            ref = ToolRef(name, version=version or self._tools.pinned(self._owner, name))
            there = [key_of(name, one) for one in self._tools.versions(name)]
            return Step(name, "tool", absent(ref, there), None, name)
        if name not in self._named:
            self._named[name] = self._upstream_tool(name, ToolRef(name), name, None)
        return self._named[name]

    def _indexed(self, index: int) -> Step:
        if index not in self._named:
            before, self._owner = self._owner, index
            path, self._path = self._path, []
            try:
                self._named[index] = self._defined(self._tools.all[index])
            finally:
                self._owner, self._path = before, path
        return self._named[index]

    def copies(self, operation: Node | str) -> Copies:
        """Return how often an operation, or the tool of that name, may put a part of its input into its result."""
        if isinstance(operation, Pattern):
            return operation.copies(self)
        if isinstance(operation, ToolCall | CompositionCall):
            elsewhere = getattr(operation, "server", None) is not None
            index = None if elsewhere else self._tools.meant(operation.name, operation.version, by=self._owner)
        else:
            index = self._tools.meant(operation, by=self._owner) if isinstance(operation, str) else None
        if index is None:
            return NEW
        if index not in self._copies:
            before, self._owner = self._owner, index
            self._copies[index] = self._copied(self._tools.all[index])
            self._owner = before
        return self._copies[index]

    def _copied(self, tool: ToolDef) -> Copies:
        if tool.spec is not None:
            return self.copies(tool.spec)
        return NEW if tool.output_transform is None else Copies(0, self.copies(tool.output_transform).shared)

    def _defined(self, tool: ToolDef) -> Step:
        if tool.spec is not None:
            inner = self.operation(tool.spec, tool.name)
            return Step(tool.name, "composition", inner.run, inner.pure, tool.name)
        ref = ToolRef(tool.name) if tool.source is None else source_ref(tool)
        ref = replace(ref, known_as=key_of(tool.name, tool.version))
        return self._upstream_tool(tool.name, ref, tool.name, tool)

    def _upstream_tool(self, tool: str, ref: ToolRef, place: str, definition: ToolDef | None) -> Step:
        invoke = self._upstream.bind(ref)
        if invoke is None:
            return Step(place, "tool", absent(ref, self._upstream.names()), None, tool)
        described = self._upstream.describe(ref)
        schema = described.input if described is not None else None
        shape = shape_for(tool, schema) if schema else None
        if definition is not None and definition.source is not None:
            shape = virtual_arguments(definition, shape)
        transform = self._transform(definition)
        return Step(place, "tool", leaf(tool, invoke, shape, transform), None, tool)

    def _transform(self, definition: ToolDef | None) -> Callable[[Value], Value] | None:
        if definition is None or definition.output_transform is None:
            return None
        step = self.operation(definition.output_transform, "outputTransform")
        assert step.pure is not None, "checked before compiling"
        return step.pure.fn


def _is_call(operation: Node) -> bool:
    return isinstance(operation, ToolCall | CompositionCall | AgentCall)


def _step(name: str, kind: str, compiled: Run | Pure) -> Step:
    if not isinstance(compiled, Pure):
        return Step(name, kind, compiled)
    fn, spans = compiled.fn, compiled.spans

    async def run(value: Value, call: Call) -> Value:
        return spans(value, call) if spans is not None and call.traced else fn(value)

    return Step(name, kind, run, compiled)

"""Who names whom: references of compositions, names that lead nowhere, circles."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from weft.errors import Loc, Problem, nearest, shown
from weft.ir.document import INTERNAL, ToolDef
from weft.ir.operations import CompositionCall, ToolCall
from weft.ir.walk import walk
from weft.patterns.contract import Pattern
from weft.registry.tools import Tools

T = TypeVar("T", bound=Hashable)
MAX_RECURSION = 16


@dataclass(frozen=True, slots=True)
class Reference:
    """A place in a composition that names a tool."""

    name: str
    loc: Loc
    composition: bool
    version: str | None = None
    undo: bool = False
    """Whether it is what takes the tool's effect back: the tool itself does not call it."""


def references(tool: ToolDef) -> Iterator[Reference]:
    """Yield every place of a tool that names another: of its spec, whatever the pattern, and what undoes it."""
    if tool.undo is not None and tool.undo.tool.server is None:
        undo = tool.undo.tool
        yield Reference(undo.name, ("undo", "tool", "name"), composition=False, version=undo.version, undo=True)
    operation, key = (tool.output_transform, "outputTransform") if tool.spec is None else (tool.spec, "spec")
    if operation is None:
        return
    for loc, node in walk(operation, (key,)):
        if isinstance(node, ToolCall) and node.server is None:
            yield Reference(node.name, (*loc, "name"), composition=False, version=node.version)
        elif isinstance(node, CompositionCall):
            yield Reference(node.name, (*loc, "name"), composition=True, version=node.version)
        elif isinstance(node, Pattern):
            for name, place in node.names():
                yield Reference(name, (*loc, *place), composition=False)


def on_servers(tool: ToolDef) -> Iterator[tuple[ToolCall, Loc]]:
    """Yield every place of a composition that names a tool of a certain server, to undo a step too."""
    for loc, node in () if tool.spec is None else walk(tool.spec, ("spec",)):
        if isinstance(node, ToolCall) and node.server is not None:
            yield node, (*loc, "name")


References: TypeAlias = "list[list[Reference]]"
"""The references of every tool of a document, in its order."""


def check_names(
    tools: Tools, named: References, known: frozenset[str], elsewhere: frozenset[str] | None
) -> Iterator[Problem]:
    """Report names that lead nowhere.

    `elsewhere` are the names that upstreams have, or None when that is not known: then such a name is only a warning.
    """
    names = {*tools.names(), *known}
    closest = Nearest(sorted(names | (elsewhere or frozenset())))
    for index, named_by_tool in enumerate(named):
        for reference in named_by_tool:
            if reference.name in tools:
                yield from _check_version(tools, index, reference)
            elif reference.name not in names and (elsewhere is None or reference.name not in elsewhere):
                sure = reference.composition or reference.name.startswith(INTERNAL) or elsewhere is not None
                yield Problem(
                    code="UnknownName",
                    severity="error" if sure else "warning",
                    message=f"{'Composition' if reference.composition else 'Tool'} not found: {reference.name}"
                    + ("" if sure else " (unless an upstream server has it)"),
                    loc=("tools", index, *reference.loc),
                    value=shown(reference.name),
                    expected="a composition of this document" if reference.composition else "a tool that there is",
                    suggestion=closest(reference.name),
                )


def _check_version(tools: Tools, index: int, reference: Reference) -> Iterator[Problem]:
    """Report a version that a tool does not have, and a name that could mean several."""
    name, version = reference.name, reference.version or tools.pinned(index, reference.name)
    if version is not None and tools.meant(name, version) is None:
        there = ", ".join(tools.versions(name))
        # What is missing in `depends` is told there.
        if reference.version is not None:
            yield Problem(
                code="UnknownVersion",
                message=f"Tool {name!r} has no version {shown(version)}: there is {there}",
                loc=("tools", index, *reference.loc[:-1], "version"),
                value=shown(version),
                expected=f"one of {there}",
                suggestion=nearest(version, tools.versions(name)),
            )
    elif version is None and not tools.is_alone(name):
        newest, *older = tools.versions(name)
        yield Problem(
            code="AmbiguousVersion",
            severity="warning",
            message=f"{name!r} has several versions, and means the newest, {newest}, until there is a newer one",
            loc=("tools", index, *reference.loc),
            value=shown(name),
            expected=f"a version, here or in depends: {', '.join([newest, *older])}",
        )


class Nearest:
    """Finds the nearest name, once for each; a document full of strange names gets help with the first of them."""

    MOST = 50

    def __init__(self, known: list[str]) -> None:
        self._known = known
        self._found: dict[str, str | None] = {}

    def __call__(self, name: str) -> str | None:
        if name not in self._found and len(self._found) < self.MOST:
            self._found[name] = nearest(name, self._known)
        return self._found.get(name)


def check_cycles(tools: Tools, named: References) -> Iterator[Problem]:
    """Report every circle once, with its whole path, and the beginnings of chains of compositions that are too long."""
    edges: dict[int, dict[int, Loc]] = {}
    for index, named_by_tool in enumerate(named):
        below = edges[index] = {}
        for reference in (*named_by_tool, *_taken_back(tools, index)):
            meant = tools.meant(reference.name, reference.version, by=index)
            if meant is not None and not reference.undo:
                below.setdefault(meant, reference.loc)
    composed = {index for index, tool in enumerate(tools.all) if tool.spec is not None}
    reported = set[frozenset[int]]()
    depths: dict[int, int] = {}
    for start in edges:
        for path in cycles_from(start, edges, depths, composed):
            if frozenset(path) not in reported:
                reported.add(frozenset(path))
                first, second = path[0], path[1]
                yield Problem(
                    code="Cycle",
                    message=f"compositions call each other in a circle: {' -> '.join(map(tools.label, path))}",
                    loc=("tools", first, *edges[first][second]),
                    value=shown(tools.all[second].name),
                    expected="compositions that call only others",
                )
    deep = [] if reported else [index for index, depth in depths.items() if depth > MAX_RECURSION]
    inner = {called for index in deep for called in edges[index]}
    for index in deep:
        if index not in inner:
            depth = depths[index]
            yield Problem(
                code="RecursionLimit",
                message=f"{tools.label(index)!r} nests compositions {depth} deep",
                loc=("tools", index, "name"),
                value=f"{depth} deep",
                expected=f"at most {MAX_RECURSION}",
            )


def _taken_back(tools: Tools, index: int) -> Iterator[Reference]:
    """Yield what a tool calls to take back the effect of others, as the registry says of these."""
    spec = tools.all[index].spec
    for loc, node in () if spec is None else walk(spec, ("spec",)):
        for operation, place in node.takes_back() if isinstance(node, Pattern) else ():
            if isinstance(operation, ToolCall | CompositionCall) and getattr(operation, "server", None) is None:
                meant = tools.meant(operation.name, operation.version, by=index)
                undo = None if meant is None else tools.all[meant].undo
                if undo is not None and undo.tool.server is None:
                    yield Reference(undo.tool.name, (*loc, *place), composition=False, version=undo.tool.version)


def cycles_from(
    start: T, edges: Mapping[T, Mapping[T, Any]], depths: dict[T, int], composed: Container[T]
) -> Iterator[list[T]]:
    """Visit what an entity reaches, once each; yield the circles met, and note how deep compositions nest in each."""
    if start in depths:
        return
    path, on_path = [start], {start: 0}
    pending = [iter(edges[start])]
    while pending:
        one = next(pending[-1], None)
        if one is None:
            done = path.pop()
            del on_path[done]
            below = max((depths.get(inner, 0) for inner in edges[done]), default=0)
            depths[done] = below + (done in composed)
            pending.pop()
        elif one in on_path:
            yield [*path[on_path[one] :], one]
        elif one in edges and one not in depths:
            on_path[one] = len(path)
            path.append(one)
            pending.append(iter(edges[one]))

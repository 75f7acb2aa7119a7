"""Who names whom: references of compositions, names that lead nowhere, circles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from weft.errors import Loc, Problem, nearest, shown
from weft.ir.document import INTERNAL, Document, ToolDef
from weft.ir.operations import CompositionCall, ToolCall
from weft.ir.walk import walk
from weft.patterns.contract import Pattern

MAX_RECURSION = 16


@dataclass(frozen=True, slots=True)
class Reference:
    """A place in a composition that names a tool."""

    name: str
    loc: Loc
    composition: bool


def references(tool: ToolDef) -> Iterator[Reference]:
    """Yield every place of a tool's spec that names another, whatever the pattern."""
    operation, key = (tool.output_transform, "outputTransform") if tool.spec is None else (tool.spec, "spec")
    if operation is None:
        return
    for loc, node in walk(operation, (key,)):
        if isinstance(node, ToolCall) and node.server is None:
            yield Reference(node.name, (*loc, "name"), composition=False)
        elif isinstance(node, CompositionCall):
            yield Reference(node.name, (*loc, "name"), composition=True)
        elif isinstance(node, Pattern):
            for name, place in node.names():
                yield Reference(name, (*loc, *place), composition=False)


References: TypeAlias = "list[list[Reference]]"
"""The references of every tool of a document, in its order."""


def check_names(
    document: Document, named: References, known: frozenset[str], elsewhere: frozenset[str] | None
) -> Iterator[Problem]:
    """Report names that lead nowhere.

    `elsewhere` are the names that upstreams have, or None when that is not known: then such a name is only a warning.
    """
    names = {tool.name for tool in document.tools} | known
    closest = _Nearest(sorted(names | (elsewhere or frozenset())))
    for index, named_by_tool in enumerate(named):
        for reference in named_by_tool:
            if reference.name not in names and (elsewhere is None or reference.name not in elsewhere):
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


class _Nearest:
    """Finds the nearest name, once for each; a document full of strange names gets help with the first of them."""

    MOST = 50

    def __init__(self, known: list[str]) -> None:
        self._known = known
        self._found: dict[str, str | None] = {}

    def __call__(self, name: str) -> str | None:
        if name not in self._found and len(self._found) < self.MOST:
            self._found[name] = nearest(name, self._known)
        return self._found.get(name)


def check_cycles(document: Document, named: References) -> Iterator[Problem]:
    """Report every circle once, with its whole path, and the beginnings of chains of compositions that are too long."""
    edges: dict[str, dict[str, Loc]] = {}
    for tool, named_by_tool in zip(document.tools, named, strict=True):
        below = edges.setdefault(tool.name, {})
        for reference in named_by_tool:
            below.setdefault(reference.name, reference.loc)
    composed = {tool.name for tool in document.tools if tool.spec is not None}
    places = {tool.name: index for index, tool in enumerate(document.tools)}
    reported = set[frozenset[str]]()
    depths: dict[str, int] = {}
    for name in edges:
        for path in _cycles_from(name, edges, depths, composed):
            if frozenset(path) not in reported:
                reported.add(frozenset(path))
                first, second = path[0], path[1]
                yield Problem(
                    code="Cycle",
                    message=f"compositions call each other in a circle: {' -> '.join(path)}",
                    loc=("tools", places[first], *edges[first][second]),
                    value=shown(second),
                    expected="compositions that call only others",
                )
    deep = [] if reported else [name for name, depth in depths.items() if depth > MAX_RECURSION]
    inner = {called for name in deep for called in edges[name]}
    for name in deep:
        if name not in inner:
            depth = depths[name]
            yield Problem(
                code="RecursionLimit",
                message=f"{name!r} nests compositions {depth} deep",
                loc=("tools", places[name], "name"),
                value=f"{depth} deep",
                expected=f"at most {MAX_RECURSION}",
            )


def _cycles_from(
    start: str, edges: Mapping[str, Mapping[str, Loc]], depths: dict[str, int], composed: set[str]
) -> Iterator[list[str]]:
    """Visit what a composition reaches, once each; yield the circles met, and note how deep each composition nests."""
    if start in depths:
        return
    path, on_path = [start], {start: 0}
    pending = [iter(edges[start])]
    while pending:
        name = next(pending[-1], None)
        if name is None:
            done = path.pop()
            del on_path[done]
            below = max((depths.get(inner, 0) for inner in edges[done]), default=0)
            depths[done] = below + (done in composed)
            pending.pop()
        elif name in on_path:
            yield [*path[on_path[name] :], name]
        elif name in edges and name not in depths:
            on_path[name] = len(path)
            path.append(name)
            pending.append(iter(edges[name]))

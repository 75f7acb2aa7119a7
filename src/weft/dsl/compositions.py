"""From Python to a document: compositions, parts with a name, and parts that are used more than once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from pydantic.alias_generators import to_snake

from weft.dsl.local import LocalTools, PythonTool
from weft.dsl.references import ToolReference
from weft.errors import DocumentInvalid, Problem
from weft.expr.types import schema_of
from weft.ir.document import INTERNAL, Document, ToolDef
from weft.ir.nodes import Node
from weft.ir.normalise import made
from weft.ir.operations import CompositionCall, kind_of
from weft.ir.walk import operations_below, rewrite
from weft.patterns.contract import Op, Pattern, operand
from weft.ports import ToolRef, ToolType

A = TypeVar("A")
B = TypeVar("B")


class Composition(Op[A, B]):
    """A tool made of others: used in a pattern it is called by name, compiled it is a tool of the document."""

    __slots__ = ("body", "description", "input", "name", "output", "version")

    def __init__(
        self,
        body: Op[A, B],
        *,
        name: str,
        description: str | None = None,
        input: Any = None,
        output: Any = None,
        version: str | None = None,
    ) -> None:
        super().__init__(made(CompositionCall, {"name": name}), [body])
        self.body = body
        self.name = name
        self.description = description
        self.input = input
        self.output = output
        self.version = version

    @property
    def internal(self) -> bool:
        """Whether this is only a part of others."""
        return self.name.startswith(INTERNAL)

    def definition(self, spec: Node) -> ToolDef:
        """Return the composition as a tool of a document, with a spec made of its body."""
        given: dict[str, Any] = {"name": self.name, "spec": spec}
        given |= {"description": self.description} if self.description else {}
        given |= {"version": self.version} if self.version else {}
        given |= _typed("input", self.input) | _typed("output", self.output)
        return made(ToolDef, given)

    def to_ir(self) -> dict[str, Any]:
        """Return `{name, description, spec}` with everything else inline."""
        return self.definition(self.body.node).to_ir()


def _typed(which: str, given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if isinstance(given, str):
        return {f"{which}Type": given}
    return {f"{which}Schema": schema_of(given)}


def composition(
    name: str,
    description: str,
    pattern: Op[A, B],
    *,
    input: Any = None,
    output: Any = None,
    version: str | None = None,
) -> Composition[A, B]:
    """Make a tool of a pattern.

    `input` and `output` say what it takes and gives: a Python type, a JSON Schema, or the name of a type.
    """
    body = operand(pattern, "w.composition")
    return Composition(body, name=name, description=description, input=input, output=output, version=version)


def named(name: str, pattern: Op[A, B]) -> Composition[A, B]:
    """Give a part a name of its own: it becomes the internal composition `__name`."""
    if not name.removeprefix(INTERNAL):
        raise TypeError("w.named takes a name, as in w.named('web_normalized', w.pipeline(..))")
    return Composition(operand(pattern, "w.named"), name=f"{INTERNAL}{name.removeprefix(INTERNAL)}")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A document made of Python, the functions it uses as tools, and the types that references declared."""

    document: Document
    local: LocalTools
    types: dict[ToolRef, ToolType]

    @property
    def top_level(self) -> list[str]:
        """The names of the compositions that callers see."""
        return [tool.name for tool in self.document.tools if not tool.internal]

    @property
    def internal(self) -> list[str]:
        """The names of the parts."""
        return [tool.name for tool in self.document.tools if tool.internal]


def compile(*compositions: Composition[Any, Any], split: bool = False) -> Compiled:
    """Make a document of compositions and of all they use; `split` gives every nested pattern a name."""
    for one in compositions:
        if not isinstance(one, Composition):  # pyright: ignore[reportUnnecessaryIsInstance]  (authors without a checker)
            raise TypeError(f"w.compile takes compositions: w.composition(name, description, ..), not {one!r}")
    tops, parts = _collect(compositions)
    named_parts = [one for one in parts if isinstance(one, Composition)]
    chosen = _unique([*tops, *named_parts])
    hoisted = _hoisted([one.body for one in chosen], {one.name for one in chosen}, split=split)
    tools = [one.definition(_spec(one.body.node, hoisted)) for one in chosen]
    tools += [ToolDef(name=name, spec=_spec(node, hoisted)) for node, name in hoisted.values()]
    local = LocalTools([one for one in parts if isinstance(one, PythonTool)])
    types = {one.ref: one.types for one in parts if isinstance(one, ToolReference) and one.types is not None}
    return Compiled(Document(tools=tools) if tools else Document(), local, types)


def _collect(compositions: Iterable[Composition[Any, Any]]) -> tuple[list[Composition[Any, Any]], list[Op[Any, Any]]]:
    """Return the compositions given, and every operation that they are built from, once each."""
    tops = list(dict.fromkeys(compositions))
    seen = dict[int, Op[Any, Any]]()
    pending: list[Op[Any, Any]] = list(reversed([one.body for one in tops]))
    while pending:
        one = pending.pop()
        if id(one) not in seen:
            seen[id(one)] = one
            pending += reversed(one.parts)
    return tops, [one for one in seen.values() if one not in tops]


def _unique(compositions: list[Composition[Any, Any]]) -> list[Composition[Any, Any]]:
    """Return the compositions by name; the same thing may be named twice, different things may not."""
    by_name: dict[str, Composition[Any, Any]] = {}
    for one in compositions:
        first = by_name.setdefault(one.name, one)
        if first is not one and first.to_ir() != one.to_ir():
            raise DocumentInvalid(
                [Problem(code="DuplicateName", message=f"two compositions are named {one.name!r}", value=one.name)]
            )
    return list(by_name.values())


def _hoisted(bodies: list[Op[Any, Any]], taken: set[str], *, split: bool) -> dict[int, tuple[Node, str]]:
    """Return the nested patterns that get a name: those used more than once, or all of them."""
    counts: dict[int, int] = {}
    patterns: dict[int, Node] = {}
    pending = [body.node for body in reversed(bodies)]
    tops = {id(node) for node in pending}
    seen = set[int]()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        below = list(operations_below(node))
        for inner in below:
            counts[id(inner)] = counts.get(id(inner), 0) + 1
        pending += reversed(below)
        if isinstance(node, Pattern) and id(node) not in tops:
            patterns[id(node)] = node
    chosen = [node for key, node in patterns.items() if split or counts[key] > 1]
    hoisted: dict[int, tuple[Node, str]] = {}
    numbers = count()
    for node in chosen:
        names = (f"{INTERNAL}{to_snake(kind_of(node))}_{number}" for number in numbers)
        hoisted[id(node)] = node, next(name for name in names if name not in taken)
    return hoisted


def _spec(node: Node, hoisted: dict[int, tuple[Node, str]]) -> Node:
    def change(inner: Node) -> Node | None:
        if inner is node or id(inner) not in hoisted:
            return None
        return CompositionCall(name=hoisted[id(inner)][1])

    return rewrite(node, change)

"""Specs of a registry in Python: what they depend on, the parts they are made of, the functions that they call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from weft.dsl.compositions import Composition
from weft.dsl.local import LocalTools, PythonTool
from weft.dsl.registry_entities import RegisteredSkill, RegisteredTool, dependency
from weft.ir.document import INTERNAL
from weft.ir.nodes import Node
from weft.ir.operations import ToolCall, operation_ir
from weft.ir.walk import rewrite
from weft.patterns.contract import Op

PYTHON = f"{INTERNAL}python_"
"""What the names of functions begin with whose own name is that of a tool of the registry."""


class Specs:
    """The specs of all tools, once they are all known."""

    def __init__(self, tools: Sequence[RegisteredTool]) -> None:
        self._versions: dict[Composition[Any, Any], str] = {}
        self.parts: dict[Composition[Any, Any], RegisteredTool] = {}
        """Compositions that are used and were not registered, each with the first tool that uses it."""
        functions: dict[PythonTool[..., Any], None] = {}
        for tool in tools:
            if tool.composition is not None and tool.composition.name == tool.draft.name:
                self._versions.setdefault(tool.composition, tool.draft.version)
        for tool in tools:
            if tool.spec is not None:
                self._find(tool.spec, tool, functions)
        taken = {*(tool.draft.name for tool in tools), *(part.name for part in self.parts)}
        self._functions = {one: _under(one, taken) for one in functions}

    def _find(self, spec: Op[Any, Any], owner: RegisteredTool, functions: dict[PythonTool[..., Any], None]) -> None:
        for one in operations(spec):
            if isinstance(one, PythonTool):
                functions[one] = None
            elif isinstance(one, Composition) and one not in self._versions:
                # A part goes with the tool that it is a part of.
                self._versions[one] = one.version or owner.draft.version
                self.parts[one] = owner
                self._find(one.body, owner, functions)

    def entry(self, tool: RegisteredTool) -> dict[str, Any]:
        """Return a tool as JSON."""
        return tool.draft.entry if tool.spec is None else self._filled(tool.draft.entry, tool.spec)

    def part(self, composition: Composition[Any, Any]) -> dict[str, Any]:
        """Return a part as a tool of its own."""
        entry = composition.definition(composition.body.node).to_ir()
        return self._filled({**entry, "version": self._versions[composition]}, composition.body)

    def local(self) -> LocalTools:
        """Return the functions under the names by which the specs call them."""
        return LocalTools(self._functions.values())

    def holds(self, composition: Composition[Any, Any]) -> bool:
        """Tell whether a composition is in the registry, or a part of one that is."""
        return composition in self._versions

    def _filled(self, entry: dict[str, Any], spec: Op[Any, Any]) -> dict[str, Any]:
        declared: list[Any] = list(entry.get("depends", []))
        for one in self._used(spec):
            declared += [] if one in declared else [one]
        return {**entry, "spec": self._written(spec), **({"depends": declared} if declared else {})}

    def _used(self, spec: Op[Any, Any]) -> Iterator[dict[str, Any]]:
        """Yield what a spec names by objects; what it names by text is declared by its author."""
        for one in operations(spec):
            if isinstance(one, RegisteredTool | RegisteredSkill):
                yield dependency(one)
            elif isinstance(one, Composition):
                yield {"type": "tool", "name": one.name, "version": self._versions[one]}

    def _written(self, spec: Op[Any, Any]) -> dict[str, Any]:
        renamed = {id(one.node): ToolCall(name=new.name) for one, new in self._functions.items() if new is not one}

        def change(node: Node) -> Node | None:
            return renamed.get(id(node))

        return operation_ir(rewrite(spec.node, change) if renamed else spec.node)


def operations(spec: Op[Any, Any]) -> Iterator[Op[Any, Any]]:
    """Yield the operations that a spec is built from, once each; what a composition is built from is its own."""
    seen = set[int]()
    pending = [spec]
    while pending:
        one = pending.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            pending += [] if isinstance(one, Composition) else reversed(one.parts)


def _under(function: PythonTool[..., Any], taken: set[str]) -> PythonTool[..., Any]:
    """Return a function under a name that no tool of the registry has: the tool would call itself."""
    if function.name not in taken:
        return function
    return PythonTool(function.function, f"{PYTHON}{function.name}", function.description, function.annotations)

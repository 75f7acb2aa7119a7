"""References to what exists elsewhere: tools and agents, by name; and where a step's input comes from."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from weft.expr.fields import path_text
from weft.expr.types import plain, schema_of
from weft.ir.bindings import Binding, binding
from weft.ir.normalise import made
from weft.ir.operations import AgentCall, ToolCall
from weft.patterns.contract import Op
from weft.ports import ToolRef, ToolType

A = TypeVar("A")
B = TypeVar("B")


class ToolReference(Op[A, B]):
    """A tool by name; the types an author gave are checked before running and are not part of the document."""

    __slots__ = ("types",)

    def __init__(self, node: ToolCall | AgentCall, types: ToolType | None) -> None:
        super().__init__(node)
        self.types = types

    @property
    def name(self) -> str:
        """The name, which is all that the document says."""
        return self.node.name  # pyright: ignore  (both nodes have one)

    @property
    def ref(self) -> ToolRef:
        """What a plan asks an upstream for; a name without a server is looked up by name alone."""
        if isinstance(self.node, AgentCall):
            return ToolRef(self.node.name, version=self.node.version, skill=self.node.skill)
        assert isinstance(self.node, ToolCall)
        if self.node.server is None:
            return ToolRef(self.node.name)
        return ToolRef(self.node.name, self.node.server, self.node.version)


@overload
def tool(name: str, /, *, server: str | None = None, version: str | None = None) -> Op[Any, Any]: ...
@overload
def tool(
    name: str, input: type[A], output: type[B], /, *, server: str | None = None, version: str | None = None
) -> Op[A, B]: ...


def tool(
    name: str, input: Any = None, output: Any = None, /, *, server: str | None = None, version: str | None = None
) -> Op[Any, Any]:
    """Refer to a tool: `w.tool("web_search")`, or with its types, `w.tool("web_search", str, list[Hit])`."""
    given = {"name": name, "server": server, "version": version}
    node = made(ToolCall, {key: value for key, value in given.items() if value is not None})
    return ToolReference(node, _types(input, output))


def agent(name: str, skill: str, *, version: str | None = None) -> Op[Any, Any]:
    """Refer to a skill of an agent: `w.agent("research-agent", "research_topic")`."""
    given = {"name": name, "skill": skill, "version": version}
    node = made(AgentCall, {key: value for key, value in given.items() if value is not None})
    return ToolReference(node, None)


def _types(input: Any, output: Any) -> ToolType | None:
    if input is None and output is None:
        return None
    return ToolType(schema_of(input), schema_of(output))


def from_input(path: object = "$") -> Binding:
    """Take a step's input from the pipeline's own input."""
    return made(Binding, {"input": {"path": path_text(path)}})


def from_step(step: str, path: object = "$") -> Binding:
    """Take a step's input from the result of an earlier step."""
    return made(Binding, {"step": {"stepId": step, "path": path_text(path)}})


def from_previous(path: object = "$") -> Binding:
    """Take a step's input from the result just before it."""
    return made(Binding, {"previous": {"path": path_text(path)}})


def constant(value: Any) -> Binding:
    """Give a step the same input each time."""
    return made(Binding, {"constant": {"value": plain(value)}})


def construct(**fields: Binding) -> Binding:
    """Give a step an object whose fields come from several places."""
    return made(Binding, {"construct": {"fields": {name: binding(one, "w.construct") for name, one in fields.items()}}})

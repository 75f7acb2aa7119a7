"""Operations: what a step does. A tool, a composition, an agent's skill, or a pattern written in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, cast

from pydantic import Field
from pydantic.alias_generators import to_camel

from weft.errors import shown
from weft.ir.nodes import Node, Tagged, refuse, unknown
from weft.ports import Json


class _Named(Node):
    """A call by name; a bare string is the name."""

    @classmethod
    def spell(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


Name = Annotated[str, Field(min_length=1, max_length=256)]


class ToolCall(_Named):
    """Call the tool of that name: an upstream's, a virtual one or a composition, the registry's first."""

    aliases: ClassVar[Mapping[str, str]] = {"target": "server", "serverName": "server"}

    name: Name
    server: str | None = None
    version: str | None = None


class CompositionCall(_Named):
    """Call the composition of that name."""

    name: Name
    version: str | None = None


class AgentCall(Node):
    """Ask an agent to use one of its skills."""

    name: Name
    skill: Name
    version: str | None = None


_kinds: dict[str, type[Node]] = {"tool": ToolCall, "composition": CompositionCall, "agent": AgentCall}
_tags: dict[type[Node], str] = {}


def add_kinds(patterns: Mapping[str, type[Node]]) -> None:
    """Close the union of operations: called once, by the catalogue of patterns."""
    _kinds.update(patterns)
    _tags.update({model: kind for kind, model in _kinds.items()})


def kind_of(node: Node) -> str:
    """Return the key of an operation."""
    return _tags[type(node)]


def is_operation(node: Node) -> bool:
    """Tell operations from the other parts of a document."""
    return type(node) in _tags


def operation_ir(node: Node) -> dict[str, Json]:
    """Return an operation as canonical JSON: `{kind: body}`."""
    return {kind_of(node): node.to_ir()}


def kinds() -> Mapping[str, type[Node]]:
    """Return every kind of operation by its key."""
    if len(_kinds) == 3:
        raise RuntimeError("import weft.patterns before documents are read")
    return _kinds


def spell_operation(value: Any) -> Any:
    """Turn any accepted spelling of an operation into `{kind: body}`, or raise what is wrong with it."""
    if isinstance(value, Node):
        return value
    if isinstance(value, str):
        return {"tool": {"name": value}}
    if not isinstance(value, dict):
        raise refuse(
            "WrongType", f"{shown(value)} is not an operation", expected="a tool's name, or an object with one key"
        )
    given = {key: item for key, item in cast("dict[str, Any]", value).items() if not key.startswith("$")}
    if "pattern" in given:
        return _by_pattern(given)
    if len(given) != 1:
        _not_one(given)
    key, body = next(iter(given.items()))
    kind = to_camel(key)
    if kind == "composition":
        return _composition(body)
    if kind not in kinds():
        raise unknown("pattern", key, list(kinds()))
    return {kind: body}


def _by_pattern(given: dict[str, Any]) -> Any:
    pattern = given["pattern"]
    if not isinstance(pattern, str):
        if len(given) != 1:
            _not_one(given)
        return spell_operation(pattern)
    kind = to_camel(pattern)
    if kind not in kinds():
        raise unknown("pattern", pattern, list(kinds()))
    return {kind: {key: item for key, item in given.items() if key != "pattern"}}


def _not_one(given: Mapping[str, Any]) -> None:
    known = [key for key in given if to_camel(key) in kinds()]
    if not given or not known:
        found = "none" if not given else ", ".join(sorted(given))
        raise refuse("NoPattern", f"no pattern key, found {found}", expected=f"one of {', '.join(kinds())}")
    raise refuse(
        "TwoPatterns" if len(known) > 1 else "UnknownKey",
        f"an operation has exactly one key, found {', '.join(sorted(given))}",
        expected=f"only {known[0]!r}",
    )


def _composition(body: Any) -> Any:
    if isinstance(body, str) or (isinstance(body, dict) and set(cast("dict[str, Any]", body)) <= {"name", "version"}):
        return {"composition": body}
    return spell_operation(body)


Operation = Annotated[Node, Tagged(kinds, spell_operation)]

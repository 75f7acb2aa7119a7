"""Operations: what a step does. A tool, a composition, an agent's skill, or a pattern written in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field
from pydantic.alias_generators import to_snake
from pydantic_core import PydanticCustomError

from weft.errors import nearest, shown
from weft.ir.nodes import LiteralJson, Node, Tagged, refuse, unknown
from weft.ports import Json, is_object


class _Named(Node):
    """A call by name; a bare string is the name."""

    @classmethod
    def spell(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else _object(value, "a name, or an object with one")


def _object(value: Any, wanted: str) -> Any:
    if isinstance(value, Node) or is_object(value):
        return value
    got = shown(value)
    raise refuse("WrongType", f"{got} is neither a text nor an object", value=got, expected=wanted)


Name = Annotated[str, Field(min_length=1, max_length=256)]


class ToolCall(_Named):
    """Call the tool of that name: an upstream's, a virtual one or a composition, the registry's first."""

    aliases: ClassVar[Mapping[str, str]] = {"target": "server", "serverName": "server"}

    name: Name
    server: str | None = None
    version: str | None = None


class Undo(Node):
    """What takes back a tool's effect: another tool, and what it is given.

    Its parameters may say `{{output..}}` and `{{parameters..}}` of the call that is undone.
    """

    aliases: ClassVar[Mapping[str, str]] = {"arguments": "parameters"}

    tool: ToolCall
    parameters: LiteralJson = {}

    @classmethod
    def spell(cls, value: Any) -> Any:
        return {"tool": value} if isinstance(value, str) else _object(value, "a tool's name, or an object with a tool")


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
_spellings: dict[str, str] = {}


def add_kinds(patterns: Mapping[str, type[Node]]) -> None:
    """Close the union of operations: called once, by the catalogue of patterns."""
    _kinds.update(patterns)
    _tags.update({model: kind for kind, model in _kinds.items()})
    _spellings.update({name: kind for kind in _kinds for name in (kind, to_snake(kind))})


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
    if not is_object(value):
        got = shown(value)
        wanted = "a tool's name, or an object with one key"
        raise refuse("WrongType", f"{got} is not an operation", value=got, expected=wanted)
    given = {key: item for key, item in value.items() if not key.startswith("$") and item is not None}
    if "pattern" in given:
        return _by_pattern(given)
    if len(given) != 1:
        raise _not_one(given)
    key, body = next(iter(given.items()))
    if (kind := _spellings.get(key)) is None:
        raise unknown("pattern", key, list(kinds()))
    return _composition(body) if kind == "composition" else {kind: body}


def _by_pattern(given: dict[str, Any]) -> Any:
    pattern = given["pattern"]
    if not isinstance(pattern, str):
        if len(given) != 1:
            raise _not_one(given)
        return spell_operation(pattern)
    if (kind := _spellings.get(pattern)) is None:
        raise unknown("pattern", pattern, list(kinds()))
    return {kind: {key: item for key, item in given.items() if key != "pattern"}}


def _not_one(given: Mapping[str, Any]) -> PydanticCustomError:
    known = [key for key in given if key in _spellings or key == "pattern"]
    found = ", ".join(sorted(given)) or "none"
    if not known:
        wanted = list(kinds())
        meant = next((close for key in given if (close := nearest(key, wanted))), None)
        told = f"one of {', '.join(wanted)}"
        return refuse("NoPattern", f"no pattern key, found {found}", value=found, expected=told, suggestion=meant)
    sentence = f"an operation has exactly one key, found {found}"
    code = "TwoPatterns" if len(known) > 1 else "UnknownKey"
    return refuse(code, sentence, value=shown(found), expected=f"only {' or '.join(map(repr, known))}")


def _composition(body: Any) -> Any:
    if is_object(body):
        keys = {key for key in body if not key.startswith("$")}
        named = bool(keys) and keys <= {"name", "version"}
        return {"composition": body} if named else spell_operation(body)
    return {"composition": body}


Operation = Annotated[Node, Tagged(kinds, spell_operation)]

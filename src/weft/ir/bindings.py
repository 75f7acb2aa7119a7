"""Bindings: where a step's input comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from weft.ir.nodes import LiteralJson, Node, OneOf, PathText, unknown
from weft.ir.values import unwrap
from weft.ports import is_object

SOURCES = ("input", "step", "previous")


class PathRef(Node):
    """A place in a value; the whole value when no path is given."""

    path: PathText = "$"

    @classmethod
    def spell(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else value


class StepRef(Node):
    """A place in the result of an earlier step."""

    aliases: ClassVar[Mapping[str, str]] = {"step": "stepId"}

    step_id: str
    path: PathText = "$"

    @classmethod
    def spell(cls, value: Any) -> Any:
        return {"stepId": value} if isinstance(value, str) else value


class Constant(Node):
    """A value that never changes."""

    keeps_null: ClassVar[frozenset[str]] = frozenset({"value"})

    value: LiteralJson

    @classmethod
    def spell(cls, value: Any) -> Any:
        return value if is_object(value) and list(value) == ["value"] else {"value": unwrap(value)}


class Construct(Node):
    """An object whose fields are bindings themselves."""

    fields: dict[str, Binding] = {}


class Binding(OneOf):
    """Exactly one of: the composition's input, a step's result, the previous result, a constant, an object of these."""

    noun: ClassVar[str] = "source of a binding"
    aliases: ClassVar[Mapping[str, str]] = {"reference": "step"}

    input: PathRef | None = None
    step: StepRef | None = None
    previous: PathRef | None = None
    constant: Constant | None = None
    # Named apart from its key: pydantic's BaseModel still has a `construct` of its own.
    assembled: Construct | None = Field(default=None, alias="construct")

    @classmethod
    def spell(cls, value: Any) -> Any:
        if not is_object(value):
            return value
        given = {key: item for key, item in value.items() if not key.startswith("$")}
        if "source" in given:
            return _by_source(given)
        if list(given) == ["path"]:
            return {"previous": given}
        # Alone, null is a constant like any other; beside another source it means that there is none.
        alone = "constant" in given and all(item is None for item in given.values())
        return {"constant": {"value": None}} if alone else given


def _by_source(given: dict[str, Any]) -> dict[str, Any]:
    source = given.pop("source")
    if source not in SOURCES:
        raise unknown("source", source, list(SOURCES))
    return {source: given}


Construct.model_rebuild()


def binding(given: object, who: str) -> Binding | dict[str, Any]:
    """Return what an author gave as an input, or say what belongs there."""
    if isinstance(given, Binding) or is_object(given):
        return given
    wanted = "w.from_input(..), w.from_step(..), w.from_previous(..), w.constant(..) or w.construct(..)"
    raise TypeError(f"{who} takes {wanted} as an input, not {given!r}")

"""Bindings: where a step's input comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from pydantic import Field

from weft.ir.nodes import AnyJson, Node, OneOf, PathText, refuse
from weft.ir.values import unwrap


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

    value: AnyJson

    @classmethod
    def spell(cls, value: Any) -> Any:
        if isinstance(value, dict) and list(cast("dict[str, Any]", value)) == ["value"]:
            return value
        return {"value": unwrap(value)}


class Construct(Node):
    """An object whose fields are bindings themselves."""

    fields: dict[str, Binding]


class Binding(OneOf):
    """Exactly one of: the composition's input, a step's result, the previous result, a constant, an object of these."""

    noun: ClassVar[str] = "source of a binding"
    aliases: ClassVar[Mapping[str, str]] = {"reference": "step"}
    keeps_null: ClassVar[frozenset[str]] = frozenset({"constant"})

    input: PathRef | None = None
    step: StepRef | None = None
    previous: PathRef | None = None
    constant: Constant | None = None
    # Named apart from its key: pydantic's BaseModel still has a `construct` of its own.
    assembled: Construct | None = Field(default=None, alias="construct")

    @classmethod
    def spell(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        given = cast("dict[str, Any]", value)
        if "source" in given:
            return _by_source(dict(given))
        if list(given) == ["path"]:
            return {"previous": given}
        return given


def _by_source(given: dict[str, Any]) -> dict[str, Any]:
    source = given.pop("source")
    if source not in ("input", "step", "previous"):
        raise refuse("UnknownSource", f"unknown source {source!r}", expected="input, step or previous")
    return {source: given}


Construct.model_rebuild()

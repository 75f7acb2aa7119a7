"""Defaults: whether they fit their fields, and which of them nobody is told."""

from __future__ import annotations

from typing import Any, Final

from weft.errors import shown
from weft.expr.marks import marked_names
from weft.expr.schemas import SchemaProblem, compile_schema
from weft.ports import Schema, is_array, is_object
from weft.redaction import WHOLE, is_secret_name

_NAMING: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_DATA: Final = ("default", "const", "enum", "examples")
_KINDS: Final[dict[str, tuple[type, ...]]] = {"string": (str,), "integer": (int,), "number": (int, float)}


def check_default(name: str, field: Schema, value: Any, *, defs: Schema) -> None:
    """Check that a default is of the kind that its field takes; None says that there is none.

    Raises:
        TypeError: it is of another kind. That it is too short or too large is the author's own affair.
    """
    listed = "enum" in field or "const" in field
    if value is None or (not listed and type(value) in _KINDS.get(str(field.get("type")), ())):
        return
    found = compile_schema({**field, **({"$defs": defs} if defs else {})})
    if any(_is_other_kind(one) for one in found.problems(value)):
        raise TypeError(f"the default of {name!r} is {shown(value)}, which does not fit its hint")


def _is_other_kind(problem: SchemaProblem) -> bool:
    if problem.branches:
        return all(any(_is_other_kind(one) for one in branch) for branch in problem.branches)
    return problem.keyword in ("type", "enum", "const")


def without_secrets(schema: Schema) -> Schema:
    """Return a schema without the defaults of secrets: who reads it need not know them."""
    return _without(schema, "", marked_names(schema))


def _without(node: Any, name: str, marked: frozenset[str]) -> Any:
    if is_array(node):
        return [_without(one, name, marked) for one in node]
    if not is_object(node):
        return node
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key == "default" and _is_secret(name, value, marked):
            continue
        if key in _NAMING and is_object(value):
            made[key] = {inner: _without(one, inner, marked) for inner, one in value.items()}
        else:
            made[key] = value if key in _DATA else _without(value, name, marked)
    return made


def _is_secret(name: str, value: Any, marked: frozenset[str]) -> bool:
    if not value or isinstance(value, bool):
        return False
    if name in marked or WHOLE in marked or (is_secret_name(name) and not isinstance(value, int | float)):
        return True
    if is_array(value):
        return any(_is_secret(name, one, marked) for one in value)
    return is_object(value) and any(_is_secret(inner, one, marked) for inner, one in value.items())

"""What a caller gives, as a composition takes it."""

from __future__ import annotations

from typing import Any

from weft.errors import InputError
from weft.expr.schemas import compile_schema
from weft.expr.shapes import types_of
from weft.ir.document import ToolDef
from weft.patterns.contract import type_name
from weft.patterns.flows import said
from weft.plan.typeflow import declared_input
from weft.ports import is_object


def accept(tool: ToolDef, arguments: Any) -> Any:
    """Return the arguments as the tool takes them: a composition whose input is no object takes the sole property.

    Raises:
        InputError: there is no sole property.
    """
    types = types_of(declared_input(tool)) if tool.spec is not None else None
    if types is None or "object" in types or not is_object(arguments):
        return arguments
    if len(arguments) == 1:
        return next(iter(arguments.values()))
    wanted = said(declared_input(tool))
    raise InputError(
        f"'{tool.name}' takes {wanted} and was given {type_name(arguments)} with {len(arguments)} properties",
        code="InvalidInput",
        hint=f"give it as {wanted}, or as an object with one property",
    )


def misfits(tool: ToolDef, value: Any) -> list[str]:
    """Return in what ways a value is not what the tool says it takes."""
    schema = declared_input(tool)
    # A virtual tool has its own way with values that are not objects, when it is called.
    if not schema or (tool.spec is None and not isinstance(value, dict)):
        return []
    return [f"{one.pointer or 'the input'}: {one.message}" for one in compile_schema(schema).problems(value)]

"""Between JSON values and MCP results: how weft serves a value, and how it tells a model what went wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.errors import WeftError
from weft.expr.shapes import types_of
from weft.groups.execution.results import ERROR, facts, refused, sentences, structured
from weft.ports import Schema

WARNINGS = "weft/warnings"
TRACE = "weft/traceId"
ANYTHING: Schema = {"type": "object"}


def served(
    value: Any, *, warnings: Sequence[str], trace_id: str, marks: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a value as the result of a tool: an object as it is, any other wrapped, with its JSON text beside it.

    `marks` say how the value was got: `{"cache": "stale"}`.

    Raises:
        ExecutionFailed: it is not JSON, as what a Python tool returns may be.
    """
    meta: dict[str, Any] = {**marks, TRACE: trace_id} if marks else {TRACE: trace_id}
    if warnings:
        meta[WARNINGS] = list(warnings)
    text, value = structured(value, meta)
    return {"content": [{"type": "text", "text": text}], "structuredContent": value, "isError": False, "_meta": meta}


def served_schema(schema: Schema) -> tuple[Schema, bool | str]:
    """Return what a tool's results look like when its values are of a schema, and whether they are wrapped."""
    types = types_of(schema) if schema else None
    if types == frozenset({"object"}):
        return schema if schema.get("type") == "object" else {"type": "object", **schema}, False
    if types is None or "object" in types:
        return ANYTHING, "maybe"
    inner, definitions = _hoisted(schema)
    return {"type": "object", "properties": {"result": inner}, "required": ["result"], **definitions}, True


def taken_schema(schema: Schema) -> Schema:
    """Return what a tool says that it takes, which MCP wants to be an object: another value is the property `input`."""
    if not is_wrapped_input(schema):
        return {"type": "object", **{key: value for key, value in schema.items() if key != "type"}}
    inner, definitions = _hoisted(schema)
    return {"type": "object", "properties": {"input": inner}, "required": ["input"], **definitions}


def is_wrapped_input(schema: Schema) -> bool:
    """Tell whether values of a schema are never objects, so that they come as the property `input`."""
    types = types_of(schema) if schema else None
    return types is not None and "object" not in types


def _hoisted(schema: Schema) -> tuple[Schema, dict[str, Any]]:
    """Return a schema without its definitions, and those: references begin at the root, wherever the rest goes."""
    definitions = {key: schema[key] for key in ("$defs", "definitions", "$schema") if key in schema}
    return {key: value for key, value in schema.items() if key not in definitions}, definitions


def failed(error: WeftError, *, tool: str, trace_id: str, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Return an error as a model reads it: which step failed, why, and what to do; with the marks that it carries."""
    meta: dict[str, Any] = {**(error.marks or {}), TRACE: trace_id, ERROR: facts(error)}
    if warnings:
        meta[WARNINGS] = list(warnings)
    return refused(sentences(error, tool=tool), meta)

"""Between JSON values and MCP results: how weft serves a value, and how it tells a model what went wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from weft.errors import DocumentInvalid, ExecutionFailed, ToolFailed, WeftError
from weft.expr.shapes import types_of
from weft.ports import Schema
from weft.upstreams.results import WRAPPED

WARNINGS = "weft/warnings"
TRACE = "weft/traceId"
ERROR = "weft/error"
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
    text = _written(value)
    if not isinstance(value, dict):
        meta[WRAPPED] = True
        text = value if isinstance(value, str) else text
        value = {"result": value}
    return {"content": [{"type": "text", "text": text}], "structuredContent": value, "isError": False, "_meta": meta}


def _written(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError as error:
        raise ExecutionFailed(f"the result is not JSON: {error}", code="NotJson") from None


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
    steps = [step for step in error.path if step != tool]
    sentences = [f"Failed at step {' > '.join(map(repr, steps))}: {error.message}" if steps else error.message]
    if isinstance(error, ToolFailed) and error.tool == tool and isinstance(error.content, str):
        # The tool itself said no: who called it knows its name.
        sentences = [error.content]
    if error.hint:
        sentences.append(f"Hint: {error.hint}")
    if error.retryable == "yes":
        pause = f" in {error.retry_after:.0f} s" if error.retry_after and error.retry_after >= 1 else ""
        sentences.append(f"It may work when tried again{pause}.")
    elif error.retryable == "unknown-outcome":
        sentences.append("It is not known whether the work was done.")
    meta: dict[str, Any] = {**(error.marks or {}), TRACE: trace_id, ERROR: error.to_json()}
    if isinstance(error, DocumentInvalid):
        meta[ERROR]["problems"] = [problem.to_json() for problem in error.problems]
    if warnings:
        meta[WARNINGS] = list(warnings)
    *before, last = sentences
    return refused(" ".join([*map(_ended, before), last]), meta)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."


def refused(text: str, meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result that says no."""
    return {"content": [{"type": "text", "text": text}], "isError": True, "_meta": dict(meta)}

"""How a call ended, as middleware sees it: a value of a Python action, an outcome, or the result of an MCP tool."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final, TypeGuard

from weft.errors import ToolFailed, WeftError
from weft.groups.execution.results import Outcome
from weft.ports import is_array, is_object

KEYS: Final = frozenset({"content", "structuredContent", "isError", "_meta"})
"""What results of MCP tools have; one with a `resultType` is a result by that."""


def is_result(value: object) -> TypeGuard[dict[str, Any]]:
    """Tell whether a value is the result of an MCP tool, and not an object that a Python action returned."""
    if not is_object(value):
        return False
    if "resultType" in value:
        return True
    content: object = value.get("content")
    if value.keys() <= KEYS:
        return is_array(content) or ("content" not in value and "structuredContent" in value)
    blocks = is_array(content) and all(is_object(one) and isinstance(one.get("type"), str) for one in content)
    return blocks and (bool(content) or "isError" in value or "structuredContent" in value)


def ending(value: object) -> str:
    """Return how a call ended that gave something, in the word by which it is counted."""
    if is_result(value):
        failed = value.get("isError") is True
        return "tool_error" if failed else "input_required" if value.get("resultType") == "input_required" else "ok"
    failed = value.failed if isinstance(value, Outcome) else isinstance(value, BaseException)
    return "tool_error" if failed else "ok"


def ending_of(error: BaseException) -> dict[str, str]:
    """Return how a call ended that gave an error, and the error's code: its sentence may quote arguments."""
    if isinstance(error, asyncio.CancelledError):
        return {"outcome": "cancelled"}
    code = error.code if isinstance(error, WeftError) else type(error).__name__
    return {"outcome": "tool_error" if isinstance(error, ToolFailed) else "error", "error": code}


def marked(value: Any, name: str, mark: Any) -> Any:
    """Return what a call gave with a mark in its `_meta`."""
    if is_result(value):
        meta: object = value.get("_meta")
        return {**value, "_meta": {**(meta if is_object(meta) else {}), name: mark}}
    if isinstance(value, WeftError):
        value.marks = {**(value.marks or {}), name: mark}
        return value
    if isinstance(value, Outcome):
        return replace(value, meta={**value.meta, name: mark})
    return Outcome(value=value, meta={name: mark})

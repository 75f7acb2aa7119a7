"""Results in the form that legacy clients take: they know structured content, and schemas of it, only as objects."""

from __future__ import annotations

from typing import Any

import orjson

from weft.ports import is_object


def older(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return a result as a legacy client reads it; one tool that it cannot read would cost it the whole list."""
    if method == "tools/list":
        tools: list[dict[str, Any]] = result["tools"]
        return result if all(map(_readable, tools)) else {**result, "tools": [_without_output(tool) for tool in tools]}
    if method == "tools/call" and not is_object(result.get("structuredContent", {})):
        told = dict(result)
        value: object = told.pop("structuredContent")
        told["content"] = told.get("content") or [{"type": "text", "text": orjson.dumps(value).decode()}]
        return told
    return result


def _readable(tool: dict[str, Any]) -> bool:
    schema: object = tool.get("outputSchema")
    return schema is None or (is_object(schema) and schema.get("type") == "object")


def _without_output(tool: dict[str, Any]) -> dict[str, Any]:
    return tool if _readable(tool) else {key: value for key, value in tool.items() if key != "outputSchema"}

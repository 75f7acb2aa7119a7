"""The value that a tool's result stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import orjson

from weft.errors import ToolFailed
from weft.ports import WRAPPED, is_array, is_object


def value_of(result: dict[str, Any], *, tool: str) -> Any:
    """Return the value of a result: its structured content, the JSON or the text of its one block, or its blocks.

    Raises:
        ToolFailed: the tool said no, or asks for more input.
    """
    if result.get("isError") is True:
        raise ToolFailed(tool, _said(result))
    if result.get("resultType") == "input_required":
        raise ToolFailed(tool, "it asks for input that nobody here can give")
    value = result.get("structuredContent")
    # Only a modern result may mean the value null; a legacy server that writes it has nothing to say.
    if value is not None or ("structuredContent" in result and "resultType" in result):
        return _unwrapped(value, result.get("_meta"))
    content = _content(result)
    text = _text(content[0]) if len(content) == 1 else None
    return content if text is None else _parsed(text)


def value_schema(tool: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the values of a tool look like, as its listing says; None when it does not say.

    Where weft serves a tool whose results it wraps, the listing is marked: true, or "maybe" when that depends.
    """
    schema: object = tool.get("outputSchema")
    meta: object = tool.get("_meta")
    wrapped: object = meta.get(WRAPPED) if is_object(meta) else None
    if not is_object(schema) or wrapped not in (None, False, True):
        return None
    if wrapped is not True:
        return schema
    properties: object = schema.get("properties")
    inner: object = properties.get("result") if is_object(properties) else None
    if not is_object(inner):
        return None
    return {**inner, **{key: schema[key] for key in ("$defs", "definitions") if key in schema}}


def _unwrapped(value: Any, meta: object) -> Any:
    marked = is_object(meta) and meta.get(WRAPPED) is True
    return value["result"] if marked and is_object(value) and "result" in value else value


def _parsed(text: str) -> Any:
    """Return a text as the object or list that it spells; a lone number or word stays what somebody wrote."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _said(result: dict[str, Any]) -> Any:
    content = _content(result)
    texts = [_text(block) for block in content]
    if content and None not in texts:
        return "\n".join(cast("list[str]", texts))
    return content or result.get("structuredContent") or "it did not say why"


def _content(result: dict[str, Any]) -> list[Any]:
    content: object = result.get("content")
    return content if is_array(content) else []


def _text(block: object) -> str | None:
    if not is_object(block) or block.get("type") != "text":
        return None
    text: object = block.get("text")
    return text if isinstance(text, str) else None


def outcome_of(result: Mapping[str, Any]) -> str:
    """Return how a request ended, in the word by which it is counted."""
    if result.get("isError") is True:
        return "tool_error"
    return "input_required" if result.get("resultType") == "input_required" else "ok"

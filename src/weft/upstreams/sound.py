"""What a server lists, made such that clients can take it: one malformed tool would cost them the whole list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from weft.ports import is_array, is_object

COMMON: Mapping[str, type | tuple[type, ...]] = {"title": str, "description": str, "icons": list, "_meta": dict}
FIELDS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "tools": {**COMMON, "outputSchema": dict, "annotations": dict},
    "prompts": {**COMMON, "arguments": list},
    "resources": {**COMMON, "mimeType": str, "size": (int, float), "annotations": dict},
    "resourceTemplates": {**COMMON, "mimeType": str, "annotations": dict},
}
"""By key of a list: the fields of its items that may be left out, and what they are."""

IDENTITY = {"tools": "name", "prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}
DEEPEST = 100
"""Levels of an item: beyond two hundred JSON writers give up, and with them the whole list."""

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def sound(item: dict[str, Any], key: str) -> dict[str, Any]:
    """Return an item as it is, or without what is malformed in it; what it must have and lacks is filled in."""
    fields = FIELDS[key]
    told = {
        name: value
        for name, value in item.items()
        if (name not in fields or isinstance(value, fields[name])) and not _is_too_deep(value)
    }
    if not isinstance(told.get("name"), str):
        told["name"] = told[IDENTITY[key]]
    if key == "tools":
        told["inputSchema"] = _taken(told.get("inputSchema"))
        if is_object(hints := told.get("annotations")):
            told["annotations"] = {name: hint for name, hint in hints.items() if _hinted(name, hint)}
    return item if told == item else told


def _taken(schema: object) -> dict[str, Any]:
    """Return what a tool takes as MCP wants it, an object: many a tool without arguments says nothing or `{}`."""
    if not is_object(schema):
        return {"type": "object"}
    told = {**schema, "type": "object"}
    if not is_object(told.get("properties", {})):
        del told["properties"]
    if not is_array(told.get("required", [])):
        del told["required"]
    return told


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [held for one in level if is_object(one) or is_array(one) for held in _held(one)]
        if not level:
            return False
    return True


def _held(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if is_object(value) else value


def _hinted(name: str, hint: object) -> bool:
    return isinstance(hint, str) if name == "title" else name not in HINTS or isinstance(hint, bool)

"""The headers in which a modern request repeats parts of its body, for what stands between client and server."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from weft.ports import is_object

MODERN = "2026-07-28"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The params that go into Mcp-Name."""

Mirrored: TypeAlias = Mapping[tuple[str, ...], str]
"""Which arguments of a tool go into headers: the path of each, and the name of its header."""


def modern_headers(method: str, params: Mapping[str, Any], mirrored: Mirrored | None = None) -> dict[str, str]:
    """Return the headers of a modern request; `mirrored` is what the schema of the called tool declares."""
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    name = params.get(NAMED.get(method, ""))
    if isinstance(name, str):
        headers["Mcp-Name"] = header_value(name)
    for path, header in (mirrored or {}).items():
        told = _scalar(_at(params.get("arguments"), path))
        if told is not None:
            headers[header] = header_value(told)
    return headers


def mirrored_by(schema: object) -> Mirrored:
    """Return what the `x-mcp-header` of a tool's input schema declare."""
    return dict(_declared(schema))


def header_value(text: str) -> str:
    """Return a text as a header may carry it: as it is, or in base64 when it would not arrive unchanged."""
    encoded = text.startswith("=?base64?") and text.endswith("?=")
    plain = text.isascii() and text.isprintable() and text == text.strip() and not encoded
    return text if plain else f"=?base64?{base64.b64encode(text.encode('utf-8', 'surrogatepass')).decode()}?="


def _declared(schema: object) -> Iterator[tuple[tuple[str, ...], str]]:
    todo: list[tuple[tuple[str, ...], object]] = [((), schema)]
    while todo:
        path, part = todo.pop()
        if not is_object(part):
            continue
        header: object = part.get("x-mcp-header")
        if path and isinstance(header, str) and re.fullmatch(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", header):
            yield path, f"Mcp-Param-{header}"
        properties: object = part.get("properties")
        if is_object(properties):
            todo += [((*path, name), inner) for name, inner in properties.items()]


def _at(value: object, path: tuple[str, ...]) -> object:
    for key in path:
        value = value.get(key) if is_object(value) else None
    return value


def _scalar(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None

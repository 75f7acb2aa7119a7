"""The fixed contents that the suite asks for: a red pixel, a silent sound, and what stands in the resources."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import mcp_types as t


def _png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


def _wav() -> bytes:
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    sound = struct.pack("<4sI", b"data", 2) + b"\x80\x80"
    return struct.pack("<4sI4s", b"RIFF", 4 + len(form) + len(sound), b"WAVE") + form + sound


PNG = base64.b64encode(_png()).decode()
WAV = base64.b64encode(_wav()).decode()

NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}

SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

DEFAULTS: dict[str, dict[str, Any]] = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}

_OPTIONS = ["option1", "option2", "option3"]


def _titled(what: str) -> list[dict[str, str]]:
    ranks = ("First", "Second", "Third")
    return [{"const": f"value{place}", "title": f"{rank} {what}"} for place, rank in enumerate(ranks, 1)]


ENUMS: dict[str, dict[str, Any]] = {
    "untitledSingle": {"type": "string", "enum": _OPTIONS},
    "titledSingle": {"type": "string", "oneOf": _titled("Option")},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": _titled("Choice")}},
}


def embedded(uri: str, text: str, *, mime: str = "text/plain") -> t.EmbeddedResource:
    """Return a resource that is part of a result."""
    return t.EmbeddedResource(resource=t.TextResourceContents(uri=uri, mime_type=mime, text=text))


def image() -> t.ImageContent:
    """Return a picture of one red pixel."""
    return t.ImageContent(data=PNG, mime_type="image/png")

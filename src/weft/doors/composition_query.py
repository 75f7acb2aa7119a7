"""The query of a request, read as the table of its route says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

from weft.doors.asgi import BadRequest
from weft.doors.composition_routes import Parameter
from weft.errors import nearest, shown

MOST: Final = 50
_WHOLE: Final = re.compile(r"[0-9]{1,9}")


def read_query(query: bytes, known: Sequence[Parameter]) -> dict[str, Any]:
    """Return the parameters of a query by their names.

    Raises:
        BadRequest: one is unknown, comes twice, or is not what it may be.
    """
    try:
        given = parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST)
    except ValueError:
        raise _bad(f"a query has at most {MOST} parameters") from None
    schemas = {one.name: one.schema for one in known}
    read: dict[str, Any] = {}
    for name, text in given:
        if name not in schemas:
            close = nearest(name, schemas)
            there = f"there is {', '.join(schemas)}" if schemas else "there is none here"
            raise _bad(f"unknown parameter {shown(name)}", hint=f"did you mean {close!r}?" if close else there)
        if name in read:
            raise _bad(f"{name} comes twice")
        read[name] = _value(name, text, schemas[name])
    return read


def _value(name: str, text: str, schema: Mapping[str, Any]) -> str | int:
    if schema["type"] == "integer":
        least, most = schema["minimum"], schema["maximum"]
        if _WHOLE.fullmatch(text) is None or not least <= int(text) <= most:
            raise _bad(f"{name} is {shown(text)}", hint=f"expected a whole number from {least} to {most}")
        return int(text)
    if "enum" in schema and text not in schema["enum"]:
        close = nearest(text, schema["enum"])
        expected = f"expected one of {', '.join(schema['enum'])}"
        raise _bad(f"{name} is {shown(text)}", hint=f"did you mean {close!r}?" if close else expected)
    if not schema["minLength"] <= len(text) <= schema["maxLength"]:
        expected = f"expected {schema['minLength']} to {schema['maxLength']} characters"
        raise _bad(f"{name} has {len(text)} characters", hint=expected)
    if "pattern" in schema and re.search(schema["pattern"], text) is None:
        raise _bad(f"{name} is {shown(text)}", hint=f"expected {schema['pattern']}")
    return text


def _bad(message: str, *, hint: str | None = None) -> BadRequest:
    return BadRequest(400, "InvalidQuery", message, hint=hint)

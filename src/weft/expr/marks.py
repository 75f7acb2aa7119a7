"""Marks: what a JSON Schema says is secret."""

from __future__ import annotations

from typing import Any, Final

from weft.errors import Loc, json_pointer
from weft.expr.subschemas import subschemas
from weft.redaction import WHOLE

_NAMING: Final = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_SHARED: Final = ("$defs", "definitions")


def marked_names(schema: Any) -> frozenset[str]:
    """Return the properties that a schema marks as secret, wherever they stand: `writeOnly`, `x-secret`, a password.

    `WHOLE` is among them when the value itself is marked.
    """
    places = list(subschemas(schema))
    referring: dict[str, list[Loc]] = {}
    for loc, one in places:
        if isinstance(ref := one.get("$ref"), str):
            referring.setdefault(ref, []).append(loc)
    marked = {loc for loc, one in places if _is_marked(one)}
    waiting = list(marked)
    while waiting:
        more = [loc for loc in referring.get(f"#{json_pointer(waiting.pop())}", ()) if loc not in marked]
        marked.update(more)
        waiting += more
    return frozenset(name for loc in marked if (name := _property(loc)) is not None)


def _is_marked(schema: dict[str, Any]) -> bool:
    return schema.get("writeOnly") is True or schema.get("x-secret") is True or schema.get("format") == "password"


def _property(loc: Loc) -> str | None:
    """Return the property that a subschema is about, or None for a definition, which is about whatever refers to it."""
    steps, name = iter(loc), WHOLE
    definition = False
    for step in steps:
        if step in _SHARED:
            next(steps)
            name, definition = WHOLE, True
        elif step in _NAMING:
            name, definition = str(next(steps)), False
    return None if definition else name

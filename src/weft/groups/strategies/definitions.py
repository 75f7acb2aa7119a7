"""The definitions that the fields of all actions share: the `$defs` of each action, gathered into one place."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

from weft.expr.subschemas import subschemas
from weft.ports import Schema

HOME: Final = "#/$defs/"
_DIGITS: Final = 10
_JSON: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def is_schema(value: object) -> TypeGuard[Schema]:
    """Tell whether a value is a schema that says something, and not only `true` or `false`."""
    return isinstance(value, Mapping)


def is_index(step: object, items: Sequence[Any]) -> bool:
    """Tell whether a step of a reference leads to one of the items; it may be any text, and as long as it likes."""
    text = str(step)
    return len(text) < _DIGITS and text.isdecimal() and int(text) < len(items)


def text_of(value: Any) -> str:
    """Return JSON by which equal schemas can be told; `1`, `1.0` and `true` are three values."""
    try:
        return _JSON.encode(value)
    except (TypeError, ValueError, RecursionError):
        return f"unlike any other: {id(value)}"


class Definitions:
    """The `$defs` of a grouped tool: equal definitions are shared, unequal ones of one name get a number."""

    def __init__(self) -> None:
        self.bodies: dict[str, dict[str, Any]] = {}
        self._names: dict[tuple[str, frozenset[tuple[str, str]]], str] = {}
        self._numbers: dict[str, int] = {}

    def add(self, name: str, whole: frozenset[tuple[str, str]], body: dict[str, Any]) -> str:
        """Return the name under which a definition stands; `whole` is all that it says, with what it refers to."""
        known = self._names.get((name, whole))
        if known is None:
            known = self._names[name, whole] = free_name(name, self.bodies, self._numbers)
            self.bodies[known] = body
        return known

    def of(self, schema: Any) -> dict[str, dict[str, Any]]:
        """Return the definitions that a schema needs, in the order in which they came."""
        found: set[str] = set()
        waiting: list[Any] = [schema] if self.bodies else []
        while waiting:
            for _, one in subschemas(waiting.pop()):
                name = str(one.get("$ref", "")).removeprefix(HOME)
                if name in self.bodies and name not in found:
                    found.add(name)
                    waiting.append(self.bodies[name])
        return {name: body for name, body in self.bodies.items() if name in found}


def free_name(name: str, taken: Mapping[str, Any], numbers: dict[str, int]) -> str:
    """Return a name that is not taken: itself, or with the next number after it."""
    made = name
    while made in taken:
        numbers[name] = numbers.get(name, 1) + 1
        made = f"{name}{numbers[name]}"
    return made

"""The little that a brief schema tells of a field: its type, a few choices, what an array is of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weft.groups.strategies.definitions import HOME, text_of
from weft.ports import Schema, is_array, is_object

MAX_CHOICES: Final = 12
MAX_CHOICE: Final = 40
MAX_FOLLOWED: Final = 8
_TYPES: Final = ("string", "integer", "number", "boolean", "array", "object", "null")


@dataclass(frozen=True, slots=True)
class _Brief:
    """What a value certainly is; None where nothing is known."""

    types: tuple[str, ...] | None = None
    choices: tuple[Any, ...] | None = None
    items: tuple[str, ...] | None = None


def brief(forms: Iterable[Schema], definitions: Mapping[str, Schema]) -> dict[str, Any]:
    """Return a schema that takes whatever one of the forms takes, and is as short as it can be."""
    reader = _Reader(definitions)
    found = _any_of([reader.read(form, 0) for form in forms])
    told: dict[str, Any] = {}
    if found.types:
        told["type"] = _written(found.types)
    if (
        found.choices
        and found.types != ("null",)
        and len(found.choices) <= MAX_CHOICES
        and all(map(_is_short, found.choices))
    ):
        told["enum"] = list(found.choices)
    if found.items:
        told["items"] = {"type": _written(found.items)}
    return told


class _Reader:
    """Reads forms, a definition once for each depth: those that refer to each other would multiply."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions
        self._known: dict[tuple[str, int], _Brief] = {}

    def read(self, form: Any, depth: int) -> _Brief:
        if not is_object(form) or depth > MAX_FOLLOWED:
            return _Brief()
        said = [self._own(form, depth)]
        if isinstance(ref := form.get("$ref"), str):
            said.append(self._definition(ref.removeprefix(HOME), depth + 1))
        if is_array(parts := form.get("allOf")):
            said += [self.read(part, depth + 1) for part in parts[:MAX_FOLLOWED]]
        for keyword in ("anyOf", "oneOf"):
            if is_array(branches := form.get(keyword)) and 0 < len(branches) <= MAX_CHOICES:
                said.append(_any_of([self.read(one, depth + 1) for one in branches]))
        return _Brief(
            types=next((one.types for one in said if one.types), None),
            choices=next((one.choices for one in said if one.choices), None),
            items=next((one.items for one in said if one.items), None),
        )

    def _definition(self, name: str, depth: int) -> _Brief:
        known = self._known.get((name, depth))
        if known is None:
            known = self._known[name, depth] = self.read(self._definitions.get(name), depth)
        return known

    def _own(self, form: dict[str, Any], depth: int) -> _Brief:
        given: object = form.get("type")
        names: list[Any] = given if is_array(given) else [given]
        types = tuple(names) if names and all(one in _TYPES for one in names) else None
        choices: object = [form["const"]] if "const" in form else [None] if types == ("null",) else form.get("enum")
        items = self.read(form.get("items"), depth + 1).types if is_object(form.get("items")) else None
        # The items after the first ones may be of another type than those.
        return _Brief(types, tuple(choices) if is_array(choices) else None, None if "prefixItems" in form else items)


def _any_of(found: list[_Brief]) -> _Brief:
    """Return what holds for a value that is one of these."""
    arrays = [one for one in found if one.types is None or "array" in one.types]
    return _Brief(
        types=_joined(one.types for one in found),
        choices=_joined(one.choices for one in found),
        items=_joined(one.items for one in arrays),
    )


def _joined(each: Iterable[tuple[Any, ...] | None]) -> tuple[Any, ...] | None:
    """Return all values of all of them, or None if one may have any."""
    found: dict[str, Any] = {}
    for values in each:
        if values is None:
            return None
        found |= {text_of(value): value for value in values}
    return tuple(found.values()) or None


def _written(types: tuple[str, ...]) -> str | list[str]:
    plain = list(dict.fromkeys(one for one in types if one != "integer" or "number" not in types))
    return plain[0] if len(plain) == 1 else plain


def _is_short(value: Any) -> bool:
    return not isinstance(value, dict | list) and len(text_of(value)) <= MAX_CHOICE

"""What a schema expects, in words from which a model corrects itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

from weft.errors import Loc
from weft.groups.action import fields_of, required_of
from weft.groups.strategies.definitions import is_index
from weft.groups.words import one_line, shortened
from weft.ports import Schema, is_array, is_object

MOST_CHOICES: Final = 40
_LONGEST: Final = 300
_LONGEST_CHOICE: Final = 60
_DEEPEST: Final = 3
_MOST_NAMES: Final = 10
_MOST_REFERENCES: Final = 8
_MOST_BRANCHES: Final = 8
_FORMATS: Final[Mapping[str, str]] = {
    "date-time": "a date and time such as 2026-01-31T12:00:00Z",
    "date": "a date such as 2026-01-31",
    "time": "a time such as 12:00:00Z",
    "duration": "a duration such as P3DT12H",
    "email": "an e-mail address",
    "uri": "a URI such as https://example.com/a",
    "uuid": "a UUID",
}


def schema_at(root: Any, loc: Loc) -> Any:
    """Return what stands at a place of a schema; None when nothing does."""
    for step in loc:
        if is_object(root):
            root = root.get(str(step))
        elif is_array(root) and is_index(step, root):
            root = root[int(step)]
        else:
            return None
    return root


def followed(schema: Any, root: Schema) -> Any:
    """Return a schema, or what it refers to when it does nothing else."""
    for _ in range(_MOST_REFERENCES):
        if not is_object(schema) or not isinstance(ref := schema.get("$ref"), str) or not ref.startswith("#"):
            return schema
        beside = {key: one for key, one in schema.items() if key != "$ref"}
        target = schema_at(
            root, tuple(unquote(one).replace("~1", "/").replace("~0", "~") for one in ref.split("/")[1:])
        )
        if not is_object(target):
            return beside
        schema = {**target, **beside}
    return {}


def choices_of(schema: Any, root: Schema) -> list[Any] | None:
    """Return the values that a schema lists, the first of them when there are many; None when it lists none."""
    schema = followed(schema, root)
    if not is_object(schema):
        return None
    if "const" in schema:
        return [schema["const"]]
    listed: object = schema.get("enum")
    if is_array(listed):
        return listed[:MOST_CHOICES]
    branches: object = schema.get("anyOf", schema.get("oneOf"))
    if not is_array(branches) or len(branches) > MOST_CHOICES:
        return None
    each = [found["const"] for one in branches if is_object(found := followed(one, root)) and "const" in found]
    return each if each and len(each) == len(branches) else None


def expected(schema: Any, root: Schema, *, level: int = 0) -> str:
    """Return what a value of a schema is; `root` is where its references begin."""
    return shortened(_words(followed(schema, root), root, level), _LONGEST)


def _words(schema: Any, root: Schema, level: int) -> str:
    if schema is False:
        return "nothing, it must be left out"
    if not is_object(schema) or level > _DEEPEST:
        return "a value"
    if "const" in schema:
        return _written(schema["const"])
    if is_array(listed := schema.get("enum")):
        return _one_of(listed)
    told = [_typed(schema, root, level)] if "type" in schema or not _has_branches(schema) else []
    for keyword, between in (("allOf", " and "), ("anyOf", " or "), ("oneOf", " or ")):
        if is_array(branches := schema.get(keyword)) and branches:
            most = _MOST_BRANCHES if level < 2 else 2
            each = dict.fromkeys(expected(one, root, level=level + 1) for one in branches[:most])
            told.append(between.join([*each, "..."] if len(branches) > most else each))
    if "not" in schema:
        told.append(f"not {expected(schema['not'], root, level=level + 1)}")
    # That each alternative is an object need not be said twice.
    return ", ".join(told[1:] if any(one.startswith(told[0]) for one in told[1:]) else told) or "a value"


def _has_branches(schema: Schema) -> bool:
    return any(key in schema for key in ("allOf", "anyOf", "oneOf", "not"))


def _one_of(listed: Sequence[Any]) -> str:
    if len(listed) == 1:
        return _written(listed[0])
    more = f" or one of {len(listed) - MOST_CHOICES} more" if len(listed) > MOST_CHOICES else ""
    return f"one of {', '.join(map(_written, listed[:MOST_CHOICES]))}{more}"


def _written(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return "a value"
    return shortened(one_line(text), _LONGEST_CHOICE)


def _typed(schema: Schema, root: Schema, level: int) -> str:
    types: object = schema.get("type") or _implied(schema)
    names = [str(one) for one in types] if is_array(types) else [str(types)]
    return " or ".join(_TYPES[name](schema, root, level) if name in _TYPES else "a value" for name in names)


def _implied(schema: Schema) -> str:
    """Return the type that a schema without one is about, going by its keywords."""
    about = {"object": ("properties", "required"), "array": ("items",), "string": ("pattern", "minLength", "maxLength")}
    numbers = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    kinds = {**about, "number": numbers}
    return next((kind for kind, keys in kinds.items() if any(key in schema for key in keys)), "")


def _string(schema: Schema, root: Schema, level: int) -> str:
    form: object = schema.get("format")
    told = ["a string"]
    if isinstance(form, str):
        told.append(_FORMATS.get(form, f"in the format {shortened(one_line(form), 40)}"))
    told += _range(schema, ("minLength", "maxLength"), "characters")
    if isinstance(pattern := schema.get("pattern"), str):
        told.append(f"that matches {shortened(one_line(pattern), 80)}")
    return _joined(told)


def _number(word: str) -> Callable[[Schema, Schema, int], str]:
    def told(schema: Schema, root: Schema, level: int) -> str:
        parts = [word, *_range(schema, ("minimum", "maximum"))]
        for keyword, says in (
            ("exclusiveMinimum", "more than"),
            ("exclusiveMaximum", "less than"),
            ("multipleOf", "a multiple of"),
        ):
            if _is_number(limit := schema.get(keyword)):
                parts.append(f"{says} {limit}")
        return _joined(parts)

    return told


def _list(schema: Schema, root: Schema, level: int) -> str:
    told = ["a list", *_range(schema, ("minItems", "maxItems"), "items")]
    if schema.get("uniqueItems") is True:
        told.append("without duplicates")
    if is_object(items := schema.get("items")) and items and level < _DEEPEST:
        told.append(f"each item {expected(items, root, level=level + 1)}")
    return _joined(told)


def _object(schema: Schema, root: Schema, level: int) -> str:
    names = required_of(schema) or tuple(fields_of(schema))
    told = ["an object", *_range(schema, ("minProperties", "maxProperties"), "fields")]
    if names:
        more = ", ..." if len(names) > _MOST_NAMES else ""
        told.append(f"with {', '.join(names[:_MOST_NAMES])}{more}")
    return _joined(told)


def _range(schema: Schema, keywords: tuple[str, str], of: str = "") -> list[str]:
    low, high = (limit if _is_number(limit := schema.get(keyword)) else None for keyword in keywords)
    what = f" {of}" if of else ""
    if low is not None and high is not None:
        return [f"{low}{what}"] if low == high and of else [f"{'' if of else 'from '}{low} to {high}{what}"]
    if low is not None:
        return [f"at least {low}{what}"]
    return [] if high is None else [f"at most {high}{what}"]


def _joined(told: Iterable[str]) -> str:
    first, *rest = told
    return f"{first} ({', '.join(rest)})" if rest else first


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


_TYPES: Final[Mapping[str, Callable[[Schema, Schema, int], str]]] = {
    "string": _string,
    "integer": _number("an integer"),
    "number": _number("a number"),
    "boolean": lambda schema, root, level: "true or false",
    "null": lambda schema, root, level: "null",
    "array": _list,
    "object": _object,
}

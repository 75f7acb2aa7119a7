"""Random groups of actions with shared and conflicting fields, and calls of them: right ones and wrong ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from weft.groups.action import Action
from weft.ports import Schema

FIELDS = ("a", "b", "c", "d", "e")
KEYS = ("users.create", "users.list", "projects.create", "ping")
DEFINITIONS: dict[str, Any] = {
    "Point": {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "minimum": 0}},
        "required": ["x"],
        "additionalProperties": False,
    }
}
FORMS: tuple[dict[str, Any], ...] = (
    {"type": "string"},
    {"type": "string", "minLength": 2, "description": "A name."},
    {"type": "integer", "minimum": 1, "maximum": 9},
    {"type": "number"},
    {"type": "boolean"},
    {"enum": ["open", "closed", 3]},
    {"const": "x"},
    {"type": ["string", "null"]},
    {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    {"type": "array", "items": {"type": "string"}, "maxItems": 2},
    {"$ref": "#/$defs/Point"},
    {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]},
    {"type": "array", "items": {"$ref": "#/$defs/Point"}},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {},
)

_texts = st.sampled_from(("", "x", "open", "closed", "long enough"))
_scalars: st.SearchStrategy[Any] = st.one_of(st.none(), st.booleans(), st.integers(-2, 12), st.just(0.5), _texts)
values: st.SearchStrategy[Any] = st.one_of(
    _scalars,
    st.lists(_scalars, max_size=3),
    st.dictionaries(st.sampled_from(("x", "y", "z")), _scalars, max_size=3),
    st.lists(st.dictionaries(st.sampled_from(("x", "y", "z")), _scalars, max_size=2), max_size=2),
)


@dataclass(frozen=True)
class Sample:
    """A group, and a call of it."""

    actions: tuple[Action, ...]
    common: Schema | None
    arguments: dict[str, Any]


@st.composite
def schemas(draw: st.DrawFn, names: tuple[str, ...] = FIELDS) -> dict[str, Any]:
    """Return the schema of an object: closed, open or silent about it."""
    fields = draw(st.dictionaries(st.sampled_from(names), st.sampled_from(FORMS), max_size=3))
    schema: dict[str, Any] = {"type": "object", "properties": fields}
    if fields:
        schema["required"] = sorted(draw(st.sets(st.sampled_from(sorted(fields)))))
    if "$ref" in str(fields):
        schema["$defs"] = DEFINITIONS
    more = draw(st.sampled_from((None, None, False, False, True)))
    return schema if more is None else {**schema, "additionalProperties": more}


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    """Return groups of one to four actions, with common fields or without, and a call that is perhaps wrong."""
    keys = KEYS[: draw(st.integers(1, len(KEYS)))]
    actions = tuple(Action(key=key, schema=draw(schemas())) for key in keys)
    common = draw(st.none() | schemas(("k", "l")))
    arguments: dict[str, Any] = draw(st.dictionaries(st.sampled_from((*FIELDS, "k", "l", "u")), values, max_size=4))
    meant: Any = draw(st.one_of(st.sampled_from(keys), st.sampled_from((*KEYS, "users", "", None, 3))))
    if draw(st.integers(0, 9)):
        arguments["action"] = meant
    return Sample(actions, common, arguments)

"""The fields of actions: which there are, what each action says of one, and where actions disagree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weft.groups.action import OPENING, Action, fields_of, required_of
from weft.groups.strategies.copying import Reading
from weft.groups.strategies.definitions import Definitions, is_schema, text_of
from weft.ports import Schema, is_array

ANNOTATIONS: Final = ("description", "title", "examples", "default")
"""What is said of a field beside its form: actions may say different things of the same field."""
MAX_NESTED: Final = 8
MAX_BRANCHES: Final = 200
"""Of one schema; nobody would read the fields of more."""
_ANY: Final[Schema] = {}


@dataclass(frozen=True, slots=True)
class Use:
    """How an action takes a field, or all do when it is common to them."""

    action: str | None
    """None when the field is common."""
    required: bool
    schema: Schema
    form: Schema
    """The schema without what is said beside it."""
    text: str
    """The form, to be compared."""


def field_users(actions: Iterable[Action]) -> dict[str, list[str]]:
    """Return for each field the actions that take it."""
    users: dict[str, list[str]] = {}
    for action in actions:
        for name in _taken(Reading(action.schema, name=action.key), action.schema):
            users.setdefault(name, []).append(action.key)
    return users


def uses_of(actions: Sequence[Action], *, common: Schema | None, definitions: Definitions) -> dict[str, list[Use]]:
    """Return for each field, in order of first use and common ones first, how it is taken."""
    uses: dict[str, list[Use]] = {}
    sources: list[tuple[str | None, Schema]] = [] if common is None else [(None, common)]
    for key, schema in [*sources, *((action.key, action.schema) for action in actions)]:
        required = frozenset(required_of(schema))
        for name, found in _read(schema, key or "common", definitions).items():
            form = {keyword: held for keyword, held in found.items() if keyword not in ANNOTATIONS}
            uses.setdefault(name, []).append(Use(key, name in required, found, form, text_of(form)))
    return uses


def union(forms: Iterable[Schema]) -> dict[str, Any]:
    """Return the form of a value that may have any of these; what is said beside the only one of them stays on top."""
    distinct = {text_of(form): form for one in forms for form in _alternatives(one)}
    said = [form for form in distinct.values() if form]
    if len(distinct) < 2:
        return dict(next(iter(distinct.values()), _ANY))
    if len(said) > 1:
        return {"anyOf": [*said, {}] if len(said) < len(distinct) else said}
    beside = {key: held for key, held in said[0].items() if key in ANNOTATIONS}
    return {**beside, "anyOf": [{key: held for key, held in said[0].items() if key not in beside}, {}]}


def _alternatives(form: Schema) -> Sequence[Schema]:
    """Return the forms of which a form is the union; itself when it says more, or when one of them is no schema."""
    if list(form) == ["anyOf"] and is_array(branches := form["anyOf"]) and branches:
        forms = [one for one in map(_as_object, branches) if one is not None]
        return forms if len(forms) == len(branches) else [form]
    return [form]


def _as_object(schema: Any) -> Schema | None:
    """Return a schema as an object also where it is only `true` or `false`; None of what is no schema."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    return schema if is_schema(schema) else None


def _read(schema: Schema, key: str, definitions: Definitions) -> dict[str, dict[str, Any]]:
    reading = Reading(schema, name=key)
    found = _taken(reading, schema)
    if reading.opened:
        reading = Reading(schema, name=key, exact=False)
        found = _taken(reading, schema)
    reading.settle(definitions)
    return found


def _taken(reading: Reading, schema: Schema) -> dict[str, dict[str, Any]]:
    """Return the fields that a schema names anywhere, each with a form that takes all that the schema lets it have."""
    found, _ = _Fields(reading).of(schema)
    for name in required_of(schema):
        found.setdefault(name, {})
    return found


class _Fields:
    """The search for fields in the branches of a schema; it ends, whatever refers to what."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._left = MAX_BRANCHES

    def of(self, schema: Schema, depth: int = 0) -> tuple[dict[str, dict[str, Any]], bool]:
        """Return the fields, and whether others are refused."""
        said = self._reading.heeded(schema)
        found = {name: self._reading.copy(one, called=name) for name, one in fields_of(said).items()}
        closed = said.get("additionalProperties") is False and "patternProperties" not in said
        if depth > MAX_NESTED or not any(keyword in said for keyword in OPENING):
            return found, closed
        for part in (*_listed(said, "allOf"), self._reading.target(said.get("$ref"))):
            fields, refuses = self._branch(part, depth)
            closed = closed or refuses
            found = fields | found
        for branches in (_listed(said, "anyOf"), _listed(said, "oneOf"), _conditional(said)):
            found = self._in_some(branches, depth) | found
        return found, closed

    def _in_some(self, branches: Sequence[Any], depth: int) -> dict[str, dict[str, Any]]:
        """Return the fields of branches of which one holds: where it does not name a field, that may be anything."""
        each = [self._branch(one, depth) for one in branches]
        names = dict.fromkeys(name for fields, _ in each for name in fields)
        return {
            name: union(fields.get(name, _ANY) for fields, closed in each if name in fields or not closed)
            for name in names
        }

    def _branch(self, schema: Any, depth: int) -> tuple[dict[str, dict[str, Any]], bool]:
        self._left -= 1
        return self.of(schema, depth + 1) if is_schema(schema) and self._left > 0 else ({}, False)


def _conditional(said: Schema) -> Sequence[Any]:
    """Return the branches of which perhaps none holds, and with them one that says nothing."""
    by_field: object = said.get("dependentSchemas")
    return [said.get("then"), said.get("else"), *(by_field.values() if is_schema(by_field) else ()), _ANY]


def _listed(said: Schema, keyword: str) -> Sequence[Any]:
    held: object = said.get(keyword)
    return held if is_array(held) else ()

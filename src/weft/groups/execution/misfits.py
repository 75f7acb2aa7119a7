"""Why arguments do not fit: the problems that a schema check finds, each told by field, value and what is expected."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weft.errors import Loc, nearest
from weft.expr.schemas import SchemaProblem
from weft.groups.action import fields_of
from weft.groups.execution.alternatives import Alternatives, WrongTag, value_at
from weft.groups.execution.expected import choices_of, expected, followed, schema_at
from weft.groups.execution.sent import is_secret, sent, sent_text, unasked
from weft.groups.words import one_line, shortened
from weft.ports import Schema, is_array, is_object
from weft.redaction import HIDDEN, WHOLE

_LONGEST_NAME: Final = 200
_MOST_USERS: Final = 5
_MOST_NAMES: Final = 20
_LONGEST_ABOUT: Final = 100
_KINDS: Final = {"dict": "object", "list": "array", "bool": "boolean", "int": "integer", "float": "number"}


@dataclass(frozen=True, slots=True)
class Misfit:
    """One thing wrong with the arguments: a sentence for a model, and facts for machines."""

    field: str
    sentence: str
    facts: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the facts that are known."""
        # Only of what was sent, null says something.
        known = {name: one for name, one in self.facts.items() if name == "sent" or one is not None}
        return {"field": self.field[:_LONGEST_NAME], **known}


def field_name(loc: Loc) -> str:
    """Return a place in the arguments as people write it: `items[2].name`."""
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc)
    return steps.removeprefix(".")


def unknown(name: str, known: Collection[str], *, action: str, value: Any, users: Collection[str] = ()) -> Misfit:
    """Return what is told of a field that an action does not take; `users` are the actions that do."""
    close = nearest(name, known)
    told = f"'{_clean(name)}' is no field of {action}"
    if users:
        more = f" and {len(users) - _MOST_USERS} more" if len(users) > _MOST_USERS else ""
        told += f", it is for {', '.join(list(users)[:_MOST_USERS])}{more}"
    if close:
        told += f"; did you mean '{close}'?"
    return Misfit(name, told, {"sent": value, "expected": "no such field", "suggestion": close})


def missing(loc: Loc, schema: Any, root: Schema) -> Misfit:
    """Return what is told of a field that is needed."""
    name, words = field_name(loc), expected(schema, root)
    held = followed(schema, root)
    about: object = held.get("description") if is_object(held) else None
    more = f" ({shortened(one_line(about), _LONGEST_ABOUT)})" if isinstance(about, str) and about.strip() else ""
    told = f"'{_clean(name)}'{more} is missing: {words}"
    return Misfit(name, told, {"expected": words, "choices": choices_of(schema, root)})


class Misfits:
    """The misfits of arguments with one schema."""

    def __init__(self, schema: Schema, arguments: Any, *, marked: frozenset[str]) -> None:
        self._schema = schema
        self._arguments = arguments
        self._marked = marked

    def of(self, problems: Iterable[SchemaProblem]) -> Iterator[Misfit]:
        """Yield what is told of each problem."""
        alternatives = Alternatives(self._schema, self._arguments)
        for problem in problems:
            for one in alternatives.closest(problem):
                yield from [self._tag(one)] if isinstance(one, WrongTag) else self._told(one)

    def _told(self, problem: SchemaProblem) -> Iterator[Misfit]:
        loc, rule = problem.loc, problem.rule
        if problem.keyword == "required":
            yield from (missing((*loc, name), self._field(rule, loc, name), self._schema) for name in problem.names)
        elif problem.keyword in ("additionalProperties", "unevaluatedProperties") and problem.names:
            yield from (self._unknown(loc, name, rule) for name in problem.names)
        elif problem.keyword == "propertyNames":
            words = expected(schema_at(self._schema, rule[: rule.index("propertyNames") + 1]), self._schema)
            for name in problem.names:
                told = f"'{_clean(field_name((*loc, name)))}' has a name that is not allowed; expected {words}"
                yield Misfit(field_name((*loc, name)), told, {"expected": words})
        elif not rule:
            yield Misfit(field_name(loc), f"{_place(loc)} {problem.message}", {"expected": problem.message})
        else:
            stands = rule if problem.keyword == "falseSchema" else rule[:-1]
            yield self._wrong(loc, schema_at(self._schema, stands))

    def _tag(self, wrong: WrongTag) -> Misfit:
        form = {"enum": list(wrong.choices)}
        return missing(wrong.loc, form, self._schema) if wrong.missing else self._wrong(wrong.loc, form)

    def _field(self, rule: Loc, loc: Loc, name: str) -> Any:
        """Return the schema of a missing field: beside the keyword that needs it, or where the object is described."""
        beside: Any = schema_at(self._schema, rule[:-1])
        found = fields_of(beside).get(name) if is_object(beside) else None
        return found if found is not None or loc else fields_of(self._schema).get(name)

    def _unknown(self, loc: Loc, name: str, rule: Loc) -> Misfit:
        around: Any = schema_at(self._schema, rule[:-1])
        known = list(fields_of(around)) if is_object(around) else []
        whole = field_name((*loc, name))
        close = nearest(name, known)
        told = f"'{_clean(whole)}' is no field"
        if close:
            told += f"; did you mean '{close}'?"
        elif known:
            told += f" of {_place(loc)}, which has {', '.join(known[:_MOST_NAMES])}"
        return Misfit(
            whole,
            told,
            {"sent": self._unasked(loc, name), "expected": "no such field", "suggestion": close},
        )

    def _wrong(self, loc: Loc, schema: Any) -> Misfit:
        words, choices = expected(schema, self._schema), choices_of(schema, self._schema)
        value, shown = value_at(self._arguments, loc), self._sent(loc)
        close = nearest(value, [one for one in choices or () if isinstance(one, str)]) if shown != HIDDEN else None
        if not loc:
            return Misfit("", f"the fields together are not as expected: {words}", {"expected": words})
        told = f"{_place(loc)} is {sent_text(shown)}; expected {words}"
        if close:
            told += f"; did you mean '{close}'?"
        elif shown != HIDDEN and _is_quoted(value, schema):
            told += "; send it without the quotes"
        return Misfit(
            field_name(loc), told, {"sent": shown, "expected": words, "choices": choices, "suggestion": close}
        )

    def _sent(self, loc: Loc) -> Any:
        return HIDDEN if self._is_hidden(loc) else sent(value_at(self._arguments, loc), marked=self._marked)

    def _unasked(self, loc: Loc, name: str) -> Any:
        value = value_at(self._arguments, (*loc, name))
        return HIDDEN if self._is_hidden(loc) else unasked(name, value, self._marked)

    def _is_hidden(self, loc: Loc) -> bool:
        return WHOLE in self._marked or any(is_secret(step, self._marked) for step in loc)


def _place(loc: Loc) -> str:
    return f"'{_clean(field_name(loc))}'" if loc else "what was sent"


def _clean(name: str) -> str:
    """Return the name of a field, which a client may have made up, on a short line."""
    return shortened(one_line(name), 80)


def _is_quoted(value: Any, schema: Any) -> bool:
    """Tell whether a text spells a value of the type that is expected, as models often write lists and numbers."""
    kinds: object = schema.get("type") if is_object(schema) else None
    names = kinds if is_array(kinds) else [kinds]
    if not isinstance(value, str) or len(value) > 10_000 or "string" in names:
        return False
    try:
        spelled: Any = json.loads(value)
    except (ValueError, RecursionError):
        return False
    kind = _KINDS.get(type(spelled).__name__)
    return kind in names or (kind == "integer" and "number" in names)

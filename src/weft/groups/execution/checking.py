"""The check of an action's arguments: compiled when first needed, strict, telling all that is wrong at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Final

from weft.errors import ExecutionFailed, ExpressionInvalid
from weft.expr.marks import marked_names
from weft.expr.schemas import SchemaCheck, compile_schema
from weft.expr.subschemas import subschemas
from weft.groups.action import Action, fields_of, is_closed, required_of
from weft.groups.execution.misfits import Misfit, Misfits, missing, unknown
from weft.groups.execution.sent import unasked
from weft.groups.strategies.telling import needed
from weft.groups.strategies.telling import taken as allowed
from weft.ports import Schema
from weft.redaction import is_secret_name

MOST_PROBLEMS: Final = 20
_MOST_NAMES: Final = 40
_NAMING: Final = frozenset(("type", "properties", "required", "additionalProperties", "title", "description"))
"""What a schema has that does nothing but name fields."""


def arguments_check(
    action: Action, *, common: Schema | None = None, tool: str, others: Mapping[str, Collection[str]] | None = None
) -> Callable[[dict[str, Any]], None]:
    """Return what refuses arguments that an action does not take; `others` says which actions take a field.

    It raises `ExecutionFailed` with the code `InvalidArguments`, once for all that is wrong.
    """
    taken = _Taken(action, common)
    accepts: Callable[[dict[str, Any]], bool] | None = None

    def check(arguments: dict[str, Any]) -> None:
        nonlocal accepts
        if accepts is None:
            accepts = taken.compiled()
        if not accepts(arguments):
            raise _refused(taken, arguments, tool, others or {})

    return check


class _Part:
    """One schema of what an action takes, its own or the common one, and the check that it says."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.required = frozenset(required_of(schema))
        self.names = frozenset((*fields_of(schema), *self.required))
        self.closed = is_closed(schema)

    @cached_property
    def check(self) -> SchemaCheck | None:
        """The check; None of a schema that weft cannot read, as servers of others have."""
        try:
            return compile_schema(self.schema)
        except ExpressionInvalid:
            return None

    @property
    def accepts(self) -> Callable[[Any], bool]:
        """What tells whether it takes arguments; of an unreadable schema, whether all is there that it needs."""
        return self._has_all if self.check is None else self.check.accepts

    def _has_all(self, arguments: dict[str, Any]) -> bool:
        return self.required <= arguments.keys()

    def misfits(self, arguments: dict[str, Any], marked: frozenset[str]) -> Iterator[Misfit]:
        if self.check is not None:
            yield from Misfits(self.schema, arguments, marked=marked).of(self.check.problems(arguments))
            return
        fields = fields_of(self.schema)
        for name in required_of(self.schema):
            if name not in arguments:
                yield missing((name,), fields.get(name), self.schema)


class _Taken:
    """All that an action takes: its own fields and the common ones, each checked by the schema that says so."""

    def __init__(self, action: Action, common: Schema | None) -> None:
        self.action = action
        self.own = _Part(action.schema)
        self.shared = None if common is None else _Part(common)
        self.parts = [part for part in (self.shared, self.own) if part is not None]
        self.known = frozenset[str]().union(*(part.names for part in self.parts))
        self.closed = all(part.closed for part in self.parts)

    def compiled(self) -> Callable[[dict[str, Any]], bool]:
        """Return what tells whether it takes arguments: by one check where the schemas can be put together."""
        if (whole := _put_together(self.parts)) is not None:
            return whole.accepts
        known, closed = self.known, self.closed
        own_accepts = self.own.accepts
        if self.shared is None:
            return (lambda given: given.keys() <= known and own_accepts(given)) if closed else own_accepts
        shared_accepts = self.shared.accepts

        def accepts(arguments: dict[str, Any]) -> bool:
            if closed and not arguments.keys() <= known:
                return False
            shared, own = self.parted(arguments)
            return shared_accepts(shared) and own_accepts(own)

        return accepts

    def parted(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments that each part is asked about; what neither names is for the one that takes more."""
        if self.shared is None:
            return {}, arguments
        shared, own = self.shared.names, self.own.names
        more = not self.own.closed
        return (
            {name: one for name, one in arguments.items() if name in shared or not (more or name in own)},
            {name: one for name, one in arguments.items() if name in own or (more and name not in shared)},
        )

    def misfits(self, arguments: dict[str, Any], others: Mapping[str, Collection[str]]) -> Iterator[Misfit]:
        """Yield all that is wrong: fields that it does not take first, which often explain what is missing."""
        marked = frozenset[str]().union(*(_secret_names(part.schema) for part in self.parts))
        if self.closed:
            key = self.action.key
            for name, given in arguments.items():
                if name in self.known:
                    continue
                users = [one for one in others.get(name, ()) if one != key]
                value = unasked(name, given, marked.union(filter(is_secret_name, others)))
                yield unknown(name, self.known - arguments.keys(), action=key, value=value, users=users)
            arguments = {name: one for name, one in arguments.items() if name in self.known}
        shared, own = self.parted(arguments)
        if self.shared is not None:
            yield from self.shared.misfits(shared, marked)
        yield from self.own.misfits(own, marked)


def _secret_names(schema: Schema) -> frozenset[str]:
    """Return the fields of a schema, at any depth, that are secret by a mark or by their names."""
    names = (name for _, one in subschemas(schema) for name in fields_of(one) if is_secret_name(name))
    return marked_names(schema).union(names)


def _put_together(parts: Sequence[_Part]) -> SchemaCheck | None:
    """Return the one check of closed schemas that do nothing but name fields; of others, each has to be asked."""
    if len(parts) == 1 and parts[0].schema.get("additionalProperties") is False and parts[0].closed:
        return parts[0].check
    fields: dict[str, Schema] = {}
    for part in parts:
        own = fields_of(part.schema)
        if not part.closed or not part.schema.keys() <= _NAMING or any(name in fields for name in own):
            return None
        fields |= own
    required = [name for part in parts for name in part.required]
    whole = {"type": "object", "properties": fields, "required": required, "additionalProperties": False}
    if not fields.keys() >= set(required) or any("$ref" in one for _, one in subschemas(whole)):
        return None
    try:
        return compile_schema(whole)
    except ExpressionInvalid:
        return None


def _refused(
    taken: _Taken, arguments: dict[str, Any], tool: str, others: Mapping[str, Collection[str]]
) -> ExecutionFailed:
    found = list(islice(_distinct(taken.misfits(arguments, others)), MOST_PROBLEMS + 1))
    told = [one.sentence for one in found[:MOST_PROBLEMS]] or ["they do not match the schema"]
    if len(found) > MOST_PROBLEMS:
        told.append("and there is more")
    what = f"Invalid arguments for '{taken.action.key}' of '{tool}':"
    message = f"{what} {told[0]}" if len(told) == 1 else "\n- ".join([what, *told])
    error = ExecutionFailed(message, code="InvalidArguments", hint=_hint(taken))
    error.origin = "caller"
    error.add(problems=[one.to_json() for one in found[:MOST_PROBLEMS]])
    return error


def _distinct(misfits: Iterator[Misfit]) -> Iterator[Misfit]:
    """Yield each sentence once: several keywords may expect the same of one field."""
    said = set[str]()
    for one in misfits:
        if one.sentence not in said:
            said.add(one.sentence)
            yield one


def _hint(taken: _Taken) -> str | None:
    """Return what an action takes; None when its schema only says what fields must be like."""
    needs = list(dict.fromkeys(name for part in taken.parts for name in needed(part.schema)))
    takes = list(dict.fromkeys(name for part in taken.parts for name in allowed(part.schema) if name not in needs))
    told = [f"needs {_names(needs)}"] if needs else []
    told += [f"{'also ' if told else ''}takes {_names(takes)}"] if takes else []
    if not told and not taken.closed:
        return None
    return f"{taken.action.key} {' and '.join(told) or 'takes no fields'}"


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more

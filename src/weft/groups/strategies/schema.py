"""The schema of a grouped tool: one object that takes the fields of all its actions, and says which are whose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from weft.errors import DocumentInvalid, ExpressionInvalid, Problem, json_pointer
from weft.expr.schemas import check_schema
from weft.groups.action import DISCRIMINATOR, Action, is_closed, required_of
from weft.groups.strategies.brief import brief
from weft.groups.strategies.definitions import Definitions
from weft.groups.strategies.fields import Use, uses_of
from weft.groups.strategies.merging import forms_of, merged, told_apart, with_actions
from weft.ir.groups import Detail
from weft.ports import Schema

Conflicts = Literal["error", "union"]
"""What becomes of a field that has one form in one action and another in another."""

_TOGETHER: Final = 100


def input_schema(
    actions: Sequence[Action],
    *,
    common: Schema | None = None,
    discriminator: str = DISCRIMINATOR,
    conflicts: Conflicts = "error",
    detail: Detail = "full",
    extra: Mapping[str, Schema] | None = None,
    helps: Action | None = None,
) -> dict[str, Any]:
    """Return a schema that takes every call that is valid for one of the actions.

    `helps` is one action more, which explains the others: its field is told also where those of the others are not.

    A field that JSON Schema or weft's checks cannot take as it stands is told as briefly as in a brief schema.

    Raises:
        DocumentInvalid: actions disagree about a field, or one has the name of a field that means something else.
    """
    definitions = Definitions()
    actions = actions if helps is None else [*actions, helps]
    told = actions if detail != "index" else [] if helps is None else [helps]
    uses = uses_of(told, common=common, definitions=definitions)
    _refuse([*_reserved(uses, discriminator, extra or {}), *_conflicts(uses, conflicts)])
    closed = common is None or is_closed(common)
    open_to_all = frozenset(action.key for action in actions if not (closed and is_closed(action.schema)))
    choice: dict[str, Any] = {"type": "string", "enum": [action.key for action in actions]}
    if detail == "full":
        choice["description"] = "What to do. It decides which of the other fields are meant."
        fields = _full(uses, open_to_all, definitions)
    else:
        fields = {name: _brief(found, open_to_all, definitions) for name, found in uses.items()}
    always = () if common is None else required_of(common)
    made: dict[str, Any] = {
        "type": "object",
        "properties": {discriminator: choice, **fields, **(extra or {})},
        "required": list(dict.fromkeys((discriminator, *always))),
    }
    if closed and not open_to_all and detail != "index":
        made["additionalProperties"] = False
    needed = definitions.of({"properties": fields})
    return {**made, "$defs": needed} if needed else made


def _full(
    uses: Mapping[str, Sequence[Use]], open_to_all: frozenset[str], definitions: Definitions
) -> dict[str, dict[str, Any]]:
    fields = {name: merged(found, taken_by_others=_is_loose(found, open_to_all)) for name, found in uses.items()}
    for name in _unsound(fields, definitions):
        told = fields[name].get("description")
        fields[name] = _brief(uses[name], open_to_all, definitions) | ({"description": told} if told else {})
    return fields


def _brief(found: Sequence[Use], open_to_all: frozenset[str], definitions: Definitions) -> dict[str, Any]:
    return {} if _is_loose(found, open_to_all) else brief((use.form for use in found), definitions.bodies)


def _is_loose(found: Sequence[Use], open_to_all: frozenset[str]) -> bool:
    """Tell whether an action that does not name a field takes it, whatever its value."""
    if not open_to_all or found[0].action is None:
        return False
    return not open_to_all.issubset(use.action for use in found)


def _unsound(fields: Mapping[str, Schema], definitions: Definitions) -> Iterable[str]:
    """Return the fields for whose sake a client may refuse the whole tool; members come from other people's servers."""
    names = list(fields)
    for start in range(0, len(names), _TOGETHER):
        part = names[start : start + _TOGETHER]
        if not _is_sound({name: fields[name] for name in part}, definitions):
            yield from (name for name in part if not _is_sound({name: fields[name]}, definitions))


def _is_sound(fields: Mapping[str, Schema], definitions: Definitions) -> bool:
    whole = {"properties": dict(fields)}
    try:
        check_schema({**whole, "$defs": definitions.of(whole)})
    except ExpressionInvalid:
        return False
    return True


def _refuse(problems: list[Problem]) -> None:
    if problems:
        raise DocumentInvalid(problems)


def _reserved(uses: Mapping[str, Sequence[Use]], discriminator: str, extra: Mapping[str, Schema]) -> Iterable[Problem]:
    for name, found in uses.items():
        keys = ", ".join(use.action or "all actions" for use in found)
        if name == discriminator:
            message = f"The field {name!r} of {keys} has the name of the field that says which action is meant"
            expected = "another name for the field, or another discriminator"
        elif name in extra:
            message = f"The field {name!r} of {keys} has the name of a field of weft's own"
            expected = "another name for the field"
        else:
            continue
        yield _problem("ReservedField", name, message, expected)


def _conflicts(uses: Mapping[str, Sequence[Use]], conflicts: Conflicts) -> Iterable[Problem]:
    for name, found in uses.items():
        if all(use.text == found[0].text for use in found):
            continue
        if found[0].action is None:
            others = [use for use in found if use.text != found[0].text]
            words = told_apart(found)
            own = with_actions((words[use.text], use) for use in others)
            message = f"The field {name!r} is {own}, and the common field of that name {words[found[0].text]}"
            yield _problem(
                "FieldConflict", name, message, "the same form, no field beside the common one, or another name"
            )
        elif conflicts == "error":
            message = f"The field {name!r} has several forms: {forms_of(found)}"
            expected = 'one form: rename a field, make it common to all actions, or take all forms by conflicts="union"'
            yield _problem("FieldConflict", name, message, expected)


def _problem(code: str, name: str, message: str, expected: str) -> Problem:
    loc = ("properties", name)
    return Problem(code=code, message=message, loc=loc, pointer=json_pointer(loc), expected=expected)

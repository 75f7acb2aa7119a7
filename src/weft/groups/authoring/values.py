"""Arguments as Python values: dates, enums, models and dataclasses, made by pydantic of what is valid JSON."""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Collection, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, NotRequired, Required, TypeAlias, Union, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, to_json

from weft.errors import ExecutionFailed, ExpressionInvalid, Loc, said_by, shown
from weft.expr.marks import marked_names
from weft.expr.types import hints_of, taken_schema
from weft.groups.authoring.readable import is_typed_dict, readable
from weft.groups.calling import ToolCall
from weft.groups.execution.misfits import field_name
from weft.groups.execution.sent import is_secret, sent, sent_text
from weft.ports import Json, Schema
from weft.redaction import WHOLE, redact, secrets_in

Convert: TypeAlias = Callable[[Any], Any]
Refused: TypeAlias = list[tuple[Loc, Any, str]]
"""Places in the arguments, what was sent there, and what is wrong with it."""

AS_THEY_ARE = (Any, object, str, bool, float, type(None), list, dict)
GENERIC = (list, dict, Union, UnionType, abc.Sequence, abc.Mapping, abc.Iterable, abc.Collection)


class Unfit(Exception):
    """A value that JSON Schema lets through and its type does not."""

    def __init__(self, refused: Refused, *, secrets: Collection[str] = ()) -> None:
        super().__init__()
        self.refused = refused
        self.secrets = tuple(secrets)
        """What must not be told of it."""

    def below(self, name: str) -> Refused:
        """Return what is refused as it is seen from around the field that holds it."""
        return [((name, *loc), value, reason) for loc, value, reason in self.refused]


def converter(hint: Any) -> Convert | None:
    """Return what makes a JSON value a value of a type; None when it is one as it stands.

    Raises:
        TypeError: pydantic cannot make such values.
    """
    if is_json(hint, set()):
        return None
    if hint is int or (get_origin(hint) in (Union, UnionType) and set(get_args(hint)) == {int, type(None)}):
        return _integer
    try:
        adapter = TypeAdapter[Any](readable(hint))
    except (PydanticUserError, PydanticUndefinedAnnotation, TypeError, NameError) as error:
        raise TypeError(f"pydantic cannot make {shown(hint)} of JSON: {' '.join(str(error).split())}") from None

    def convert(value: Any) -> Any:
        try:
            # As JSON and not as Python: a strict model takes the text of a date only from there.
            return adapter.validate_json(to_json(value))
        except ValidationError as error:
            told: Refused = [(one["loc"], one["input"], one["msg"]) for one in error.errors(include_url=False)]
        except PydanticSerializationError as error:
            told = [((), value, f"it is not JSON: {said_by(error)}")]
        marked = _marked(hint)
        told = [(loc, _shown(given, loc, marked), reason) for loc, given, reason in told]
        raise Unfit(told, secrets=secrets_in(value, marked))

    return convert


def _marked(hint: Any) -> frozenset[str]:
    """Return what a type says is secret; all of it when it cannot be asked."""
    try:
        return marked_names(taken_schema(hint))
    except ExpressionInvalid:
        return frozenset((WHOLE,))


def _shown(value: Any, loc: Loc, marked: frozenset[str]) -> Any:
    return sent(value, marked=marked, secret=any(is_secret(step, marked) for step in loc))


def is_json(hint: Any, seen: set[Any]) -> bool:
    """Tell whether JSON that matches a type's schema is a value of the type; an integer may come as `2.0`."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return all(_says_nothing_new(note) for note in args[1:]) and is_json(args[0], seen)
    if origin in (Required, NotRequired):
        return is_json(args[0], seen)
    if origin is Literal:
        return all(type(one) in (str, int, bool, type(None)) for one in args)
    if origin is not None:
        # Where a float may stand, `2.0` is one.
        return origin in GENERIC and all((one is int and float in args) or is_json(one, seen) for one in args)
    if is_typed_dict(hint):
        if hint in seen:
            return True
        seen.add(hint)
        return all(is_json(one, seen) for one in hints_of(hint).values())
    return any(hint is one for one in AS_THEY_ARE) or hint == Json


def invalid(call: ToolCall, unfit: Unfit, schema: Schema) -> ExecutionFailed:
    """Return the error for values that their types refuse, as the check by schema tells it; without secrets."""
    told: list[str] = []
    problems: list[dict[str, Any]] = []
    marked = marked_names(schema)
    secrets = {*unfit.secrets, *secrets_in(call.arguments, marked)}
    for loc, value, reason in unfit.refused:
        # What a validator says may have the value in it.
        field, words = field_name(loc), redact(_in_words(reason), secrets)
        given = _shown(value, loc, marked)
        told.append(f"'{field}' is {sent_text(given)}; {words}" if field else words)
        problems.append({"field": field, "sent": given, "expected": words})
    what = f"Invalid arguments for '{call.action}' of '{call.tool}':"
    message = f"{what} {told[0]}" if len(told) == 1 else "\n- ".join([what, *told])
    error = ExecutionFailed(message, code="InvalidArguments")
    error.origin = "caller"
    error.add(problems=problems)
    return error


def converted(values: Mapping[str, Any], converters: Mapping[str, Convert]) -> dict[str, Any]:
    """Return values with those converted that need it.

    Raises:
        Unfit: with every one that cannot be.
    """
    made: dict[str, Any] = dict(values)
    refused: Refused = []
    secrets: list[str] = []
    for name, convert in converters.items():
        if name not in made:
            continue
        try:
            made[name] = convert(made[name])
        except Unfit as error:
            refused += error.below(name)
            secrets += error.secrets
    if refused:
        raise Unfit(refused, secrets=secrets)
    return made


def _in_words(reason: str) -> str:
    """Return what pydantic says, as the part of a sentence; what a validator of an author says stays as it is."""
    if reason.startswith("Input should"):
        return f"it{reason.removeprefix('Input')}"
    return reason.removeprefix("Value error, ").removeprefix("Assertion failed, ")


def _integer(value: Any) -> Any:
    return int(value) if type(value) is float else value


def _says_nothing_new(note: Any) -> bool:
    """Tell whether a note is only told, so that no value is refused or changed by it."""
    return isinstance(note, str) or (isinstance(note, FieldInfo) and not note.metadata)

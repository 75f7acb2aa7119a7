"""JSON Schema checks: compiled once, never fetching anything, bounded in what they may cost.

Regular expressions run on the linear engine, so `^(a+)+$` is evaluated safely; what needs backtracking is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final
from urllib.parse import quote

import jsonschema_rs

from weft.errors import ExpressionInvalid, LimitExceeded, Loc, json_pointer, nearest
from weft.expr.subschemas import HOME, Cost, Reader, invalid, too_complex
from weft.ports import is_array, is_object

MAX_LARGE_PATTERNS: Final = 10
"""Those that take milliseconds to compile, such as a bounded run of Unicode letters."""
MAX_TRIED: Final = 1_000_000
MAX_EXPLAINED: Final = 2_000
MAX_PROBLEMS: Final = 20
MAX_BRANCHES: Final = 3
"""Alternatives within alternatives that are explained."""

_LINEAR: Final = jsonschema_rs.RegexOptions(size_limit=8 * 1024 * 1024)
_SMALL: Final = jsonschema_rs.RegexOptions(size_limit=256 * 1024)
_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """One way in which a value does not match: where in the value, and which keyword says so."""

    pointer: str
    message: str
    keyword: str
    loc: Loc = field(default=(), compare=False)
    """The same place, as keys and indexes."""

    rule: Loc = field(default=(), compare=False)
    """Where in the schema the keyword stands, with references followed."""

    names: tuple[str, ...] = field(default=(), compare=False)
    """The fields that are missing, or that should not be there."""

    branches: tuple[tuple[SchemaProblem, ...], ...] = field(default=(), compare=False)
    """Why each alternative does not match."""


class SchemaCheck:
    """A compiled schema."""

    def __init__(self, validator: jsonschema_rs.Validator, branching: int) -> None:
        self._validator = validator
        self._branching = branching

    def accepts(self, value: Any) -> bool:
        """Tell whether the value matches.

        Raises:
            LimitExceeded: the schema tries alternatives at each level of a value that is too deep for that.
        """
        if self._tries(value) > MAX_TRIED:
            raise LimitExceeded("SchemaCost", MAX_TRIED, "the value is too deep for a recursive schema of alternatives")
        try:
            return self._validator.is_valid(value)
        except ValueError:
            return False

    def problems(self, value: Any) -> list[SchemaProblem]:
        """Return why the value does not match: nothing when it does, at most the first 20 reasons.

        Of a large value it is the first reason alone: the library lists all before it hands out one.
        """
        if self.accepts(value):
            return []
        if self._tries(value) > MAX_EXPLAINED:
            return [SchemaProblem("", "matches none of the alternatives of a recursive schema", "anyOf")]
        try:
            if _larger(value, MAX_EXPLAINED):
                self._validator.validate(value)
            return [_problem(error) for error in islice(self._validator.iter_errors(value), MAX_PROBLEMS)]
        except jsonschema_rs.ValidationError as error:
            return [_problem(error)]
        except ValueError as error:
            return [SchemaProblem("", f"is not JSON: {_short(str(error))}", "type")]

    def _tries(self, value: Any) -> float:
        if self._branching < 2:
            return 1
        return math.exp(min(100.0, _depth(value) * math.log(self._branching)))


def compile_schema(schema: Mapping[str, Any], refs: Mapping[str, Mapping[str, Any]] | None = None) -> SchemaCheck:
    """Return the check that a schema says: 2020-12, or the draft that `$schema` names.

    `$ref: "#Name:1.0.0"` and `"#Name"` are looked up in `refs`; a local anchor of that name comes first.

    Raises:
        ExpressionInvalid: not a schema, too complex, a reference that leads elsewhere, nowhere or in a circle, or a
            regular expression that needs backtracking.
    """
    reader, cost = _read(schema, refs or {})
    others = [(HOME + quote(name, safe=":"), held) for name, held in reader.documents.items() if name]
    registry = jsonschema_rs.Registry(others) if others else None
    try:
        validator = jsonschema_rs.validator_for(
            reader.documents[""], registry=registry, pattern_options=_LINEAR, offline=True
        )
    except ValueError as error:
        raise invalid("", "", _short(str(error))) from None
    return SchemaCheck(validator, cost.branching)


def check_schema(schema: Mapping[str, Any]) -> None:
    """Do what `compile_schema` does of checking, and no more: most schemas of a registry are never needed.

    Raises:
        ExpressionInvalid: as there.
    """
    _read(schema, {})


def _read(schema: Mapping[str, Any], refs: Mapping[str, Mapping[str, Any]]) -> tuple[Reader, Cost]:
    reader = Reader(refs)
    root = reader.read("", schema)
    for name, document in reader.documents.items():
        _check_meta(name, document)
    cost = Cost()
    cost.along(root)
    _check_patterns(reader.patterns)
    return reader, cost


def _check_meta(name: str, document: dict[str, Any]) -> None:
    try:
        jsonschema_rs.meta.validate(document)
    except jsonschema_rs.ValidationError as error:
        pointer = json_pointer(error.instance_path)
        if error.instance_path[-1:] == ["type"] or error.instance_path[-2:-1] == ["type"]:
            raise _wrong_type(name, pointer, error.instance) from None
        raise invalid(name, pointer, _short(error.message)) from None
    except ValueError as error:
        raise invalid(name, "", _short(str(error))) from None


def _wrong_type(name: str, pointer: str, given: Any) -> ExpressionInvalid:
    names = given if is_array(given) else [given]
    wrong = next((one for one in names if one not in _TYPES), None)
    message = f"Invalid JSON Schema at {name}#{pointer}: no such type"
    close = nearest(wrong, _TYPES)
    return ExpressionInvalid(message, code="InvalidSchema", value=wrong, expected=", ".join(_TYPES), suggestion=close)


def _check_patterns(patterns: Mapping[str, str]) -> None:
    large = {pattern: where for pattern, where in patterns.items() if not _compiles(pattern, _SMALL)}
    for pattern, where in islice(large.items(), MAX_LARGE_PATTERNS):
        if _compiles(pattern, _LINEAR):
            continue
        if not _compiles(pattern, None):
            name, _, pointer = where.partition("#")
            raise invalid(name, pointer, f"{_short(pattern)} is not a regular expression, or far too large")
        raise ExpressionInvalid(
            f"The pattern at {where} is not linear-time safe, or too large",
            code="RegexNotAllowed",
            value=pattern,
            expected="a regular expression without look-around and back-references",
        )
    if len(large) > MAX_LARGE_PATTERNS:
        raise too_complex(max(large.values()), f"it has more than {MAX_LARGE_PATTERNS} large patterns")


def _compiles(pattern: str, options: jsonschema_rs.RegexOptions | None) -> bool:
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options)
    except ValueError:
        return False
    return True


def _problem(error: jsonschema_rs.ValidationError, level: int = 0) -> SchemaProblem:
    loc, rule = tuple(error.instance_path), tuple(error.schema_path)
    names: tuple[str, ...] = ()
    branches: list[list[jsonschema_rs.ValidationError]] = []
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.Required(property=missing):
            names = (missing,)
        case (
            jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=more)
            | jsonschema_rs.ValidationErrorKind.UnevaluatedProperties(unexpected=more)
        ):
            names = tuple(more)
        case jsonschema_rs.ValidationErrorKind.PropertyNames(error=inner):
            names = (str(inner.instance),)
        case (
            jsonschema_rs.ValidationErrorKind.AnyOf(context=context)
            | jsonschema_rs.ValidationErrorKind.OneOfNotValid(context=context)
        ):
            branches = context if level < MAX_BRANCHES else []
        case _:
            pass
    return SchemaProblem(
        json_pointer(loc),
        _short(error.message),
        error.kind.name,
        loc,
        rule,
        names,
        tuple(tuple(_problem(one, level + 1) for one in branch[:MAX_PROBLEMS]) for branch in branches),
    )


def _short(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= 200 else line[:120] + "..." + line[-77:]


def _depth(value: Any) -> int:
    deepest, level = 0, [value]
    while level:
        deepest += 1
        level = [held for one in level for held in _held(one)]
    return deepest


def _larger(value: Any, limit: int) -> bool:
    waiting = [value]
    for one in waiting:
        waiting.extend(_held(one))
        if len(waiting) > limit:
            return True
    return False


def _held(value: Any) -> Iterable[Any]:
    if is_object(value):
        return value.values()
    return value if is_array(value) else ()

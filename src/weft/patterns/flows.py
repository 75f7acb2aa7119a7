"""What several patterns check when types flow through them."""

from __future__ import annotations

from typing import Any

from weft.expr.paths import compile_path
from weft.expr.shapes import fits, in_words, look, may_be, type_of, types_of
from weft.ir.predicates import FieldPredicate
from weft.patterns.contract import Flow
from weft.ports import Schema

NUMERIC = frozenset({"gt", "gte", "lt", "lte"})
EQUAL = frozenset({"eq", "in"})


def takes_array(given: Schema, who: str, f: Flow, *at: str | int) -> bool:
    """Report an input that can never be a list."""
    if may_be(given, "array"):
        return True
    f.error("NotAnArray", f"{who} requires array input", *at, value=said(given), expected="an array")
    return False


def at_path(given: Schema, path: str, f: Flow, *at: str | int) -> Schema:
    """Return the schema of a place in a value; report one that cannot be there, or may not be."""
    found = look(given, compile_path(path))
    if found.verdict == "impossible":
        f.error("PathImpossible", f"Path {path}: {found.reason}", *at, value=path, suggestion=found.suggestion)
    elif found.verdict == "perhaps":
        f.warning("PathUncertain", f"Path {path}: {found.reason}", *at, value=path, suggestion=found.suggestion)
    return found.schema


def check_predicate(predicate: FieldPredicate, given: Schema, f: Flow, *at: str | int) -> None:
    """Report a predicate that can never hold for such a value."""
    field = at_path(given, predicate.field, f, *at, "field")
    if predicate.op in NUMERIC and not may_be(field, "number"):
        _never(predicate, field, "a number", f, *at)
    elif predicate.op == "contains" and not may_be(field, "string"):
        _never(predicate, field, "a string", f, *at)
    elif predicate.op in EQUAL and not any(_may_equal(value, field) for value in _constants(predicate)):
        _never(predicate, field, " or ".join(sorted({type_of(value) for value in _constants(predicate)})), f, *at)


def _constants(predicate: FieldPredicate) -> list[Any]:
    return predicate.value if predicate.op == "in" else [predicate.value]


def _may_equal(value: Any, field: Schema) -> bool:
    """Tell whether a field can have that value; null is also what a missing field counts as."""
    return value is None or fits({"type": type_of(value)}, field)[0] != "impossible"


def _never(predicate: FieldPredicate, field: Schema, wanted: str, f: Flow, *at: str | int) -> None:
    f.error(
        "PredicateNeverHolds",
        f"{predicate.op} on {predicate.field} never holds: the field is {said(field)}",
        *at,
        value=predicate.op,
        expected=f"a field that is {wanted or 'one of some values'}",
    )


def said(schema: Schema) -> str:
    """Return a schema's types in words."""
    types = types_of(schema)
    return "anything" if types is None else in_words(types)

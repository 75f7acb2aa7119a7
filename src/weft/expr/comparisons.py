"""Predicates as authors write them: `w.gt(0.7)`, typed so that a checker compares them with the field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Never, TypeVar, cast, overload

from weft.errors import nearest, shown
from weft.expr.fields import FieldError, is_path, path_schema, path_text
from weft.expr.predicates import ABSENT, compile_test
from weft.expr.shapes import deref, in_words, type_of, types_of
from weft.expr.types import Schema
from weft.ports import is_array

V_contra = TypeVar("V_contra", contravariant=True)

_NUMERIC = frozenset({"gt", "gte", "lt", "lte"})
_SEVERAL = "several conditions are several filters, one after another"


def _refuse(instead: str) -> Any:
    def refused(self: Predicate[Any], *_: object) -> Never:
        raise FieldError(f"{self!r} cannot be combined; {instead}")

    return refused


@dataclass(frozen=True, slots=True)
class Predicate(Generic[V_contra]):
    """A question about one field. Contravariant: what can be asked of a float can be asked of an int field."""

    op: str
    value: Any = ABSENT

    def __post_init__(self) -> None:
        if any(is_path(value) for value in _values(self.value)):
            raise FieldError(f"{self.op} compares a field with a value, not with another field; a tool can compare two")
        compile_test(self.op, self.value)

    def accepts(self, value: V_contra) -> bool:
        """Tell whether the predicate holds for a value."""
        return compile_test(self.op, self.value)(value)

    def to_json(self) -> dict[str, Any]:
        """Return the predicate as a document writes it."""
        return {"op": self.op} if self.value is ABSENT else {"op": self.op, "value": self.value}

    def __repr__(self) -> str:
        return f"<predicate {self.op}>" if self.value is ABSENT else f"<predicate {self.op} {shown(self.value)}>"

    __and__ = __rand__ = __bool__ = _refuse(_SEVERAL)
    __or__ = __ror__ = _refuse("for one of several values use w.one_of(), for other choices w.router()")
    __invert__ = _refuse("use the opposite predicate, such as w.ne() or w.lte()")


@overload
def eq(value: None) -> Predicate[object]: ...
@overload
def eq(value: float) -> Predicate[float]: ...
@overload
def eq(value: str) -> Predicate[str]: ...
def eq(value: Any) -> Predicate[Any]:
    """The field equals the value; a bool counts as a number for the type checker, and only for it."""
    return Predicate("eq", value)


@overload
def ne(value: None) -> Predicate[object]: ...
@overload
def ne(value: float) -> Predicate[float]: ...
@overload
def ne(value: str) -> Predicate[str]: ...
def ne(value: Any) -> Predicate[Any]:
    """The field differs from the value."""
    return Predicate("ne", value)


def gt(value: float) -> Predicate[float]:
    """The field is a number above the value."""
    return Predicate("gt", value)


def gte(value: float) -> Predicate[float]:
    """The field is a number, the value or above."""
    return Predicate("gte", value)


def lt(value: float) -> Predicate[float]:
    """The field is a number below the value."""
    return Predicate("lt", value)


def lte(value: float) -> Predicate[float]:
    """The field is a number, the value or below."""
    return Predicate("lte", value)


def contains(value: str) -> Predicate[str]:
    """The field is a text with the value in it."""
    return Predicate("contains", value)


@overload
def one_of(*values: float) -> Predicate[float]: ...
@overload
def one_of(*values: str) -> Predicate[str]: ...
def one_of(*values: Any) -> Predicate[Any]:
    """The field equals one of the values."""
    if len(values) == 1 and isinstance(values[0], list | tuple | set):
        raise FieldError("w.one_of takes the values themselves: w.one_of(*values)")
    return Predicate("in", list(values))


def is_null() -> Predicate[object]:
    """The field is null or missing."""
    return Predicate("is_null")


def is_not_null() -> Predicate[object]:
    """The field is there and not null."""
    return Predicate("is_not_null")


def is_error() -> Predicate[object]:
    """The field is an error."""
    return Predicate("is_error")


_BUILDERS: tuple[Callable[..., Any], ...] = (
    eq, ne, gt, gte, lt, lte, contains, one_of, is_null, is_not_null, is_error,
)  # fmt: skip


def check_field(field: object, predicate: object) -> None:
    """Refuse a predicate that cannot be meant for a field.

    Raises:
        FieldError: it is no predicate, or no value of the field's type can satisfy it.
    """
    if not isinstance(predicate, Predicate):
        raise _no_predicate(predicate)
    asked = cast("Predicate[Any]", predicate)
    place, schema = path_text(field), path_schema(field)
    types = types_of(schema)
    if types is None or asked.value is ABSENT:
        return
    if asked.op in _NUMERIC and not types & {"number", "integer"}:
        raise FieldError(f"{place} is {in_words(types)}, and {asked.op} compares numbers", field=place)
    if asked.op == "contains" and "string" not in types:
        raise FieldError(f"{place} is {in_words(types)}, and contains looks into text", field=place)
    if asked.op in {"eq", "ne", "in"}:
        for value in _values(asked.value):
            _check_value(place, schema, types, value)


def _check_value(place: str, schema: Schema, types: frozenset[str], value: Any) -> None:
    if value is None:
        return
    kind = type_of(value)
    whole = kind == "number" and float(value).is_integer()
    if not types & ({"integer", "number"} if kind == "integer" or whole else {kind}):
        raise FieldError(f"{place} is {in_words(types)}, never {shown(value)}", field=place)
    allowed = _allowed(schema)
    if allowed is not None and value not in allowed:
        close = nearest(value, [one for one in allowed if isinstance(one, str)])
        raise FieldError(f"{place} is one of {shown(allowed)}, never {shown(value)}", field=place, suggestion=close)


def _allowed(schema: Mapping[str, Any]) -> list[Any] | None:
    """Return every value that a field may have, where its schema lists them."""
    known = deref(schema)
    if "const" in known or known.get("type") == "null":
        return [known.get("const")]
    if "anyOf" not in known:
        return known.get("enum")
    branches = [_allowed({**branch, "$defs": known.get("$defs", {})}) for branch in known["anyOf"]]
    listed = [branch for branch in branches if branch is not None]
    return [value for branch in listed for value in branch] if len(listed) == len(branches) else None


def _values(value: Any) -> list[Any]:
    return value if is_array(value) else [value]


def _no_predicate(given: object) -> FieldError:
    for builder in _BUILDERS:
        if given is builder:
            return FieldError(f"{builder.__name__} is not called: write w.{builder.__name__}(..)")
    if callable(given) and not is_path(given):
        return FieldError(f"filters take a predicate such as w.gt(0.7), not a function; {_SEVERAL}")
    return FieldError(f"filters take a predicate such as w.gt(0.7), not {shown(given)}; {_SEVERAL}")

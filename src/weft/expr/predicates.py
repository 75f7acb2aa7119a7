"""Predicates: one comparison of a JSON value with a constant, compiled into one function."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Hashable
from typing import Any, Final, Literal, cast, get_args

from weft.errors import ExpressionInvalid, nearest
from weft.ports import is_array, is_object

Op = Literal["eq", "ne", "gt", "gte", "lt", "lte", "contains", "in", "is_null", "is_not_null", "is_error"]
Test = Callable[[Any], bool]

OPS: Final[tuple[str, ...]] = get_args(Op)
ABSENT: Final[Any] = object()
"""Stands for a value that was not given, since null is one that was."""

_SYMBOLS: Final = {
    "==": "eq",
    "!=": "ne",
    ">": "gt",
    ">=": "gte",
    "<": "lt",
    "<=": "lte",
    "contains": "contains",
    "in": "in",
}
_PLACE: Final = re.compile(r"\s*item((?:\.[^\W\d]\w*+|\[(?:0|-?[1-9]\d{0,14})\])*+)")
_SYMBOL: Final = re.compile(r"\s*(==|!=|>=|<=|>|<|contains\b|in\b)\s*")
_ONE_ONLY: Final = "one comparison such as item.relevance > 0.7 (a compound predicate is several filters)"


def same(a: Any, b: Any) -> bool:
    """Tell whether two JSON values are equal: 1 is 1.0, true is not 1, at any depth."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if is_array(a) and is_array(b):
        return len(a) == len(b) and all(map(same, a, b))
    if is_object(a) and is_object(b):
        return a.keys() == b.keys() and all(same(value, b[name]) for name, value in a.items())
    return a == b


def key_of(value: Any) -> Hashable:
    """Return a key that two JSON values share exactly when `same` says that they are equal."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("list", tuple(map(key_of, cast("list[Any]", value))))
    if isinstance(value, dict):
        return ("object", frozenset((name, key_of(held)) for name, held in cast("dict[str, Any]", value).items()))
    return value


def compile_test(op: str, value: Any = ABSENT) -> Test:
    """Return the test of a JSON value that an operator and its constant say; a missing value is tested as None.

    Raises:
        ExpressionInvalid: no such operator, or a constant that it cannot take.
    """
    if op in _UNARY:
        if value is not ABSENT:
            raise _wrong(f"{op} takes no value", value)
        return _UNARY[op]
    if op not in OPS:
        raise ExpressionInvalid(
            f"Unknown predicate operator: {op}",
            code="UnknownOperator",
            value=op,
            expected=f"one of {', '.join(OPS)}",
            suggestion=nearest(op, OPS),
        )
    if value is ABSENT:
        raise _wrong(f"{op} needs a value", None)
    _check_json(value)
    return _BINARY[op](value)


def parse_predicate(text: str) -> tuple[str, str, Any]:
    """Return the path, operator and constant of the spelling `item.relevance > 0.7`.

    Raises:
        ExpressionInvalid: anything but `item`, names and indexes, one operator and one JSON value.
    """
    if (place := _PLACE.match(text)) is None:
        raise _unread(text, 0, "it does not start with item")
    if (symbol := _SYMBOL.match(text, place.end())) is None:
        raise _unread(text, place.end(), "no operator follows the path")
    try:
        value: Any = json.loads(text[symbol.end() :])
    except json.JSONDecodeError as error:
        what = "more follows the value" if error.msg == "Extra data" else "no JSON value follows the operator"
        raise _unread(text, symbol.end() + error.pos, what) from None
    except (ValueError, RecursionError):
        raise _unread(text, symbol.end(), "the value is too large") from None
    _check_json(value)
    return f"${place[1]}", _SYMBOLS[symbol[1]], value


def _unread(text: str, position: int, reason: str) -> ExpressionInvalid:
    return ExpressionInvalid(
        f"Invalid predicate at {position}: {reason}",
        code="PredicateSyntax",
        value=text,
        expected=_ONE_ONLY,
        position=position,
    )


def _wrong(message: str, value: Any, expected: str | None = None) -> ExpressionInvalid:
    return ExpressionInvalid(message, code="PredicateValue", value=value, expected=expected)


def _check_json(value: Any) -> None:
    waiting = [value]
    while waiting:
        held = waiting.pop()
        if is_array(held):
            waiting.extend(held)
        elif is_object(held):
            waiting.extend(held.values())
        elif isinstance(held, float) and not math.isfinite(held):
            raise ExpressionInvalid("a predicate's number must be finite", code="NonFiniteNumber", value=held)
        elif held is not None and not isinstance(held, (str, bool, int, float)):
            raise _wrong("a predicate's value must be JSON", held)


def _equal_to(value: Any) -> Test:
    if value is None or isinstance(value, bool):
        return lambda tested: tested is value
    if isinstance(value, (int, float)):
        # Python's True equals 1, JSON's does not.
        return lambda tested: tested == value and tested is not True and tested is not False
    if isinstance(value, str):
        return lambda tested: tested == value
    constant = copy.deepcopy(value)
    return lambda tested: same(tested, constant)


def _unequal_to(value: Any) -> Test:
    equal = _equal_to(value)
    return lambda tested: not equal(tested)


def _number(op: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(f"{op} compares numbers", value, "a number")
    return value


def _above(value: Any) -> Test:
    limit = _number("gt", value)
    return lambda tested: (type(tested) is int or type(tested) is float) and tested > limit


def _from(value: Any) -> Test:
    limit = _number("gte", value)
    return lambda tested: (type(tested) is int or type(tested) is float) and tested >= limit


def _below(value: Any) -> Test:
    limit = _number("lt", value)
    return lambda tested: (type(tested) is int or type(tested) is float) and tested < limit


def _upto(value: Any) -> Test:
    limit = _number("lte", value)
    return lambda tested: (type(tested) is int or type(tested) is float) and tested <= limit


def _containing(value: Any) -> Test:
    if not isinstance(value, str):
        raise _wrong("contains looks for a piece of text", value, "a string")
    return lambda tested: isinstance(tested, str) and value in tested


def _one_of(value: Any) -> Test:
    if not is_array(value):
        raise _wrong("in looks in a list", value, "a list")
    keys = frozenset(map(key_of, value))
    if all(isinstance(one, str) for one in value):
        return lambda tested: isinstance(tested, str) and tested in keys
    return lambda tested: key_of(tested) in keys


def _says_error(tested: Any) -> bool:
    return is_object(tested) and (tested.get("isError") is True or ("code" in tested and "retryable" in tested))


_UNARY: Final[dict[str, Test]] = {
    "is_null": lambda tested: tested is None,
    "is_not_null": lambda tested: tested is not None,
    "is_error": _says_error,
}
_BINARY: Final[dict[str, Callable[[Any], Test]]] = {
    "eq": _equal_to,
    "ne": _unequal_to,
    "gt": _above,
    "gte": _from,
    "lt": _below,
    "lte": _upto,
    "contains": _containing,
    "in": _one_of,
}

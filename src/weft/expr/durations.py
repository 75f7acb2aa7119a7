"""Durations: "30s", "250ms" or {"minutes": 1}, never a bare number and never silently zero."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from weft.errors import ExpressionInvalid, nearest

DAY: Final = 24 * 60 * 60.0
YEAR: Final = 366 * DAY

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY}
_FIELDS: Final = {"millis": 0.001, "seconds": 1.0, "minutes": 60.0, "hours": 3600.0}
_TEXT: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)(ms|s|m|h|d)")
_BARE: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?")
_EXPECTED: Final = 'a duration such as "250ms", "30s", "5m", "1h", "2d" or {"seconds": 5}'


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time, not negative."""

    seconds: float

    def __post_init__(self) -> None:
        _checked(self.seconds, self.seconds, YEAR)


def millis(n: float) -> Duration:
    """Return a duration of n milliseconds."""
    return Duration(_scaled(n, 0.001))


def seconds(n: float) -> Duration:
    """Return a duration of n seconds."""
    return Duration(_scaled(n, 1.0))


def minutes(n: float) -> Duration:
    """Return a duration of n minutes."""
    return Duration(_scaled(n, 60.0))


def hours(n: float) -> Duration:
    """Return a duration of n hours."""
    return Duration(_scaled(n, 3600.0))


def parse_duration(value: object, *, most: float = YEAR) -> float:
    """Return the seconds of a Duration, a text with a unit or an object with one unit; `most` is the longest allowed.

    Raises:
        ExpressionInvalid: anything else; a bare number is one, since only a field's name could say its unit.
    """
    if isinstance(value, Duration):
        return _checked(value.seconds, value, most)
    if isinstance(value, str):
        if (read := _TEXT.fullmatch(value)) is None:
            raise _invalid(value, f"{value}s" if _BARE.fullmatch(value) else None)
        return _checked(_scaled(float(read[1]), _UNITS[read[2]]), value, most)
    if isinstance(value, Mapping):
        held = cast("Mapping[Any, Any]", value)
        return _checked(_of_object(held), held, most)
    raise _invalid(value)


def to_ms(value: Duration | float, *, most: float = YEAR) -> int:
    """Return whole milliseconds of a Duration or of seconds.

    Raises:
        ExpressionInvalid: out of range, or so short that it rounds to 0, which no field means.
    """
    length = _checked(value.seconds if isinstance(value, Duration) else value, value, most)
    if (rounded := round(length * 1000)) == 0:
        raise ExpressionInvalid(
            "the duration rounds to 0 milliseconds", code="DurationZero", value=value, expected="at least 1 millisecond"
        )
    return rounded


def as_ms(value: object, *, most: float = YEAR) -> int:
    """Return the milliseconds that a field named ...Ms holds: a whole number of them, or any duration."""
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > most * 1000:
            raise _outside(value, most)
        return to_ms(value / 1000, most=most)
    return to_ms(parse_duration(value, most=most), most=most)


def given_ms(value: object, what: str) -> int:
    """Return the milliseconds of a duration that an author gave; `what` names it in the sentence.

    Raises:
        TypeError: a bare number, which could be seconds as well as milliseconds.
        ExpressionInvalid: no duration.
    """
    if isinstance(value, int | float):
        raise TypeError(f"{what} needs its unit: w.seconds({value}) or w.millis({value})")
    return as_ms(value)


def _of_object(value: Mapping[Any, Any]) -> float:
    if len(value) != 1:
        raise _invalid(dict(value))
    (unit, amount), *_ = value.items()
    if unit not in _FIELDS:
        raise _invalid(dict(value), nearest(unit, _FIELDS))
    return _scaled(amount, _FIELDS[unit])


def _scaled(amount: Any, unit: float) -> float:
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise _invalid(amount)
    # A division keeps 250 ms exact where a multiplication by 0.001 would not.
    try:
        return amount / 1000 if unit == 0.001 else amount * unit
    except OverflowError:
        raise _outside(amount, YEAR) from None


def _checked(length: Any, value: object, most: float) -> float:
    if isinstance(length, bool) or not isinstance(length, (int, float)):
        raise _invalid(value)
    if not 0 <= length <= most or not math.isfinite(length):
        raise _outside(value, most)
    return float(length)


def _invalid(value: object, suggestion: str | None = None) -> ExpressionInvalid:
    return ExpressionInvalid(
        "Invalid duration", code="DurationInvalid", value=value, expected=_EXPECTED, suggestion=suggestion
    )


def _outside(value: object, most: float) -> ExpressionInvalid:
    return ExpressionInvalid(
        "the duration is out of range", code="DurationInvalid", value=value, expected=f"between 0 and {most:g} seconds"
    )

"""Seconds: what a field named ...Seconds holds. They may be decimal, and are never rounded to nothing."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import GetCoreSchemaHandler, ValidatorFunctionWrapHandler, WithJsonSchema, WrapValidator
from pydantic_core import CoreSchema
from pydantic_core import core_schema as cs

from weft.errors import ExpressionInvalid, shown
from weft.expr.durations import YEAR, Duration, parse_duration
from weft.ir.nodes import refuse, refused
from weft.ports import is_object

LEAST = 0.001
SHORTEST_LEASE = 1.0
"""A store may take a quarter of a second for each of the three renewals that a lease has in its length."""

Span: TypeAlias = "Duration | str | float"
"""How authors give a length of time: `w.minutes(5)`, "5m", or a number of seconds."""


class _Seconds:
    """A number of seconds above 0; "15m" and duration objects are taken too."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        number = cs.float_schema(strict=True, ge=LEAST, le=YEAR, allow_inf_nan=False)
        plain = cs.no_info_after_validator_function(_plain, number)
        as_it_is = cs.plain_serializer_function_ser_schema(_plain, return_schema=cs.any_schema())
        return cs.no_info_before_validator_function(_number, plain, serialization=as_it_is)


Seconds = Annotated[float, _Seconds()]


def _lease(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    seconds = handler(value)
    if seconds < SHORTEST_LEASE:
        told = f"an owner at work would lose its lease of {shown(seconds)} seconds before it can renew it"
        raise refuse("LeaseTooShort", told, value=shown(value), expected="at least 1 second")
    return seconds


LeaseSeconds = Annotated[
    Seconds, WrapValidator(_lease), WithJsonSchema({"type": "number", "minimum": SHORTEST_LEASE, "maximum": YEAR})
]
"""How long an owner that is gone keeps others waiting."""


def _number(value: Any) -> Any:
    if isinstance(value, str) or is_object(value):
        try:
            return parse_duration(value)
        except ExpressionInvalid as error:
            raise refused(error) from None
    return value


def _plain(seconds: float) -> float:
    """Return whole seconds as documents write them: 900, not 900.0."""
    return int(seconds) if seconds == int(seconds) else seconds


def in_seconds(span: Span) -> float:
    """Return the seconds of a length of time that an author gave.

    Raises:
        ExpressionInvalid: it is no length of time.
    """
    if isinstance(span, int | float) and not isinstance(span, bool):
        return Duration(span).seconds
    return parse_duration(span)

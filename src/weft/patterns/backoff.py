"""Backoff: how long to pause before the next attempt."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from random import Random
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from weft.errors import ExpressionInvalid, shown
from weft.expr.durations import Duration, as_ms, parse_duration
from weft.ir.nodes import Node, OneOf, refuse, refused
from weft.ir.normalise import made
from weft.ports import is_object

MAX_DELAY_MS = 3600 * 1000
CAP_MS = 30_000
"""How long a growing pause becomes at most, when nobody says."""
MAX_MULTIPLIER = 1000

Pause: TypeAlias = "Duration | str | float"
"""How authors give a pause: `w.millis(200)`, "200ms", or a number of seconds."""


def _milliseconds(value: Any) -> Any:
    if isinstance(value, str) or is_object(value):
        try:
            return as_ms(value)
        except ExpressionInvalid as error:
            raise refused(error) from None
    return value


DelayMs = Annotated[int, Field(ge=0, le=MAX_DELAY_MS), BeforeValidator(_milliseconds)]
FirstDelayMs = Annotated[int, Field(ge=1, le=MAX_DELAY_MS), BeforeValidator(_milliseconds)]
Jitter = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""How much of a pause is left to chance: 0 nothing, 1 all of it."""


class FixedBackoff(Node):
    """Pause as long each time."""

    aliases: ClassVar[Mapping[str, str]] = {"delay": "delayMs"}

    delay_ms: DelayMs

    def delay(self, attempt: int) -> float:
        """Return the seconds to pause after an attempt, the first of which is 1."""
        return self.delay_ms / 1000


class ExponentialBackoff(Node):
    """Pause a multiple of the time before, to a cap: `initial * multiplier^(n-1)`."""

    aliases: ClassVar[Mapping[str, str]] = {"initialDelay": "initialDelayMs", "maxDelay": "maxDelayMs"}

    initial_delay_ms: FirstDelayMs
    max_delay_ms: FirstDelayMs | None = None
    multiplier: Annotated[float, Field(ge=1, le=MAX_MULTIPLIER, allow_inf_nan=False)] = 2.0

    @model_validator(mode="after")
    def _possible(self) -> ExponentialBackoff:
        _check_cap(self.max_delay_ms, self.initial_delay_ms)
        return self

    def delay(self, attempt: int) -> float:
        """Return the seconds to pause after an attempt, the first of which is 1."""
        try:
            grown = self.initial_delay_ms * self.multiplier ** (attempt - 1)
        except OverflowError:
            grown = float(MAX_DELAY_MS)
        return min(grown, _cap_of(self.max_delay_ms, self.initial_delay_ms)) / 1000


class LinearBackoff(Node):
    """Pause longer by as much each time, to a cap: `initial + increment * (n-1)`."""

    aliases: ClassVar[Mapping[str, str]] = {
        "initialDelay": "initialDelayMs",
        "increment": "incrementMs",
        "maxDelay": "maxDelayMs",
    }

    initial_delay_ms: DelayMs
    increment_ms: DelayMs
    max_delay_ms: FirstDelayMs | None = None

    @model_validator(mode="after")
    def _possible(self) -> LinearBackoff:
        _check_cap(self.max_delay_ms, self.initial_delay_ms)
        return self

    def delay(self, attempt: int) -> float:
        """Return the seconds to pause after an attempt, the first of which is 1."""
        grown = self.initial_delay_ms + self.increment_ms * (attempt - 1)
        return min(grown, _cap_of(self.max_delay_ms, self.initial_delay_ms)) / 1000


def _check_cap(cap: int | None, first: int) -> None:
    if cap is not None and cap < first:
        told = f"maxDelayMs {cap} is less than initialDelayMs {first}"
        raise refuse("Impossible", told, value=shown(cap), expected=f"at least {first}", at=("maxDelayMs",))


def _cap_of(cap: int | None, first: int) -> int:
    return max(CAP_MS, first) if cap is None else cap


class Backoff(OneOf):
    """How pauses grow; `{"type": "fixed", ..}` is taken too."""

    noun: ClassVar[str] = "backoff"

    fixed: FixedBackoff | None = None
    exponential: ExponentialBackoff | None = None
    linear: LinearBackoff | None = None

    @classmethod
    def spell(cls, value: Any) -> Any:
        if is_object(value) and isinstance(kind := value.get("type"), str):
            return {kind: {key: item for key, item in value.items() if key != "type"}}
        return value

    def delay(self, attempt: int) -> float:
        """Return the seconds to pause after an attempt, the first of which is 1, without any chance in it."""
        return self.chosen.delay(attempt)

    def delays(self, rng: Random, jitter: float = 0.0) -> Iterator[float]:
        """Yield pauses without end: each by chance between `(1 - jitter)` of its length and all of it."""
        delay = self.chosen.delay
        for attempt in itertools.count(1):
            yield delay(attempt) * (1 - jitter * rng.random()) if jitter else delay(attempt)


def fixed(delay: Pause) -> Backoff:
    """Pause as long each time: `w.fixed(w.millis(200))`; a number is seconds."""
    return made(Backoff, {"fixed": {"delayMs": _ms(delay)}})


def linear(initial: Pause, increment: Pause, *, max: Pause | None = None) -> Backoff:
    """Pause longer by as much each time: `w.linear(w.millis(100), w.millis(50), max=w.seconds(2))`."""
    return made(Backoff, {"linear": {"initialDelayMs": _ms(initial), "incrementMs": _ms(increment), **_cap(max)}})


def exponential(initial: Pause, *, max: Pause | None = None, multiplier: float = 2) -> Backoff:
    """Pause twice as long each time: `w.exponential(w.millis(200), max=w.seconds(5))`."""
    body = {"initialDelayMs": _ms(initial), "multiplier": multiplier, **_cap(max)}
    return made(Backoff, {"exponential": body})


def _cap(max: Pause | None) -> dict[str, int]:
    return {} if max is None else {"maxDelayMs": _ms(max)}


def _ms(pause: Pause) -> int:
    """Return milliseconds; what is so short that it would become 0 is refused, 0 itself is not."""
    seconds = pause if isinstance(pause, int | float) else parse_duration(pause)
    return 0 if seconds == 0 else as_ms(Duration(seconds))

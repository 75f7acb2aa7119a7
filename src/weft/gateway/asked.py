"""What somebody asks to have run: a template or a document, an input, and options that override the document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from weft.errors import DocumentInvalid, ExpressionInvalid, Problem, json_pointer, nearest, shown
from weft.expr.durations import parse_duration
from weft.expr.schemas import SchemaProblem
from weft.patterns.workflow_steps import MOST_AT_ONCE, Strategy
from weft.ports import is_object

KEYS: Final = ("template_id", "composition", "input", "options")
OPTIONS: Final = ("timeout", "max_concurrency", "error_strategy", "dry_run", "wait")
STRATEGIES: Final[tuple[str, ...]] = get_args(Strategy)
NANOSECONDS: Final = 1e9
LONGEST: Final = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a request says instead of the document; None leaves it as it is there."""

    timeout: float | None = None
    max_concurrency: int | None = None
    error_strategy: str | None = None
    dry_run: bool = False
    wait: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to run something."""

    template_id: str | None
    composition: Any
    input: dict[str, Any]
    options: Options


class RequestInvalid(DocumentInvalid):
    """A request that is not one; what it asks to have run is not looked at."""

    code = "RequestInvalid"


class InputUnfit(DocumentInvalid):
    """An input that the document does not take."""

    code = "InvalidInput"

    def __init__(self, found: Sequence[SchemaProblem]) -> None:
        super().__init__([_unfit(one) for one in found])
        told = "; ".join(f"{one.pointer or 'the input'}: {one.message}" for one in found)
        self.message = f"the input does not fit: {told}"


def _unfit(found: SchemaProblem) -> Problem:
    return Problem(code="InvalidInput", message=found.message, loc=("input",), pointer=f"/input{found.pointer}")


def read_request(body: Any) -> Request:
    """Return what a request asks for.

    Raises:
        RequestInvalid: with everything that is wrong with it.
    """
    wrong = _Wrong()
    given = wrong.object(body, (), KEYS)
    template, composition = given.get("template_id"), given.get("composition")
    if (template is None) == (composition is None):
        found = "both" if template is not None else "neither"
        wrong.add("ExactlyOne", f"a request has template_id or composition, found {found}", (), found, "one of them")
    if template is not None and not isinstance(template, str):
        wrong.add("WrongType", "template_id is not a text", ("template_id",), shown(template), "a text")
    input: Any = given.get("input")
    if input is not None and not is_object(input):
        wrong.add("WrongType", "input is not an object", ("input",), shown(input), "an object")
    settings: Any = given.get("options")
    options = _options(wrong.object({} if settings is None else settings, ("options",), OPTIONS), wrong)
    wrong.raise_any()
    return Request(template_id=template, composition=composition, input=input or {}, options=options)


def _options(given: Mapping[str, Any], wrong: _Wrong) -> Options:
    made: dict[str, Any] = {}
    for key in ("dry_run", "wait"):
        if (value := given.get(key)) is not None:
            made[key] = value
            if not isinstance(value, bool):
                wrong.add("WrongType", f"{key} is not true or false", ("options", key), shown(value), "true or false")
    if (most := given.get("max_concurrency")) is not None:
        made["max_concurrency"] = most
        if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_AT_ONCE:
            told, expected = "max_concurrency is out of range", f"a whole number from 1 to {MOST_AT_ONCE}"
            wrong.add("WrongValue", told, ("options", "max_concurrency"), shown(most), expected)
    if (strategy := given.get("error_strategy")) is not None:
        made["error_strategy"] = strategy
        if strategy not in STRATEGIES:
            told, expected = f"unknown error_strategy {shown(strategy)}", f"one of {', '.join(STRATEGIES)}"
            place = ("options", "error_strategy")
            wrong.add("WrongValue", told, place, shown(strategy), expected, suggestion=nearest(strategy, STRATEGIES))
    if (timeout := given.get("timeout")) is not None:
        made["timeout"] = _seconds(timeout, wrong)
    return Options(**made)


def _seconds(timeout: Any, wrong: _Wrong) -> float | None:
    """Return a time limit in seconds: a text as "30s", or nanoseconds, which is how Go writes a duration."""
    at = ("options", "timeout")
    try:
        if isinstance(timeout, int) and not isinstance(timeout, bool):
            seconds = timeout / NANOSECONDS
        else:
            seconds = parse_duration(timeout, most=LONGEST)
    except (ExpressionInvalid, OverflowError) as error:
        wrong.add("WrongValue", getattr(error, "message", "too long"), at, shown(timeout), '"30s", or nanoseconds')
        return None
    if not 0.001 <= seconds <= LONGEST:
        wrong.add("WrongValue", "timeout is out of range", at, shown(timeout), '"1ms" to "24h", or nanoseconds')
    return seconds


class _Wrong:
    """Collects what is wrong with a request."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []

    def add(
        self,
        code: str,
        message: str,
        loc: tuple[str, ...],
        value: str,
        expected: str,
        *,
        suggestion: str | None = None,
    ) -> None:
        pointer = json_pointer(loc)
        self._problems.append(
            Problem(
                code=code, message=message, loc=loc, pointer=pointer, value=value, expected=expected,
                suggestion=suggestion,
            )
        )  # fmt: skip

    def object(self, value: Any, loc: tuple[str, ...], known: tuple[str, ...]) -> Mapping[str, Any]:
        """Return an object of known keys, or nothing of one that is not."""
        if not is_object(value):
            self.add("WrongType", f"{shown(value)} is not an object", loc, shown(value), "an object")
            return {}
        for key in value:
            if key not in known:
                told, expected = f"unknown key {shown(key)}", f"one of {', '.join(known)}"
                self.add("UnknownKey", told, (*loc, key), shown(key), expected, suggestion=nearest(key, known))
        return value

    def raise_any(self) -> None:
        if self._problems:
            raise RequestInvalid(self._problems)

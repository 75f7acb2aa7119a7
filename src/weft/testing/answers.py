"""Answers as files write them: a plain value, or an object with one key that begins with `$`.

search: [{title: A}]                       the value, for every call
search: {$answers: [first, second]}        one for each call, in turn
search: {$error: "no such page"}           the tool ran and said no
search: {$down: "connection refused"}      its server is not there
search: {$late: {seconds: 5, answer: ok}}  the answer comes late
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weft.errors import (
    DocumentInvalid,
    ExpressionInvalid,
    Loc,
    Problem,
    ToolFailed,
    UpstreamUnavailable,
    nearest,
    shown,
)
from weft.expr.durations import parse_duration
from weft.ir.normalise import placed
from weft.ir.read import Source
from weft.ports import is_array, is_object
from weft.testing.canned import Answer, Late, in_turn

FORMS = ("$answers", "$error", "$down", "$late")


def read_answers(value: Any, loc: Loc, problems: list[Problem]) -> dict[str, Answer]:
    """Return a tool's answer for each tool; what is wrong is added to the problems, placed at `loc` and below."""
    if not is_object(value):
        problems.append(
            Problem(
                code="WrongType",
                message="mocks are an object: a tool's name and its answer",
                loc=loc,
                value=shown(value),
                expected="an object",
            )
        )
        return {}
    return {tool: _answer(tool, answer, (*loc, tool), problems) for tool, answer in value.items()}


def answers_of(source: Source) -> dict[str, Answer]:
    """Return the answers of a whole file.

    Raises:
        DocumentInvalid: with every problem.
    """
    problems: list[Problem] = []
    found = read_answers(source.value, (), problems)
    if problems:
        raise DocumentInvalid([placed(problem, source) for problem in problems])
    return found


def _answer(tool: str, value: Any, loc: Loc, problems: list[Problem]) -> Answer:
    if not is_object(value):
        return _constantly(value)
    forms = [key for key in value if key in FORMS]
    sole = next(iter(value), "") if len(value) == 1 else ""
    if not forms and not sole.startswith("$"):
        return _constantly(value)
    form = forms[0] if forms else sole
    if form not in FORMS:
        message = f"unknown kind of answer {shown(form)}"
        problems.append(
            Problem(
                code="UnknownKey", message=message, loc=(*loc, form), value=shown(form),
                expected=f"a value or one of {', '.join(FORMS)}", suggestion=nearest(form, FORMS),
            )
        )  # fmt: skip
        return None
    if len(value) > 1:
        other = next(key for key in value if key != form)
        problems.append(
            Problem(
                code="UnknownKey",
                message=f"{form} stands alone",
                loc=(*loc, other),
                value=shown(other),
                expected=f"only {form}",
            )
        )
        return None
    return _READERS[form](tool, value[form], (*loc, form), problems)


def _constantly(value: Any) -> Answer:
    # A function, so that a plain list is never taken for answers in turn.
    def answer(_arguments: Any) -> Any:
        return value

    return answer


def _in_turn(tool: str, value: Any, loc: Loc, problems: list[Problem]) -> Answer:
    if not is_array(value):
        problems.append(
            Problem(
                code="WrongType",
                message="$answers is a list: one answer for each call",
                loc=loc,
                value=shown(value),
                expected="a list",
            )
        )
        return None
    return in_turn(*(_answer(tool, answer, (*loc, index), problems) for index, answer in enumerate(value)))


def _error(tool: str, value: Any, loc: Loc, problems: list[Problem]) -> Answer:
    def fail(_arguments: Any) -> ToolFailed:
        return ToolFailed(tool, value)

    return fail


def _down(tool: str, value: Any, loc: Loc, problems: list[Problem]) -> Answer:
    reason = value if isinstance(value, str) else "connection refused"

    def fail(_arguments: Any) -> UpstreamUnavailable:
        return UpstreamUnavailable(tool, reason)

    return fail


def _late(tool: str, value: Any, loc: Loc, problems: list[Problem]) -> Answer:
    given = value if is_object(value) else {}
    extra = next((key for key in given if key not in ("seconds", "answer")), None)
    seconds = _seconds(given.get("seconds"))
    if seconds is None or extra is not None:
        problems.append(
            Problem(
                code="UnknownKey" if extra is not None else "WrongValue",
                message="$late takes seconds, and the answer that comes after them",
                loc=loc if extra is None else (*loc, extra),
                value=shown(extra if extra is not None else given.get("seconds")),
                expected="{seconds: 5, answer: ...}",
                suggestion=nearest(extra, ("seconds", "answer")),
            )
        )
        return None
    return Late(_answer(tool, given.get("answer"), (*loc, "answer"), problems), seconds)


def _seconds(value: Any) -> float | None:
    try:
        return parse_duration({"seconds": value} if isinstance(value, int | float) else value)
    except ExpressionInvalid:
        return None


_READERS: Mapping[str, Callable[[str, Any, Loc, list[Problem]], Answer]] = {
    "$answers": _in_turn,
    "$error": _error,
    "$down": _down,
    "$late": _late,
}

"""What commands print: results on stdout, all else on stderr, colours only for a terminal."""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn, cast

import click

from weft.errors import DocumentInvalid, ExecutionFailed, InputError, Problem, WeftError, errors_in

COLOURS = {"error": "red", "warning": "yellow"}
MOST_POINTER = 200
# What moves a terminal's cursor, breaks its lines or turns its text around; all else can be read, and stays.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """Return a text from outside on one line, its control characters escaped."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def indented(text: str) -> Iterator[str]:
    """Yield the lines of a text that may have several, such as YAML to copy: none can pass for a line of ours."""
    for line in text.split("\n"):
        yield f"    {plain(line)}"


def result(text: str) -> None:
    """Print a line of the result."""
    result_text(text + "\n")


def result_text(text: str) -> None:
    """Print a result that has line ends of its own.

    Raises:
        InputError: there is no stdout.
    """
    if sys.stdout is None:
        raise InputError("cannot write the result: stdout is closed", code="UnwritableFile")
    click.echo(text, nl=False)


def note(text: str) -> None:
    """Tell the person at the terminal something beside the result."""
    click.echo(text, err=True)


def as_json(value: Any) -> str:
    """Return JSON as a reader wants it: indented on a terminal, on one line in a pipe.

    Raises:
        ExecutionFailed: the value is not JSON, which only what a tool gave can be.
    """
    pretty = sys.stdout is not None and sys.stdout.isatty()
    form: dict[str, Any] = {"indent": 2} if pretty else {"separators": (",", ":")}
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, **form)
        _check_keys(value)
    except RecursionError:
        why = "it nests too deeply"
    except (TypeError, ValueError, OverflowError) as error:
        why = str(error).partition(";")[0]
    else:
        return text
    raise ExecutionFailed(f"the result is not JSON: {why[:1].lower()}{why[1:]}", code="NotJson")


def _check_keys(value: Any) -> None:
    """Refuse keys that json.dumps would quietly turn into text."""
    pending: list[Any] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            held = cast("dict[object, Any]", item)
            odd = [key for key in held if not isinstance(key, str)]
            if odd:
                raise TypeError(f"the key {odd[0]!r} is not a text")
            pending += held.values()
        elif isinstance(item, list | tuple):
            pending += cast("list[Any]", item)


def good(text: str) -> str:
    """Return a line that says that something went well."""
    return f"{click.style('✓', fg='green')} {text}"


def bad(text: str) -> str:
    """Return a line that says that something went wrong."""
    return f"{click.style('✗', fg='red')} {text}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 error`, `2 errors`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def counted(problems: Iterable[Problem]) -> str:
    """Return how many errors and warnings there are, in words."""
    severities = [problem.severity for problem in problems]
    errors, warnings = severities.count("error"), severities.count("warning")
    return ", ".join([plural(errors, "error")] + ([plural(warnings, "warning")] if warnings else []))


def problem_lines(problem: Problem) -> Iterable[str]:
    """Yield a problem for people: where and what on the first line, the details below it."""
    numbers = "".join(f":{number}" for number in (problem.line, problem.column) if number is not None)
    pointer = plain(_cut(problem.pointer))
    place = f"{plain(problem.file)}{numbers}" if problem.file else pointer or "/"
    severity = click.style(problem.severity, fg=COLOURS[problem.severity], bold=True)
    yield f"{click.style(place, bold=True)}: {severity}: {plain(problem.message)} [{problem.code}]"
    if problem.file and pointer:
        yield f"    at {pointer}"
    told = [
        f"got {problem.value}" if problem.value is not None and problem.value not in problem.message else "",
        f"expected {problem.expected}" if problem.expected is not None else "",
        f"did you mean {problem.suggestion!r}?" if problem.suggestion is not None else "",
    ]
    if any(told):
        yield from indented("; ".join(part for part in told if part))


def _cut(pointer: str) -> str:
    return pointer if len(pointer) <= MOST_POINTER else pointer[: MOST_POINTER - 3] + "..."


def show_problems(problems: Iterable[Problem], *, err: bool = True) -> None:
    """Print problems, one after the other."""
    for problem in problems:
        for line in problem_lines(problem):
            click.echo(line, err=err)


def show_error(error: WeftError) -> None:
    """Print an error as a sentence, with the step where it happened and what to do."""
    if debugging():
        show_traceback(error)
    if isinstance(error, DocumentInvalid):
        show_problems(errors_in(error.problems))
        return
    first, _, more = error.message.partition("\n")
    note(f"{click.style('error', fg='red', bold=True)}: {plain(first)} [{error.code}]")
    for line in indented(more) if more else ():
        note(line)
    if error.path:
        note(f"    in step {plain(' > '.join(error.path))}")
    if error.hint:
        for line in indented(error.hint):
            note(line)


def warn(text: str) -> None:
    """Print a warning."""
    note(f"{click.style('warning', fg='yellow', bold=True)}: {plain(text)}")


def debugging() -> bool:
    """Tell whether tracebacks are wanted."""
    return bool(os.environ.get("WEFT_DEBUG"))


def show_traceback(error: BaseException) -> None:
    """Print where an exception came from."""
    note("".join(traceback.format_exception(error)).rstrip())


def error_json(error: WeftError) -> dict[str, Any]:
    """Return an error as `--json` prints it; a document's problems go with it."""
    problems = [problem.to_json() for problem in error.problems] if isinstance(error, DocumentInvalid) else None
    return {**error.to_json(), **({"problems": problems} if problems is not None else {})}


def fail(error: WeftError, *, json_: bool, code: int) -> NoReturn:
    """Tell an error, as JSON on stdout if that is wanted, and end with an exit code."""
    if json_:
        result(as_json({"error": error_json(error)}))
    else:
        show_error(error)
    raise click.exceptions.Exit(code)

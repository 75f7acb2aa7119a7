"""What commands print: results on stdout, all else on stderr, colours only for a terminal."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterable
from typing import Any

import click

from weft.errors import DocumentInvalid, Problem, WeftError, errors_in

COLOURS = {"error": "red", "warning": "yellow"}


def result(text: str) -> None:
    """Print a line of the result."""
    click.echo(text)


def note(text: str) -> None:
    """Tell the person at the terminal something beside the result."""
    click.echo(text, err=True)


def as_json(value: Any) -> str:
    """Return JSON as a reader wants it: indented on a terminal, on one line in a pipe."""
    pretty = sys.stdout.isatty()
    return json.dumps(
        value, ensure_ascii=False, indent=2 if pretty else None, separators=None if pretty else (",", ":")
    )


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
    place = f"{problem.file}{numbers}" if problem.file else problem.pointer or "/"
    severity = click.style(problem.severity, fg=COLOURS[problem.severity], bold=True)
    yield f"{click.style(place, bold=True)}: {severity}: {problem.message} [{problem.code}]"
    if problem.file and problem.pointer:
        yield f"    at {problem.pointer}"
    told = [
        f"got {problem.value}" if problem.value is not None and problem.value not in problem.message else "",
        f"expected {problem.expected}" if problem.expected is not None else "",
        f"did you mean {problem.suggestion!r}?" if problem.suggestion is not None else "",
    ]
    if any(told):
        yield "    " + "; ".join(part for part in told if part)


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
    note(f"{click.style('error', fg='red', bold=True)}: {error.message} [{error.code}]")
    if error.path:
        note(f"    in step {' > '.join(error.path)}")
    if error.hint:
        note(f"    {error.hint}")


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

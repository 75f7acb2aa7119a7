"""Errors as `application/problem+json` (RFC 9457): which status each has, and what is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from weft.doors.asgi import PROBLEM, BadRequest, Headers, Send, answer, problem_body, retry_after_header
from weft.errors import DocumentInvalid, ExecutionFailed, InfrastructureError, InputError, NotFound, WeftError
from weft.gateway.asked import RequestInvalid
from weft.gateway.quotas import QuotaExceeded

CODES: Final[Mapping[str, int]] = {
    "NotAllowed": 403,
    "InvalidCursor": 400,
    "InvalidLimit": 400,
    "UnknownStatus": 400,
    "TemplateBuiltIn": 409,
    "TemplateExists": 409,
    "TooManyTemplates": 409,
    "RunNotRunning": 409,
    "TemplateChanged": 412,
    "DocumentTooLarge": 413,
}
"""What HTTP calls the errors that are of no class of their own."""

STATUSES: Final[Mapping[type[WeftError], int]] = {
    RequestInvalid: 400,
    NotFound: 404,
    InputError: 422,
    QuotaExceeded: 429,
    InfrastructureError: 503,
    # Too many runs, or too many changes, at this moment.
    ExecutionFailed: 503,
}
"""From the particular to the general: the first that fits counts."""

SOON: Final = 1.0
"""After how many seconds to try again, where the error does not know."""


class Unreadable(BadRequest):
    """A body that is not JSON; `problems` say where."""

    def __init__(self, found: DocumentInvalid) -> None:
        first = found.problems[0]
        super().__init__(413 if first.code == "TooLarge" else 400, first.code, first.message)
        self.problems = found.problems


def status_of(error: WeftError) -> int:
    """Return what HTTP calls an error."""
    if isinstance(error, BadRequest):
        return error.status
    if error.code in CODES:
        return CODES[error.code]
    return next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 500)


def told_of(error: WeftError, status: int) -> bytes:
    """Return an error as the body of an answer."""
    more: dict[str, Any] = {}
    detail = error.message
    if isinstance(error, (DocumentInvalid, Unreadable)):
        problems = [{key: one for key, one in each.to_json().items() if key != "file"} for each in error.problems]
        more["errors"] = problems
        wrong = [one for one in error.problems if one.severity == "error"]
        if isinstance(error, DocumentInvalid) and len(wrong) > 1:
            detail = f"{len(wrong)} problems, of which the first is {wrong[0]}"
    return problem_body(status, error.code, detail, hint=error.hint, **more)


async def answer_problem(send: Send, error: WeftError, *, headers: Headers = ()) -> None:
    """Send an error."""
    status = status_of(error)
    after = error.retry_after if error.retry_after is not None else SOON if status == 503 else None
    told = [*headers, *([] if after is None else [retry_after_header(after)])]
    await answer(send, status, told_of(error, status), kind=PROBLEM, headers=told)

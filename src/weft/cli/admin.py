"""What commands for operators share: they ask the admin listener of a gateway, and print tables."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote

import click

from weft.cli.output import fail, plain, plural, warn
from weft.errors import ExecutionFailed, InputError, UpstreamProtocolError, UpstreamUnavailable, WeftError, shown
from weft.ports import is_array, is_object

ADMIN = "http://127.0.0.1:15001"
WHERE = "`weft serve` opens it on port 15001; --admin names another"
PATIENCE = 10.0
MOST_CELL = 60
"""Characters of what somebody else wrote, in a table."""
LONG_PATIENCE = 3600.0
"""For what takes as long as tools take."""
WRONG = (400, 404)
"""Statuses of what was asked wrongly; with any other the work failed."""
F = TypeVar("F", bound=Callable[..., Any])


def admin_options(function: F) -> F:
    """Give a command the options of all that ask a gateway."""
    where = click.option(
        "--admin", default=ADMIN, show_default=True, metavar="URL", help="The admin listener of the gateway."
    )
    as_told = click.option("--json", "json_", is_flag=True, help="Print it as the gateway told it.")
    return where(as_told(function))


@contextmanager
def failing(*, json_: bool) -> Generator[None]:
    """Tell errors as they are wanted, and end with 2 for what was typed wrongly, else with 1."""
    try:
        yield
    except WeftError as error:
        fail(error, json_=json_, code=2 if isinstance(error, InputError) else 1)


def named(*parts: str) -> str:
    """Return a path of names, whatever characters they have.

    Raises:
        InputError: one has none, and would mean all.
    """
    if "" in parts:
        raise InputError("the name is empty", code="NoName", hint="`list` shows what there is")
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def ask(admin: str, path: str, *, method: str = "GET", body: Any = None, patience: float = PATIENCE) -> dict[str, Any]:
    """Return what the admin listener answers.

    Raises:
        InputError: it knows nothing of the kind, or does not take it.
        ExecutionFailed: it cannot be done, or not now.
        UpstreamUnavailable: there is none at that URL.
    """
    status, told = fetched(admin, path, method=method, body=body, patience=patience)
    if not is_object(told):
        raise UpstreamProtocolError(admin, "it answered something that is not an object")
    if status < 400:
        return told
    error: object = told.get("error")
    if not is_object(error):
        raise UpstreamProtocolError(admin, f"it answered {status}")
    if status == 401 or (status == 404 and fetched(admin, "/upstreams")[0] == 404):
        told = f"--admin: {admin} is a listener for clients, not the admin listener"
        raise InputError(told, code="NotAdmin", hint=WHERE)
    hint: object = error.get("hint")
    kind = InputError if status in WRONG else ExecutionFailed
    raise kind(
        str(error.get("message")), code=str(error.get("code")), hint=hint if isinstance(hint, str) else None
    ) from None


def fetched(
    admin: str, path: str, *, method: str = "GET", body: Any = None, patience: float = PATIENCE
) -> tuple[int, Any]:
    """Return status and JSON of an answer of the admin listener, also of a refusal.

    Raises:
        UpstreamUnavailable: there is none at that URL.
        UpstreamProtocolError: what answers there is something else.
        InputError: that is no URL.
    """
    if not admin.startswith(("http://", "https://")):
        raise InputError(f"--admin: {shown(admin)} is not a URL", code="InvalidUrl", hint=f"such as {ADMIN}")
    data = None if body is None else json.dumps(body).encode()
    headers = {} if body is None else {"content-type": "application/json"}
    # A proxy of the environment must not come between this machine and itself.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        request = urllib.request.Request(admin.rstrip("/") + path, data=data, headers=headers, method=method)
        with opener.open(request, timeout=patience) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, _json_of(error.read())
    except OSError as error:
        failed = UpstreamUnavailable(admin, str(getattr(error, "reason", error)))
        failed.hint = WHERE
        raise failed from None
    except ValueError:
        raise UpstreamProtocolError(admin, "it answered something that is not JSON") from None


def _json_of(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return {}


def rows_of(told: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects of a list in an answer; what could not be asked for it is told as a warning."""
    away: object = told.get("away")
    for reason in away.values() if is_object(away) else ():
        warn(str(reason))
    if silent := told.get("silentWorkers"):
        warn(f"{plural(int(silent), 'worker')} did not answer")
    items: object = told.get(key)
    return [one for one in items if is_object(one)] if is_array(items) else []


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of columns, with a heading; nothing for no rows. Cells may be coloured."""
    lines = [head, *rows] if rows else []
    widths = [max(len(click.unstyle(cell)) for cell in column) for column in zip(*lines, strict=True)]
    return ["  ".join(map(_padded, line, widths)).rstrip() for line in lines]


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - len(click.unstyle(cell)))


def cell(value: object) -> str:
    """Return what a table shows of a value from outside."""
    return plain(str(value)) if value not in (None, "") else "-"


def brief(text: str, most: int = MOST_CELL) -> str:
    """Return the beginning of a text that would make its column too wide."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def compact(value: object, most: int | None = None) -> str:
    """Return JSON on one line, also on a terminal; of more than `most` characters only the beginning."""
    text = plain(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return text if most is None or len(text) <= most else f"{text[:most]}... (--json has all)"


def time_of(seconds: object) -> str:
    """Return a moment, given in seconds since 1970."""
    if not isinstance(seconds, int | float):
        return "-"
    return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")

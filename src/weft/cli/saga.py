"""`weft saga`: the sagas of a gateway, and what to do about those that are stuck."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import click

from weft.cli.admin import F, admin_options, ask, cell, compact, failing, named, rows_of, table, time_of
from weft.cli.output import as_json, good, note, result
from weft.ports import is_array, is_object

COLOURS = {
    "COMPLETED": "green",
    "COMPENSATED": "green",
    "COMPENSATION_FAILED": "red",
    "LOST": "red",
    "UNREADABLE": "red",
}

MOST_SHOWN = 200


def saga_options(function: F) -> F:
    """Give a command the options of all that are about sagas."""
    option = click.option("--store", metavar="NAME", help="Only in this store.")
    return option(admin_options(function))


@click.group("saga", epilog="\b\nExample:\n  weft saga list\n  weft saga show 3f9c2a81d07e")
def command() -> None:
    """Look after the sagas of a gateway, which it and all others with the same stores finish by themselves.

    One is stuck when that failed for good: a step could not be undone, or one after the pivot not done. It then waits
    for `retry` or `abandon`. A saga is named by its REF, or by its id where only one has that.
    """


@command.command("list", epilog="\b\nExample:\n  weft saga list\n  weft saga list --ended --json")
@click.option("--ended", is_flag=True, help="Those that have ended too, as long as they are kept.")
@saga_options
def list_(ended: bool, store: str | None, admin: str, json_: bool) -> None:
    """List the sagas that have not ended, the oldest first.

    One whose record is damaged, or written by a newer weft, is UNREADABLE, with the reason.
    """
    with failing(json_=json_):
        told = ask(admin, "/sagas" + _query(store, ended="true" if ended else None))
        if json_:
            result(as_json(told))
            return
        rows = rows_of(told, "sagas")
        if not rows:
            note("there are no sagas" if ended else "there are no sagas that have not ended")
        for line in table(["REF", "ID", "TOOL", "TENANT", "BEGAN", "STATUS", "WHY IT IS STUCK"], [*map(_row, rows)]):
            result(line)


@command.command(
    "show",
    short_help="Print all that is known of a saga.",
    epilog="\b\nExample:\n  weft saga show 3f9c2a81d07e\n  weft saga show order-17 --json",
)
@click.argument("ref")
@saga_options
def show(ref: str, store: str | None, admin: str, json_: bool) -> None:
    """Print all that is known of a saga: each step, what it gave and what went wrong."""
    with failing(json_=json_):
        told = ask(admin, "/sagas" + named(ref) + _query(store))
        if json_:
            result(as_json(told))
        else:
            _show(told)


@command.command(
    "retry",
    short_help="Go on with a saga that is stuck.",
    epilog="\b\nExample:\n  weft saga retry 3f9c2a81d07e",
)
@click.argument("ref")
@saga_options
def retry(ref: str, store: str | None, admin: str, json_: bool) -> None:
    """Go on with a saga that is stuck: what could not be undone is undone again, or what comes after the pivot done.

    Do it once the reason is gone. Steps keep their idempotency keys. It may get stuck again: `weft saga show` tells.
    """
    with failing(json_=json_):
        told = ask(admin, "/sagas" + named(ref, "retry") + _query(store), method="POST")
        if json_:
            result(as_json(told))
            return
        note(good(f"saga {_name(told)} goes on; `weft saga show {cell(told.get('ref'))}` tells how"))


@command.command(
    "abandon",
    short_help="Give up a saga that is stuck.",
    epilog='\b\nExample:\n  weft saga abandon 3f9c2a81d07e --reason "refunded by hand, ticket 4711"',
)
@click.argument("ref")
@click.option("--reason", required=True, metavar="TEXT", help="Why, and what was done instead; it is kept and logged.")
@saga_options
def abandon(ref: str, reason: str, store: str | None, admin: str, json_: bool) -> None:
    """Give up a saga that is stuck: nothing more of it is done or undone, and that cannot be taken back.

    Put things right by hand first. Whoever asks for the saga again, under its id, gets the error SagaAbandoned with the
    reason, and its steps as they are.
    """
    with failing(json_=json_):
        told = ask(admin, "/sagas" + named(ref, "abandon") + _query(store), method="POST", body={"reason": reason})
        if json_:
            result(as_json(told))
            return
        note(good(f"saga {_name(told)} is given up; as it is now:"))
        _show(told)


def _query(store: str | None, **more: str | None) -> str:
    given = {key: value for key, value in {"store": store, **more}.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def _name(told: dict[str, Any]) -> str:
    return f"{cell(told.get('id'))} of {cell(told.get('tool'))}"


def _row(saga: dict[str, Any]) -> list[str]:
    columns = (saga.get("ref"), saga.get("id"), saga.get("tool"), saga.get("tenant"))
    why = saga.get("stuck") or _unreadable(saga)
    return [*map(cell, columns), time_of(saga.get("created")), _status(saga), cell(why)]


def _unreadable(saga: dict[str, Any]) -> str | None:
    return None if saga.get("unreadable") is None else f"in store {saga.get('store')}: {saga['unreadable']}"


def _status(saga: dict[str, Any]) -> str:
    status = cell(saga.get("status"))
    return click.style(status, fg="red" if saga.get("stuck") else COLOURS.get(status))


def _show(told: dict[str, Any]) -> None:
    if told.get("unreadable") is not None:
        result(f"{click.style(cell(told.get('ref')), bold=True)}  {_status(told)}")
        for name in ("id", "tool", "tenant", "store", "key"):
            result(f"    {name:<8} {cell(told.get(name))}")
        result(f"    why      {cell(told['unreadable'])}")
        return
    result(f"{click.style(cell(told.get('ref')), bold=True)}  {_name(told)}  {_status(told)}")
    who = f"{cell(told.get('principal'))} of tenant {cell(told.get('tenant'))}"
    result(f"    began    {time_of(told.get('created'))}, for {who}")
    result(f"    store    {cell(told.get('store'))}{', and somebody works on it' if told.get('held') else ''}")
    if told.get("stuck"):
        result(f"    stuck    {cell(told['stuck'])}")
    if told.get("abandoned"):
        result(f"    given up {cell(told['abandoned'])}")
    error: object = told.get("error")
    if is_object(error):
        result(f"    error    {cell(error.get('message'))} [{cell(error.get('code'))}]")
    result(f"    input    {compact(told.get('input'))}")
    steps: object = told.get("steps")
    rows = [_step(one) for one in steps if is_object(one)] if is_array(steps) else []
    for line in table(["STEP", "STATUS", "ATTEMPTS", "RESULT"], rows):
        result(f"    {line}")


def _step(step: dict[str, Any]) -> list[str]:
    error: object = step.get("error")
    gave = compact(step["output"], MOST_SHOWN) if "output" in step else "-"
    told = cell(error.get("message")) if is_object(error) else gave
    kept = " (not undone: nothing does)" if step.get("notCompensated") else ""
    return [cell(step.get("id")), cell(step.get("status")), cell(step.get("attempt")), told + kept]

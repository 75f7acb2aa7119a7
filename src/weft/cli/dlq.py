"""`weft dlq`: the dead letters of a gateway that their tool has not taken yet."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import click

from weft.cli.admin import LONG_PATIENCE, admin_options, ask, brief, cell, compact, failing, named, rows_of, table
from weft.cli.output import as_json, bad, good, note, plural, result
from weft.errors import InputError
from weft.ports import is_array, is_object

SHOWN = 100


@click.group("dlq", epilog="\b\nExample:\n  weft dlq list\n  weft dlq redrive --all")
def command() -> None:
    """Look after dead letters: calls that failed for good, of which a tool is to be told.

    What the tool has not taken waits in a store, and is sent again by itself: after 10 seconds, then 20, up to an hour.
    """


@command.command("list", epilog="\b\nExample:\n  weft dlq list\n  weft dlq list --tool book_trip")
@click.option("--tool", metavar="NAME", help="Only those of a composition that failed, or to this tool.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=SHOWN, show_default=True, help="How many at most.")
@admin_options
def list_(tool: str | None, limit: int, admin: str, json_: bool) -> None:
    """List the letters that wait, the oldest first; then those that cannot be read, with the reason."""
    with failing(json_=json_):
        given = {"limit": limit, **({} if tool is None else {"tool": tool})}
        told = ask(admin, f"/dead-letters?{urlencode(given)}")
        if json_:
            result(as_json(told))
            return
        rows = rows_of(told, "deadLetters")
        if not rows:
            note("there are no dead letters that wait")
        for line in table(["ID", "SINCE", "OF", "TO", "TENANT", "WHAT FAILED", "SENT", "REFUSED"], [*map(_row, rows)]):
            result(line)
        if int(told.get("total", 0)) > len(rows):
            note(f"and {int(told['total']) - len(rows)} more; --limit shows them")


@command.command(
    "show",
    short_help="Print a letter.",
    epilog="\b\nExample:\n  weft dlq show 8c1f0a4be2d94b7c9d1a60b2f3e8a755 --json",
)
@click.argument("id_", metavar="ID")
@admin_options
def show(id_: str, admin: str, json_: bool) -> None:
    """Print a letter: what the call was given, without its secrets, and every attempt.

    The beginning of its ID is enough, four characters or more, where no other begins so.
    """
    with failing(json_=json_):
        told = ask(admin, "/dead-letters" + named(id_))
        if json_:
            result(as_json(told))
        else:
            _show(told)


@command.command(
    "redrive",
    short_help="Send a letter to its tool now, or all of them.",
    epilog="\b\nExample:\n  weft dlq redrive 8c1f0a4be2d94b7c9d1a60b2f3e8a755\n  weft dlq redrive --all",
)
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--all", "all_", is_flag=True, help="Every letter that waits, instead of an ID.")
@admin_options
def redrive(id_: str | None, all_: bool, admin: str, json_: bool) -> None:
    """Send a letter to its tool now, or all of them, eight at a time. The failed call itself is not made again.

    A tool that looks at the letter's id takes each once. Exits with 1 when one was not taken, and waits on, or when a
    store in which there may be more is away.
    """
    with failing(json_=json_):
        if (id_ is None) is not all_:
            raise InputError("give the ID of a letter, or --all", code="NoLetter")
        path = "/dead-letters" + (named("redrive") if id_ is None else named(id_, "redrive"))
        told = ask(admin, path, method="POST", patience=LONG_PATIENCE)
        rows = rows_of(told, "redriven")
        if json_:
            result(as_json(told))
        else:
            _told(rows, whole=not told.get("away"))
        if told.get("away") or not all(one.get("delivered") is True for one in rows):
            raise click.exceptions.Exit(1)


def _told(rows: list[dict[str, Any]], *, whole: bool) -> None:
    if not rows and whole:
        note("there are no dead letters that wait")
    for one in rows:
        id_ = cell(one.get("id"))
        well = one.get("delivered") is True
        result(good(f"{id_} was taken") if well else bad(f"{id_} was not taken: {cell(one.get('error'))}"))


def _row(letter: dict[str, Any]) -> list[str]:
    failed = brief(cell(letter.get("failed")))
    if letter.get("unreadable") is not None:
        failed = cell(f"in store {letter.get('store')}, and cannot be read: {letter['unreadable']}")
    about = [cell(letter.get(name)) for name in ("id", "time", "of", "tool", "tenant")]
    return [*about, failed, cell(letter.get("tries")), brief(cell(letter.get("error")))]


def _show(told: dict[str, Any]) -> None:
    if told.get("unreadable") is not None:
        result(f"{click.style(cell(told.get('id')), bold=True)}  of tenant {cell(told.get('tenant'))}")
        result(f"    store    {cell(told.get('store'))}")
        result(f"    cannot be read: {cell(told['unreadable'])}")
        return
    payload: object = told.get("payload")
    about: dict[str, Any] = payload if is_object(payload) else {}
    result(f"{click.style(cell(told.get('id')), bold=True)}  of {cell(told.get('owner'))}, to {cell(told.get('tool'))}")
    result(f"    since    {cell(about.get('timestamp'))}, for {cell(about.get('principal'))}"
           f" of tenant {cell(about.get('tenant'))}")  # fmt: skip
    result(f"    sent     {plural(int(told.get('tries', 0)), 'time')}; the last time: {cell(told.get('error'))}")
    result(f"    failed   {cell(about.get('error'))} [{cell(about.get('errorCode'))}]")
    steps: object = about.get("stepPath")
    if is_array(steps):
        result(f"    at       {' > '.join(cell(step) for step in steps)}")
    if about.get("traceId"):
        result(f"    trace    {cell(about['traceId'])}")
    result(f"    input    {compact(about.get('originalInput'))}")
    attempts: object = about.get("attemptErrors")
    for number, one in enumerate(attempts if is_array(attempts) else [], 1):
        if is_object(one):
            result(f"    attempt {number}: {cell(one.get('error'))} [{cell(one.get('code'))}]")

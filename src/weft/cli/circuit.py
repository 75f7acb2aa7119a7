"""`weft circuit`: the circuit breakers of a gateway, closed or held open by hand."""

from __future__ import annotations

from typing import Any, Literal

import click

from weft.cli.admin import admin_options, ask, cell, failing, named, rows_of, table
from weft.cli.output import as_json, good, note, result

PATIENCE = 40.0
COLOURS = {"closed": "green", "half_open": "yellow", "open": "red"}


@click.group("circuit", epilog="\b\nExample:\n  weft circuit list\n  weft circuit reset payments")
def command() -> None:
    """Look after the circuit breakers of a gateway: each leaves alone for a while what fails too often.

    Closed, calls go through; open, none does; half open, a few do, to find out. A circuit that has a store is one for
    all that share it. Any other is each worker's own, and is changed in all.
    """


@command.command("list", epilog="\b\nExample:\n  weft circuit list\n  weft circuit list --json")
@admin_options
def list_(admin: str, json_: bool) -> None:
    """List the circuits, with their states.

    FAILURES are those that count while it is closed, PROBE IN says when an open one lets a call through to find out.
    """
    with failing(json_=json_):
        told = ask(admin, "/circuits", patience=PATIENCE)
        if json_:
            result(as_json(told))
        else:
            _show(rows_of(told, "circuits"))


@command.command("reset", epilog="\b\nExample:\n  weft circuit reset payments")
@click.argument("name")
@admin_options
def reset(name: str, admin: str, json_: bool) -> None:
    """Close a circuit and forget its failures.

    This is so for all callers: the next call goes through.
    """
    _change(name, "reset", admin, json_)


@command.command("open", epilog="\b\nExample:\n  weft circuit open payments")
@click.argument("name")
@admin_options
def open_(name: str, admin: str, json_: bool) -> None:
    """Hold a circuit open until it is reset.

    No call goes through, of no caller, not even a probe. In a circuit of each worker's own, this ends with the worker;
    in a store, it stays.
    """
    _change(name, "open", admin, json_)


def _change(name: str, change: Literal["reset", "open"], admin: str, json_: bool) -> None:
    with failing(json_=json_):
        told = ask(admin, "/circuits" + named(name, change), method="POST", patience=PATIENCE)
        if json_:
            result(as_json(told))
            return
        rows = rows_of(told, "circuits")
        note(good(f"circuit {cell(name)} is {'closed' if change == 'reset' else 'held open'}"))
        _show(rows)


def _show(rows: list[dict[str, Any]]) -> None:
    if not rows:
        note("there are no circuits")
    columns = [*map(_row, rows)]
    head = ["NAME", "SCOPE", "STATE", "FAILURES", "PROBE IN", "STORE", "WORKER"]
    kept = [
        at for at, name in enumerate(head) if name not in ("SCOPE", "WORKER") or any(row[at] != "-" for row in columns)
    ]
    for line in table([head[at] for at in kept], [[row[at] for at in kept] for row in columns]):
        result(line)


def _row(circuit: dict[str, Any]) -> list[str]:
    state = cell(circuit.get("state"))
    shown = "held open" if circuit.get("forced") else state.replace("_", " ")
    left = circuit.get("resetSeconds")
    return [
        cell(circuit.get("name")),
        cell(circuit.get("scope")),
        click.style(shown, fg=COLOURS.get(state)),
        cell(circuit.get("failures")),
        f"{left:.0f} s" if isinstance(left, int | float) else "-",
        cell(circuit.get("store")),
        cell(circuit.get("worker")),
    ]

"""`weft trace`: what a recent call did, from the gateway's admin listener."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import click

from weft.cli.admin import admin_options, failing, fetched
from weft.cli.output import as_json, plain, result
from weft.errors import InputError, NotFound, UpstreamProtocolError
from weft.ports import is_array, is_object


@click.command(
    "trace", epilog="\b\nExample:\n  weft trace --last\n  weft trace 4bf92f3577b34da6a3ce929d0e0e4736 --json"
)
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--last", is_flag=True, help="The most recent call, instead of an ID.")
@admin_options
def command(id_: str | None, last: bool, admin: str, json_: bool) -> None:
    """Print what a recent call through the gateway did: each step as a tree, with times.

    The ID is in every result of a composition (`_meta`, "weft/traceId"), and `weft call --json` prints it.
    """
    with failing(json_=json_):
        if (id_ is None) is not last:
            raise InputError("give the ID of a trace, or --last", code="NoTrace")
        wanted = id_ or last_id(admin)
        if json_:
            result(as_json(calls_of(admin, wanted)))
        else:
            show_trace(admin, wanted, show=result)


def show_trace(admin: str, id_: str, *, show: Callable[[str], None]) -> None:
    """Show the calls of a trace, each as a tree.

    Raises:
        NotFound: the gateway keeps no such trace.
        UpstreamUnavailable: there is no gateway at that URL.
    """
    from weft.cli.drawing.tree import tree

    for call in calls_of(admin, id_):
        spans: object = call.get("spans")
        if is_object(spans):
            for line in tree(spans):
                show(line)
        else:
            show(plain(_line(call)))


def _line(call: dict[str, Any]) -> str:
    """Return a call that has no steps: one that was passed through to a server."""
    where = f" on {call['server']}" if call.get("server") else ""
    told = f"{call.get('method')} {call.get('tool')}{where}  {call.get('ms')} ms  {call.get('outcome')}"
    return f"{told}  {call['error']}" if call.get("error") else told


def calls_of(admin: str, id_: str) -> list[dict[str, Any]]:
    """Return the calls of a trace, oldest first; errors are those of `show_trace`."""
    told = asked(admin, f"/traces/{quote(id_, safe='')}", missing=id_)
    return [told] if is_object(told) and "calls" not in told else _listed(told, "calls", admin)


def last_id(admin: str) -> str:
    """Return the id of the most recent call.

    Raises:
        NotFound: there was none yet.
    """
    recent = _listed(asked(admin, "/traces", missing="the last"), "traces", admin)
    if not recent:
        raise NotFound("Trace", "there was no call yet")
    return str(recent[0].get("id"))


def asked(admin: str, path: str, *, missing: str) -> Any:
    """Return what the admin listener answers.

    Raises:
        NotFound: it knows nothing of the kind.
        UpstreamUnavailable: there is none at that URL.
    """
    status, told = fetched(admin, path)
    if status == 404:
        raise NotFound("Trace", missing)
    if status >= 400:
        raise UpstreamProtocolError(admin, f"it answered {status}")
    return told


def _listed(told: Any, key: str, admin: str) -> list[dict[str, Any]]:
    items: object = told.get(key) if is_object(told) else told
    if not is_array(items):
        raise UpstreamProtocolError(admin, f"it told no {key}")
    return [one for one in items if is_object(one)]

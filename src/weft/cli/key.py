"""`weft key`: API keys for callers, made, listed and revoked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli.output import as_json, good, note, plain, result
from weft.errors import ExpressionInvalid, InputError, shown

if TYPE_CHECKING:
    from weft.gateway.keys import ApiKey

FILE = "keys.json"
file_option = click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=FILE,
    show_default=True,
    metavar="FILE",
    help="The file of keys.",
)
json_option = click.option("--json", "json_", is_flag=True, help="Print JSON.")


@click.group("key", epilog="\b\nExample:\n  weft key create --agent research-agent@2.1.0 --expires 90d")
def command() -> None:
    """Make, list and revoke API keys, with which callers prove who they are.

    `weft serve` takes the keys of the file that `identity.keyFile` names; what is revoked opens nothing after a second.
    """


@command.command(
    "create",
    epilog="\b\nExample:\n  weft key create --agent research-agent@2.1.0 --scope read --expires 90d\n"
    '  export WEFT_KEY="$(weft key create --agent research-agent@2.1.0)"',
)
@click.option("--agent", "agents", multiple=True, metavar="NAME@VERSION", help="Whose it is; again for a version more.")
@click.option("--subject", metavar="NAME", help="Who it is in logs.  [default: the agent's name]")
@click.option("--tenant", default="default", show_default=True, metavar="NAME", help="The tenant that it is of.")
@click.option("--scope", "scopes", multiple=True, metavar="NAME", help="A scope that it has; again for more.")
@click.option("--expires", metavar="DURATION", help="How long it is good for, such as 90d.  [default: until revoked]")
@file_option
@json_option
def create(
    *,
    agents: Sequence[str],
    subject: str | None,
    tenant: str,
    scopes: Sequence[str],
    expires: str | None,
    file: Path,
    json_: bool,
) -> None:
    """Make a key and print it, this once: only its hash is kept.

    To replace a key make a second one, which lives beside it, and revoke the first when nobody uses it any more.
    """
    from weft.gateway.keys import KeyFile, make_key

    name, versions = _agent(agents)
    if name is None and not subject:
        raise InputError("a key is somebody's", code="MissingOption", hint="say whose: --agent NAME@VERSION")
    key, text = make_key(
        agent=name, versions=versions, subject=subject, tenant=tenant, scopes=scopes, lifetime=_lifetime(expires)
    )
    KeyFile(file).add(key)
    if json_:
        result(as_json({**_told(key), "key": text}))
        return
    result(text)
    note(good(f"key {key.id} of {plain(_whose(key))}; it is not shown again"))


@command.command("list", epilog="\b\nExample:\n  weft key list")
@file_option
@json_option
def list_(file: Path, json_: bool) -> None:
    """List the keys: whose they are and how long they are good, never the keys themselves."""
    from weft.gateway.keys import KeyFile

    keys = list(KeyFile(file).read().values())
    if json_:
        result(as_json({"keys": [_told(key) for key in keys]}))
        return
    if not keys:
        note(f"there are no keys in {file}")
    for line in _table([["ID", "WHOSE", "TENANT", "SCOPES", "EXPIRES", "STATE"], *map(_row, keys)] if keys else []):
        result(line)


@command.command("revoke", epilog="\b\nExample:\n  weft key revoke k3m7q9w2xz")
@click.argument("id_", metavar="ID")
@file_option
@json_option
def revoke(id_: str, file: Path, json_: bool) -> None:
    """Make a key useless for good; a whole key may stand for its id."""
    from weft.gateway.keys import PREFIX, KeyFile

    short = id_.removeprefix(PREFIX).partition("_")[0]
    key = KeyFile(file).revoke(short)
    if json_:
        result(as_json(_told(key)))
        return
    note(good(f"key {key.id} of {plain(_whose(key))} is revoked"))


def _agent(agents: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the one agent that is named, and its versions."""
    from weft.config.checks import SEMVER

    parts = [one.rpartition("@") if "@" in one else (one, "", "") for one in agents]
    names = {name for name, _, _ in parts}
    if len(names) > 1:
        told = f"a key is of one agent, not of {len(names)}"
        raise InputError(told, code="InvalidAgent", hint="make a key for each of them")
    for (name, at, version), given in zip(parts, agents, strict=True):
        if not name or (at and not SEMVER.fullmatch(version)):
            raise InputError(f"{shown(given)} is not an agent", code="InvalidAgent", hint="expected NAME@1.2.0")
    return next(iter(names), None), [version for _, _, version in parts if version]


def _lifetime(text: str | None) -> float | None:
    from weft.expr.durations import parse_duration

    if text is None:
        return None
    try:
        if (seconds := parse_duration(text)) > 0:
            return seconds
    except ExpressionInvalid as error:
        raise InputError(f"--expires: {error.message}", code=error.code) from None
    raise InputError("--expires: a key that is over at once", code="DurationZero")


def _told(key: ApiKey) -> dict[str, Any]:
    """Return what anybody may know of a key."""
    told = key.model_dump(exclude={"salt", "hash"}, exclude_none=True)
    times = {name: _time(told[name]) for name in ("created", "expires", "revoked") if name in told}
    return {**told, "versions": list(key.versions), "scopes": list(key.scopes), **times, "state": _state(key)}


def _row(key: ApiKey) -> list[str]:
    expires = "never" if key.expires is None else _time(key.expires)[:10]
    return [key.id, plain(_whose(key)), plain(key.tenant), plain(" ".join(key.scopes)) or "-", expires, _state(key)]


def _whose(key: ApiKey) -> str:
    if key.agent is None:
        return key.subject
    return f"{key.agent}@{','.join(key.versions)}" if key.versions else key.agent


def _state(key: ApiKey) -> str:
    if key.revoked is not None:
        return "revoked"
    return "live" if key.is_live(datetime.now(UTC).timestamp()) else "expired"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]

"""`weft lock`: approve the tools of all servers as they are now, or tell what is not as it was approved."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli.output import as_json, bad, error_json, good, plain, plural, result, show_problems, warn
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.config import Config
    from weft.registry.drift import Change
    from weft.registry.lock import Lock, ServerPin, Verdict

COLOURS = {"breaking": "red", "risky": "yellow", "safe": "green", "cosmetic": None}
EXAMPLES = """\b
Example:
  weft lock                     approve what the servers of ./weft.yaml offer now
  weft lock --check             tell what has changed since; for CI
  weft lock --executables       pin the programs of child servers, too

\b
A pin is a hash of the whole tool as its server lists it. It cannot see that a server does other
things behind the same words."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A server as it answered: its pin, or why there is none."""

    key: str
    pin: ServerPin | None
    problem: str | None = None


@click.command("lock", epilog=EXAMPLES)
@click.option("-c", "--config", type=click.Path(path_type=Path), help="The settings.  [default: ./weft.yaml]")
@click.option("--lock", "file", type=click.Path(path_type=Path), help="[default: lock.file of the settings]")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 when something is not as it was approved.")
@click.option("--executables", is_flag=True, help="Pin the sha256 of each child's program, too.")
@click.option(
    "--json", "json_", is_flag=True, help='Print {"same", "servers", "gone", "suspicions", "shadowed", "written"}.'
)
def command(config: Path | None, file: Path | None, check: bool, executables: bool, json_: bool) -> None:
    """Write weft.lock: every tool of every server, whole and by its hash, as it is now.

    What changed since the lock was written is shown first, classed breaking, risky, safe or cosmetic, and so is what
    in a tool's texts is hidden or speaks to the model; read it before you commit the file. A server that cannot be
    reached keeps its pins. Exits with 0; with 1 when a server is away or, for --check, something changed; with 2 when
    the lock is missing or broken.

    `weft serve` holds tools to the lock as `lock.mode` of the settings says: off, tofu, warn or enforce. A gateway that
    runs takes a new lock within seconds.
    """
    from weft.config import load_config

    try:
        settings = load_config(config, os.environ)
        if not json_:
            show_problems(settings.problems)
        if not settings.servers:
            raise InputError("there are no servers to lock", code="NoServers", hint="weft.yaml names them")
        code = _done(
            settings, file or _from_here(settings.lock.path), check=check, executables=executables, json_=json_
        )
    except InputError as error:
        if not json_:
            raise
        result(as_json({"error": error_json(error)}))
        code = 2
    raise click.exceptions.Exit(code)


def _from_here(path: Path) -> Path:
    """Return a path as somebody in the current folder would write it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _done(settings: Config, path: Path, *, check: bool, executables: bool, json_: bool) -> int:
    from weft.registry.lock import Lock, alone, write_lock

    before = _before(path, must=check)
    pinned = {key for key, pin in (before or Lock()).servers.items() if pin.executable is not None}
    seen = asyncio.run(_seen(settings, {*settings.servers} if executables else pinned))
    verdicts = {one.key: _judged(before or Lock(), one.key, one.pin) for one in seen if one.pin is not None}
    away = [one for one in seen if one.pin is None]
    same = all(verdict.same for verdict in verdicts.values()) and not _gone(before, settings)
    if not check:
        with alone(path):
            write_lock(path, _after(_before(path, must=False) or Lock(), settings, seen))
    _tell(before, settings, seen, verdicts, path=None if check else path, json_=json_)
    return 1 if away or (check and not same) else 0


def _before(path: Path, *, must: bool) -> Lock | None:
    from weft.registry.lock import read_lock

    try:
        return read_lock(path)
    except InputError as error:
        if must or error.code != "LockMissing":
            raise
        return None


async def _seen(settings: Config, executables: set[str]) -> list[Seen]:
    from weft.app.approvals import written
    from weft.app.servers import connected
    from weft.registry.lock import ServerPin, executable_hash

    found: list[Seen] = []
    async with connected(settings) as pool:
        for key, server in pool.servers.items():
            argv, spec = settings.servers[key].argv, server.spec
            if not server.connected_once:
                found.append(Seen(key, None, server.problem or "it does not answer"))
                continue
            program = None
            if key in executables and argv:
                program = executable_hash(spec.command[0], cwd=spec.cwd, path=spec.env.get("PATH"))
            # As they came, which is what the gateway compares: mended tools may look alike.
            try:
                pin = ServerPin.of(server.known.received, argv=written(argv) if argv else None, executable=program)
                found.append(Seen(key, pin))
            except RecursionError:
                found.append(Seen(key, None, "one of its tools is nested too deeply to be hashed"))
    return found


def _judged(lock: Lock, key: str, pin: ServerPin) -> Verdict:
    from weft.registry.lock import judge

    tools = [one.tool for one in pin.tools.values()]
    return judge(lock, key, tools, "enforce", argv=pin.argv or (), executable=pin.executable)


def _gone(before: Lock | None, settings: Config) -> list[str]:
    return sorted(key for key in (before.servers if before is not None else ()) if key not in settings.servers)


def _after(before: Lock, settings: Config, seen: Iterable[Seen]) -> Lock:
    """Return the lock to write: servers as they answered, those that are away as they were, and no others."""
    from weft.registry.lock import Lock

    now = {one.key: one.pin or before.servers.get(one.key) for one in seen}
    return Lock({key: pin for key, pin in now.items() if pin is not None and key in settings.servers})


def _tell(
    before: Lock | None,
    settings: Config,
    seen: list[Seen],
    verdicts: dict[str, Verdict],
    *,
    path: Path | None,
    json_: bool,
) -> None:
    from weft.registry.hidden import suspicions
    from weft.registry.lock import shadowed

    tools = {one.key: [pin.tool for pin in one.pin.tools.values()] for one in seen if one.pin is not None}
    found = {(key, tool["name"]): suspicions(tool) for key, several in tools.items() for tool in several}
    twice = shadowed(tools)
    if json_:
        told = {one.key: _server_json(one, verdicts.get(one.key)) for one in seen}
        odd = [{"server": key, "tool": name, **one.to_json()} for (key, name), all_ in found.items() for one in all_]
        same = all(verdict.same for verdict in verdicts.values()) and not _gone(before, settings)
        written = None if path is None else str(path)
        gone = {"gone": _gone(before, settings)}
        result(
            as_json({"same": same, "servers": told, **gone, "suspicions": odd, "shadowed": twice, "written": written})
        )
        return
    for one in seen:
        _show(one, verdicts.get(one.key), first=before is None)
    for key in _gone(before, settings):
        result(bad(f"{plain(key)}: it is in the lock, and no longer in the settings"))
    for (key, name), several in found.items():
        for suspicion in several:
            warn(f"{key}: {name}: {suspicion}")
    for name, keys in twice.items():
        warn(f"{name} is a tool of {', '.join(keys)}: names.onCollision decides what each is called")
    if path is not None:
        result(good(f"Wrote {plain(str(path))}: {plural(sum(map(len, tools.values())), 'tool')} approved"))


def _server_json(one: Seen, verdict: Verdict | None) -> dict[str, Any]:
    if verdict is None:
        return {"problem": one.problem}
    return {
        "tools": len(one.pin.tools) if one.pin is not None else 0,
        "new": list(verdict.new),
        "missing": list(verdict.missing),
        "changed": [held.to_json() for held in verdict.quarantined if held.why != "new"],
    }


def _show(one: Seen, verdict: Verdict | None, *, first: bool) -> None:
    if verdict is None:
        result(bad(f"{plain(one.key)}: {plain(one.problem or '')}"))
        return
    if first or verdict.same:
        result(good(f"{plain(one.key)}: {plural(len(one.pin.tools if one.pin else ()), 'tool')}"))
        return
    result(bad(f"{plain(one.key)} is not as it was approved"))
    for held in verdict.quarantined:
        result(f"    {plain(held.name)}: {plain(held.message)}")
        show_changes(held.changes, indent="        ")
    for name in verdict.missing:
        result(f"    {plain(name)}: the server no longer lists it")


def show_changes(changes: Iterable[Change], *, indent: str = "") -> None:
    """Print changes, one a line."""
    for change in changes:
        impact = click.style(change.impact.ljust(8), fg=COLOURS[change.impact], bold=change.impact == "breaking")
        result(f"{indent}{impact}  {plain(change.pointer or '/')}: {plain(change.what)}")

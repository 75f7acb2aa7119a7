"""`weft diff`: what changed between two registries or two locks, and for whom it matters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from weft.cli.files import know_patterns
from weft.cli.lock import show_changes
from weft.cli.output import as_json, error_json, good, plural, result
from weft.cli.outside import importing
from weft.errors import DocumentInvalid, InputError, Loc, errors_in
from weft.ports import is_object

if TYPE_CHECKING:
    from weft.registry.drift import Change

Item: TypeAlias = tuple[Loc, str, tuple[str, str | None], Mapping[str, Any]]
"""Something that is compared: its section, what it is called, its name and version, and itself."""


@click.command(
    "diff",
    epilog="\b\nExample:\n  weft diff registry-1.json registry-2.json\n  weft diff old/weft.lock weft.lock --json",
)
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option("--json", "json_", is_flag=True, help='Print {"impact", "changes"}.')
def command(before: Path, after: Path, json_: bool) -> None:
    """Print what changed from one registry to another, or from one weft.lock to another, with JSON pointers.

    breaking: callers fail. risky: what steers a model or a server changed. safe: more is possible, nothing less.
    cosmetic: nobody notices. Exits with 1 when something is breaking, with 2 when a file cannot be read.
    """
    from weft.registry.drift import IMPACTS, worst

    try:
        changes = _changes(before, after)
    except InputError as error:
        if not json_:
            raise
        result(as_json({"error": error_json(error)}))
        raise click.exceptions.Exit(2) from None
    if json_:
        result(as_json({"impact": worst(changes), "changes": [change.to_json() for change in changes]}))
    else:
        _show(changes, IMPACTS)
    raise click.exceptions.Exit(1 if worst(changes) == "breaking" else 0)


def _show(changes: tuple[Change, ...], order: tuple[str, ...]) -> None:
    show_changes(changes)
    counts = Counter(change.impact for change in changes)
    told = ", ".join(f"{counts[impact]} {impact}" for impact in order if counts[impact])
    result(f"{plural(len(changes), 'change')}: {told}" if changes else good("no difference"))


def _changes(before: Path, after: Path) -> tuple[Change, ...]:
    from weft.registry.drift import IMPACTS, list_changes

    old, new = _sections(before), _sections(after)
    found: list[Change] = []
    for at, noun in {**_nouns(old), **_nouns(new)}.items():
        sides = [{which: tool for place, _, which, tool in side if place == at} for side in (old, new)]
        # One version on both sides is compared with itself, whatever its number; else each version is its own.
        counts = [Counter(name for name, _ in side) for side in sides]
        keyed = [{_key(*which, counts): tool for which, tool in side.items()} for side in sides]
        found += list_changes(keyed[0], keyed[1], at=at, noun=noun)
    return tuple(sorted(found, key=lambda change: IMPACTS.index(change.impact)))


def _nouns(side: list[Item]) -> dict[Loc, str]:
    return {at: noun for at, noun, _, _ in side}


def _key(name: str, version: str | None, counts: list[Counter[str]]) -> str:
    return name if version is None or all(count[name] <= 1 for count in counts) else f"{name}@{version}"


def _sections(path: Path) -> list[Item]:
    from weft.registry.lock import read_lock

    if not _is_lock(path):
        return list(_registered(path))
    servers = read_lock(path).servers.items()
    return [
        (("servers", key, "tools"), "tool", (name, None), pin.tool)
        for key, server in servers
        for name, pin in server.tools.items()
    ]


def _is_lock(path: Path) -> bool:
    if path.suffix == ".lock":
        return True
    try:
        value: Any = json.loads(path.read_bytes()) if path.suffix == ".json" else None
    except (OSError, ValueError, RecursionError):
        return False  # The reader of registries says what is wrong, and where.
    return is_object(value) and "lockVersion" in value


def _registered(path: Path) -> Iterator[Item]:
    """Yield what a registry has: schemas as they are written, tools and skills with what their schemas refer to."""
    from weft.app import open_registry

    know_patterns()
    with importing(path) if path.suffix == ".py" else nullcontext():
        registry = open_registry(path)
    if errors_in(registry.problems):
        raise DocumentInvalid(registry.problems)
    document = registry.document
    for schema in document.schemas:
        yield ("schemas",), "schema", (schema.name, schema.version), schema.to_json()
    for server in document.servers:
        yield ("servers",), "server", (server.name, server.version), server.to_json()
        for one in server.provides:
            yield ("servers", server.name, "provides"), "tool", (one.tool, one.version), {}
    for tool in document.tools:
        yield ("tools",), "tool", (tool.name, tool.version), tool.to_json()
    for agent in document.agents:
        yield ("agents",), "agent", (agent.name, agent.version), _card(agent.to_json())
        for skill in agent.skills:
            yield ("agents", agent.name, "skills"), "skill", (skill.id, None), skill.to_ir()
    for group in document.groups:
        # With the defaults, so that to write one out is no change; the actions are compared one by one.
        told = group.model_dump(mode="json", exclude_none=True, exclude={"actions"})
        yield ("groups",), "group", (group.name, None), told
        for key, name in group.actions.items():
            yield ("groups", group.name, "actions"), "action", (key, None), {"tool": name}


def _card(told: dict[str, Any]) -> dict[str, Any]:
    """Return an agent without its skills, which are compared one by one."""
    return {key: value for key, value in told.items() if key != "skills"}

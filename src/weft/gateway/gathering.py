"""Which tools a group gathers: by name, server and tag; what cannot be in it stays a tool of its own, and is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from weft.errors import nearest, said_by
from weft.gateway.grouping import Grouped, action_of, made
from weft.gateway.tools import Tool
from weft.groups.middleware.around import Around
from weft.groups.rule import GroupRule
from weft.groups.shaping.selecting import SELECTED
from weft.groups.strategies.fields import field_users
from weft.ports import is_array, is_object

LABELS: Final = ("fastmcp", "_fastmcp")
"""Under which keys of `_meta` servers keep the tags of tools."""


def gathered(
    rules: Iterable[GroupRule],
    tools: Mapping[str, Tool],
    *,
    servers: frozenset[str],
    middleware: Sequence[Around] = (),
) -> tuple[dict[str, Grouped], list[str]]:
    """Return the groups that can be served over tools, by name, and a sentence for each thing that is not as told."""
    known = servers | {key.partition("@")[0] for key in servers}
    found: dict[str, Grouped] = {}
    problems: list[str] = []
    for rule in rules:
        for name in rule.servers:
            if name not in known:
                problems.append(f"group {rule.name!r}: there is no server {name!r}{_meant(name, known)}")
        members = _members(rule, tools, problems)
        if rule.name in tools:
            problems.append(f"group {rule.name!r} is not served: there is a tool of that name")
        elif not members:
            problems.append(f"group {rule.name!r} is not served: no tool is there that it gathers")
        else:
            fit = {key: tool for key, tool in members.items() if _is_fit(rule, key, tool, problems)}
            made = _whole(rule, fit, middleware, problems) if fit else None
            if made is not None:
                found[rule.name] = made
    return found, problems


def _whole(
    rule: GroupRule, tools: Mapping[str, Tool], middleware: Sequence[Around], problems: list[str]
) -> Grouped | None:
    """Return a group of these tools; whatever is strange about one of them must not cost the others."""
    try:
        return made(rule, tools, middleware)
    except Exception as error:
        kept = {key: tool for key, tool in tools.items() if _can_bemade(rule, key, tool, middleware)}
        if not kept or len(kept) == len(tools):
            problems.append(f"group {rule.name!r} is not served, its tools are: {said_by(error)}")
            return None
        left_out = ", ".join(repr(tool.name) for key, tool in tools.items() if key not in kept)
        problems.append(f"group {rule.name!r}: {left_out} cannot be in it: {said_by(error)}")
        return _whole(rule, kept, middleware, problems)


def _can_bemade(rule: GroupRule, key: str, tool: Tool, middleware: Sequence[Around]) -> bool:
    try:
        made(rule, {key: tool}, middleware)
    except Exception:
        return False
    return True


def _members(rule: GroupRule, tools: Mapping[str, Tool], problems: list[str]) -> dict[str, Tool]:
    """Return the tools of a group by the keys of their actions; what cannot be in it stays a tool of its own."""
    keys: dict[str, list[str]] = {}
    for key, name in rule.actions.items():
        if name in tools:
            keys.setdefault(name, []).append(key)
        else:
            told = f"action {key!r} is of a tool {name!r} that is not there{_meant(name, tools)}"
            problems.append(f"group {rule.name!r}: {told}")
    chosen = {key: tools[name] for name, of in keys.items() for key in of}
    for name, tool in tools.items():
        if tool.actions is not None:
            continue  # It is a group already.
        if name in keys or not rule.gathers(name, servers=_servers(tool), tags=tags_of(tool)):
            continue
        if chosen.setdefault(name, tool) is not tool:
            taken = f"the action {name!r} is the tool {chosen[name].name!r}, so the tool {name!r} is not in it"
            problems.append(f"group {rule.name!r}: {taken}")
    return chosen


def _is_fit(rule: GroupRule, key: str, tool: Tool, problems: list[str]) -> bool:
    """Tell whether a tool can be an action of a group; what cannot stays a tool of its own, and that is told."""
    action = action_of(key, tool)
    taken = next((name for name in (*field_users([action]), *action.required) if _is_own(rule, name)), None)
    if taken is None:
        return True
    hint = "; say how else the group's is called with `discriminator`" if taken == rule.discriminator else ""
    told = f"{tool.name!r} is served by itself, since it has a field {taken!r} of its own{hint}"
    problems.append(f"group {rule.name!r}: {told}")
    return False


def _is_own(rule: GroupRule, field: str) -> bool:
    """Tell whether a group needs a field for itself."""
    return field == rule.discriminator or (rule.response.select and field == SELECTED)


def _meant(name: str, known: Iterable[str]) -> str:
    close = nearest(name, known)
    return f"; did you mean {close!r}?" if close else ""


def _servers(tool: Tool) -> frozenset[str]:
    """Return what the server of a tool may be called."""
    name, version = tool.facts.server, tool.facts.server_version
    return frozenset() if name is None else frozenset({name, f"{name}@{version}"})


def tags_of(tool: Tool) -> frozenset[str]:
    """Return the tags of a tool: those of the registry, and those of its server's `_meta`."""
    told: object = None if tool.definition is None else (tool.definition.metadata or {}).get("tags")
    meta: object = tool.listed.get("_meta")
    if is_object(meta):
        within = [meta, *(one for key in LABELS if is_object(one := meta.get(key)))]
        listed = [tag for one in within if is_array(tags := one.get("tags")) for tag in tags]
    else:
        listed = []
    return frozenset(str(tag) for tag in [*(told if is_array(told) else ()), *listed] if isinstance(tag, str))

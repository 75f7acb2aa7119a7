"""How views are made: of all that is served, what a rule shows, and the groups over it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from weft.gateway.grouping import Grouped
from weft.gateway.scope import Scope
from weft.gateway.tools import Tool
from weft.gateway.uris import templates_of
from weft.gateway.views import Owned, View, ViewRule, listed_tools, lists_of
from weft.ports import is_object
from weft.upstreams.server import Server


def view_of(
    rule: ViewRule,
    tools: Mapping[str, Tool],
    older: Mapping[tuple[str, str], Tool],
    owned: Mapping[str, Mapping[str, Owned]],
    *,
    groups: Mapping[str, Grouped],
    servers: tuple[Server, ...],
    scope: Scope,
) -> View:
    """Return a view as its rule says it, over all that is served; `owned` are prompts, resources and templates."""
    shown = {name: tool for name, tool in tools.items() if rule.shows(name)}
    if rule.hide_raw:
        used = frozenset(use for tool in shown.values() if tool.definition is not None for use in tool.uses)
        shown = {name: tool for name, tool in shown.items() if tool.definition is not None or _whose(tool) not in used}
    present = _groups(rule, groups, tools, shown)
    singly = shown
    for group in present.values():
        shown = {**shown, **{one.tool.name: one.tool for one in group.members.values()}}
    unlisted = frozenset(
        name for group in present.values() for name in group.tools if not group.rule.keep_tools or name not in singly
    )
    prompts, resources, templates = (
        {name: one for name, one in owned[kind].items() if rule.shows(name)}
        for kind in ("prompts", "resources", "templates")
    )
    return View(
        tools=shown,
        older={key: tool for key, tool in older.items() if key[0] in shown or rule.shows(key[0])},
        scope=scope,
        prompts=prompts,
        resources=resources,
        templates=templates_of(templates),
        servers=servers,
        whole=rule.include == ("*",) and not rule.exclude,
        capabilities=_capabilities(servers),
        groups=present,
        unlisted=unlisted,
        description=rule.description,
        lists=lists_of(listed_tools(shown, present, unlisted), prompts, resources, templates),
    )


def in_view(view: str | None, groups: Mapping[str, Grouped]) -> dict[str, Grouped]:
    """Return the groups that a view may have."""
    return {name: one for name, one in groups.items() if not one.rule.views or view in one.rule.views}


def _groups(
    rule: ViewRule, groups: Mapping[str, Grouped], tools: Mapping[str, Tool], shown: Mapping[str, Tool]
) -> dict[str, Grouped]:
    """Return the groups of a view: one that it names with all its tools, any other with those that the view shows."""
    if not rule.grouped:
        return {}
    found: dict[str, Grouped] = {}
    for name, group in groups.items():
        if rule.leaves_out(name):
            continue
        # A glob is of tools: only who writes its name asks for all of a group.
        named = {one: tools[one] for one in group.tools if not rule.leaves_out(one)} if name in rule.include else {}
        left = group.limited_to({**shown, **named})
        if left is not None:
            found[name] = left
    return found


def _capabilities(servers: Iterable[Server]) -> dict[str, Any]:
    offered = [server.inventory.capabilities for server in servers]
    resources = [one.get("resources") for one in offered]
    told: dict[str, Any] = {name: {"listChanged": True} for name in ("tools", "prompts", "resources")}
    if any(is_object(one) and one.get("subscribe") is True for one in resources):
        told["resources"] = {"listChanged": True, "subscribe": True}
    for name in ("completions", "logging"):
        if any(name in one for one in offered):
            told[name] = {}
    return told


def _whose(tool: Tool) -> tuple[str, str]:
    return (tool.server.spec.key if tool.server is not None else "", tool.upstream_name)

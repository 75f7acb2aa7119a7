"""Views: named parts of what is served, and what somebody sees of one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from weft.gateway.grouping import Grouped, most_remembered
from weft.gateway.scope import Decision, Scope
from weft.gateway.tools import Tool
from weft.gateway.uris import Template
from weft.ports import Principal, is_object
from weft.upstreams.server import Server

UNAVAILABLE = "weft/unavailable"
AT_ONCE = 50
"""How many tools are judged before others have their turn."""

SIGHTS = 1000
"""For how many callers it is remembered what they see, at most."""


@dataclass(frozen=True, slots=True)
class Owned:
    """A prompt or a resource as it is served, and whose it is."""

    listed: dict[str, Any]
    server: Server
    upstream_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRule:
    """What a view shows: globs over the names of tools and prompts and over the addresses of resources."""

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    hide_raw: bool = False
    grouped: bool = True
    """Whether groups stand for their tools in it."""

    description: str | None = None

    def shows(self, name: str) -> bool:
        """Tell whether a name is in the view."""
        return any(fnmatchcase(name, glob) for glob in self.include) and not self.leaves_out(name)

    def leaves_out(self, name: str) -> bool:
        """Tell whether a name is not in the view, whatever else shows it."""
        return any(fnmatchcase(name, glob) for glob in self.exclude)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One named part of what is served."""

    tools: Mapping[str, Tool]
    """By name; of several versions the newest."""

    older: Mapping[tuple[str, str], Tool]
    """The other versions, by name and version."""

    scope: Scope
    prompts: Mapping[str, Owned]
    resources: Mapping[str, Owned]
    templates: Sequence[Template]
    servers: tuple[Server, ...]
    whole: bool
    """Whether nothing is left out of it."""

    capabilities: Mapping[str, Any]
    """What a client of it may ask for."""

    groups: Mapping[str, Grouped] = field(default_factory=dict[str, Grouped])
    """By name; what their tools are for somebody, so are they: a group gives nobody a right."""

    unlisted: frozenset[str] = frozenset()
    """The tools that are in the list only as actions of their groups; they can be called by their own names, too."""

    description: str | None = None
    lists: Mapping[str, tuple[dict[str, Any], ...]] = field(default_factory=dict[str, tuple[dict[str, Any], ...]])
    sights: dict[Principal, View] = field(default_factory=dict["Principal", "View"], repr=False, compare=False)

    def find(self, name: str, version: str | None) -> Tool | None:
        """Return a tool in exactly that version; without one, in the newest."""
        tool = self.tools.get(name)
        if version is None or (tool is not None and tool.facts.version == version):
            return tool
        return self.older.get((name, version))

    @property
    def served_names(self) -> list[str]:
        """The names that can be called."""
        return [*self.tools, *self.groups]

    def all(self) -> Iterable[Tool]:
        """Return every tool in its newest version."""
        return self.tools.values()

    def named(self, principal: Principal, name: str) -> tuple[Tool, Decision] | None:
        """Return the tool that a caller means, also as `name@version`; None when there is none for this caller."""
        found = self.scope.find(principal, self, name)
        if found is None and "@" in name:
            return self.scope.find(principal, self, *name.rsplit("@", 1))
        return found

    def why_not(self, principal: Principal, name: str) -> str:
        """Return why `named` gives nothing, for those who run the gateway."""
        told = self.scope.why_not(principal, self, name)
        known = name in self.tools or "@" not in name
        return told if known else self.scope.why_not(principal, self, *name.rsplit("@", 1))

    @property
    def _sights_kept(self) -> int:
        """For how many callers it is remembered what they see."""
        return min(SIGHTS, most_remembered(sum(len(one.members) for one in self.groups.values())))

    async def look(self, principal: Principal) -> View:
        """Return what somebody sees of it; where every tool must be judged, others have their turn meanwhile."""
        if not (principal in self.sights or self.scope.is_quick_for(principal)):
            for index, tool in enumerate(self.tools.values()):
                self.scope.decide(principal, tool.facts)
                if index % AT_ONCE == AT_ONCE - 1:
                    await asyncio.sleep(0)
        if self.groups and principal not in self.sights and not self.scope.sees_all(principal):
            # To write a large group anew takes a while, in which others are served.
            return await asyncio.to_thread(self.seen_by, principal)
        return self.seen_by(principal)

    def seen_by(self, principal: Principal) -> View:
        """Return what somebody sees of it: the tools for them, and what else the servers of these have."""
        if self.scope.sees_all(principal):
            return self
        sight = self.sights.get(principal)
        if sight is None:
            if len(self.sights) >= self._sights_kept:
                self.sights.clear()
            sight = self.sights[principal] = _seen(self, self.scope.seen(principal, self))
        return sight


def _seen(view: View, tools: Iterable[Tool]) -> View:
    """Return a view with some of its tools only; of servers that none of them is of, it has nothing else either."""
    shown = {tool.name: tool for tool in tools}
    near = {tool.server.spec.key for tool in shown.values() if tool.server is not None}

    def kept(owned: Mapping[str, Owned]) -> dict[str, Owned]:
        return {name: one for name, one in owned.items() if one.server.spec.key in near}

    prompts, resources = kept(view.prompts), kept(view.resources)
    templates = [one for one in view.templates if one.owned.server.spec.key in near]
    by_uri = {one.prefix + one.owned.upstream_name: one.owned for one in templates}
    groups = {name: left for name, one in view.groups.items() if (left := one.limited_to(shown)) is not None}
    return replace(
        view,
        # What is not listed is nobody's but those who see all.
        whole=False,
        tools=shown,
        older={},
        groups=groups,
        prompts=prompts,
        resources=resources,
        templates=templates,
        servers=tuple(server for server in view.servers if server.spec.key in near),
        lists=lists_of(listed_tools(shown, groups, view.unlisted), prompts, resources, by_uri),
        sights={},
    )


def listed_tools(
    tools: Mapping[str, Tool], groups: Mapping[str, Grouped], unlisted: frozenset[str]
) -> list[dict[str, Any]]:
    """Return the list of tools: those that stand for themselves, and the groups."""
    singly = [_listed(tool) for name, tool in tools.items() if name not in unlisted]
    return [*singly, *(group.listed for group in groups.values())]


def lists_of(
    tools: Iterable[dict[str, Any]],
    prompts: Mapping[str, Owned],
    resources: Mapping[str, Owned],
    templates: Mapping[str, Owned],
) -> dict[str, tuple[dict[str, Any], ...]]:
    return {
        "tools": tuple(tools),
        "prompts": tuple(one.listed for one in prompts.values()),
        "resources": tuple(one.listed for one in resources.values()),
        "resourceTemplates": tuple(one.listed for one in templates.values()),
    }


def _listed(tool: Tool) -> dict[str, Any]:
    """Return a tool as it is listed; one whose server is away says so."""
    server = tool.server
    if server is None or server.state in ("starting", "ready"):
        return tool.listed
    meta: object = tool.listed.get("_meta")
    said = {**(meta if is_object(meta) else {}), UNAVAILABLE: server.problem or server.state}
    return {**tool.listed, "_meta": said}

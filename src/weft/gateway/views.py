"""Views: named parts of what is served, and what somebody sees of one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from weft.expr.schemas import SchemaProblem
from weft.gateway.policy import ToolFacts
from weft.gateway.scope import Decision, Scope
from weft.gateway.uris import Template
from weft.gateway.values import Values
from weft.ir.document import ToolDef
from weft.ports import Caller, Principal, is_object
from weft.registry.tools import key_of
from weft.upstreams.headers import Mirrored
from weft.upstreams.server import Server

Prepare: TypeAlias = Callable[[Any], Any]
Check: TypeAlias = Callable[[Any], Iterable[SchemaProblem]]
Perform: TypeAlias = "Callable[[Caller, dict[str, Any]], Awaitable[Performed]]"
"""Does what a tool of weft's own does, for a caller, with the arguments."""
UNAVAILABLE = "weft/unavailable"
AT_ONCE = 50
"""How many tools are judged before others have their turn."""

SIGHTS = 1000
"""For how many callers it is remembered what they see."""


@dataclass(frozen=True, slots=True)
class Performed:
    """What a tool of weft's own gives; `failed` says in a sentence that it did not come to a good end."""

    value: dict[str, Any]
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as it is served: relayed to a `server` under its name there, or run by the engine when there is none.

    One that weft itself has is performed.
    """

    name: str
    listed: dict[str, Any]
    facts: ToolFacts
    definition: ToolDef | None = None
    server: Server | None = None
    upstream_name: str = ""
    prepare: Prepare | None = None
    mirrored: Mirrored = field(default_factory=dict[tuple[str, ...], str])
    uses: frozenset[tuple[str, str]] = frozenset()
    """The tools of servers that it calls, by the server's key and the name there."""

    declared: Check | None = None
    """In what ways a value is not what the registry says that the tool takes."""

    unfit: Check | None = None
    """In what ways arguments are not what was advertised, for a function, which does not look itself."""

    whole: bool = False
    """Whether it is a function of one value that is no object, and comes as the property `input`."""

    misfits: Check | None = None
    """In what ways a result of the engine is not what was advertised."""

    values: Values | None = None
    """What is checked of arguments and results that are passed on."""

    spec_hash: str | None = None
    """What stands for its definition in the audit log."""

    perform: Perform | None = None
    """Does what it does, where neither a server nor the registry has it."""

    @property
    def key(self) -> str:
        """The tool with its version, as people and the engine name it."""
        return key_of(self.facts.name, self.facts.version)


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
    description: str | None = None

    def shows(self, name: str) -> bool:
        """Tell whether a name is in the view."""
        shown = any(fnmatchcase(name, glob) for glob in self.include)
        return shown and not any(fnmatchcase(name, glob) for glob in self.exclude)


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

    description: str | None = None
    lists: Mapping[str, tuple[dict[str, Any], ...]] = field(default_factory=dict[str, tuple[dict[str, Any], ...]])
    sights: dict[Principal, View] = field(default_factory=dict["Principal", "View"], repr=False, compare=False)

    def find(self, name: str, version: str | None) -> Tool | None:
        """Return a tool in exactly that version; without one, in the newest."""
        tool = self.tools.get(name)
        if version is None or (tool is not None and tool.facts.version == version):
            return tool
        return self.older.get((name, version))

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

    async def look(self, principal: Principal) -> View:
        """Return what somebody sees of it; where every tool must be judged, others have their turn meanwhile."""
        if not (principal in self.sights or self.scope.is_quick_for(principal)):
            for index, tool in enumerate(self.tools.values()):
                self.scope.decide(principal, tool.facts)
                if index % AT_ONCE == AT_ONCE - 1:
                    await asyncio.sleep(0)
        return self.seen_by(principal)

    def seen_by(self, principal: Principal) -> View:
        """Return what somebody sees of it: the tools for them, and what else the servers of these have."""
        if self.scope.sees_all(principal):
            return self
        sight = self.sights.get(principal)
        if sight is None:
            if len(self.sights) >= SIGHTS:
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
    return replace(
        view,
        # What is not listed is nobody's but those who see all.
        whole=False,
        tools=shown,
        older={},
        prompts=prompts,
        resources=resources,
        templates=templates,
        servers=tuple(server for server in view.servers if server.spec.key in near),
        lists=lists_of(shown.values(), prompts, resources, by_uri),
        sights={},
    )


def lists_of(
    tools: Iterable[Tool],
    prompts: Mapping[str, Owned],
    resources: Mapping[str, Owned],
    templates: Mapping[str, Owned],
) -> dict[str, tuple[dict[str, Any], ...]]:
    return {
        "tools": tuple(map(_listed, tools)),
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

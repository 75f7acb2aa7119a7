"""The catalogue: everything that is served now, by name, for each view; immutable, built beside the old one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from weft.errors import ExpressionInvalid
from weft.expr.schemas import SchemaProblem, compile_schema
from weft.gateway.descriptions import Descriptions, Find, made_of
from weft.gateway.names import Offer, OnCollision, Prefixed, named, prefixed_name, prefixed_uri
from weft.gateway.results import ANYTHING
from weft.gateway.uris import Template, templates_of
from weft.ir.document import Document, ToolDef
from weft.plan.compiler import virtual_arguments
from weft.ports import Schema, ToolRef, Upstream, is_object
from weft.registry.tools import newest_tools
from weft.upstreams.headers import Mirrored, mirrored_by
from weft.upstreams.pool import Pool
from weft.upstreams.server import Server

Prepare: TypeAlias = Callable[[Any], Any]
Check: TypeAlias = Callable[[Any], Iterable[SchemaProblem]]
UNAVAILABLE = "weft/unavailable"
REGISTRY = "the registry"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as it is served: relayed to a `server` under its name there, or run by the engine when there is none."""

    name: str
    listed: dict[str, Any]
    definition: ToolDef | None = None
    server: Server | None = None
    upstream_name: str = ""
    prepare: Prepare | None = None
    mirrored: Mirrored = field(default_factory=dict[tuple[str, ...], str])
    uses: frozenset[tuple[str, str]] = frozenset()
    """The tools of servers that it calls, by the server's key and the name there."""

    unfit: Check | None = None
    """In what ways arguments are not what was advertised, for a function, which does not look itself."""

    whole: bool = False
    """Whether it is a function of one value that is no object, and comes as the property `input`."""

    misfits: Check | None = None
    """In what ways a result of the engine is not what was advertised."""


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


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every view, by name; the whole is the view None."""

    views: Mapping[str | None, View]
    problems: tuple[str, ...]
    uris: Mapping[tuple[str, str], str]
    """Under which address a server's resource is served."""


def build(
    document: Document,
    upstream: Upstream,
    pool: Pool,
    *,
    on_collision: OnCollision = "prefix",
    views: Mapping[str, ViewRule] | None = None,
) -> Catalogue:
    """Return what is served, from the registry's document and what the servers offer now."""
    servers = tuple(pool.servers.values())
    tools, problems = _tools(document, upstream, pool, on_collision)
    owned: dict[str, dict[str, Owned]] = {}
    for kind in KINDS:
        owned[kind.field], told = _owned(servers, kind, on_collision)
        problems += told
    rules: dict[str | None, ViewRule] = {None: ViewRule()}
    rules.update(views or {})
    by_name = {name: _view(rule, tools, owned, servers) for name, rule in rules.items()}
    uris = {(one.server.spec.key, one.upstream_name): uri for uri, one in owned["resources"].items()}
    return Catalogue(by_name, tuple(problems), uris)


def prefixed_refs(document: Document, pool: Pool, on_collision: OnCollision) -> dict[str, ToolRef]:
    """Return the tools of servers that are served under another name than their own, by that name."""
    offers = [Offer(tool.name, REGISTRY, ToolRef(tool.name), owned=True) for tool in newest_tools(document)]
    for server in pool.servers.values():
        spec = server.spec
        for tool in server.inventory.tools:
            name = str(tool.get("name"))
            offers.append(Offer(name, spec.key, ToolRef(name, spec.name, spec.version)))
    served, _ = named(offers, on_collision=on_collision, what="tool")
    return {name: offer.thing for name, offer in served.items() if name != offer.name}


def _finding(pool: Pool) -> Find:
    """Return what looks up what a server says of a tool that is referred to."""
    told = {(key, str(one.get("name"))): one for key, server in pool.servers.items() for one in server.inventory.tools}

    def find(ref: ToolRef) -> Mapping[str, Any] | None:
        server = pool.find(ref)
        return None if server is None else told.get((server.spec.key, ref.name))

    return find


def _tools(
    document: Document, upstream: Upstream, pool: Pool, on_collision: OnCollision
) -> tuple[dict[str, Tool], list[str]]:
    descriptions = Descriptions(document, upstream, _finding(pool))
    offers: list[Offer[Tool]] = []
    replaced = set[tuple[str, str]]()
    for definition in newest_tools(document):
        if not definition.internal:
            tool = _defined(definition, descriptions, pool)
            offers.append(Offer(tool.name, REGISTRY, tool, owned=True))
            if tool.server is not None and tool.upstream_name == tool.name:
                replaced.add((tool.server.spec.key, tool.name))
    for server in pool.servers.values():
        for listed in server.inventory.tools:
            name = str(listed.get("name"))
            # A tool that the registry describes anew under its own name is one tool, not two.
            if (server.spec.key, name) not in replaced:
                offers.append(Offer(name, server.spec.key, _raw(server, name, listed)))
    served, problems = named(offers, on_collision=on_collision, what="tool")
    return {name: _under(name, offer.thing) for name, offer in served.items()}, problems


def _defined(definition: ToolDef, descriptions: Descriptions, pool: Pool) -> Tool:
    listed = descriptions.listed(definition)
    uses = frozenset(
        (server.spec.key, ref.name) for ref in descriptions.leaves(definition) if (server := pool.find(ref)) is not None
    )
    mirrored = mirrored_by(listed["inputSchema"])
    if definition.spec is None and definition.output_transform is None:
        ref = made_of(definition)
        server = pool.find(ref)
        if server is not None:
            prepare = virtual_arguments(definition) if definition.source is not None else None
            return Tool(definition.name, listed, definition, server, ref.name, prepare, mirrored, uses)
    return Tool(
        definition.name,
        listed,
        definition,
        mirrored=mirrored,
        uses=uses,
        unfit=_checks(listed["inputSchema"]) if definition.spec is None else None,
        whole=descriptions.takes_whole(definition),
        misfits=_checks(listed["outputSchema"]),
    )


def _checks(schema: Schema) -> Check | None:
    try:
        return None if schema == ANYTHING else compile_schema(schema).problems
    except ExpressionInvalid:
        return None


def _raw(server: Server, name: str, listed: dict[str, Any]) -> Tool:
    return Tool(name, listed, None, server, name, None, mirrored_by(listed.get("inputSchema")))


def _under(name: str, tool: Tool) -> Tool:
    """Return a tool under the name by which it is served."""
    if tool.name == name:
        return tool
    return Tool(name, {**tool.listed, "name": name}, None, tool.server, tool.upstream_name, None, tool.mirrored)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of thing that servers have beside tools."""

    field: str
    key: str
    what: str
    prefixed: Prefixed


KINDS = (
    Kind("prompts", "name", "prompt", prefixed_name),
    Kind("resources", "uri", "resource", prefixed_uri),
    Kind("templates", "uriTemplate", "resource template", prefixed_uri),
)


def _owned(servers: Iterable[Server], kind: Kind, on_collision: OnCollision) -> tuple[dict[str, Owned], list[str]]:
    key = kind.key
    offers = [
        Offer(str(listed.get(key)), server.spec.key, Owned(listed, server, str(listed.get(key))))
        for server in servers
        for listed in getattr(server.inventory, kind.field)
    ]
    served, problems = named(offers, on_collision=on_collision, what=kind.what, prefixed=kind.prefixed)
    told = {
        name: offer.thing
        if offer.thing.upstream_name == name
        else Owned({**offer.thing.listed, key: name}, offer.thing.server, offer.thing.upstream_name)
        for name, offer in served.items()
    }
    return told, problems


def _view(
    rule: ViewRule, tools: Mapping[str, Tool], owned: Mapping[str, Mapping[str, Owned]], servers: tuple[Server, ...]
) -> View:
    shown = {name: tool for name, tool in tools.items() if rule.shows(name)}
    if rule.hide_raw:
        used = frozenset(use for tool in shown.values() if tool.definition is not None for use in tool.uses)
        shown = {name: tool for name, tool in shown.items() if tool.definition is not None or _whose(tool) not in used}
    prompts, resources, templates = (
        {name: one for name, one in owned[kind.field].items() if rule.shows(name)} for kind in KINDS
    )
    lists = {
        "tools": tuple(map(_listed, shown.values())),
        "prompts": tuple(one.listed for one in prompts.values()),
        "resources": tuple(one.listed for one in resources.values()),
        "resourceTemplates": tuple(one.listed for one in templates.values()),
    }
    return View(
        tools=shown,
        prompts=prompts,
        resources=resources,
        templates=templates_of(templates),
        servers=servers,
        whole=rule.include == ("*",) and not rule.exclude,
        capabilities=_capabilities(servers),
        description=rule.description,
        lists=lists,
    )


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


def _listed(tool: Tool) -> dict[str, Any]:
    """Return a tool as it is listed; one whose server is away says so."""
    server = tool.server
    if server is None or server.state in ("starting", "ready"):
        return tool.listed
    meta: object = tool.listed.get("_meta")
    said = {**(meta if is_object(meta) else {}), UNAVAILABLE: server.problem or server.state}
    return {**tool.listed, "_meta": said}

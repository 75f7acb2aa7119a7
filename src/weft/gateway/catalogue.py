"""The catalogue: everything that is served now, by name, for each view; immutable, built beside the old one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from weft.errors import ExpressionInvalid
from weft.expr.schemas import SchemaProblem, compile_schema
from weft.gateway.access import UNCHECKED, Checks
from weft.gateway.auditing import spec_hash
from weft.gateway.descriptions import Descriptions, Find, made_of
from weft.gateway.names import Offer, OnCollision, Prefixed, named, prefixed_name, prefixed_uri
from weft.gateway.policy import Policy, ToolFacts
from weft.gateway.results import ANYTHING
from weft.gateway.scope import Scope
from weft.gateway.uris import templates_of
from weft.gateway.views import Check, Owned, Tool, View, ViewRule, lists_of
from weft.ir.document import Document, ToolDef
from weft.plan.compiler import virtual_arguments
from weft.plan.typeflow import declared_input
from weft.ports import Schema, ToolRef, Upstream, is_object
from weft.registry.book import Book
from weft.registry.tools import Tools, newest_tools
from weft.upstreams.headers import mirrored_by
from weft.upstreams.pool import Pool
from weft.upstreams.server import Server

REGISTRY = "the registry"
WEFT = "weft"
"""Whose the tools of weft's own are."""


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
    scope: Scope | None = None,
    checks: Checks = UNCHECKED,
    hashes: bool = False,
    own: Iterable[Tool] = (),
) -> Catalogue:
    """Return what is served, from the registry's document and what the servers offer now.

    `scope` says who sees what of it, everybody everything without one; `hashes` asks for those of the definitions;
    `own` are tools of weft itself.
    """
    servers = tuple(pool.servers.values())
    made = _Making(Descriptions(document, upstream, _finding(pool)), pool, checks, hashes=hashes)
    tools, older, problems = _tools(document, made, pool, on_collision, own)
    owned: dict[str, dict[str, Owned]] = {}
    for kind in KINDS:
        owned[kind.field], told = _owned(servers, kind, on_collision)
        problems += told
    rules: dict[str | None, ViewRule] = {None: ViewRule()}
    rules.update(views or {})
    asked = scope or Scope(Book(document), Policy())
    by_name = {name: _view(rule, tools, older, owned, servers=servers, scope=asked) for name, rule in rules.items()}
    uris = {(one.server.spec.key, one.upstream_name): uri for uri, one in owned["resources"].items()}
    return Catalogue(by_name, tuple(problems), uris)


def prefixed_refs(
    document: Document, pool: Pool, on_collision: OnCollision, own: Iterable[Tool] = ()
) -> dict[str, ToolRef]:
    """Return the tools of servers that are served under another name than their own, by that name."""
    offers = [Offer(tool.name, REGISTRY, ToolRef(tool.name), owned=True) for tool in newest_tools(document)]
    offers += [Offer(tool.name, WEFT, ToolRef(tool.name), owned=True) for tool in own]
    for server, name, _ in _undescribed(document, pool):
        spec = server.spec
        offers.append(Offer(name, spec.key, ToolRef(name, spec.name, spec.version)))
    served, _ = named(offers, on_collision=on_collision, what="tool")
    return {name: offer.thing for name, offer in served.items() if name != offer.name and offer.source != WEFT}


def _undescribed(document: Document, pool: Pool) -> Iterator[tuple[Server, str, dict[str, Any]]]:
    """Yield the tools of servers, but for those that the registry describes anew under their own names."""
    described = {
        (server.spec.key, ref.name)
        for tool in document.tools
        if tool.spec is None and tool.output_transform is None and (ref := made_of(tool)).name == tool.name
        if (server := pool.find(ref)) is not None
    }
    for server in pool.servers.values():
        for listed in server.inventory.tools:
            if (server.spec.key, (name := str(listed.get("name")))) not in described:
                yield server, name, listed


def _finding(pool: Pool) -> Find:
    """Return what looks up what a server says of a tool that is referred to."""
    told = {(key, str(one.get("name"))): one for key, server in pool.servers.items() for one in server.inventory.tools}

    def find(ref: ToolRef) -> Mapping[str, Any] | None:
        server = pool.find(ref)
        return None if server is None else told.get((server.spec.key, ref.name))

    return find


def _tools(
    document: Document, made: _Making, pool: Pool, on_collision: OnCollision, own: Iterable[Tool]
) -> tuple[dict[str, Tool], dict[tuple[str, str], Tool], list[str]]:
    offers: list[Offer[Tool]] = []
    older: dict[tuple[str, str], Tool] = {}
    tools = Tools(document)
    for index, definition in enumerate(document.tools):
        if definition.internal:
            continue
        tool = made.defined(definition)
        if tool is None:
            continue
        if tools.newest(definition.name) == index:
            offers.append(Offer(tool.name, REGISTRY, tool, owned=True))
        elif definition.version is not None:
            older[definition.name, definition.version] = tool
    # The registry's come first: a composition keeps its name also where weft has a tool of that name.
    offers += [Offer(tool.name, WEFT, tool, owned=True) for tool in own]
    for server, name, listed in _undescribed(document, pool):
        offers.append(Offer(name, server.spec.key, made.raw(server, name, listed)))
    served, problems = named(offers, on_collision=on_collision, what="tool")
    return {name: _under(name, offer.thing) for name, offer in served.items()}, older, problems


class _Making:
    """Makes the tools of one catalogue."""

    def __init__(self, descriptions: Descriptions, pool: Pool, checks: Checks, *, hashes: bool) -> None:
        self._descriptions = descriptions
        self._pool = pool
        self._checks = checks
        self._hashes = hashes

    def defined(self, definition: ToolDef) -> Tool | None:
        """Return a tool of the registry; None when its server is there and does not have it, or it is held back."""
        descriptions, find = self._descriptions, self._pool.find
        listed = descriptions.listed(definition)
        uses = frozenset(
            (server.spec.key, ref.name) for ref in descriptions.leaves(definition) if (server := find(ref)) is not None
        )
        mirrored = mirrored_by(listed["inputSchema"])
        hashed = spec_hash(definition) if self._hashes else None
        if definition.spec is None and definition.output_transform is None:
            ref = made_of(definition)
            server = find(ref)
            if definition.source is not None and server is not None and server.lacks(ref.name):
                return None
            if server is not None:
                return Tool(
                    definition.name,
                    listed,
                    facts_of(definition, server, listed.get("annotations")),
                    definition,
                    server,
                    ref.name,
                    virtual_arguments(definition) if definition.source is not None else None,
                    mirrored,
                    uses,
                    values=self._checks.of(listed),
                    spec_hash=hashed,
                )
        return Tool(
            definition.name,
            listed,
            facts_of(definition, None, listed.get("annotations")),
            definition,
            mirrored=mirrored,
            uses=uses,
            declared=_checks(declared_input(definition)),
            unfit=_checks(listed["inputSchema"]) if definition.spec is None else None,
            whole=descriptions.takes_whole(definition),
            misfits=_checks(listed["outputSchema"]),
            spec_hash=hashed,
        )

    def raw(self, server: Server, name: str, listed: dict[str, Any]) -> Tool:
        """Return a tool of a server that the registry does not describe."""
        facts = raw_facts(server, name, listed)
        mirrored = mirrored_by(listed.get("inputSchema"))
        return Tool(name, listed, facts, None, server, name, None, mirrored, values=self._checks.of(listed))


def facts_of(
    definition: ToolDef, server: Server | None = None, annotations: Mapping[str, Any] | None = None
) -> ToolFacts:
    """Return what decisions about a tool of the registry go by; of its server also while that is not there."""
    source = definition.source
    where = (None, None) if server is None else (server.spec.name, server.spec.version)
    name, version = where if source is None else (source.server, source.server_version)
    return ToolFacts(definition.name, definition.version, name, version, definition.deprecated, annotations or {})


def raw_facts(server: Server, name: str, listed: Mapping[str, Any] | None = None) -> ToolFacts:
    """Return what decisions about a tool that only its server tells of go by."""
    hints: object = None if listed is None else listed.get("annotations")
    return ToolFacts(name, None, server.spec.name, server.spec.version, annotations=hints if is_object(hints) else {})


def _checks(schema: Schema) -> Check | None:
    return None if not schema or schema == ANYTHING else _Check(schema).problems


class _Check:
    """A schema that is compiled when it is first needed: most tools of a large registry are called seldom."""

    __slots__ = ("_problems", "_schema")

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._problems: Check | None = None

    def problems(self, value: Any) -> Iterable[SchemaProblem]:
        """Return in what ways a value is not of the schema; none when that cannot be compiled."""
        if self._problems is None:
            try:
                self._problems = compile_schema(self._schema).problems
            except ExpressionInvalid:
                self._problems = _no_problems
        return self._problems(value)


def _no_problems(_: Any) -> Iterable[SchemaProblem]:
    return ()


def _under(name: str, tool: Tool) -> Tool:
    """Return a tool under the name by which it is served."""
    if tool.name == name:
        return tool
    facts = replace(tool.facts, name=name, own_name=tool.name)
    return replace(tool, name=name, listed={**tool.listed, "name": name}, facts=facts)


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
    rule: ViewRule,
    tools: Mapping[str, Tool],
    older: Mapping[tuple[str, str], Tool],
    owned: Mapping[str, Mapping[str, Owned]],
    *,
    servers: tuple[Server, ...],
    scope: Scope,
) -> View:
    shown = {name: tool for name, tool in tools.items() if rule.shows(name)}
    if rule.hide_raw:
        used = frozenset(use for tool in shown.values() if tool.definition is not None for use in tool.uses)
        shown = {name: tool for name, tool in shown.items() if tool.definition is not None or _whose(tool) not in used}
    prompts, resources, templates = (
        {name: one for name, one in owned[kind.field].items() if rule.shows(name)} for kind in KINDS
    )
    return View(
        tools=shown,
        older={key: tool for key, tool in older.items() if rule.shows(key[0])},
        scope=scope,
        prompts=prompts,
        resources=resources,
        templates=templates_of(templates),
        servers=servers,
        whole=rule.include == ("*",) and not rule.exclude,
        capabilities=_capabilities(servers),
        description=rule.description,
        lists=lists_of(shown.values(), prompts, resources, templates),
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

"""The catalogue: everything that is served now, by name, for each view; immutable, built beside the old one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.errors import ExpressionInvalid
from weft.expr.schemas import SchemaProblem, compile_schema
from weft.gateway.access import UNCHECKED, Checks
from weft.gateway.auditing import spec_hash
from weft.gateway.descriptions import Descriptions, Find, made_of
from weft.gateway.gathering import gathered
from weft.gateway.names import Offer, OnCollision, Prefixed, named, prefixed_name, prefixed_uri
from weft.gateway.passing import compiled
from weft.gateway.policy import Policy, ToolFacts
from weft.gateway.results import ANYTHING
from weft.gateway.scope import Scope
from weft.gateway.tools import Check, Tool
from weft.gateway.viewing import in_view, view_of
from weft.gateway.views import Owned, View, ViewRule
from weft.groups.middleware.around import Around, around
from weft.groups.rule import GroupRule
from weft.ir.document import Document, ToolDef
from weft.plan.leaves import virtual_arguments
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
GROUPS = "groups"
"""Whose the names of groups are."""


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
    groups: Iterable[GroupRule] = (),
    middleware: Sequence[Around] = (),
) -> Catalogue:
    """Return what is served, from the registry's document and what the servers offer now.

    `scope` says who sees what of it, everybody everything without one; `hashes` asks for those of the definitions;
    `own` are tools of weft itself; `groups` gather any of all these, and `middleware` stands around their calls.
    """
    servers = tuple(pool.servers.values())
    made = _Making(Descriptions(document, upstream, _finding(pool)), pool, checks, hashes=hashes)
    gathering = tuple(groups)
    names = [one.name for one in gathering]
    tools, older, problems = _tools(document, made, pool, on_collision, own, groups=names)
    if middleware:
        tools = {name: _within(tool, middleware) for name, tool in tools.items()}
        older = {key: _within(tool, middleware) for key, tool in older.items()}
    grouped, told = gathered(gathering, tools, servers=frozenset(pool.servers), middleware=middleware)
    problems += [*told, *_idle(middleware, [*tools.values(), *older.values()], grouped)]
    owned: dict[str, dict[str, Owned]] = {}
    for kind in KINDS:
        owned[kind.field], told = _owned(servers, kind, on_collision)
        problems += told
    rules: dict[str | None, ViewRule] = {None: ViewRule()}
    rules.update(views or {})
    asked = scope or Scope(Book(document), Policy())
    by_name = {
        name: view_of(rule, tools, older, owned, groups=in_view(name, grouped), servers=servers, scope=asked)
        for name, rule in rules.items()
    }
    uris = {(one.server.spec.key, one.upstream_name): uri for uri, one in owned["resources"].items()}
    return Catalogue(by_name, tuple(problems), uris)


def prefixed_refs(
    document: Document,
    pool: Pool,
    on_collision: OnCollision,
    own: Iterable[Tool] = (),
    groups: Iterable[str] = (),
) -> dict[str, ToolRef]:
    """Return the tools of servers that are served under another name than their own, by that name."""
    offers = [Offer(tool.name, REGISTRY, ToolRef(tool.name), owned=True) for tool in newest_tools(document)]
    offers += [Offer(tool.name, WEFT, ToolRef(tool.name), owned=True) for tool in own]
    offers += [Offer(name, GROUPS, ToolRef(name), owned=True) for name in groups]
    for server, name, _ in _undescribed(document, pool):
        spec = server.spec
        offers.append(Offer(name, spec.key, ToolRef(name, spec.name, spec.version)))
    served, _ = named(offers, on_collision=on_collision, what="tool")
    mine = (WEFT, GROUPS)
    return {name: one.thing for name, one in served.items() if name != one.name and one.source not in mine}


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
    document: Document,
    made: _Making,
    pool: Pool,
    on_collision: OnCollision,
    own: Iterable[Tool],
    *,
    groups: Iterable[str],
) -> tuple[dict[str, Tool], dict[tuple[str, str], Tool], list[str]]:
    offers: list[Offer[Tool | None]] = []
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
    offers.extend(Offer(tool.name, WEFT, tool, owned=True) for tool in own)
    # No server takes the name of a group, and with it the calls that are meant for others.
    offers.extend(Offer(name, GROUPS, None, owned=True) for name in groups)
    for server, name, listed in _undescribed(document, pool):
        offers.append(Offer(name, server.spec.key, made.raw(server, name, listed)))
    served, problems = named(offers, on_collision=on_collision, what="tool")
    named_tools = {name: _under(name, offer.thing) for name, offer in served.items() if offer.thing is not None}
    return named_tools, older, problems


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


def _within(tool: Tool, rules: Sequence[Around]) -> Tool:
    """Return a tool with the middleware around its calls."""
    found = around(tool.facts.names, rules)
    return replace(tool, around=compiled(found)) if found else tool


def _idle(rules: Sequence[Around], served: Iterable[Tool], groups: Iterable[str]) -> Iterator[str]:
    """Yield that middleware is for nothing that is served: most likely a name is mistyped."""
    known = [*(tool.facts.names for tool in served), *((name,) for name in groups)]
    for index, rule in enumerate(rules):
        if not any(map(rule.is_for, known)):
            globs = ", ".join(map(repr, rule.globs))
            yield f"middleware[{index}] is for {globs}, and nothing of such a name is served"


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

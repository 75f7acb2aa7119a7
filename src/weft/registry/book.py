"""The book: a loaded registry, indexed by name and version, and who depends on whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from weft.errors import ExpressionInvalid, Loc, Problem, json_pointer
from weft.ir.document import SECTIONS, Document
from weft.ir.normalise import Parsed
from weft.ir.operations import AgentCall, ToolCall
from weft.ir.refs import Schemas
from weft.ir.resolve import schemas_of
from weft.ir.versions import precedence
from weft.ir.walk import walk
from weft.registry.entities import AgentEntity, Dependency, Entity, Kind, Reference, SchemaEntity, ServerEntity, ToolDef
from weft.registry.graph import Nearest, references
from weft.registry.graph import Reference as Named
from weft.registry.tools import Tools

Identity = tuple[str, str]
"""A name and a version."""


class Book:
    """A registry that does not change: every entity by its kind, name and version."""

    def __init__(self, document: Document, *, parsed: Parsed | None = None) -> None:
        self.document = document
        self._parsed = parsed
        self._places: dict[Reference, Loc] = {}
        self._by_kind: dict[Kind, dict[Identity, Any]] = {"schema": {}, "server": {}, "tool": {}, "agent": {}}
        self._versions: dict[tuple[Kind, str], list[str]] = {}
        for section in SECTIONS:
            for index, entity in enumerate(document.section(section)):
                ref = reference_to(entity)
                self._places[ref] = (section, index)
                self._by_kind[entity.kind][ref.name, ref.version] = entity
                self._versions.setdefault((entity.kind, ref.name), []).append(ref.version)
        for several in self._versions.values():
            several.sort(key=precedence, reverse=True)
        self._lent: dict[Reference, frozenset[Reference]] = {}
        self._nearest: dict[Kind, Nearest] = {}
        self._provided: dict[Identity, frozenset[Identity]] = {}
        self._steps: dict[Reference, tuple[tuple[Loc, Reference], ...]] = {}

    @classmethod
    def of(cls, parsed: Parsed) -> Book:
        """Return the book of a document that was read; problems then have their place in its text."""
        return cls(parsed.document, parsed=parsed)

    @property
    def schemas(self) -> Mapping[Identity, SchemaEntity]:
        """The schemas by name and version."""
        return self._by_kind["schema"]

    @property
    def servers(self) -> Mapping[Identity, ServerEntity]:
        """The servers by name and version."""
        return self._by_kind["server"]

    @property
    def tools(self) -> Mapping[Identity, ToolDef]:
        """The tools by name and version."""
        return self._by_kind["tool"]

    @property
    def agents(self) -> Mapping[Identity, AgentEntity]:
        """The agents by name and version."""
        return self._by_kind["agent"]

    def entities(self) -> Iterator[Entity]:
        """Yield every entity: schemas, servers, tools, agents, each in the order of the text."""
        for section in SECTIONS:
            yield from self.document.section(section)

    def get(self, kind: Kind, name: str, version: str) -> Any:
        """Return an entity, or None when there is none of that name and version."""
        return self._by_kind[kind].get((name, version))

    def versions(self, kind: Kind, name: str) -> tuple[str, ...]:
        """Return the versions that there are of an entity, newest first."""
        return tuple(self._versions.get((kind, name), ()))

    def names(self, kind: Kind) -> list[str]:
        """Return the names of a kind of entity."""
        return [name for one, name in self._versions if one == kind]

    def nearest(self, kind: Kind, name: str) -> str | None:
        """Return the name of that kind that a mistyped one most likely meant."""
        if kind not in self._nearest:
            self._nearest[kind] = Nearest(self.names(kind))
        return self._nearest[kind](name)

    def provides(self, server: ServerEntity) -> frozenset[Identity]:
        """Return the names and versions of the tools that a server has."""
        key = (server.name, server.version)
        if key not in self._provided:
            self._provided[key] = frozenset((one.tool, one.version) for one in server.provides)
        return self._provided[key]

    def is_unread(self, kind: Kind, name: str) -> bool:
        """Tell whether there is such an entity in the text, which could not be read."""
        return self._parsed is not None and (kind, name) in self._parsed.unread

    def place(self, ref: Reference) -> Loc:
        """Return where an entity stands in the document."""
        return self._places[ref.entity]

    def located(self, problem: Problem) -> Problem:
        """Return a problem of the document with its place in the text, or at least its pointer."""
        if self._parsed is None:
            return replace(problem, pointer=json_pointer(problem.loc))
        return self._parsed.located(problem)

    @property
    def says_its_version(self) -> bool:
        """Whether the text names the version of its own form: what does not is no registry, or a small one."""
        return self._parsed is not None and "schemaVersion" in self._parsed.source.value

    def depends_on(self, entity: Entity) -> tuple[Reference, ...]:
        """Return what an entity says that it depends on."""
        return tuple(ref for _, ref in self.declared(entity))

    def declared(self, entity: Entity) -> list[tuple[Loc, Reference]]:
        """Return what an entity says that it depends on, each with its place in it."""
        if isinstance(entity, ToolDef):
            return [(("depends", index), as_reference(one)) for index, one in enumerate(entity.depends)]
        if isinstance(entity, AgentEntity):
            return [(loc, as_reference(one)) for loc, one in entity.declared()]
        return []

    def steps(self, tool: ToolDef) -> tuple[tuple[Loc, Reference], ...]:
        """Return the tools and agents that a composition names in its spec, each with its place.

        A name without a version means the one that the composition depends on, else the newest. A tool that the
        registry does not have is one of an upstream, and has no version.
        """
        ref = reference_to(tool)
        if ref not in self._steps:
            self._steps[ref] = tuple(self._named_by(tool))
        return self._steps[ref]

    @cached_property
    def _index(self) -> Tools:
        return Tools(self.document)

    def _named_by(self, tool: ToolDef) -> Iterator[tuple[Loc, Reference]]:
        if tool.spec is None and tool.output_transform is None:
            return
        owner = self._places[reference_to(tool)][1]
        assert isinstance(owner, int)
        for one in references(tool):
            if not one.undo:
                yield one.loc, self._named(one, owner)
        if tool.spec is not None:
            for loc, node in walk(tool.spec, ("spec",)):
                if isinstance(node, AgentCall):
                    yield loc, Reference("agent", node.name, self._agent_version(tool, node), node.skill)

    def _named(self, one: Named, owner: int) -> Reference:
        meant = self._index.meant(one.name, one.version, by=owner)
        version = (self._index.all[meant].version if meant is not None else one.version) or ""
        return Reference("tool", one.name, version)

    def undone_by(self, tool: ToolDef) -> tuple[Reference, ...]:
        """Return the tool that takes back what a tool does, where it says so: no dependency, but it belongs to it."""
        if tool.undo is None:
            return ()
        owner = self._places[reference_to(tool)][1]
        assert isinstance(owner, int)
        return tuple(self._named(one, owner) for one in references(tool) if one.undo)

    def _agent_version(self, tool: ToolDef, call: AgentCall) -> str:
        pins = {one.version for one in tool.depends if one.type == "agent" and one.name == call.name}
        pinned = next(iter(pins)) if len(pins) == 1 else None
        return call.version or pinned or next(iter(self.versions("agent", call.name)), "")

    @cached_property
    def schema_refs(self) -> Schemas:
        """The schemas as `$ref`s name them."""
        return schemas_of(self.document)

    def schemas_in(self, entity: Entity) -> frozenset[Reference]:
        """Return the schemas that an entity refers to, directly or through others."""
        found = set[str]()
        for schema in schemas_held(entity):
            try:
                found |= self.schema_refs.used_by(schema)
            except ExpressionInvalid:
                continue
        return frozenset(Reference("schema", *key.split(":", 1)) for key in found)

    def uses(self, entity: Entity) -> tuple[Reference, ...]:
        """Return all that an entity uses itself: dependencies, steps, what undoes it, server, schemas; each once."""
        found = dict.fromkeys(self.depends_on(entity))
        if isinstance(entity, ToolDef):
            found |= dict.fromkeys(ref for _, ref in self.steps(entity))
            found |= dict.fromkeys(self.undone_by(entity))
            if entity.source is not None:
                found[Reference("server", entity.source.server, entity.source.server_version or "")] = None
        found |= dict.fromkeys(sorted(self.schemas_in(entity)))
        return tuple(found)

    def lent_by(self, tool: ToolDef) -> frozenset[Reference]:
        """Return the tools and agents that a composition may call for its caller, also through compositions in it.

        That is what it depends on; what upstream servers have and no registry describes cannot be depended on, so it
        is enough to name it in a step. A composition that depends on nothing at all says with its steps what it needs.
        """
        start = reference_to(tool)
        if start not in self._lent:
            self._lent[start] = self._reached(start)
        return self._lent[start]

    def _reached(self, start: Reference) -> frozenset[Reference]:
        reached = set[Reference]()
        entered = {start}
        pending = [start]
        while pending:
            entity = self.get("tool", (at := pending.pop()).name, at.version)
            for ref in () if entity is None else self._needs(entity):
                reached.add(ref)
                if ref.type == "tool" and ref not in entered:
                    entered.add(ref)
                    pending.append(ref)
        return frozenset(reached)

    def _needs(self, tool: ToolDef) -> Iterator[Reference]:
        declared = [ref for ref in self.depends_on(tool) if ref.type != "schema"]
        yield from declared
        for _, ref in self.steps(tool):
            if not declared or self.get(ref.type, ref.name, ref.version) is None:
                yield ref
        yield from self.undone_by(tool)
        for _, node in () if tool.spec is None else walk(tool.spec, ()):
            if isinstance(node, ToolCall) and node.server is not None:
                yield Reference("tool", node.name)


def reference_to(entity: Any) -> Reference:
    """Return what names an entity."""
    return Reference(entity.kind, entity.name, entity.version or "")


def as_reference(one: Dependency) -> Reference:
    """Return what a dependency names."""
    return Reference(one.type, one.name, one.version, one.skill)


def schemas_held(entity: Entity) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas that stand in an entity."""
    for _, schema in schemas_at(entity):
        yield schema


def schemas_at(entity: Entity) -> Iterator[tuple[Loc, Mapping[str, Any]]]:
    """Yield the schemas that stand in an entity, each with its place in it."""
    if isinstance(entity, SchemaEntity):
        yield ("schema",), entity.body
    nodes: list[tuple[Loc, Any]] = [((), entity)] if isinstance(entity, ToolDef) else []
    if isinstance(entity, AgentEntity):
        nodes = [(("skills", index), skill) for index, skill in enumerate(entity.skills)]
    for loc, node in nodes:
        if node.input_schema is not None:
            yield (*loc, "inputSchema"), node.input_schema
        if node.output_schema is not None:
            yield (*loc, "outputSchema"), node.output_schema

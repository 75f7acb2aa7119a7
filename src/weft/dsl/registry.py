"""Whole registries in Python: entities that refer to each other as objects, and every problem before it is deployed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from weft.dsl.compositions import Composition
from weft.dsl.local import LocalTools, PythonTool
from weft.dsl.registry_drafts import Draft, author, camel
from weft.dsl.registry_entities import (
    WHO,
    Depends,
    RegisteredAgent,
    RegisteredSchema,
    RegisteredServer,
    RegisteredTool,
    ServerTool,
    dependency,
    gathered_actions,
    gathered_servers,
    listed,
    named_version,
    schema_json,
    schemas,
    source_entry,
)
from weft.dsl.registry_specs import Specs
from weft.errors import DocumentInvalid, Problem, errors_in, shown
from weft.ir.normalise import MODELS, Parsed, made, parse
from weft.ir.read import read
from weft.ir.write import write
from weft.patterns.contract import Op, operand
from weft.plan.problems import problems_of
from weft.ports import is_object
from weft.registry.findings import Severities
from weft.registry.validate import SEED


class RegistryBuilder:
    """A registry of schemaVersion 2.0 under construction.

    What is wrong with an entity itself is raised at the line that writes it. What is wrong between entities is in
    `problems`, just as `weft validate` and the gateway tell it of the same registry in a file.
    """

    def __init__(self) -> None:
        self._place = author()
        self._schemas: list[RegisteredSchema] = []
        self._servers: list[RegisteredServer] = []
        self._tools: list[RegisteredTool] = []
        self._agents: list[RegisteredAgent] = []
        self._groups: list[Draft] = []

    def schema(
        self,
        name: str,
        version: str,
        schema: Any,
        *,
        description: str | None = None,
        deprecated: bool | None = None,
        deprecation_message: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> RegisteredSchema:
        """Add a schema: JSON Schema, in which other schemas may stand as objects, or a Python type."""
        more = {"deprecated": deprecated, "deprecation_message": deprecation_message, "metadata": metadata}
        entry = camel({"name": name, "version": version, "description": description, "schema": schema_json(schema)})
        schema = RegisteredSchema(Draft("schemas", len(self._schemas), {**entry, **camel(more)}))
        self._schemas.append(schema)
        return schema

    def server(
        self,
        name: str,
        version: str,
        *,
        description: str | None = None,
        provides: Iterable[RegisteredTool | str] = (),
        deprecated: bool | None = None,
        deprecation_message: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> RegisteredServer:
        """Add a server; it also provides the tools that take it as their source."""
        more = {"deprecated": deprecated, "deprecation_message": deprecation_message, "metadata": metadata}
        entry = camel({"name": name, "version": version, "description": description, **more})
        server = RegisteredServer(Draft("servers", len(self._servers), entry)).provides(*provides)
        self._servers.append(server)
        return server

    def tool(
        self,
        name: str,
        version: str,
        *,
        source: RegisteredServer | ServerTool | Mapping[str, Any] | str | None = None,
        spec: Op[Any, Any] | None = None,
        title: str | None = None,
        description: str | None = None,
        input: Any = None,
        output: Any = None,
        output_transform: Op[Any, Any] | None = None,
        depends: Iterable[Depends] = (),
        deprecated: bool | None = None,
        deprecation_message: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> RegisteredTool:
        """Add a tool: `source` says which server has it, or `spec` what it is composed of.

        A source is a server (`web`, or `web.tool("its name", ..)`) or `web@1.0.0`. A spec is an operation, a
        composition, or a Python function. It depends on the objects in its spec, and on `depends`.
        """
        transform = None if output_transform is None else operand(output_transform, f"{WHO}: output_transform").to_ir()
        entry = _told_by(spec) | camel(
            {"name": name, "version": version, "title": title, "description": description, **schemas(input, output)}
            | {"source": _source(source, name), "spec": _spec(spec), "output_transform": transform}
            | {"depends": [dependency(one) for one in depends] or None, "deprecated": deprecated}
            | {"deprecation_message": deprecation_message, "metadata": metadata}
        )
        tool = RegisteredTool(Draft("tools", len(self._tools), entry), spec)
        self._tools.append(tool)
        if isinstance(source, RegisteredServer | ServerTool):
            (source if isinstance(source, RegisteredServer) else source.server).gives(tool)
        return tool

    def agent(
        self,
        name: str,
        version: str,
        *,
        description: str | None = None,
        url: str | None = None,
        protocol_version: str | None = None,
        default_input_modes: Sequence[str] | None = None,
        default_output_modes: Sequence[str] | None = None,
        streaming: bool | None = None,
        push_notifications: bool | None = None,
        state_transition_history: bool | None = None,
        provider: Mapping[str, Any] | None = None,
        security: Sequence[Mapping[str, Any]] | None = None,
        security_schemes: Mapping[str, Any] | None = None,
        depends: Iterable[Depends] = (),
        deprecated: bool | None = None,
        deprecation_message: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> RegisteredAgent:
        """Add an agent, whose card then gets its skills: `.agent(..).skill(..).depends_on(..)`."""
        can = {"push_notifications": push_notifications, "state_transition_history": state_transition_history}
        capabilities = camel({"streaming": streaming, **can})
        entry = camel(
            {"name": name, "version": version, "description": description, "url": url}
            | {"protocol_version": protocol_version, "default_input_modes": listed(default_input_modes)}
            | {"default_output_modes": listed(default_output_modes), "capabilities": capabilities or None}
            | {"provider": provider, "security": listed(security), "security_schemes": security_schemes}
            | {"deprecated": deprecated, "deprecation_message": deprecation_message, "metadata": metadata}
        )
        agent = RegisteredAgent(Draft("agents", len(self._agents), entry))
        if declared := list(depends):
            agent.depends_on(*declared)
        self._agents.append(agent)
        return agent

    def group(
        self,
        name: str,
        *,
        title: str | None = None,
        description: str | None = None,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        servers: Iterable[RegisteredServer | str] = (),
        tags: Iterable[str] = (),
        exclude_tags: Iterable[str] = (),
        actions: Mapping[str, RegisteredTool | str] | Sequence[RegisteredTool | str] = (),
        discriminator: str | None = None,
        format: Literal["markdown", "toon"] | None = None,
        detail: Literal["full", "brief"] | None = None,
        keep_tools: bool | None = None,
        select: bool | None = None,
        max_items: int | None = None,
        max_text: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        """Gather tools under one: by globs of their names, by servers, by tags, or as `actions` (`{"find": search}`).

        `select` to `max_bytes` say how much of a result a model gets.
        """
        response = camel({"select": select, "max_items": max_items, "max_text": max_text, "max_bytes": max_bytes})
        entry = camel(
            {"name": name, "title": title, "description": description, "include": listed(include)}
            | {"exclude": listed(exclude), "servers": gathered_servers(servers), "tags": listed(tags)}
            | {"exclude_tags": listed(exclude_tags), "actions": gathered_actions(actions)}
            | {"discriminator": discriminator, "format": format, "detail": detail, "keep_tools": keep_tools}
            | {"response": response or None}
        )
        self._groups.append(Draft("groups", len(self._groups), entry))

    def to_json(self) -> dict[str, Any]:
        """Return the registry as canonical JSON, whether or not it has problems."""
        out: dict[str, Any] = {"schemaVersion": "2.0"}
        for section, entries in self._sections(Specs(self._tools)).items():
            model = MODELS[section]
            out |= {section: [made(model, entry).to_ir() for _, entry in entries]} if entries else {}
        return out

    def _sections(self, specs: Specs) -> dict[str, list[tuple[Draft, dict[str, Any]]]]:
        """Return the entities as JSON, each with the draft whose line wrote it: of a part, that of its tool."""
        tools = [(one.draft, specs.entry(one)) for one in self._tools]
        return {
            "schemas": [(one.draft, one.draft.entry) for one in self._schemas],
            "servers": [(one.draft, one.draft.entry) for one in self._servers],
            "tools": [*tools, *((owner.draft, specs.part(one)) for one, owner in specs.parts.items())],
            "agents": [(one.draft, one.draft.entry) for one in self._agents],
            "groups": [(one, one.entry) for one in self._groups],
        }

    def build(self) -> Parsed:
        """Return the registry as it would be read from a file of the same JSON."""
        return parse(read(write(self.to_json(), "json"), name="<registry>", format="json"))

    def local(self) -> LocalTools:
        """Return the Python functions that its specs call."""
        return Specs(self._tools).local()

    def problems(self, *, severities: Severities = SEED, allow: Iterable[str] = ()) -> list[Problem]:
        """Return every problem that the gateway would have with the registry, each at the line of its entity.

        `severities` and `allow` are those of `weft.yaml`: `registry.validation.startup` and `egress.allow`.
        """
        specs = Specs(self._tools)
        local = specs.local()
        sections = self._sections(specs)
        found = problems_of(self.build(), local if local.names() else None, severities=severities, allow=allow)
        return [self._placed(problem, sections) for problem in found]

    def validate(self, *, severities: Severities = SEED, allow: Iterable[str] = ()) -> Parsed:
        """Return the registry.

        Raises:
            DocumentInvalid: with every problem, when there is an error among them.
        """
        problems = self.problems(severities=severities, allow=allow)
        if errors_in(problems):
            raise DocumentInvalid(problems)
        return self.build()

    def save(self, path: str | Path, *, severities: Severities = SEED, allow: Iterable[str] = ()) -> None:
        """Write the registry as canonical JSON, or as YAML when the file's name says so.

        Raises:
            DocumentInvalid: with every problem, when there is an error among them; nothing is written then.
        """
        document = self.validate(severities=severities, allow=allow).document
        form = "yaml" if Path(path).suffix.lower() in (".yaml", ".yml") else "json"
        Path(path).write_text(write(document.to_ir(), form), encoding="utf-8")

    def holds(self, composition: Composition[Any, Any]) -> bool:
        """Tell whether a composition is in the registry, or a part of one that is."""
        return Specs(self._tools).holds(composition)

    def _placed(self, problem: Problem, sections: Mapping[str, list[tuple[Draft, Any]]]) -> Problem:
        """Return a problem with the line that wrote its entity."""
        section, at = (*problem.loc, None, None)[:2]
        entity = sections[str(section)][at][0] if isinstance(at, int) else None
        file, line = (self._place if entity is None else entity.place) or (None, None)
        return replace(problem, file=file, line=line, column=None)


def _spec(spec: object) -> Any:
    if spec is None:
        return None
    given = operand(spec, f"{WHO}: spec")
    return given.parts[0].to_ir() if isinstance(given, Composition) else given.to_ir()


def _told_by(spec: Op[Any, Any] | None) -> dict[str, Any]:
    """Return what a composition or a function says of itself."""
    if isinstance(spec, Composition):
        entry = spec.definition(spec.body.node).to_ir()
        return {key: value for key, value in entry.items() if key not in ("name", "version", "spec")}
    if isinstance(spec, PythonTool):
        types = spec.types
        told = {"description": spec.description, "inputSchema": types.input, "outputSchema": types.output}
        return {key: value for key, value in told.items() if value}
    return {}


def _source(source: object, tool: str) -> Any:
    if isinstance(source, RegisteredServer):
        source = source.tool(tool)
    if isinstance(source, ServerTool):
        return source.entry
    if isinstance(source, str):
        return source_entry(*named_version(source), tool)
    if source is None or is_object(source):
        return source
    wanted = "a server of the registry, server.tool(..), or text such as 'web@1.0.0'"
    raise TypeError(f"{WHO}: source takes {wanted}, not {shown(source)}")

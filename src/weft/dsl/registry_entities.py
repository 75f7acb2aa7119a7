"""Entities of a registry in Python: what the builder returns, and other entities take as a reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from weft.dsl.compositions import Composition
from weft.dsl.registry_drafts import Draft, camel
from weft.errors import shown
from weft.expr.types import schema_of
from weft.ir.entities import SBOM
from weft.ir.normalise import made
from weft.ir.operations import AgentCall, ToolCall
from weft.patterns.contract import Op
from weft.ports import is_array, is_object

WHO = "w.RegistryBuilder"


class RegisteredSchema:
    """One version of a schema: stands for `{"$ref": "#Name:1.0.0"}`, also inside of other schemas."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft

    @property
    def ref(self) -> dict[str, Any]:
        """The schema as others refer to it."""
        return {"$ref": f"#{self.draft.name}:{self.draft.version}"}


class RegisteredTool(Op[Any, Any]):
    """One version of a tool: a step of compositions, and what others depend on."""

    __slots__ = ("composition", "draft", "spec")

    def __init__(self, draft: Draft, spec: Op[Any, Any] | None) -> None:
        super().__init__(made(ToolCall, {"name": draft.name, "version": draft.version}))
        self.draft = draft
        self.composition: Composition[Any, Any] | None = spec if isinstance(spec, Composition) else None
        self.spec = spec if self.composition is None else self.composition.body

    def depends_on(self, *depends: Depends) -> RegisteredTool:
        """Add to what the tool depends on; the objects in its spec are there already."""
        self.draft.change(depends=[*self.draft.entry.get("depends", []), *map(dependency, depends)])
        return self


class RegisteredSkill(Op[Any, Any]):
    """A skill of one version of an agent: a step of compositions, and what others depend on."""

    __slots__ = ()

    def __init__(self, agent: Draft, skill: str) -> None:
        super().__init__(made(AgentCall, {"name": agent.name, "skill": skill, "version": agent.version}))


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool as its server has it, and what is added to or hidden from it."""

    server: RegisteredServer
    entry: Mapping[str, Any]


class RegisteredServer:
    """One version of an MCP server. Tools that have it as their source are those that it provides."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft

    def tool(
        self, name: str, *, defaults: Mapping[str, Any] | None = None, hide_fields: Sequence[str] | None = None
    ) -> ServerTool:
        """Return a tool of the server, by the server's own name for it, as the source of a tool."""
        more = camel({"defaults": defaults, "hide_fields": None if hide_fields is None else list(hide_fields)})
        return ServerTool(self, {**source_entry(self.draft.name, self.draft.version, name), **more})

    def provides(self, *tools: RegisteredTool | str) -> RegisteredServer:
        """Add to the tools that the server provides: the tools themselves, or `name@1.0.0`."""
        self.draft.change(provides=[*self._provided, *(_provision(one) for one in tools)])
        return self

    def gives(self, tool: RegisteredTool) -> None:
        """Note that a tool has the server as its source; it provides that one, then."""
        if (one := _provision(tool)) not in self._provided:
            # The tool was checked: with thousands of them, the server is not checked again for each.
            self.draft.entry["provides"] = [*self._provided, one]

    @property
    def _provided(self) -> list[dict[str, Any]]:
        return self.draft.entry.get("provides", [])


class RegisteredAgent:
    """One version of an agent: its card, with the skills and what the agent depends on."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft

    def ask(self, skill: str) -> RegisteredSkill:
        """Return a skill of the agent, as a step or a dependency."""
        return RegisteredSkill(self.draft, skill)

    def skill(
        self,
        id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        tags: Sequence[str] | None = None,
        examples: Sequence[str] | None = None,
        input_modes: Sequence[str] | None = None,
        output_modes: Sequence[str] | None = None,
        input: Any = None,
        output: Any = None,
    ) -> RegisteredAgent:
        """Add something that the agent can do; `input` and `output` are as those of a tool."""
        skill = camel({"id": id, "name": name, "description": description, **schemas(input, output)})
        lists = {"tags": tags, "examples": examples, "input_modes": input_modes, "output_modes": output_modes}
        skill |= camel({key: listed(value) for key, value in lists.items()})
        self.draft.change(skills=[*self.draft.entry.get("skills", []), skill])
        return self

    def extension(
        self,
        uri: str,
        *,
        description: str | None = None,
        required: bool | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> RegisteredAgent:
        """Add an extension to the agent's card."""
        given = camel({"uri": uri, "description": description, "required": required, "params": params})
        self._extend([*self._extensions, given])
        return self

    def depends_on(self, *depends: Depends) -> RegisteredAgent:
        """Add to what the agent depends on: the SBOM extension of its card."""
        extensions = self._extensions
        at = next((index for index, one in enumerate(extensions) if one.get("uri") == SBOM), len(extensions))
        sbom: dict[str, Any] = extensions[at] if at < len(extensions) else {"uri": SBOM}
        params: dict[str, Any] = sbom.get("params", {})
        params = {**params, "depends": [*params.get("depends", []), *map(dependency, depends)]}
        self._extend([*extensions[:at], {**sbom, "params": params}, *extensions[at + 1 :]])
        return self

    @property
    def _extensions(self) -> list[dict[str, Any]]:
        return list(self.draft.entry.get("capabilities", {}).get("extensions", []))

    def _extend(self, extensions: list[dict[str, Any]]) -> None:
        self.draft.change(capabilities={**self.draft.entry.get("capabilities", {}), "extensions": extensions})


Depends: TypeAlias = RegisteredTool | RegisteredSkill | RegisteredSchema | Op[Any, Any] | Mapping[str, Any] | str
"""What something depends on: an object of the registry, or a name with a version."""


def source_entry(server: str, version: str, tool: str) -> dict[str, Any]:
    """Return the source of a tool."""
    return {"server": server, "serverVersion": version, "tool": tool}


def dependency(given: Depends) -> dict[str, Any]:
    """Return a dependency as JSON.

    Raises:
        TypeError: this does not say on which version of what.
    """
    if isinstance(given, RegisteredSchema):
        return {"type": "schema", "name": given.draft.name, "version": given.draft.version}
    if isinstance(given, str):
        return _from_text(given)
    if is_object(given):
        return dict(given)
    node = given.node if isinstance(given, Op) else None
    if isinstance(node, ToolCall | AgentCall) and node.version is not None and not getattr(node, "server", None):
        kind, skill = ("agent", {"skill": node.skill}) if isinstance(node, AgentCall) else ("tool", {})
        return {"type": kind, "name": node.name, "version": node.version, **skill}
    raise TypeError(f"{WHO}: depends takes {_DEPENDS}, not {_said(given)}{_instead(given)}")


_DEPENDS = "tools, schemas, skills (agent.ask('edit')), or text such as 'fetch@1.0.0'"


def _instead(given: object) -> str:
    if isinstance(given, RegisteredAgent):
        return "; say which skill with .ask('..')"
    if isinstance(given, RegisteredServer):
        return "; depend on the tools that it provides"
    if isinstance(given, Op):
        return "; register it with .tool(..) and give what that returns, or say its version"
    return ""


def _from_text(text: str) -> dict[str, Any]:
    """Read `name@1.0.0` (a tool), `name@1.0.0/skill` (an agent) or `#Name:1.0.0` (a schema)."""
    if text.startswith("#"):
        name, _, version = text[1:].partition(":")
        if name and version:
            return {"type": "schema", "name": name, "version": version}
    name, version = named_version(text)
    version, _, skill = version.partition("/")
    if skill:
        return {"type": "agent", "name": name, "version": version, "skill": skill}
    return {"type": "tool", "name": name, "version": version}


def named_version(text: str) -> tuple[str, str]:
    """Return the name and the version of `name@1.0.0`.

    Raises:
        TypeError: it has only one of them.
    """
    name, _, version = text.rpartition("@")
    if not name or not version:
        raise TypeError(f"{WHO}: {shown(text)} does not say which version; write it as in 'fetch@1.0.0'")
    return name, version


def _provision(given: RegisteredTool | str) -> dict[str, Any]:
    if isinstance(given, RegisteredTool):
        return {"tool": given.draft.name, "version": given.draft.version}
    if isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance]  (authors without a checker)
        name, version = named_version(given)
        return {"tool": name, "version": version}
    raise TypeError(f"{WHO}: provides takes tools of the registry, or text such as 'fetch@1.0.0', not {_said(given)}")


def schemas(input: Any, output: Any) -> dict[str, Any]:
    """Return the fields for what something takes and gives."""
    return {
        "input_schema": None if input is None else schema_json(input),
        "output_schema": None if output is None else schema_json(output),
    }


def schema_json(given: Any) -> dict[str, Any]:
    """Return what an author gave for a schema as JSON: a schema of the registry, its `#Name:1.0.0`, a type, or JSON."""
    if isinstance(given, RegisteredSchema):
        return given.ref
    if isinstance(given, str):
        if given.startswith("#"):
            return {"$ref": given}
        wanted = "a schema of the registry, its '#Name:1.0.0', a Python type or a JSON Schema"
        raise TypeError(f"{WHO}: a schema is {wanted}, not {shown(given)}")
    return _with_refs(given) if is_object(given) else schema_of(given)


def _with_refs(value: Any) -> Any:
    if isinstance(value, RegisteredSchema):
        return value.ref
    if is_object(value):
        return {key: _with_refs(item) for key, item in value.items()}
    return [_with_refs(item) for item in value] if is_array(value) else value


def listed(values: Iterable[Any] | None) -> Any:
    """Return a list of what was given; a text is left to be refused, and not taken for its letters."""
    return values if values is None or isinstance(values, str) else list(values)


def gathered_servers(given: Iterable[RegisteredServer | str]) -> Any:
    """Return the names of servers whose tools a group gathers."""
    return given if isinstance(given, str) else [_server_name(one) for one in given]


def _server_name(given: object) -> str:
    if isinstance(given, RegisteredServer):
        return given.draft.name
    if isinstance(given, str):
        return given
    raise TypeError(f"{WHO}: servers takes servers of the registry, or their names, not {_said(given)}")


def gathered_actions(given: Mapping[str, RegisteredTool | str] | Sequence[RegisteredTool | str]) -> Any:
    """Return the tools of a group by the keys of their actions; without a key of its own a tool's is its name."""
    if isinstance(given, str):
        return given
    if is_object(given):
        return {key: _tool_name(one) for key, one in given.items()}
    names = [_tool_name(one) for one in given]
    return dict(zip(names, names, strict=True))


def _tool_name(given: object) -> str:
    if isinstance(given, RegisteredTool):
        return given.draft.name
    if isinstance(given, str):
        return given
    raise TypeError(f"{WHO}: actions takes tools of the registry, or their names, not {_said(given)}")


def _said(given: object) -> str:
    if isinstance(given, RegisteredAgent):
        return f"the agent {given.draft.name!r}"
    return f"the server {given.draft.name!r}" if isinstance(given, RegisteredServer) else shown(given)

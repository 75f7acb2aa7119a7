"""Entities of a registry beside its tools: schemas, servers and agents."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError, model_validator

from weft.errors import nearest, shown
from weft.ir.fields import AgentName, Dependency, Entity, JsonSchema, Kind, SchemaName, ServerName, Text, Version
from weft.ir.nodes import AnyJson, Node, refuse
from weft.ir.operations import Name

SBOM = "urn:agentgateway:sbom"
"""The extension of an agent's card that says what the agent depends on."""

OWN_TOOLS = frozenset(
    f"composition_{does}"
    for does in ("execute", "validate", "list_templates", "get_template", "create_template", "delete_template")
)
"""Tools that are weft's own: no registry describes them, and they have no version."""


class SchemaEntity(Entity):
    """A JSON Schema that others refer to as `#Name:1.0.0`."""

    kind: ClassVar[Kind] = "schema"

    name: SchemaName
    version: Version
    description: str | None = None
    body: JsonSchema = Field(alias="schema")
    deprecated: bool = False
    deprecation_message: str | None = None
    metadata: dict[str, AnyJson] | None = None


class Provision(Node):
    """A tool of the registry that a server has."""

    tool: Name
    version: Version


class ServerEntity(Entity):
    """One version of an MCP server, and the tools of the registry that it provides."""

    kind: ClassVar[Kind] = "server"

    name: ServerName
    version: Version
    description: str | None = None
    provides: list[Provision] = []
    deprecated: bool = False
    deprecation_message: str | None = None
    metadata: dict[str, AnyJson] | None = None


class Skill(Node):
    """Something that an agent can do, and the shapes of its data."""

    id: Text
    name: str | None = None
    description: str | None = None
    tags: list[str] = []
    examples: list[str] = []
    input_modes: list[str] = []
    output_modes: list[str] = []
    input_schema: JsonSchema | None = None
    output_schema: JsonSchema | None = None


class AgentDependency(Dependency):
    """What an agent uses: also a tool of weft's own, which has no version."""

    version: Version = ""

    @model_validator(mode="after")
    def _versioned(self) -> AgentDependency:
        own = self.type == "tool" and self.name in OWN_TOOLS
        if not own and not self.version:
            told = f"the dependency on {self.type} {shown(self.name)} does not say which version"
            close = nearest(self.name, OWN_TOOLS) if self.type == "tool" else None
            raise refuse("MissingKey", told, expected="an exact version", suggestion=close)
        return self


class _Declared(Node):
    """What the SBOM extension of an agent's card says."""

    depends: list[AgentDependency] = []


class Extension(Node):
    """An extension of an agent's card."""

    uri: Text
    description: str | None = None
    required: bool | None = None
    params: dict[str, AnyJson] = {}

    @model_validator(mode="after")
    def _readable(self) -> Extension:
        if self.uri == SBOM:
            try:
                _Declared.model_validate(self.params)
            except ValidationError as error:
                raise _first(error) from None
        return self

    @cached_property
    def depends(self) -> tuple[Dependency, ...]:
        """What the agent says that it uses."""
        return tuple(_Declared.model_validate(self.params).depends) if self.uri == SBOM else ()


def _first(error: ValidationError) -> Exception:
    """Return the first thing that is wrong below `params`, as the extension's own."""
    one: Any = error.errors(include_url=False)[0]
    context: dict[str, Any] = one.get("ctx", {})
    at = ("params", *one["loc"], *context.get("at", ()))
    if "sentence" in context:
        told = {key: value for key, value in context.items() if key not in ("sentence", "at")}
        return refuse(one["type"], context["sentence"], at=at, **told)
    missing = one["type"] == "missing"
    code = "MissingKey" if missing else "UnknownKey" if one["type"] == "extra_forbidden" else "WrongValue"
    told = f"missing key {shown(at[-1])}" if missing else f"{shown(at[-1])}: {str(one['msg']).lower()}"
    return refuse(code, told, expected="{type, name, version, skill of an agent}", at=at)


class Capabilities(Node):
    """What an agent's protocol can do, and the extensions of its card."""

    streaming: bool | None = None
    push_notifications: bool | None = None
    state_transition_history: bool | None = None
    extensions: list[Extension] = []


def _is_web_address(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, credentials = parts.hostname, parts.username is not None or parts.password is not None
    except ValueError:
        parts, host, credentials = None, None, False
    if parts is None or parts.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
        raise refuse("InvalidUrl", f"{shown(url)} is no address of an agent", value=shown(url), expected="https://...")
    if credentials:
        # The value would be printed wherever the problem is.
        told = "the address holds a user name or a password, and everybody can read the registry"
        raise refuse("InvalidUrl", told, value=shown(f"{parts.scheme}://...@{host}"), expected="an address without")
    return url


WebAddress = Annotated[str, AfterValidator(_is_web_address)]


class AgentEntity(Entity):
    """One version of an agent: its A2A card, which also says what the agent depends on."""

    kind: ClassVar[Kind] = "agent"

    name: AgentName
    version: Version
    description: str | None = None
    url: WebAddress | None = None
    protocol_version: str | None = None
    default_input_modes: list[str] = []
    default_output_modes: list[str] = []
    skills: list[Skill] = []
    capabilities: Capabilities | None = None
    provider: dict[str, AnyJson] | None = None
    security: list[dict[str, AnyJson]] = []
    security_schemes: dict[str, AnyJson] = {}
    deprecated: bool = False
    deprecation_message: str | None = None
    metadata: dict[str, AnyJson] | None = None

    @model_validator(mode="after")
    def _one_of_each(self) -> AgentEntity:
        seen = set[str]()
        for index, skill in enumerate(self.skills):
            if skill.id in seen:
                told = f"agent {shown(self.name)} has two skills {shown(skill.id)}"
                raise refuse("DuplicateName", told, value=shown(skill.id), expected="an id of its own",
                             at=("skills", index, "id"))  # fmt: skip
            seen.add(skill.id)
        return self

    def skill(self, id: str) -> Skill | None:
        """Return the skill of that id."""
        return next((one for one in self.skills if one.id == id), None)

    @property
    def depends(self) -> tuple[Dependency, ...]:
        """What the agent says that it uses."""
        return tuple(one for _, one in self.declared())

    def declared(self) -> list[tuple[tuple[str | int, ...], Dependency]]:
        """Return what the agent says that it uses, each with its place in the card."""
        if self.capabilities is None:
            return []
        return [
            (("capabilities", "extensions", at, "params", "depends", index), one)
            for at, extension in enumerate(self.capabilities.extensions)
            for index, one in enumerate(extension.depends)
        ]

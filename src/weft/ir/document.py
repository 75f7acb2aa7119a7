"""Documents: tools, some of which are compositions, as files and registries hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, model_validator
from pydantic.alias_generators import to_camel, to_snake

from weft.errors import ExpressionInvalid, shown
from weft.expr.interpolation import compile_interpolation
from weft.expr.paths import quote
from weft.ir.entities import AgentEntity, SchemaEntity, ServerEntity
from weft.ir.fields import INTERNAL, Dependency, Entity, JsonSchema, Kind, NewName, read_schema
from weft.ir.groups import GroupDef
from weft.ir.nodes import AnyJson, LiteralJson, Node, refuse, refused
from weft.ir.operations import Name, Operation, Undo
from weft.ir.versions import PATTERN
from weft.ports import Json, is_object

__all__ = ["INTERNAL", "LISTS", "SECTIONS", "Document", "JsonSchema", "NewName", "ToolDef", "ToolSource"]

V1_FIELD = frozenset({"fieldType", "sourceField", "field_type", "source_field"})


class ToolSource(Node):
    """The upstream tool behind a virtual one, and what weft adds to or hides from it."""

    aliases: ClassVar[Mapping[str, str]] = {"target": "server"}

    server: Name
    server_version: str | None = None
    tool: Name
    defaults: dict[str, LiteralJson] = {}
    hide_fields: list[str] = []


class ToolDef(Entity):
    """A tool: `source` when an upstream has it, `spec` when it is composed."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": {"required": ["source", "spec"]},
            "dependentRequired": {"outputTransform": ["source"]},
        }
    )

    kind: ClassVar[Kind] = "tool"

    name: NewName
    version: str | None = None
    title: str | None = None
    description: str | None = None
    input_type: str | None = None
    output_type: str | None = None
    input_schema: JsonSchema | None = None
    output_schema: JsonSchema | None = None
    source: ToolSource | None = None
    spec: Operation | None = None
    output_transform: Operation | None = None
    metadata: dict[str, AnyJson] | None = None
    depends: list[Dependency] = []
    deprecated: bool = False
    deprecation_message: str | None = None
    undo: Undo | None = None

    @classmethod
    def spell(cls, value: Any) -> Any:
        if not is_object(value):
            return value
        given = dict(value)
        _move_into_workflow(given)
        _move_into_source(given)
        _move_source_fields(given)
        return given

    @model_validator(mode="after")
    def _checks(self) -> ToolDef:
        if self.source is not None and self.spec is not None:
            raise refuse(
                "ExactlyOne",
                f"tool {shown(self.name)} has both source and spec",
                value="source, spec",
                expected="one of them",
            )
        if self.output_transform is not None and self.source is None:
            raise refuse(
                "NoSource",
                f"tool {shown(self.name)} has an outputTransform without a source",
                expected="a source",
                at=("outputTransform",),
            )
        if self.undo is not None:
            try:
                compile_interpolation(self.undo.parameters, UNDO_KNOWS)
            except ExpressionInvalid as error:
                raise refused(error, "undo", "parameters", *getattr(error, "loc", ())) from None
        return self

    @property
    def internal(self) -> bool:
        """Whether this is a part of other compositions, not a tool of its own."""
        return self.name.startswith(INTERNAL)


UNDO_KNOWS: Mapping[str, str | None] = dict.fromkeys(("output", "parameters", "context"))
"""What the parameters of a tool's undo may begin with; of the workflow around it the tool knows nothing."""
_TOOL_KEYS = [
    "name",
    "version",
    "title",
    "description",
    "inputType",
    "outputType",
    "inputSchema",
    "outputSchema",
    "metadata",
    "depends",
    "deprecated",
    "deprecationMessage",
]
_ABOUT_THE_TOOL = frozenset({*_TOOL_KEYS, *map(to_snake, _TOOL_KEYS)})


def _move_into_workflow(given: dict[str, Any]) -> None:
    """Make a spec of the steps that a workflow document has beside its name."""
    if "steps" not in given or "spec" in given or "source" in given:
        return
    inside = [key for key in given if key not in _ABOUT_THE_TOOL and not key.startswith("$")]
    given["spec"] = {"workflow": {key: given.pop(key) for key in inside}}


def _move_into_source(given: dict[str, Any]) -> None:
    """Put the defaults and hidden fields that v1 documents write beside the source into it."""
    if not is_object(source := given.get("source")):
        return
    moved = {key: given.pop(key) for key in ("defaults", "hideFields", "hide_fields") if key in given}
    for key, item in moved.items():
        if item is not None and {key, to_camel(key), to_snake(key)} & source.keys():
            raise refuse(
                "SpeltTwice", f"{key!r} stands in the source, too", value=key, expected="one of them", at=(key,)
            )
    if moved:
        given["source"] = {**source, **moved}


def _move_source_fields(given: dict[str, Any]) -> None:
    """Make an output transform of a v1 output schema, which says for each field where it comes from."""
    key = "outputSchema" if "outputSchema" in given else "output_schema"
    schema = read_schema(given.get(key))
    if not is_object(schema) or not is_object(properties := schema.get("properties")):
        return
    if not any(is_object(one) and not V1_FIELD.isdisjoint(one) for one in properties.values()):
        return
    if "outputTransform" in given or "output_transform" in given:
        told = f"{key} says where its fields come from, and so does outputTransform"
        raise refuse("SpeltTwice", told, value=key, expected="one of them", at=(key,))
    mappings: dict[str, Any] = {}
    types: dict[str, Any] = {}
    for name, one in properties.items():
        mappings[name], types[name] = _source_field(name, one)
    given["outputTransform"] = {"schemaMap": {"mappings": mappings}}
    given[key] = {"type": "object", **schema, "properties": types}


def _source_field(name: str, one: Any) -> tuple[dict[str, Any], Any]:
    """Return where a field of a v1 output schema comes from, and its own schema."""
    if not is_object(one):
        return {"path": quote([name]), "default": None}, one
    path = one.get("sourceField", one.get("source_field"))
    kind = one.get("fieldType", one.get("field_type"))
    rest = {key: item for key, item in one.items() if key not in V1_FIELD}
    return {"path": quote([name]) if path is None else path, "default": None}, {
        # A field that is missing becomes null.
        **({} if kind is None else {"type": [kind, "null"]}),
        **rest,
    }


SECTIONS = ("schemas", "servers", "tools", "agents")
"""The keys of a registry that hold entities, in the order in which they are written."""
LISTS = (*SECTIONS, "groups")
"""All keys that hold a list; groups have no version, and nothing can depend on one."""
_BY_VERSION: list[Json] = [
    {
        "if": {"properties": {"schemaVersion": {"const": "2.0"}}},
        "then": {
            "properties": {
                "tools": {
                    "items": {
                        "required": ["version"],
                        "properties": {"version": {"pattern": PATTERN}},
                        "oneOf": [{"required": ["source"]}, {"required": ["spec"]}],
                    }
                }
            }
        },
        "else": {"properties": {"schemas": False, "servers": False, "agents": False}},
    }
]


class Document(Node):
    """A whole file in canonical form: every composition is a tool with a `spec`."""

    model_config = ConfigDict(json_schema_extra={"required": ["schemaVersion"], "allOf": _BY_VERSION})

    schema_version: Literal["1.0", "2.0"] = "1.0"
    tools: list[ToolDef] = []
    schemas: list[SchemaEntity] = []
    servers: list[ServerEntity] = []
    agents: list[AgentEntity] = []
    groups: list[GroupDef] = []

    def to_ir(self) -> dict[str, Json]:
        """Return the canonical JSON; the version is always written."""
        out: dict[str, Json] = {"schemaVersion": self.schema_version}
        for key in LISTS:
            listed: list[Json] = [one.to_ir() for one in self.listed(key)]
            out |= {key: listed} if listed else {}
        return out

    def listed(self, key: str) -> Sequence[Node]:
        """Return what stands under one of the keys that hold a list, in the order of the text."""
        found: Sequence[Node] = getattr(self, key)
        return found

    def section(self, name: str) -> Sequence[Entity]:
        """Return the entities of one section, in the order of the text."""
        found: Sequence[Entity] = getattr(self, name)
        return found

    @property
    def versioned(self) -> bool:
        """Whether every entity has an exact version, and says what it depends on."""
        return self.schema_version == "2.0"

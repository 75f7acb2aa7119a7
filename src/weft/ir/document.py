"""Documents: tools, some of which are compositions, as files and registries hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import orjson
from pydantic import AfterValidator, BeforeValidator, ConfigDict, model_validator
from pydantic.alias_generators import to_camel, to_snake

from weft.errors import shown
from weft.expr.paths import quote
from weft.expr.schemas import compile_schema
from weft.ir.nodes import AnyJson, LiteralJson, Node, expression, refuse
from weft.ir.operations import Name, Operation
from weft.ports import Json, is_object

V1_FIELD = frozenset({"fieldType", "sourceField", "field_type", "source_field"})
INTERNAL = "__"
"""What the names of compositions that are only parts of others begin with."""


class ToolSource(Node):
    """The upstream tool behind a virtual one, and what weft adds to or hides from it."""

    aliases: ClassVar[Mapping[str, str]] = {"target": "server"}

    server: Name
    server_version: str | None = None
    tool: Name
    defaults: dict[str, LiteralJson] = {}
    hide_fields: list[str] = []


def _is_name(name: str) -> str:
    if not name.isprintable() or name != name.strip():
        raise refuse("InvalidName", f"{shown(name)} is not a name", value=shown(name), expected="printable characters")
    return name


def _read_schema(value: Any) -> Any:
    """Take a schema as JSON or as text that is JSON."""
    if isinstance(value, str):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError as error:
            told = f"the text is not JSON: {error}"
            raise refuse("InvalidSchema", told, value=shown(value), expected="a JSON Schema") from None
    return value


JsonSchema = Annotated[dict[str, AnyJson], AfterValidator(expression(compile_schema)), BeforeValidator(_read_schema)]
NewName = Annotated[Name, AfterValidator(_is_name)]


class ToolDef(Node):
    """A tool: `source` when an upstream has it, `spec` when it is composed."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": {"required": ["source", "spec"]},
            "dependentRequired": {"outputTransform": ["source"]},
        }
    )

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

    @classmethod
    def spell(cls, value: Any) -> Any:
        if not is_object(value):
            return value
        given = dict(value)
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
        return self

    @property
    def internal(self) -> bool:
        """Whether this is a part of other compositions, not a tool of its own."""
        return self.name.startswith(INTERNAL)


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
    schema = _read_schema(given.get(key))
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


class Document(Node):
    """A whole file in canonical form: every composition is a tool with a `spec`."""

    model_config = ConfigDict(json_schema_extra={"required": ["schemaVersion"]})

    schema_version: Literal["1.0"] = "1.0"
    tools: list[ToolDef] = []

    def to_ir(self) -> dict[str, Json]:
        """Return the canonical JSON; the version is always written."""
        tools: list[Json] = [tool.to_ir() for tool in self.tools]
        return {"schemaVersion": self.schema_version, **({"tools": tools} if tools else {})}

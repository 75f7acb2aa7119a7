"""Documents: tools, some of which are compositions, as files and registries hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, cast

import orjson
from pydantic import model_validator

from weft.errors import ExpressionInvalid, shown
from weft.expr.paths import quote
from weft.expr.schemas import compile_schema
from weft.ir.nodes import AnyJson, Node, refuse
from weft.ir.operations import Name, Operation
from weft.ports import Json

V1_FIELD = frozenset({"fieldType", "sourceField", "field_type", "source_field"})
INTERNAL = "__"
"""What the names of compositions that are only parts of others begin with."""


class ToolSource(Node):
    """The upstream tool behind a virtual one, and what weft adds to or hides from it."""

    aliases: ClassVar[Mapping[str, str]] = {"target": "server"}

    server: Name
    server_version: str | None = None
    tool: Name
    defaults: dict[str, AnyJson] = {}
    hide_fields: list[str] = []


def _schema(value: Any) -> Any:
    """Take a schema as JSON or as text that is JSON."""
    if isinstance(value, str):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise refuse("InvalidSchema", f"the text is not JSON: {error}", value=shown(value)) from None
    return value


class ToolDef(Node):
    """A tool: `source` when an upstream has it, `spec` when it is composed."""

    name: Name
    version: str | None = None
    title: str | None = None
    description: str | None = None
    input_type: str | None = None
    output_type: str | None = None
    input_schema: dict[str, AnyJson] | None = None
    output_schema: dict[str, AnyJson] | None = None
    source: ToolSource | None = None
    spec: Operation | None = None
    output_transform: Operation | None = None
    metadata: dict[str, AnyJson] | None = None

    @classmethod
    def spell(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        given = dict(cast("dict[str, Any]", value))
        for key in ("inputSchema", "input_schema", "outputSchema", "output_schema"):
            if key in given:
                given[key] = _schema(given[key])
        _move_into_source(given)
        _move_source_fields(given)
        return given

    @model_validator(mode="after")
    def _checks(self) -> ToolDef:
        if self.source is not None and self.spec is not None:
            raise refuse("ExactlyOne", f"tool {self.name!r} has both source and spec", expected="one of them")
        if self.output_transform is not None and self.source is None:
            raise refuse("NoSource", f"tool {self.name!r} has an outputTransform without a source")
        for key, schema in (("inputSchema", self.input_schema), ("outputSchema", self.output_schema)):
            if schema is not None:
                _check_schema(key, schema)
        if not self.name.isprintable() or self.name != self.name.strip():
            raise refuse("InvalidName", f"{shown(self.name)} is not a name", expected="printable characters")
        return self

    @property
    def internal(self) -> bool:
        """Whether this is a part of other compositions, not a tool of its own."""
        return self.name.startswith(INTERNAL)


def _check_schema(key: str, schema: Mapping[str, Any]) -> None:
    try:
        compile_schema(schema)
    except ExpressionInvalid as error:
        raise refuse(error.code, f"{key}: {error.message}", value=error.value, suggestion=error.suggestion) from None


def _move_into_source(given: dict[str, Any]) -> None:
    """Put the defaults and hidden fields that v1 documents write beside the source into it."""
    if not isinstance(source := given.get("source"), dict):
        return
    moved = {key: given.pop(key) for key in ("defaults", "hideFields", "hide_fields") if key in given}
    if moved:
        given["source"] = {**cast("dict[str, Any]", source), **moved}


def _move_source_fields(given: dict[str, Any]) -> None:
    """Make an output transform of a v1 output schema, which says for each field where it comes from."""
    key = "outputSchema" if "outputSchema" in given else "output_schema"
    schema = given.get(key)
    fields = cast("dict[str, Any]", schema).get("properties") if isinstance(schema, dict) else None
    if not isinstance(fields, dict):
        return
    properties = cast("dict[str, dict[str, Any]]", fields)
    if not any(isinstance(one, dict) and V1_FIELD & set(one) for one in properties.values()):
        return
    paths: dict[str, str] = {}
    types: dict[str, Any] = {}
    for name, one in properties.items():
        paths[name] = one.get("sourceField") or one.get("source_field") or quote([name])
        kind = one.get("fieldType") or one.get("field_type")
        types[name] = {"type": kind} if kind else {}
    mappings = {name: {"path": path, "default": None} for name, path in paths.items()}
    given["outputTransform"] = {"schemaMap": {"mappings": mappings}}
    given[key] = {"type": "object", "properties": types}


class Document(Node):
    """A whole file in canonical form: every composition is a tool with a `spec`."""

    schema_version: Literal["1.0"] = "1.0"
    tools: list[ToolDef] = []

    def to_ir(self) -> dict[str, Json]:
        """Return the canonical JSON; the version is always written."""
        tools: list[Json] = [tool.to_ir() for tool in self.tools]
        return {"schemaVersion": self.schema_version, **({"tools": tools} if tools else {})}

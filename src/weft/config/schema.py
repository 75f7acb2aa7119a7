"""The JSON Schema of weft.yaml, made from the models that read it."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema as cs

from weft.config.model import Config
from weft.config.settings import Setting, duration_text

IDENTITY = "urn:weft:config:v1"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of weft.yaml, with a description of every key."""
    made = Config.model_json_schema(schema_generator=_Described)
    definitions = made.pop("$defs")
    # Editors and other tools may put this key into a file; the reader passes over it.
    made["properties"] = {"$schema": {"type": "string"}, **made["properties"]}
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": IDENTITY,
        "title": "weft.yaml",
        **made,
        "$defs": definitions,
    }


class _Described(GenerateJsonSchema):
    """Writes neither nulls nor titles, and sections without a default of their own."""

    def model_schema(self, schema: cs.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        made.pop("title", None)
        made["description"] = " ".join(made["description"].split())
        return made

    def nullable_schema(self, schema: cs.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: cs.WithDefaultSchema) -> JsonSchemaValue:
        default = schema.get("default")
        if default is None or isinstance(default, Setting) or default in ((), {}):
            return self.generate_inner(schema["schema"])
        made = super().default_schema(schema)
        # Every length of time is a float inside and a text outside.
        return {**made, "default": duration_text(default)} if isinstance(default, float) else made

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

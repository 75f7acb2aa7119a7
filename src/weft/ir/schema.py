"""The JSON Schema of canonical documents, made from the models that read them."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import CoreRef, GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema as cs

from weft.ir.document import Document
from weft.ir.nodes import Node, OneOf

IDENTITY = "urn:weft:ir:v1"
ONE_KEY: dict[str, Any] = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": False}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of canonical documents: what weft writes, not every spelling that it takes."""
    made = Document.model_json_schema(schema_generator=_Canonical)
    definitions = made.pop("$defs")
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": IDENTITY,
        "title": "weft IR, version 1",
        **made,
        "$defs": definitions,
    }


class _Canonical(GenerateJsonSchema):
    """Writes one definition of operations, and neither nulls nor titles."""

    def tagged_union_schema(self, schema: cs.TaggedUnionSchema) -> JsonSchemaValue:
        name, reference = self.get_cache_defs_ref_schema(CoreRef("Operation"))
        if name not in self.definitions:
            told = "What a step does: exactly one call or pattern, under the key that is its kind."
            # Entered before it is filled: operations hold operations.
            operation = self.definitions[name] = {"description": told, **ONE_KEY}
            operation["properties"] = {str(kind): self.generate_inner(body) for kind, body in schema["choices"].items()}
        return reference

    def model_schema(self, schema: cs.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        made.pop("title", None)
        made["description"] = " ".join(made["description"].split())
        model = schema["cls"]
        if issubclass(model, OneOf):
            choices = [field.alias or name for name, field in model.model_fields.items() if name not in model.beside]
            made |= {"oneOf": [{"required": [choice]} for choice in choices]} if model.beside else ONE_KEY
        return made

    def nullable_schema(self, schema: cs.NullableSchema) -> JsonSchemaValue:
        """Leave null out: the canonical form has a key or does not."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: cs.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default") is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)

    def encode_default(self, dft: Any) -> Any:
        return dft.to_ir() if isinstance(dft, Node) else super().encode_default(dft)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

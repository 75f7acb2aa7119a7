"""An action: one of the things that a grouped tool does, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from weft.ports import Schema, is_array, is_object

DISCRIMINATOR: Final = "action"
"""The argument that says which action is meant, unless a group calls it otherwise."""

OPENING: Final = (
    "allOf", "anyOf", "oneOf", "not", "if", "$ref", "$dynamicRef",
    "patternProperties", "propertyNames", "dependentSchemas", "unevaluatedProperties",
)  # fmt: skip
"""Keywords by which a schema takes fields that its `properties` do not name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What is known of an action before it is called."""

    key: str
    """`create`, or with its groups before it: `users.create`."""

    schema: Schema = field(default_factory=dict[str, Any])
    """What it takes beside the common fields: the schema of an object, with its own `$defs`."""

    title: str | None = None
    description: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The hints of MCP that were given; one that is missing means what MCP says that it means."""

    @property
    def properties(self) -> Mapping[str, Schema]:
        """The fields, by name."""
        return fields_of(self.schema)

    @property
    def required(self) -> tuple[str, ...]:
        """The fields without which it cannot be called."""
        return required_of(self.schema)


def fields_of(schema: Schema) -> Mapping[str, Schema]:
    """Return the fields that a schema names; one that is only `true` or `false` as the schema that says the same."""
    found: object = schema.get("properties")
    if not is_object(found):
        return {}
    return {name: one if is_object(one) else {} if one else {"not": {}} for name, one in found.items()}


def required_of(schema: Schema) -> tuple[str, ...]:
    """Return the fields that a schema says are needed."""
    found: object = schema.get("required")
    return tuple(map(str, found)) if is_array(found) else ()


def is_closed(schema: Schema) -> bool:
    """Tell whether a schema takes no field but those that it names.

    Most servers do not say; a model that sends a field of another action should hear of it, so silence means closed.
    """
    more: object = schema.get("additionalProperties", False)
    return more is False and not any(key in schema for key in OPENING)

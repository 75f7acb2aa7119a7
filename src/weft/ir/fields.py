"""Fields that several kinds of entity have: names, exact versions, schemas, dependencies."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

import orjson
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from weft.errors import shown
from weft.expr.schemas import compile_schema
from weft.ir.nodes import AnyJson, Node, expression, refuse
from weft.ir.operations import Name
from weft.ir.refs import names_entities
from weft.ir.versions import EXPECTED, PATTERN, is_exact, why_not_exact
from weft.ports import Json

Kind = Literal["schema", "server", "tool", "agent"]
INTERNAL = "__"
"""What the names of compositions that are only parts of others begin with."""
_ENTITY_NAME = re.compile(
    r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?(?:/[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?)*"
)
MAX_NAME = 128
NAME_EXPECTED = f"letters, digits, _, - and . (also / between parts), at most {MAX_NAME} of them"


def _is_name(name: str) -> str:
    if not name.isprintable() or name != name.strip():
        raise refuse("InvalidName", f"{shown(name)} is not a name", value=shown(name), expected="printable characters")
    return name


def why_not_a_name(name: object, kind: Kind) -> str | None:
    """Return why a name cannot be one of a registry, or None when it can.

    A name goes into references, headers, file names and the eyes of people: it must be the same thing in all of them.
    """
    if not isinstance(name, str) or not name:
        return f"a {kind} needs a name"
    if len(name) > MAX_NAME:
        return f"the name is {len(name)} characters long"
    if not name.isascii():
        return f"{name!a} has letters that look like others"
    if _ENTITY_NAME.fullmatch(name) is None:
        return f"{shown(name)} is not a name"
    if name.startswith(INTERNAL) and (kind != "tool" or name.endswith(INTERNAL)):
        return f"{shown(name)} begins with {INTERNAL!r}, which is reserved"
    return None


def _entity_name(kind: Kind) -> AfterValidator:
    def checked(name: str) -> str:
        if (reason := why_not_a_name(name, kind)) is not None:
            raise refuse("InvalidName", reason, value=shown(name), expected=NAME_EXPECTED)
        return name

    return AfterValidator(checked)


def _exact(version: Any) -> Any:
    if not is_exact(version):
        raise refuse("InvalidVersion", why_not_exact(version), value=shown(version), expected=EXPECTED)
    return version


def _read_schema(value: Any) -> Any:
    """Take a schema as JSON or as text that is JSON."""
    if isinstance(value, str):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError as error:
            told = f"the text is not JSON: {error}"
            raise refuse("InvalidSchema", told, value=shown(value), expected="a JSON Schema") from None
    return value


def _check_schema(schema: Any) -> None:
    # What names schemas of the registry is checked once they are all known.
    if not names_entities(schema):
        compile_schema(schema)


read_schema = _read_schema
JsonSchema = Annotated[dict[str, AnyJson], AfterValidator(expression(_check_schema)), BeforeValidator(_read_schema)]
NewName = Annotated[Name, AfterValidator(_is_name)]
SchemaName = Annotated[str, _entity_name("schema")]
ServerName = Annotated[str, _entity_name("server")]
AgentName = Annotated[str, _entity_name("agent")]
Version = Annotated[str, BeforeValidator(_exact), WithJsonSchema({"type": "string", "pattern": PATTERN})]
Text = Annotated[str, Field(min_length=1)]


class Dependency(Node):
    """Exactly one version of a tool, a schema, or an agent with the skill that is used."""

    type: Literal["tool", "agent", "schema"]
    name: Name
    version: Version
    skill: Text | None = None

    @model_validator(mode="after")
    def _skilled(self) -> Dependency:
        if self.type == "agent" and self.skill is None:
            told = f"the dependency on agent {shown(self.name)} does not say which skill"
            raise refuse("MissingKey", told, expected="the id of one of its skills", at=("skill",))
        if self.type != "agent" and self.skill is not None:
            told = f"{self.type} {shown(self.name)} cannot have a skill"
            raise refuse("UnknownKey", told, value=shown(self.skill), expected="a skill of an agent", at=("skill",))
        return self


class Entity(Node):
    """What a registry holds by name and version."""

    kind: ClassVar[Kind]

    def to_json(self) -> dict[str, Json]:
        """Return the entity as canonical JSON."""
        return self.to_ir()

"""Groups: tools that others have, gathered under one tool."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema, model_validator

from weft.errors import shown
from weft.ir.names import (
    FIELD_NAME,
    GROUP_NAME,
    check_action_key,
    check_discriminator,
    check_glob,
    check_group_name,
)
from weft.ir.nodes import Node, refuse
from weft.ir.operations import Name

GATHERING = ("include", "servers", "tags", "actions")
"""The keys of which a group needs one."""

Format = Literal["markdown", "toon"]
Detail = Literal["full", "brief", "index"]
"""How much a group tells of its actions: all, a line and the fields of each, or only a line; `help` tells the rest."""
GroupName = Annotated[str, AfterValidator(check_group_name), WithJsonSchema({"type": "string", "pattern": GROUP_NAME})]
FieldName = Annotated[
    str, AfterValidator(check_discriminator), WithJsonSchema({"type": "string", "pattern": FIELD_NAME})
]
ActionKey = Annotated[str, AfterValidator(check_action_key)]
Glob = Annotated[str, AfterValidator(check_glob)]
Word = Annotated[str, Field(min_length=1)]
Most = Annotated[int, Field(ge=1, le=2**31 - 1)]


class GroupResponse(Node):
    """How much of a result a model gets, and whether it may say which fields it wants."""

    select: bool = True
    max_items: Most | None = None
    max_text: Most | None = None
    max_bytes: Most | None = None


class GroupDef(Node):
    """A group of tools, served as one tool whose actions they are; it has no version."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": [key]} for key in GATHERING]})

    name: GroupName
    title: str | None = None
    description: str | None = None
    include: list[Glob] = []
    exclude: list[Glob] = []
    servers: list[Word] = []
    tags: list[Word] = []
    exclude_tags: list[Word] = []
    actions: dict[ActionKey, Name] = {}
    discriminator: FieldName = "action"
    format: Format = "markdown"
    detail: Detail = "full"
    keep_tools: bool = False
    response: GroupResponse | None = None

    @model_validator(mode="after")
    def _gathers(self) -> GroupDef:
        if not (self.include or self.servers or self.tags or self.actions):
            told = f"the group {shown(self.name)} gathers nothing"
            raise refuse("MissingKey", told, expected=f"at least one of {', '.join(GATHERING)}")
        return self

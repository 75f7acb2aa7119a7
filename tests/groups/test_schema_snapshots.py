"""Schemas of grouped tools as people would write them, each read by one of us."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.types import Tool

from tests.groups.golden import is_golden
from weft.expr.schemas import compile_schema
from weft.groups.action import Action
from weft.groups.strategies.annotations import merged_annotations
from weft.groups.strategies.schema import input_schema

ZOD = "http://json-schema.org/draft-07/schema#"


def action(
    key: str,
    *required: str,
    fields: dict[str, Any],
    hints: dict[str, bool] | None = None,
    more: dict[str, Any] | None = None,
) -> Action:
    schema = {"type": "object", "properties": fields, "required": list(required), **(more or {})}
    return Action(key=key, schema=schema, annotations=hints or {})


USER_ID = {"type": "string", "format": "uuid", "description": "The user."}
EMAIL = {"type": "string", "format": "email", "description": "Where mail is sent."}
ROLE = {"type": "string", "enum": ["member", "admin", "owner"], "description": "What they may do."}
LIMIT = {"type": "integer", "minimum": 1, "maximum": 100, "default": 20, "description": "How many at most."}
READS = {"readOnlyHint": True, "openWorldHint": False}
WRITES = {"destructiveHint": False, "openWorldHint": False}
TENANT = {
    "type": "object",
    "properties": {
        "workspace": {"type": "string", "description": "The workspace, by its slug."},
        "trace": {"type": "string", "description": "Any text, to find the call again."},
    },
    "required": ["workspace"],
}

PLATFORM = [
    action("users.create", "email", "role", fields={"email": EMAIL, "role": ROLE}, hints=WRITES),
    action("users.update", "user_id", fields={"user_id": USER_ID, "email": EMAIL, "role": ROLE}, hints=WRITES),
    action("users.delete", "user_id", fields={"user_id": USER_ID}, hints={"openWorldHint": False}),
    action("users.list", fields={"role": ROLE, "limit": LIMIT}, hints=READS),
    action(
        "projects.create",
        "name",
        fields={
            "name": {"type": "string", "minLength": 1, "description": "What it is called."},
            "members": {"type": "array", "items": {"type": "string", "format": "uuid"}, "description": "Who is in it."},
        },
        hints=WRITES,
    ),
    action(
        "projects.search",
        "query",
        fields={"query": {"type": "string", "description": "Words to look for."}, "limit": {**LIMIT, "default": 10}},
        hints=READS,
    ),
]

ISSUES = [
    action("issues.get", "id", fields={"id": {"type": "integer", "description": "The number of the issue."}}),
    action("pages.get", "id", fields={"id": {"type": "string", "pattern": "^[a-z-]+$", "description": "Its slug."}}),
    action("pages.list", fields={"state": {"enum": ["draft", "live"]}, "page": {"type": "integer", "minimum": 1}}),
    action("issues.list", fields={"state": {"enum": ["open", "closed"]}, "page": {"type": "number"}}),
]

ADDRESS = {"type": "object", "title": "Address", "properties": {"city": {"type": "string"}, "zip": {"type": "string"}}}
LINE = {
    "type": "object",
    "properties": {"sku": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
    "required": ["sku"],
}
FILTER = {
    "type": "object",
    "properties": {
        "field": {"type": "string"},
        "equals": {},
        "any": {"type": "array", "items": {"$ref": "#/$defs/Filter"}},
    },
}
ORDERS = [
    action(
        "place",
        "lines",
        fields={
            "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}, "description": "What is ordered."},
            "ship_to": {"$ref": "#/$defs/Address", "description": "Where it goes."},
        },
        more={"$defs": {"Line": LINE, "Address": ADDRESS}},
    ),
    action(
        "move",
        "ship_to",
        fields={"ship_to": {"$ref": "#/definitions/Address", "description": "Where it goes."}},
        more={"definitions": {"Address": ADDRESS}},
    ),
    action("find", fields={"where": {"$ref": "#/$defs/Filter"}}, more={"$defs": {"Filter": FILTER}}),
    action(
        "comment",
        "text",
        fields={"text": {"type": "string"}, "replies": {"type": "array", "items": {"$ref": "#"}}},
    ),
    action("bill", "line", fields={"line": {"$ref": "#/$defs/Line"}}, more={"$defs": {"Line": {"type": "string"}}}),
]

OTHERS = [
    action("get_file", "path", fields={"path": {"type": "string", "title": "Path"}}, more={"$schema": ZOD}),
    action(
        "edit_file",
        "path",
        fields={
            "path": {"type": "string"},
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"oldText": {"type": "string"}, "newText": {"type": "string"}},
                    "required": ["oldText", "newText"],
                    "additionalProperties": False,
                },
            },
        },
        more={"$schema": ZOD, "additionalProperties": False},
    ),
    Action(
        key="notify",
        schema={
            "type": "object",
            "oneOf": [
                {
                    "properties": {"to": {"type": "string", "description": "A person."}},
                    "required": ["to"],
                    "additionalProperties": False,
                },
                {"$ref": "https://example.com/schemas/channel.json"},
            ],
        },
    ),
]

CASES: dict[str, tuple[list[Action], dict[str, Any]]] = {
    "platform": (PLATFORM, {"common": TENANT}),
    "platform_brief": (PLATFORM, {"common": TENANT, "detail": "brief"}),
    "union": (ISSUES, {"conflicts": "union"}),
    "union_brief": (ISSUES, {"conflicts": "union", "detail": "brief"}),
    "definitions": (
        ORDERS,
        {"discriminator": "do", "extra": {"_select": {"type": "array", "items": {"type": "string"}}}},
    ),
    "others": (OTHERS, {"conflicts": "union"}),
}


@pytest.mark.req("GRP-8", "GRP-9", "GRP-10", "GRP-11", "GRP-12", "GRP-13", "GRP-16")
@pytest.mark.parametrize("case", CASES)
def test_the_schema_of_a_group_is_as_it_was_read(case: str) -> None:
    actions, options = CASES[case]
    tool: dict[str, Any] = {
        "name": case,
        "inputSchema": input_schema(actions, **options),
        "annotations": merged_annotations(actions),
    }
    compile_schema(tool["inputSchema"])
    assert Tool.model_validate(tool).model_dump(by_alias=True, exclude_none=True) == tool
    assert is_golden(f"schema_{case}.json", json.dumps(tool, indent=2))

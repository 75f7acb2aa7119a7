"""A server on the SDK with tools that share fields and disagree about them, to stand behind the gateway in groups.

python -m tests.oracle.library      # over stdio
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import mcp_types as t
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from tests.conformance.asking import Context
from tests.conformance.tools import Result, said

READS = t.ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True)
WRITES = t.ToolAnnotations(read_only_hint=False, destructive_hint=False)
DELETES = t.ToolAnnotations(read_only_hint=False, destructive_hint=True)
PROCESS = "example.com/process"
"""Under which key of `_meta` a result says which process gave it."""

KINDS = ["novel", "poetry", "science"]
BOOK = {"type": "integer", "minimum": 1, "description": "The number of a book."}
MEMBER = {"type": "string", "pattern": "^m[0-9]+$", "description": "The card of a member."}
ADDRESS = {
    "type": "object",
    "properties": {"street": {"type": "string"}, "number": {"type": "integer", "minimum": 1}},
    "required": ["street"],
    "additionalProperties": False,
}


def tool(
    name: str, about: str, hints: t.ToolAnnotations, fields: dict[str, Any], *required: str, **more: Any
) -> t.Tool:
    """Return a tool as it is listed."""
    schema = {"type": "object", "properties": fields, "required": list(required), **more}
    return t.Tool(name=name, description=about, input_schema=schema, annotations=hints)


TOOLS = [
    tool(
        "book_find", "Find books.", READS,
        {"query": {"type": "string", "minLength": 1}, "kind": {"enum": KINDS},
         "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10}},
        "query",
    ),
    tool("book_get", "Return a book.", READS, {"id": BOOK}, "id"),
    tool(
        "book_add", "Add a book.", WRITES,
        {"title": {"type": "string"}, "year": {"type": ["integer", "null"]}, "kind": {"enum": KINDS},
         "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3}},
        "title", "kind", additionalProperties=False,
    ),
    tool("book_remove", "Remove a book, for good.", DELETES, {"id": BOOK}, "id", additionalProperties=False),
    tool("member_list", "List the members.", READS, {"limit": {"type": "integer"}}),
    tool("member_get", "Return a member.", READS, {"id": MEMBER}, "id"),
    tool(
        "member_add", "Add a member.", WRITES,
        {"name": {"type": "string"}, "address": {"$ref": "#/$defs/Address"}}, "name",
        **{"$defs": {"Address": ADDRESS}},
    ),
    tool("loan_begin", "Lend a book to a member.", WRITES, {"id": BOOK, "member": MEMBER}, "id", "member"),
    tool("loan_end", "Take a book back.", WRITES, {"id": BOOK, "damaged": {"type": "boolean"}}, "id"),
    tool("loan_move", "Say what is to happen to a loan.", WRITES, {"action": {"enum": ["extend", "stop"]}}, "action"),
]  # fmt: skip

RIGHT: dict[str, dict[str, Any]] = {
    "book_find": {"query": "bees", "kind": "science", "limit": 2},
    "book_get": {"id": 7},
    "book_add": {"title": "Bees", "kind": "poetry", "year": None, "tags": ["new"]},
    "book_remove": {"id": 7},
    "member_list": {},
    "member_get": {"id": "m1"},
    "member_add": {"name": "Ada", "address": {"street": "Long Row", "number": 3}},
    "loan_begin": {"id": 7, "member": "m1"},
    "loan_end": {"id": 7, "damaged": False},
}
"""For each tool that can be in a group a call that it takes."""

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "book_find": ({"query": ""}, "query"),
    "book_get": ({"id": "m1"}, "id"),
    "book_add": ({"title": "Bees", "kind": "cooking"}, "kind"),
    "book_remove": ({"id": 7, "query": "bees"}, "query"),
    "member_list": ({"limit": "all"}, "limit"),
    "member_get": ({"id": 7}, "id"),
    "member_add": ({"name": "Ada", "address": {"street": "Long Row", "town": "Delft"}}, "address"),
    "loan_begin": ({"id": 7}, "member"),
    "loan_end": ({"id": 7, "damged": True}, "damged"),
}
"""For each of them a call that it does not take, and the field on which that lies."""


def _answer(name: str, given: dict[str, Any]) -> Any:
    book = {"id": 7, "title": "Bees", "kind": "science", "shelf": "S3"}
    answers: dict[str, Callable[[], Any]] = {
        "book_find": lambda: {"books": [{**book, "id": at} for at in range(given.get("limit", 10))]},
        "book_get": lambda: {**book, "id": given["id"]},
        "member_list": lambda: {"members": [{"id": f"m{at}", "name": "Ada"} for at in range(50)]},
    }
    return answers[name]() if name in answers else {"did": name, "with": given}


async def _list(ctx: Context, params: Any) -> t.ListToolsResult:
    return t.ListToolsResult(tools=TOOLS)


async def _call(ctx: Context, params: t.CallToolRequestParams) -> Result:
    if params.name not in {tool.name for tool in TOOLS}:
        raise MCPError(t.INVALID_PARAMS, f"Unknown tool: {params.name}")
    found = _answer(params.name, params.arguments or {})
    return said(params.name, structured_content=found, _meta={PROCESS: os.getpid()})


async def main() -> None:
    """Serve over stdio."""
    server = Server[Any](
        "library", version="1.0.0", get_tool_input_schema=lambda _: None, on_list_tools=_list, on_call_tool=_call
    )
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())

"""A real MCP server of both eras, on the SDK, for the client's tests: over stdio as a child, over HTTP in a thread."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as t
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

NOTHING: dict[str, Any] = {"type": "object"}
REGION: dict[str, Any] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "$defs": {"kept": {"$anchor": "kept"}},
}
PAGES = [["echo", "steps"], ["wait", "cancelled"], ["fail", "regional"]]
SCHEMAS = {name: REGION if name == "regional" else NOTHING for page in PAGES for name in page}
cancelled: list[str] = []


async def list_tools(ctx: ServerRequestContext[Any], params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
    """List the tools, two on a page."""
    page = int(params.cursor) if params is not None and params.cursor else 0
    tools = [t.Tool(name=name, input_schema=SCHEMAS[name], _meta={"on": page}) for name in PAGES[page]]
    following = str(page + 1) if page + 1 < len(PAGES) else None
    return t.ListToolsResult(tools=tools, next_cursor=following, ttl_ms=0, cache_scope="private")


async def list_prompts(ctx: ServerRequestContext[Any], params: t.PaginatedRequestParams | None) -> t.ListPromptsResult:
    """List the prompts."""
    return t.ListPromptsResult(prompts=[t.Prompt(name="greet")], ttl_ms=0, cache_scope="private")


async def call_tool(ctx: ServerRequestContext[Any], params: t.CallToolRequestParams) -> t.CallToolResult:
    """Call a tool."""
    given = params.arguments or {}
    match params.name:
        case "echo" | "regional":
            return t.CallToolResult(content=[t.TextContent(type="text", text="echoed")], structured_content=given)
        case "steps":
            for step in (1, 2, 3):
                await ctx.session.report_progress(step, 3, f"{given['who']} {step}")
            return told("done")
        case "wait":
            # A first word makes the answer a stream, whose end the server sees.
            await ctx.session.report_progress(0, 1, "waiting")
            try:
                await anyio.sleep(600)
            except anyio.get_cancelled_exc_class():
                cancelled.append(str(given["who"]))
                raise
            return told("waited")
        case "cancelled":
            return told(",".join(cancelled))
        case "fail":
            return t.CallToolResult(content=[t.TextContent(type="text", text="no such customer")], is_error=True)
        case _:
            raise MCPError(code=t.INVALID_PARAMS, message=f"Unknown tool: {params.name}", data={"tool": params.name})


def told(text: str) -> t.CallToolResult:
    """Return a result of one text."""
    return t.CallToolResult(content=[t.TextContent(type="text", text=text)])


def oracle() -> Server[Any]:
    """Return the server."""
    return Server[Any](
        "oracle",
        version="7",
        instructions="Ask, and wait.",
        on_list_tools=list_tools,
        on_list_prompts=list_prompts,
        on_call_tool=call_tool,
        get_tool_input_schema=SCHEMAS.get,
    )


async def main() -> None:
    """Serve until the end of input."""
    server = oracle()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)

"""A real MCP server of both eras, on the SDK, with a tool that reports progress and one that can be cancelled."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as t
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ToolsListChanged

NOTHING: dict[str, Any] = {"type": "object"}
cancelled: list[str] = []
bus = InMemorySubscriptionBus()


async def list_tools(ctx: ServerRequestContext[Any], params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
    """List the tools."""
    names = ["add", "steps", "wait", "cancelled", "change"]
    return t.ListToolsResult(tools=[t.Tool(name=one, input_schema=NOTHING) for one in names])


async def call_tool(ctx: ServerRequestContext[Any], params: t.CallToolRequestParams) -> t.CallToolResult:
    """Call a tool."""
    given = params.arguments or {}
    match params.name:
        case "add":
            return told(str(given["a"] + given["b"]))
        case "steps":
            for step in (1, 2, 3):
                await ctx.session.report_progress(step, 3, f"step {step}")
            return told("done")
        case "wait":
            try:
                await anyio.sleep(600)
            except anyio.get_cancelled_exc_class():
                cancelled.append(str(given["who"]))
                raise
            return told("waited")
        case "change":
            await bus.publish(ToolsListChanged())
            return told("changed")
        case _:
            return told(",".join(cancelled))


def told(text: str) -> t.CallToolResult:
    """Return a result of one text."""
    return t.CallToolResult(content=[t.TextContent(type="text", text=text)])


async def main() -> None:
    """Serve until the end of input."""
    server = Server[Any](
        "real",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=ListenHandler(bus),
        get_tool_input_schema=lambda name: NOTHING,
    )
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)

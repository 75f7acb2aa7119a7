"""A real MCP server, on the SDK, that asks its client, says things beside its answers, and changes its lists."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as t
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

NOTHING: dict[str, Any] = {"type": "object"}


async def list_tools(ctx: ServerRequestContext[Any], params: object) -> t.ListToolsResult:
    """List the tools."""
    tools = [t.Tool(name=name, input_schema=NOTHING) for name in ("ask", "say", "change")]
    return t.ListToolsResult(tools=tools, ttl_ms=0, cache_scope="private")


def asker() -> Server[Any]:
    """Return the server."""
    bus = InMemorySubscriptionBus()

    async def call_tool(ctx: ServerRequestContext[Any], params: t.CallToolRequestParams) -> t.CallToolResult:
        given = params.arguments or {}
        text = "said"
        if params.name == "ask":
            found = await ctx.session.elicit_form(
                f"Who is {given['who']}?", {"type": "object", "properties": {}}, related_request_id=ctx.request_id
            )
            text = f"{found.action} {found.content}"
        elif params.name == "say":
            params_of = t.LoggingMessageNotificationParams(level="warning", data=given["text"])
            said = t.LoggingMessageNotification(params=params_of)
            await ctx.session.send_notification(said, related_request_id=ctx.request_id)
        else:
            await bus.publish(ToolsListChanged())
        return t.CallToolResult(content=[t.TextContent(type="text", text=text)])

    return Server[Any](
        "asker",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=ListenHandler(bus),
        get_tool_input_schema=lambda _name: NOTHING,
    )


async def main() -> None:
    """Serve until the end of input."""
    server = asker()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)

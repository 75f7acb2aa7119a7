"""A real MCP server of both eras, on the SDK, that changes, asks, logs and tells of itself: a child, or in a thread."""

from __future__ import annotations

import os
import warnings
from functools import partial
from typing import Any

import anyio
import mcp_types as t
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged

NOTHING: dict[str, Any] = {"type": "object"}
NAME: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}
TOOLS = ("who", "ask", "log", "grow", "burst", "touch", "steps", "wait", "cancelled", "readings", "fail")

Context = ServerRequestContext[Any]


class Workshop:
    """The server, and what it remembers."""

    def __init__(self) -> None:
        self.names: list[str] = list(TOOLS)
        self.readings = 0
        self.cancelled: list[str] = []
        self.levels: list[str] = []
        self.watched: list[str] = []
        self.sessions: dict[int, ServerSession] = {}
        self.bus = InMemorySubscriptionBus()

    def server(self) -> Server[Any]:
        """Return the SDK's server."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # logging is deprecated, and legacy servers have it
            server = Server[Any](
                "workshop",
                version="3",
                instructions="Knock first.",
                on_list_tools=self.list_tools,
                on_call_tool=self.call_tool,
                on_list_prompts=self.list_prompts,
                on_list_resources=self.list_resources,
                on_subscribe_resource=self.subscribe,
                on_unsubscribe_resource=self.subscribe,
                on_set_logging_level=self.set_level,
                on_subscriptions_listen=ListenHandler(self.bus),
                get_tool_input_schema=lambda name: NOTHING,
            )
        options: Any = server.create_initialization_options
        server.create_initialization_options = partial(options, NotificationOptions(tools_changed=True))
        return server

    async def list_tools(self, ctx: Context, params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        """List the tools, three on a page."""
        connection: Any = ctx.session._connection  # pyright: ignore[reportPrivateUsage] - sessions are made per request
        self.sessions[id(connection)] = ctx.session
        start = int(params.cursor) if params is not None and params.cursor else 0
        self.readings += start == 0
        tools = [t.Tool(name=name, input_schema=NOTHING, output_schema=None) for name in self.names[start : start + 3]]
        following = str(start + 3) if start + 3 < len(self.names) else None
        return t.ListToolsResult(tools=tools, next_cursor=following, ttl_ms=0, cache_scope="private")

    async def list_prompts(self, ctx: Context, params: t.PaginatedRequestParams | None) -> t.ListPromptsResult:
        """List the prompts."""
        return t.ListPromptsResult(prompts=[t.Prompt(name="greet")], ttl_ms=0, cache_scope="private")

    async def list_resources(self, ctx: Context, params: t.PaginatedRequestParams | None) -> t.ListResourcesResult:
        """List the resources."""
        one = t.Resource(name="bench", uri="shop://bench")
        return t.ListResourcesResult(resources=[one], ttl_ms=0, cache_scope="private")

    async def subscribe(self, ctx: Context, params: Any) -> t.EmptyResult:
        """Remember who watches."""
        self.watched.append(str(params.uri))
        return t.EmptyResult()

    async def set_level(self, ctx: Context, params: t.SetLevelRequestParams) -> t.EmptyResult:
        """Remember the level."""
        self.levels.append(params.level)
        return t.EmptyResult()

    async def call_tool(
        self, ctx: Context, params: t.CallToolRequestParams
    ) -> t.CallToolResult | t.InputRequiredResult:
        """Call a tool."""
        tool = getattr(self, f"tool_{params.name}", None)
        if tool is None:
            return told(f"made {params.name}")
        return await tool(ctx, params, params.arguments or {})

    async def tool_who(self, ctx: Context, params: t.CallToolRequestParams, given: dict[str, Any]) -> t.CallToolResult:
        """Tell what is known of process and client."""
        can = ctx.session.client_capabilities
        told_of = {"pid": os.getpid(), "can": can.model_dump(exclude_none=True) if can else {}}
        meta = {key: value for key, value in (ctx.meta or {}).items() if key == "traceparent"}
        return t.CallToolResult(content=[], structured_content={**told_of, "meta": meta, "levels": self.levels})

    async def tool_ask(self, ctx: Context, params: t.CallToolRequestParams, given: dict[str, Any]) -> Any:
        """Ask the client for its name: by a result in the modern era, by a request before it."""
        if ctx.protocol_version >= "2026":
            answers: dict[str, Any] = params.input_responses or {}
            if given.get("endless") or "name" not in answers:
                form = t.ElicitRequestFormParams(message="Who is there?", requested_schema=NAME)
                asked: Any = {"name": t.ElicitRequest(params=form)}
                return t.InputRequiredResult(input_requests=asked, request_state="state-1")
            return told(f"{answers['name'].content['name']} {params.request_state}")
        related = None if given.get("apart") else ctx.request_id
        answer = await ctx.session.elicit_form(given.get("text", "Who is there?"), NAME, related)
        return told(str((answer.content or {}).get("name", answer.action)))

    async def tool_log(self, ctx: Context, params: Any, given: dict[str, Any]) -> t.CallToolResult:
        """Log at three levels."""
        say: Any = ctx.session.send_log_message  # pyright: ignore[reportDeprecated] - legacy servers have it
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for level in ("debug", "info", "error"):
                await say(level, f"{given['who']} {level}", related_request_id=ctx.request_id)
        return told("logged")

    async def tool_grow(self, ctx: Context, params: Any, given: dict[str, Any]) -> t.CallToolResult:
        """Have one more tool, and say so."""
        self.names.append(given["name"])
        await self.changed(1)
        return told("grown")

    async def tool_burst(self, ctx: Context, params: Any, given: dict[str, Any]) -> t.CallToolResult:
        """Say that the tools changed, a hundred times."""
        await self.changed(100)
        return told("burst")

    async def changed(self, times: int) -> None:
        """Say that the tools changed."""
        for _ in range(times):
            await self.bus.publish(ToolsListChanged())
            for session in list(self.sessions.values()):
                if session.protocol_version < "2026":
                    await session.send_tool_list_changed()

    async def tool_touch(self, ctx: Context, params: Any, given: dict[str, Any]) -> t.CallToolResult:
        """Say that a resource changed, and who watches it."""
        await self.bus.publish(ResourceUpdated(uri=given["uri"]))
        for session in list(self.sessions.values()):
            if session.protocol_version < "2026":
                await session.send_resource_updated(given["uri"])
        return told(",".join(self.watched))

    async def tool_steps(self, ctx: Context, params: Any, given: dict[str, Any]) -> t.CallToolResult:
        """Report progress."""
        for step in (1, 2, 3):
            await ctx.session.report_progress(step, 3, f"{given['who']} {step}")
        return told("done")

    async def tool_wait(self, ctx: Context, params: Any, given: dict[str, Any]) -> t.CallToolResult:
        """Wait until given up, or as long as told."""
        await ctx.session.report_progress(0, 1, "waiting")
        try:
            await anyio.sleep(given.get("seconds", 600))
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(str(given["who"]))
            raise
        return told("waited")

    async def tool_cancelled(self, ctx: Context, params: Any, given: dict[str, Any]) -> t.CallToolResult:
        """Tell whose calls were given up."""
        return told(",".join(self.cancelled))

    async def tool_readings(self, ctx: Context, params: Any, given: dict[str, Any]) -> t.CallToolResult:
        """Tell how often the tools were listed."""
        return told(str(self.readings))

    async def tool_fail(self, ctx: Context, params: Any, given: dict[str, Any]) -> t.CallToolResult:
        """Say no."""
        return t.CallToolResult(content=[t.TextContent(type="text", text="out of stock")], is_error=True)


def told(text: str) -> t.CallToolResult:
    """Return a result of one text."""
    return t.CallToolResult(content=[t.TextContent(type="text", text=text)])


async def main() -> None:
    """Serve until the end of input."""
    server = Workshop().server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)

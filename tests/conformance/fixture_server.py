"""The server behind the gateway when the official suite runs: every fixture that its server scenarios ask for.

    python -m tests.conformance.fixture_server --port 3001    # Streamable HTTP, on 127.0.0.1
    python -m tests.conformance.fixture_server --stdio

It speaks both eras, being written on the `mcp` SDK, and is used by `scripts/conformance.py`.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import mcp_types as t
import uvicorn
from mcp.server import NotificationOptions, Server
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

from tests.conformance.asking import Context, is_modern
from tests.conformance.questions import ASKING
from tests.conformance.reading import PROMPTS, RESOURCES, TEMPLATES, complete, get_prompt, read_resource
from tests.conformance.tools import PLAIN, Fixture, Result, always, said


class Announcing(Server[Any]):
    """A server that says that its lists change, in either era."""

    def get_capabilities(self, *args: Any, **kwargs: Any) -> t.ServerCapabilities:
        """Return what the server can do, announcements among it."""
        kwargs["notification_options"] = NotificationOptions(True, True, True)
        return super().get_capabilities(**kwargs)

    def create_initialization_options(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the handshake says."""
        options = super().create_initialization_options()
        return options.model_copy(update={"capabilities": self.get_capabilities()})


class Everything:
    """The fixtures as one server, whose lists change when a tool is told to change them."""

    def __init__(self) -> None:
        changing = {
            "test_trigger_tool_change": Fixture(description="Changes the list of tools", run=self._change_tools),
            "test_trigger_prompt_change": Fixture(description="Changes the list of prompts", run=self._change_prompts),
        }
        self.tools = PLAIN | ASKING | changing
        self.prompts = {prompt.name: prompt for prompt in PROMPTS}
        self.bus = InMemorySubscriptionBus()
        self._sessions: dict[str, ServerSession] = {}

    def server(self) -> Announcing:
        """Return it on the SDK's server."""
        server = Announcing(
            "conformance-fixtures",
            version="1.0.0",
            get_tool_input_schema=lambda name: self.tools[name].schema if name in self.tools else None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=get_prompt,
            on_list_resources=_list_resources,
            on_list_resource_templates=_list_templates,
            on_read_resource=read_resource,
            on_subscribe_resource=_nothing,
            on_unsubscribe_resource=_nothing,
            on_completion=complete,
            on_subscriptions_listen=ListenHandler(self.bus),
        )
        # Its keyword is deprecated with the logging capability, which is scored for 2025-11-25.
        server.add_request_handler("logging/setLevel", t.SetLevelRequestParams, _nothing)
        return server

    async def _list_tools(self, ctx: Context, params: Any) -> t.ListToolsResult:
        self._remember(ctx)
        return t.ListToolsResult(tools=[tool.listed(name) for name, tool in self.tools.items()])

    async def _list_prompts(self, ctx: Context, params: Any) -> t.ListPromptsResult:
        self._remember(ctx)
        return t.ListPromptsResult(prompts=list(self.prompts.values()))

    async def _call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> Result:
        tool = self.tools.get(params.name)
        if tool is None:
            raise MCPError(t.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await tool.run(ctx, params)

    def _remember(self, ctx: Context) -> None:
        """Keep whom a handshake-era announcement has to reach: the SDK has no list of its sessions."""
        if not is_modern(ctx):
            self._sessions[ctx.request.headers.get("mcp-session-id", "") if ctx.request else ""] = ctx.session

    async def _change_tools(self, ctx: Context, params: t.CallToolRequestParams) -> Result:
        if self.tools.pop("test_dynamic_tool", None) is None:
            text = t.TextContent(text="Now you see me.")
            self.tools["test_dynamic_tool"] = Fixture(description="Comes and goes", run=always(text))
        await self.bus.publish(ToolsListChanged())
        for session in list(self._sessions.values()):
            await session.send_tool_list_changed()
        return said("The list of tools has changed.")

    async def _change_prompts(self, ctx: Context, params: t.CallToolRequestParams) -> Result:
        if self.prompts.pop("test_dynamic_prompt", None) is None:
            self.prompts["test_dynamic_prompt"] = t.Prompt(name="test_dynamic_prompt", description="Comes and goes")
        await self.bus.publish(PromptsListChanged())
        for session in list(self._sessions.values()):
            await session.send_prompt_list_changed()
        return said("The list of prompts has changed.")


async def _list_resources(ctx: Context, params: Any) -> t.ListResourcesResult:
    return t.ListResourcesResult(resources=RESOURCES)


async def _list_templates(ctx: Context, params: Any) -> t.ListResourceTemplatesResult:
    return t.ListResourceTemplatesResult(resource_templates=TEMPLATES)


async def _nothing(ctx: Context, params: Any) -> t.EmptyResult:
    return t.EmptyResult()


async def _stdio() -> None:
    server = Everything().server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    """Serve until told to stop."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=3001)
    options.add_argument("--stdio", action="store_true")
    chosen = options.parse_args()
    if chosen.stdio:
        asyncio.run(_stdio())
        return
    app = Everything().server().streamable_http_app(host="127.0.0.1")
    uvicorn.run(app, host="127.0.0.1", port=chosen.port, log_level="warning", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    main()

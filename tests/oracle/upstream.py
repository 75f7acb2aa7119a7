"""A server on the SDK to stand behind the gateway: every kind of exchange, under names of its own.

python -m tests.oracle.upstream NAME      # over stdio; its tools are called NAME_echo, NAME_wait ...
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import mcp_types as t
from mcp.server.context import CallNext, HandlerResult
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPError

from tests.conformance.asking import Context, ask, form, is_modern, outcome, require, sampling, text_of
from tests.conformance.fixture_server import Announcing
from tests.conformance.tools import Result, log, said

Arguments: TypeAlias = dict[str, Any]
Handler: TypeAlias = Callable[[Context, t.CallToolRequestParams], Awaitable[Result]]

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"point": {"$anchor": "point", "type": "object", "properties": {"x": {"type": "number"}}}},
    "properties": {"at": {"$ref": "#/$defs/point"}, "label": {"type": "string", "x-vendor-hint": ["kept", 1]}},
    "additionalProperties": True,
}
OUTPUT: dict[str, Any] = {"type": "object", "properties": {"heard": {}, "deep": {"type": "array"}}}
ANNOTATIONS = {"title": "Echo", "readOnlyHint": True, "openWorldHint": False, "x-vendor": {"a": 1}}
ICONS = [{"src": "data:image/png;base64,AA==", "mimeType": "image/png", "sizes": ["48x48"], "x-vendor": True}]
META = {"example.com/team": {"name": "weavers", "size": 3}}
REFUSAL = t.ErrorData(code=-32050, message="Not on a Sunday", data={"retryAt": "Monday", "tries": [1, 2]})


class Oracle:
    """The server: what it lists, what it does, and whom it tells of changes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.scheme = name.replace("_", "-")
        self.bus = InMemorySubscriptionBus()
        self.grown = 0
        self.sessions: dict[str, ServerSession] = {}
        self.handlers: dict[str, Handler] = {
            f"{name}_{handler.__name__.strip('_')}": handler
            for handler in (
                _echo, _steps, _wait, _elicit, _thrice, _aside, _sample, _chatter, _fail, _refuse,
                self._grow, self._touch, self._who,
            )
        }  # fmt: skip

    def server(self) -> Announcing:
        """Return it on the SDK's server."""
        server = Announcing(
            self.name,
            version="1.0.0",
            instructions=f"This is {self.name}.",
            get_tool_input_schema=lambda _: None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read,
            on_subscribe_resource=self._follow,
            on_unsubscribe_resource=self._follow,
            on_completion=self._complete,
            on_subscriptions_listen=ListenHandler(self.bus),
        )
        server.add_request_handler("logging/setLevel", t.SetLevelRequestParams, self._follow)
        server.middleware.append(self._embellish)
        return server

    async def _embellish(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Add what the SDK's models do not know, after they have been through them."""
        result = await call_next(ctx)
        if isinstance(result, dict) and ctx.method == "tools/list":
            for tool in result.get("tools", []):
                if tool["name"] == f"{self.name}_echo":
                    tool |= {"annotations": ANNOTATIONS, "icons": ICONS, "x-vendor-tool": {"kept": [None, 1.5]}}
        if isinstance(result, dict) and ctx.method == "tools/call":
            result["x-vendor-result"] = {"kept": True}
        return result

    async def _list_tools(self, ctx: Context, params: Any) -> t.ListToolsResult:
        self._remember(ctx)
        plain = {"type": "object"}
        waiting = {**plain, "properties": {"folder": {"type": "string"}}, "required": ["folder"]}
        told = {f"{self.name}_wait": waiting}
        tools = [t.Tool(name=name, description=name, input_schema=told.get(name, plain)) for name in self.handlers]
        tools[0] = t.Tool(
            name=f"{self.name}_echo", title="Echo", description="Says it again", input_schema=SCHEMA,
            output_schema=OUTPUT, _meta=META,
        )  # fmt: skip
        tools += [t.Tool(name=f"{self.name}_grown_{n}", input_schema=plain) for n in range(self.grown)]
        return t.ListToolsResult(tools=tools)

    async def _call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> Result:
        handler = self.handlers.get(params.name)
        if handler is None:
            raise MCPError(t.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await handler(ctx, params)

    async def _grow(self, ctx: Context, params: t.CallToolRequestParams) -> Result:
        self.grown += 1
        await self.bus.publish(ToolsListChanged())
        for session in list(self.sessions.values()):
            await session.send_tool_list_changed()
        return said(f"{self.name}_grown_{self.grown - 1}")

    async def _touch(self, ctx: Context, params: t.CallToolRequestParams) -> Result:
        uri = f"{self.scheme}://texts/changing"
        await self.bus.publish(ResourceUpdated(uri=uri))
        for session in list(self.sessions.values()):
            await session.send_resource_updated(uri)
        return said(uri)

    async def _who(self, ctx: Context, params: t.CallToolRequestParams) -> Result:
        capabilities = ctx.session.client_capabilities
        told = capabilities.model_dump(by_alias=True, exclude_none=True) if capabilities else {}
        return said(self.name, structured_content={"version": ctx.protocol_version, "capabilities": told})

    def _remember(self, ctx: Context) -> None:
        """Keep whom a handshake-era announcement has to reach: the SDK has no list of its sessions."""
        if not is_modern(ctx):
            self.sessions[ctx.request.headers.get("mcp-session-id", "") if ctx.request else ""] = ctx.session

    async def _follow(self, ctx: Context, params: Any) -> t.EmptyResult:
        self._remember(ctx)
        return t.EmptyResult()

    async def _list_prompts(self, ctx: Context, params: Any) -> t.ListPromptsResult:
        argument = t.PromptArgument(name="mood", required=True)
        return t.ListPromptsResult(
            prompts=[t.Prompt(name=f"{self.name}_greet", title="Greeting", arguments=[argument], _meta=META)]
        )

    async def _get_prompt(self, ctx: Context, params: t.GetPromptRequestParams) -> t.GetPromptResult:
        if params.name != f"{self.name}_greet":
            raise MCPError(t.INVALID_PARAMS, f"Unknown prompt: {params.name}")
        text = t.TextContent(text=f"Be {(params.arguments or {})['mood']}")
        return t.GetPromptResult(description="Asked", messages=[t.PromptMessage(role="user", content=text)])

    async def _list_resources(self, ctx: Context, params: Any) -> t.ListResourcesResult:
        self._remember(ctx)
        found = [
            t.Resource(uri=f"{self.scheme}://texts/{name}", name=f"{self.name}-{name}", mime_type="text/plain")
            for name in ("fixed", "changing")
        ]
        return t.ListResourcesResult(resources=found)

    async def _list_templates(self, ctx: Context, params: Any) -> t.ListResourceTemplatesResult:
        template = t.ResourceTemplate(uri_template=f"{self.scheme}://numbers/{{n}}", name=f"{self.name}-numbers")
        return t.ListResourceTemplatesResult(resource_templates=[template])

    async def _read(self, ctx: Context, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        kind, _, name = params.uri.removeprefix(f"{self.scheme}://").partition("/")
        if kind not in {"texts", "numbers"} or name == "nowhere":
            raise MCPError(t.INVALID_PARAMS if is_modern(ctx) else -32002, "Resource not found", {"uri": params.uri})
        return t.ReadResourceResult(contents=[t.TextResourceContents(uri=params.uri, text=f"{kind}: {name}")])

    async def _complete(self, ctx: Context, params: t.CompleteRequestParams) -> t.CompleteResult:
        moods = [mood for mood in ("calm", "cautious", "glad") if mood.startswith(params.argument.value)]
        return t.CompleteResult(completion=t.Completion(values=moods, total=len(moods), has_more=False))


async def _echo(ctx: Context, params: t.CallToolRequestParams) -> Result:
    heard = {"heard": params.arguments, "deep": [None, 1, 1.5, 12345678901234567, "ü\u2028"]}
    link = t.ResourceLink(uri="https://example.com/a", name="a", annotations=t.Annotations(priority=0.5))
    text = t.TextContent(text="heard", _meta=META)
    return t.CallToolResult(content=[text, link], structured_content=heard, _meta=META)


async def _steps(ctx: Context, params: t.CallToolRequestParams) -> Result:
    for step in (1, 2, 3):
        await ctx.session.report_progress(step, 3, f"step {step}")
    return said("done")


async def _wait(ctx: Context, params: t.CallToolRequestParams) -> Result:
    """Wait for ever, and leave in a file when it was told not to."""
    place = Path((params.arguments or {})["folder"])
    (place / "started").touch()
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        (place / "cancelling").write_text(repr(time.time()))
        (place / "cancelling").rename(place / "cancelled")
        raise
    raise AssertionError


async def _elicit(ctx: Context, params: t.CallToolRequestParams) -> Result:
    require(ctx, "elicitation")
    answers = await ask(ctx, params, {"size": form("What size?", size={"type": "integer"})}, state="asked-for-size")
    return answers if isinstance(answers, t.InputRequiredResult) else said(outcome(answers["size"]))


async def _thrice(ctx: Context, params: t.CallToolRequestParams) -> Result:
    """Ask three times, one after the other, in the way of the handshake era."""
    sizes: list[str] = []
    for n in range(3):
        answers = await ask(ctx, params, {"size": form(f"What size, {n}?", size={"type": "integer"})})
        if isinstance(answers, t.InputRequiredResult):
            return answers
        sizes.append(outcome(answers["size"]))
    return said("; ".join(sizes))


async def _aside(ctx: Context, params: t.CallToolRequestParams) -> Result:
    """Ask beside the call rather than in its stream, as servers may in the handshake era."""
    if is_modern(ctx):
        return await _elicit(ctx, params)
    question = form("What size?", size={"type": "integer"})
    return said(outcome(await ctx.session.send_request(question, t.ElicitResult, request_read_timeout_seconds=10)))


async def _sample(ctx: Context, params: t.CallToolRequestParams) -> Result:
    require(ctx, "sampling")
    answers = await ask(ctx, params, {"poem": sampling("Write a poem")})
    return answers if isinstance(answers, t.InputRequiredResult) else said(text_of(answers["poem"]))


async def _chatter(ctx: Context, params: t.CallToolRequestParams) -> Result:
    levels: tuple[t.LoggingLevel, ...] = ("debug", "info", "error")
    for level in levels:
        await log(ctx, f"a word at {level}", level=level)
    return said("chattered")


async def _fail(ctx: Context, params: t.CallToolRequestParams) -> Result:
    return said("The printer is on fire", is_error=True, structured_content={"printer": "LP0"})


async def _refuse(ctx: Context, params: t.CallToolRequestParams) -> Result:
    raise MCPError(REFUSAL.code, REFUSAL.message, REFUSAL.data)


class Pages:
    """A server of 1,050 tools, which it lists 50 at a time."""

    def server(self) -> Announcing:
        """Return it on the SDK's server."""
        return Announcing("pages", on_list_tools=self._list_tools, on_call_tool=_echo)

    async def _list_tools(self, ctx: Context, params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        start = int(params.cursor) if params and params.cursor else 0
        tools = [t.Tool(name=f"page_tool_{n:04}", input_schema={"type": "object"}) for n in range(start, start + 50)]
        return t.ListToolsResult(tools=tools, next_cursor=str(start + 50) if start < 1000 else None)


async def main() -> None:
    """Serve over stdio."""
    server = Oracle(sys.argv[1]).server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())

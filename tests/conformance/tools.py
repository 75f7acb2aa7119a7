"""The tools that the suite calls by name, except those that ask the client something."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import mcp_types as t
from mcp.server.context import ServerRequestContext

from tests.conformance.samples import NO_ARGUMENTS, SCHEMA_2020_12, WAV, embedded, image

Context: TypeAlias = ServerRequestContext[Any, Any]
Result: TypeAlias = t.CallToolResult | t.InputRequiredResult
Handler: TypeAlias = Callable[[Context, t.CallToolRequestParams], Awaitable[Result]]

PAUSE = 0.05
"""Seconds between the notifications of one call, so that a client can receive several while the tool runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """One tool: what it says of itself, and what it does."""

    description: str
    run: Handler
    schema: Mapping[str, Any] = field(default_factory=lambda: NO_ARGUMENTS)

    def listed(self, name: str) -> t.Tool:
        """Return the tool as tools/list shows it."""
        return t.Tool(name=name, description=self.description, input_schema=dict(self.schema))


def said(text: str, **more: Any) -> t.CallToolResult:
    """Return a result of one text."""
    return t.CallToolResult(content=[t.TextContent(text=text)], **more)


def always(*content: t.ContentBlock, is_error: bool = False) -> Handler:
    """Return the handler that gives the same contents to everybody."""

    async def run(ctx: Context, params: t.CallToolRequestParams) -> Result:
        return t.CallToolResult(content=list(content), is_error=is_error)

    return run


def strings(*names: str, **more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object of required strings, and of whatever else."""
    properties = {name: {"type": "string"} for name in names} | more
    return {"type": "object", "properties": properties, "required": list(names)}


async def _with_logging(ctx: Context, params: t.CallToolRequestParams) -> Result:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log(ctx, text)
        await anyio.sleep(PAUSE)
    return said("Three messages were logged.")


async def log(ctx: Context, text: str, *, level: t.LoggingLevel = "info") -> None:
    """Tell the client of this request something that is not its result."""
    note = t.LoggingMessageNotification(
        params=t.LoggingMessageNotificationParams(level=level, logger="fixture", data=text)
    )
    if ctx.session.protocol_version >= "2026" and not _wants(ctx, level):
        return
    await ctx.session.send_notification(note, related_request_id=ctx.request_id)


def _wants(ctx: Context, level: str) -> bool:
    order = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
    wanted: Any = (ctx.meta or {}).get("io.modelcontextprotocol/logLevel")
    return wanted in order and order.index(level) >= order.index(wanted)


async def _with_progress(ctx: Context, params: t.CallToolRequestParams) -> Result:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"{done} of 100")
        await anyio.sleep(PAUSE)
    return said("Progress was reported three times.")


async def _echo(ctx: Context, params: t.CallToolRequestParams) -> Result:
    return said(json.dumps(params.arguments or {}, sort_keys=True))


_MIRRORED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "query": {"type": "string"},
    },
    "required": ["region"],
}

PLAIN: dict[str, Fixture] = {
    "test_simple_text": Fixture(
        description="Returns a text", run=always(t.TextContent(text="This is a simple text response for testing."))
    ),
    "test_image_content": Fixture(description="Returns a picture", run=always(image())),
    "test_audio_content": Fixture(
        description="Returns a sound", run=always(t.AudioContent(data=WAV, mime_type="audio/wav"))
    ),
    "test_embedded_resource": Fixture(
        description="Returns a resource",
        run=always(embedded("test://embedded-resource", "This is an embedded resource content.")),
    ),
    "test_multiple_content_types": Fixture(
        description="Returns a text, a picture and a resource",
        run=always(
            t.TextContent(text="Multiple content types test:"),
            image(),
            embedded("test://mixed-content-resource", '{"test":"data","value":123}', mime="application/json"),
        ),
    ),
    "test_error_handling": Fixture(
        description="Always fails",
        run=always(t.TextContent(text="This tool intentionally returns an error for testing"), is_error=True),
    ),
    "test_tool_with_logging": Fixture(description="Logs three messages", run=_with_logging),
    "test_logging_tool": Fixture(description="Logs to whoever wants messages", run=_with_logging),
    "test_tool_with_progress": Fixture(description="Reports its progress three times", run=_with_progress),
    "test_reconnection": Fixture(description="Returns a text after a while", run=_with_progress),
    "json_schema_2020_12_tool": Fixture(
        description="Tool with JSON Schema 2020-12 features", run=_echo, schema=SCHEMA_2020_12
    ),
    "test_custom_headers": Fixture(description="Wants its region as a header too", run=_echo, schema=_MIRRORED),
}

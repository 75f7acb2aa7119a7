"""Real MCP servers of Python tools, over HTTP on this machine, and a gateway in front of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import orjson

from weft.doors.guard import Guard
from weft.doors.listener import Listener, bind
from weft.doors.mcp.app import McpDoor
from weft.doors.sites import Site
from weft.dsl.local import LocalTools, PythonTool
from weft.gateway.callers import Nobody
from weft.gateway.gateway import Gateway
from weft.gateway.live import Content
from weft.ir.document import Document
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.upstreams.spec import ServerSpec

Tools = Sequence[PythonTool[..., Any]]


class Client(Nobody):
    """A client that keeps what it is told."""

    def __init__(self, *, progress: bool = False, **given: Any) -> None:
        super().__init__(**given)
        self.wants_progress = progress
        self.heard: list[dict[str, Any]] = []

    def progress(self, params: dict[str, Any]) -> None:
        self.heard.append(params)


def document(*tools: Mapping[str, Any]) -> Document:
    """Return a registry of these tools."""
    return whole({"schemaVersion": "1.0", "tools": list(tools)})


def whole(registry: Mapping[str, Any]) -> Document:
    """Return a registry as it is served."""
    parsed = parse(read(orjson.dumps(registry), format="json"))
    assert not parsed.problems, parsed.problems
    return parsed.resolved


@contextlib.asynccontextmanager
async def server(*tools: PythonTool[..., Any]) -> AsyncGenerator[str]:
    """Serve Python tools and yield the address."""
    gateway = Gateway(content=Content(Document(), LocalTools(tools)))
    await gateway.start()
    listener = Listener(Guard({"/mcp": McpDoor(gateway)}, site=Site()), sockets=[bind("127.0.0.1", 0)])
    await listener.start()
    try:
        yield f"http://127.0.0.1:{listener.address[1]}/mcp"
    finally:
        await listener.drain(0.1)
        await gateway.close()


@contextlib.asynccontextmanager
async def gateway(
    servers: Mapping[str, Tools],
    *definitions: Mapping[str, Any],
    registry: Mapping[str, Any] | None = None,
    **given: Any,
) -> AsyncGenerator[Gateway]:
    """Put a gateway in front of servers, by their keys; `registry` is a whole one, in the place of definitions."""
    async with contextlib.AsyncExitStack() as stack:
        specs: list[ServerSpec] = []
        for key, tools in servers.items():
            name, _, version = key.partition("@")
            url = await stack.enter_async_context(server(*tools))
            specs.append(ServerSpec(name=name, version=version or None, url=url))
        content = Content(document(*definitions) if registry is None else whole(registry))
        made = Gateway(specs, content=content, **given)
        await made.start()
        stack.push_async_callback(made.close)
        await made.ready()
        yield made


async def tools_of(gateway: Gateway, view: str | None = None) -> dict[str, dict[str, Any]]:
    """Return what `tools/list` says, by name."""
    listed = await gateway.handle(view, "tools/list", {}, Nobody())
    return {tool["name"]: tool for tool in listed["tools"]}


async def call(gateway: Gateway, name: str, arguments: Mapping[str, Any] | None = None, **given: Any) -> dict[str, Any]:
    """Call a tool."""
    caller = given.pop("caller", None) or Nobody()
    view = given.pop("view", None)
    params = {"name": name, "arguments": dict(arguments or {})}
    return await gateway.handle(view, "tools/call", params, caller, **given)

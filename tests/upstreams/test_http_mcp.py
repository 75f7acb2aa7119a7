"""Against real MCP servers, on the SDK: both eras, answered by JSON and by streams."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import mcp_types as t
import pytest
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore

from tests.upstreams.faults import proxying
from tests.upstreams.listening import listening
from tests.waiting import soon, until
from weft.errors import SessionGone, UpstreamDied
from weft.upstreams.http import HttpTransport

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
SCHEMA = {"type": "object"}


@dataclass
class RealServer:
    """A server of the SDK in a thread of its own, with one tool that says what happened to it."""

    port: int = 0
    begun: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)
    seen: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def call(self, ctx: ServerRequestContext[Any, Any], params: t.CallToolRequestParams) -> t.CallToolResult:
        if params.name == "hang":
            self.begun.set()
            # A first word makes the answer a stream, whose end the server sees.
            await ctx.session.report_progress(0, 1, "hanging")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        if params.name == "cut" and ctx.close_sse_stream is not None:
            await ctx.session.report_progress(0, 2, "cut now")
            await asyncio.to_thread(self.seen.wait, 5)
            await ctx.close_sse_stream()
        await ctx.session.report_progress(1, 2, "half")
        return t.CallToolResult(content=[t.TextContent(type="text", text=f"{params.name}: {params.arguments}")])


async def list_tools(_: object, __: object) -> t.ListToolsResult:
    tools = [t.Tool(name=name, input_schema=SCHEMA) for name in ("echo", "hang", "cut")]
    return t.ListToolsResult(tools=tools, ttl_ms=0, cache_scope="private")


class Kept(EventStore):
    """Events in a list, for streams that are taken up again."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        last = int(last_event_id)
        stream = self.events[last - 1][0]
        for number, (name, message) in enumerate(self.events[last:], last + 1):
            if name == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


@contextmanager
def running(**options: Any) -> Generator[RealServer]:
    real = RealServer()
    server = Server(
        "real", on_list_tools=list_tools, on_call_tool=real.call, get_tool_input_schema=lambda _name: SCHEMA
    )
    with listening(server.streamable_http_app(**options)) as real.port:
        yield real


@pytest.fixture(scope="module", params=[False, True], ids=["streams", "json"])
def real(request: pytest.FixtureRequest) -> Generator[RealServer]:
    with running(json_response=request.param) as server:
        yield server


@pytest.fixture(scope="module")
def streaming() -> Generator[RealServer]:
    with running() as server:
        yield server


def message(method: str, params: dict[str, Any], *, id_: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def modern(method: str, params: dict[str, Any] | None = None, *, id_: int = 1) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a request of the modern era and the headers that go with it."""
    named = params or {}
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "weft", "version": "0"},
        "progressToken": id_,
    }
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if "name" in named:
        headers["Mcp-Name"] = named["name"]
    return message(method, {**named, "_meta": meta}, id_=id_), headers


async def handshake(transport: HttpTransport) -> dict[str, str]:
    """Begin a legacy session and return the headers of what follows."""
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "weft", "version": "0"}}
    answer = await transport.request(message("initialize", hello), deadline=soon())
    headers = {"MCP-Protocol-Version": answer["result"]["protocolVersion"]}
    await transport.notify({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
    return headers


def text(answer: dict[str, Any]) -> str:
    return answer["result"]["content"][0]["text"]


async def test_a_modern_server_is_discovered_and_called(real: RealServer):
    transport = HttpTransport(real.url)
    found, headers = modern("server/discover")
    answer = await transport.request(found, deadline=soon(), headers=headers)
    assert MODERN in answer["result"]["supportedVersions"]
    for number in range(5):
        call, headers = modern("tools/call", {"name": "echo", "arguments": {"n": number}}, id_=number)
        assert text(await transport.request(call, deadline=soon(), headers=headers)) == f"echo: {{'n': {number}}}"
    assert transport.session_id is None
    assert transport.open_connections <= 2
    await transport.close()
    assert transport.open_connections == 0


async def test_a_legacy_session_is_begun_used_and_ended(real: RealServer):
    transport = HttpTransport(real.url)
    headers = await handshake(transport)
    session = transport.session_id
    assert session
    call = message("tools/call", {"name": "echo", "arguments": {}}, id_=2)
    assert text(await transport.request(call, deadline=soon(), headers=headers)) == "echo: {}"
    await transport.close()
    late = HttpTransport(real.url)
    late.session_id = session
    with pytest.raises(SessionGone):
        await late.request(call, deadline=soon(), headers=headers)
    late.session_id = None
    await late.close()


async def test_a_json_rpc_error_of_the_server_is_an_answer(real: RealServer):
    transport = HttpTransport(real.url)
    call, headers = modern("no/such", {})
    answer = await transport.request(call, deadline=soon(), headers=headers)
    assert (answer["id"], answer["error"]["code"]) == (1, -32601)
    call, headers = modern("tools/call", {"name": "echo", "arguments": {}})
    answer = await transport.request(call, deadline=soon(), headers={**headers, "Mcp-Name": "other"})
    assert (answer["id"], answer["error"]["code"]) == (1, -32020)
    await transport.close()


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_progress_is_told_before_the_answer(streaming: RealServer, era: str):
    transport = HttpTransport(streaming.url)
    told: list[dict[str, Any]] = []
    call, headers = modern("tools/call", {"name": "echo", "arguments": {}}, id_=7)
    if era == "legacy":
        headers = await handshake(transport)
        params = {"name": "echo", "arguments": {}, "_meta": {"progressToken": 7}}
        call = message("tools/call", params, id_=7)
    await transport.request(call, deadline=soon(), headers=headers, on_message=told.append)
    assert [(one["method"], one["params"]["progressToken"]) for one in told] == [("notifications/progress", 7)]
    await transport.close()


async def test_cancelling_the_caller_cancels_the_handler_of_a_modern_server(streaming: RealServer):
    streaming.begun.clear()
    streaming.cancelled.clear()
    transport = HttpTransport(streaming.url)
    call, headers = modern("tools/call", {"name": "hang", "arguments": {}})
    task = asyncio.create_task(transport.request(call, deadline=soon(), headers=headers))
    await until(streaming.begun.is_set)
    task.cancel()
    await until(streaming.cancelled.is_set)
    with pytest.raises(asyncio.CancelledError):
        await task
    await transport.close()
    assert transport.open_connections == 0


async def test_cancelling_a_legacy_call_needs_the_notification(streaming: RealServer):
    streaming.begun.clear()
    streaming.cancelled.clear()
    transport = HttpTransport(streaming.url)
    headers = await handshake(transport)
    call = message("tools/call", {"name": "hang", "arguments": {}}, id_=9)
    task = asyncio.create_task(transport.request(call, deadline=soon(), headers=headers))
    await until(streaming.begun.is_set)
    task.cancel()
    gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
    await transport.notify(gone, headers=headers)
    await until(streaming.cancelled.is_set)
    await transport.close()


async def test_a_legacy_session_may_be_listened_to(streaming: RealServer):
    transport = HttpTransport(streaming.url)
    headers = await handshake(transport)
    listening = asyncio.create_task(transport.listen(on_message=lambda _: None, headers=headers))
    await until(lambda: transport.open_connections > 0)
    await asyncio.sleep(0.05)
    assert not listening.done()
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    await transport.close()


async def test_a_legacy_stream_that_the_server_cut_is_taken_up_again():
    with running(event_store=Kept(), retry_interval=10) as server:
        transport = HttpTransport(server.url)
        headers = await handshake(transport)
        call = message("tools/call", {"name": "cut", "arguments": {}, "_meta": {"progressToken": 3}}, id_=3)
        told: list[float] = []

        def on_message(progress: dict[str, Any]) -> None:
            told.append(progress["params"]["progress"])
            server.seen.set()

        answer = await transport.request(call, deadline=soon(), headers=headers, on_message=on_message)
        assert (told, text(answer)) == ([0, 1], "cut: {}")
        await transport.close()


async def test_a_proxy_that_cuts_the_answer_leaves_the_outcome_unknown(real: RealServer):
    async with proxying(real.port, answers=lambda piece: None if b"result" in piece else piece) as proxy:
        transport = HttpTransport(proxy.url)
        call, headers = modern("tools/call", {"name": "echo", "arguments": {}})
        with pytest.raises(UpstreamDied) as caught:
            await transport.request(call, deadline=soon(), headers=headers)
        assert caught.value.retryable == "unknown-outcome"
        await transport.close()

"""Servers that know only the legacy era, and whatever they make of a question of the modern one."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.upstreams.faults import STREAM, Peer, Request, event, http, rpc, serving
from tests.upstreams.stdio_wires import CHILDREN, HASTY
from tests.waiting import soon, until
from weft.errors import UpstreamAuth, UpstreamDied
from weft.upstreams.client import McpClient
from weft.upstreams.http import HttpTransport
from weft.upstreams.results import value_of
from weft.upstreams.stdio import StdioLimits, StdioTransport
from weft.upstreams.transport import Transport

HELLO: dict[str, Any] = {"capabilities": {"tools": {}}, "serverInfo": {"name": "old"}}
TOOLS: dict[str, Any] = {"tools": [{"name": "echo"}]}
SAID: dict[str, Any] = {"content": [{"type": "text", "text": "hi"}]}


def elder(manner: str) -> StdioTransport:
    command = [sys.executable, "-IS", str(CHILDREN / "elder.py"), manner]
    return StdioTransport(command, server="elder", limits=StdioLimits(patience=HASTY))


@asynccontextmanager
async def connected(transport: Transport, *, within: float = 10.0, **options: Any) -> AsyncGenerator[McpClient]:
    client = McpClient(transport, server="elder", **options)
    try:
        await client.connect(soon(within))
        yield client
    finally:
        await client.close()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})


@pytest.mark.parametrize("manner", ["refuses", "refuses without id", "babbles", "is silent"])
async def test_a_child_of_the_first_version_is_greeted_and_called_whatever_it_makes_of_the_question(manner: str):
    # The question may take half of the time; a silent server needs that half.
    async with connected(elder(manner), within=2 if manner != "refuses" else 10) as client:
        assert (client.era, client.version, client.server_info["name"]) == ("legacy", "2024-11-05", "elder")
        assert [tool["name"] for tool in await client.list_tools(deadline=soon())] == ["echo"]
        result = await client.call_tool("echo", {"n": 1}, deadline=soon(), meta={"progressToken": 7})
        assert value_of(result, tool="echo") == {"n": 1}


async def test_a_child_that_dies_of_the_question_says_why_and_lives_when_it_is_not_asked():
    with pytest.raises(UpstreamDied, match=r"exit status 1; stderr: KeyError: 'server/discover'"):
        async with connected(elder("dies")):
            pass
    async with connected(elder("dies"), era="legacy") as client:
        assert value_of(await client.call_tool("echo", {"n": 1}, deadline=soon()), tool="echo") == {"n": 1}
        with pytest.raises(UpstreamDied, match="KeyError: 'prompts/list'"):
            await client.request("prompts/list", deadline=soon())


def error(code: int, id_: Any = None) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": "no"}}).encode()


REFUSALS = {
    "typescript sdk": http(error(-32000), status=400),
    "typescript sdk, no session": http(error(-32000, "server-error"), status=400),
    "python sdk 1": http(error(-32600, "server-error"), status=400),
    "unsupported version": http(error(-32600), status=400),
    "plain text": http(b"Bad Request: Missing session ID", status=400, kind="text/plain"),
    "no body": http(status=400, kind=None),
    "not found": http(b"<html>", status=404, kind="text/html"),
    "method not allowed": http(b"", status=405, kind=None),
    "not acceptable": http(error(-32000), status=406),
    "conflict": http(b"{}", status=409),
    "validation": http(b'{"detail": "field required"}', status=422),
    "accepted": http(status=202, kind=None),
    "no content": http(status=204, kind=None),
    "crash": http(b"Internal Server Error", status=500, kind="text/plain"),
    "not implemented": http(b"", status=501, kind=None),
    "answered with an error": http(error(-32601, 1)),
    "an event": STREAM + event(error(-32601, 1)) + b"0\r\n\r\n",
}


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26"])
async def test_a_legacy_server_over_http_is_greeted_and_called_however_it_refuses(refusal: str, version: str):
    def answer(request: Request) -> bytes:
        if request.method == "DELETE":
            return http(status=405, kind=None)
        message = request.json
        if message["method"] == "server/discover":
            return REFUSALS[refusal]
        if message["method"] == "initialize":
            assert "mcp-session-id" not in request.headers
            hello = {**HELLO, "protocolVersion": version}
            return rpc(request, hello, headers={"Mcp-Session-Id": "s1"})
        assert request.headers["mcp-session-id"] == "s1"
        if "id" not in message:
            return http(status=202, kind=None)
        assert "_meta" not in message["params"]
        assert not any(name.startswith("mcp-method") for name in request.headers)
        return rpc(request, TOOLS if message["method"] == "tools/list" else SAID)

    async def script(peer: Peer) -> None:
        while True:
            await peer.send(answer(await peer.request()))

    async with serving(script) as server, connected(HttpTransport(server.url)) as client:
        assert (client.era, client.version) == ("legacy", version)
        assert await client.list_tools(deadline=soon()) == TOOLS["tools"]
        assert await client.call_tool("echo", {}, deadline=soon()) == SAID


async def test_a_server_without_sessions_is_called_without_one():
    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            assert "mcp-session-id" not in request.headers
            method = request.json["method"]
            if method == "server/discover":
                await peer.send(http(error(-32601), status=404))
            elif method == "initialize":
                await peer.send(rpc(request, {**HELLO, "protocolVersion": "2025-06-18"}))
            else:
                await peer.send(rpc(request, SAID) if "id" in request.json else http(status=202))

    async with serving(script) as server, connected(HttpTransport(server.url)) as client:
        assert await client.call_tool("echo", {}, deadline=soon()) == SAID


async def test_a_server_that_wants_credentials_is_not_taken_for_a_legacy_one_for_long():
    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(http(b"who?", status=401, kind="text/plain"))

    async with serving(script) as server:
        with pytest.raises(UpstreamAuth, match="status 401"):
            async with connected(HttpTransport(server.url)):
                pass

"""The MCP client against a real server on the SDK: both eras, over HTTP and over stdio."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from typing import Any

import pytest

from tests.upstreams.children.oracle import REGION, oracle
from tests.upstreams.listening import listening
from tests.upstreams.stdio_wires import CHILDREN, HASTY
from tests.waiting import soon, until
from weft.errors import ToolFailed, UpstreamRefused
from weft.upstreams.client import McpClient
from weft.upstreams.http import HttpTransport
from weft.upstreams.results import value_of
from weft.upstreams.stdio import StdioLimits, StdioTransport
from weft.upstreams.transport import OnMessage, Transport

CHILD = [sys.executable, str(CHILDREN / "oracle.py")]


class Watched:
    """A wire that keeps what is asked over it; with `old`, its server does not know how to be discovered."""

    def __init__(self, inner: Transport, *, old: bool) -> None:
        self.inner, self.old = inner, old
        self.asked: list[dict[str, Any]] = []

    async def start(self, **listeners: Any) -> None:
        await self.inner.start(**listeners)

    async def request(
        self,
        message: dict[str, Any],
        *,
        deadline: float,
        on_message: OnMessage | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        self.asked.append(message)
        if self.old and message["method"] == "server/discover":
            return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32600, "message": "begin properly"}}
        return await self.inner.request(message, deadline=deadline, on_message=on_message, headers=headers)

    async def follow(
        self, message: dict[str, Any], *, on_message: OnMessage, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        return await self.inner.follow(message, on_message=on_message, headers=headers)

    async def notify(self, message: dict[str, Any], *, headers: Mapping[str, str] | None = None) -> None:
        await self.inner.notify(message, headers=headers)

    async def close(self) -> None:
        await self.inner.close()


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with listening(oracle().streamable_http_app()) as port:
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture(params=["legacy", "modern"])
def era(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["http", "stdio"])
async def client(request: pytest.FixtureRequest, era: str, url: str) -> AsyncGenerator[McpClient]:
    wire: Transport = HttpTransport(url)
    if request.param == "stdio":
        wire = StdioTransport(CHILD, server="oracle", limits=StdioLimits(patience=HASTY))
    client = McpClient(Watched(wire, old=era == "legacy"), server="oracle")
    await client.connect(soon())
    yield client
    await client.close()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})


async def text(client: McpClient, tool: str) -> str:
    return value_of(await client.call_tool(tool, {}, deadline=soon()), tool=tool)


async def test_the_server_is_greeted_in_its_own_era(client: McpClient, era: str):
    assert (client.era, client.version) == (era, "2026-07-28" if era == "modern" else "2025-11-25")
    assert (client.server_info["name"], client.server_info["version"]) == ("oracle", "7")
    assert client.instructions == "Ask, and wait."
    assert {"tools", "prompts"} <= client.capabilities.keys()


async def test_all_pages_are_listed_and_their_dicts_kept(client: McpClient):
    tools = await client.list_tools(deadline=soon())
    assert [tool["name"] for tool in tools] == ["echo", "steps", "wait", "cancelled", "fail", "regional"]
    assert [tool["_meta"] for tool in tools] == [{"on": page} for page in (0, 0, 1, 1, 2, 2)]
    assert tools[-1]["inputSchema"] == REGION
    prompts = await client.list_all("prompts/list", "prompts", deadline=soon())
    assert [prompt["name"] for prompt in prompts] == ["greet"]


async def test_calls_at_the_same_time_get_their_own_answers(client: McpClient):
    results = await asyncio.gather(*(client.call_tool("echo", {"n": n}, deadline=soon()) for n in range(10)))
    assert [value_of(result, tool="echo") for result in results] == [{"n": n} for n in range(10)]


async def test_arguments_that_a_schema_sends_into_headers_are_accepted(client: McpClient):
    await client.list_tools(deadline=soon())
    for region in ("west", " Zürich ", "=?base64?eA==?="):
        result = await client.call_tool("regional", {"region": region}, deadline=soon())
        assert value_of(result, tool="regional") == {"region": region}


async def test_progress_reaches_its_own_call_under_the_callers_token(client: McpClient):
    told: dict[str, list[Any]] = {"ann": [], "bob": []}
    calls = (
        client.call_tool(
            "steps", {"who": who}, deadline=soon(), on_progress=heard.append, meta={"progressToken": "the same"}
        )
        for who, heard in told.items()
    )
    await asyncio.gather(*calls)
    for who, heard in told.items():
        assert [one["message"] for one in heard] == [f"{who} {step}" for step in (1, 2, 3)]
        assert {one["progressToken"] for one in heard} == {"the same"}


async def test_a_listener_that_fails_does_not_fail_the_call(client: McpClient):
    def fail(_: dict[str, Any]) -> None:
        raise ValueError

    result = await client.call_tool("steps", {"who": "ann"}, deadline=soon(), on_progress=fail)
    assert (value_of(result, tool="steps"), client.failed_listeners) == ("done", 3)


async def test_cancelling_a_call_reaches_its_handler(client: McpClient, request: pytest.FixtureRequest):
    who, begun = request.node.name, asyncio.Event()
    call = client.call_tool("wait", {"who": who}, deadline=soon(), on_progress=lambda _: begun.set())
    waiting = asyncio.create_task(call)
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(5):
        while who not in await text(client, "cancelled"):
            pass


async def test_an_unknown_tool_is_refused_with_code_and_data(client: McpClient):
    with pytest.raises(UpstreamRefused, match="Unknown tool: nope") as caught:
        await client.call_tool("nope", {}, deadline=soon())
    assert (caught.value.rpc_code, caught.value.rpc_data) == (-32602, {"tool": "nope"})
    assert (caught.value.code, caught.value.retryable, caught.value.origin) == ("UpstreamRefused", "no", "upstream")


async def test_a_tool_that_says_no_has_failed(client: McpClient):
    result = await client.call_tool("fail", {}, deadline=soon())
    with pytest.raises(ToolFailed) as caught:
        value_of(result, tool="fail")
    assert (caught.value.tool, caught.value.content) == ("fail", "no such customer")


async def test_a_session_that_the_server_forgot_is_begun_again_once_for_all_calls(url: str):
    wire = HttpTransport(url)
    watched = Watched(wire, old=True)
    client = McpClient(watched, server="oracle")
    await client.connect(soon())
    forgetting = HttpTransport(url)
    forgetting.session_id = forgotten = wire.session_id
    await forgetting.close()
    results = await asyncio.gather(*(client.call_tool("echo", {"n": n}, deadline=soon()) for n in range(5)))
    assert [result["structuredContent"]["n"] for result in results] == list(range(5))
    assert wire.session_id not in (None, forgotten)
    assert [message["method"] for message in watched.asked].count("initialize") == 2
    await client.close()

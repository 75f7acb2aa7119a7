"""The stdio wire against a real MCP server on the SDK, in both eras, message by message."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.upstreams.stdio_wires import CHILDREN, Wire, nothing_left, puppet
from tests.waiting import until

SERVER = [sys.executable, str(CHILDREN / "mcp_server.py")]
ENVELOPE: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "weft", "version": "0"},
}


@pytest.fixture(autouse=True)
async def clean() -> AsyncGenerator[None]:
    async with nothing_left():
        yield


@pytest.fixture(params=["legacy", "modern"])
async def meta(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What every request of the era carries."""
    return ENVELOPE if request.param == "modern" else {}


async def greet(wire: Wire, meta: dict[str, Any]) -> None:
    """Begin as the era begins."""
    if meta:
        found = await wire.result("server/discover", _meta=meta)
        assert "2026-07-28" in found["supportedVersions"]
        return
    asked = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "weft", "version": "0"}}
    assert (await wire.result("initialize", **asked))["protocolVersion"] == "2025-11-25"
    await wire.transport.notify({"jsonrpc": "2.0", "method": "notifications/initialized"})


async def call(wire: Wire, meta: dict[str, Any], tool: str, **arguments: Any) -> str:
    """Call a tool and return its text."""
    result = await wire.result("tools/call", name=tool, arguments=arguments, _meta=meta)
    return result["content"][0]["text"]


async def test_tools_are_listed_and_called(meta: dict[str, Any]):
    async with puppet(command=SERVER) as wire:
        await greet(wire, meta)
        tools = (await wire.result("tools/list", _meta=meta))["tools"]
        assert [tool["name"] for tool in tools] == ["add", "steps", "wait", "cancelled", "change"]
        sums = await asyncio.gather(*(call(wire, meta, "add", a=n, b=1) for n in range(20)))
        assert sums == [str(n + 1) for n in range(20)]


async def test_progress_reaches_the_listener_of_its_call_before_the_result(meta: dict[str, Any]):
    async with puppet(command=SERVER) as wire:
        await greet(wire, meta)
        told: list[Any] = []
        with_token = {**meta, "progressToken": "weft-1"}
        await wire.ask("tools/call", on_message=told.append, name="steps", arguments={}, _meta=with_token)
        assert [one["params"]["progress"] for one in told] == [1, 2, 3]
        assert wire.heard == []


async def test_cancelling_a_call_reaches_its_handler(meta: dict[str, Any]):
    async with puppet(command=SERVER) as wire:
        await greet(wire, meta)
        waiting = {who: asyncio.create_task(call(wire, meta, "wait", who=who)) for who in ("ann", "bob")}
        assert await call(wire, meta, "cancelled") == ""
        waiting["bob"].cancel()
        await asyncio.wait([waiting["bob"]])
        async with asyncio.timeout(5):
            while await call(wire, meta, "cancelled") != "bob":
                pass
        assert not waiting["ann"].done()
        waiting["ann"].cancel()
        await asyncio.wait([waiting["ann"]])


async def test_a_subscription_tells_its_listener_under_the_callers_own_id():
    async with puppet(command=SERVER) as wire:
        told: list[Any] = []
        params: dict[str, Any] = {"_meta": ENVELOPE, "notifications": {"toolsListChanged": True}}
        listening = asyncio.create_task(
            wire.ask("subscriptions/listen", id="my-listen", on_message=told.append, **params)
        )
        await until(lambda: len(told) == 1)
        await call(wire, ENVELOPE, "change")
        await until(lambda: len(told) == 2)
        listening.cancel()
        await asyncio.wait([listening])
        assert [one["method"] for one in told] == [
            "notifications/subscriptions/acknowledged",
            "notifications/tools/list_changed",
        ]
        assert {one["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for one in told} == {"my-listen"}

"""Clients that go away, or read slowly: the work for them ends, and nobody else notices."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace as changed
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

import pytest

from tests.app.served import House, house, messages_to, modern, pipeline, registry, witness
from tests.app.upstream import upstream
from tests.waiting import until

TIMES = 7
LATEST = 1.0
"""Seconds. The aim is 0.1, and 0.02 at most were measured; but the machine may be busy with other tests."""


async def _leave(gate: House, tool: str, begun: Callable[[], object]) -> float:
    """Call a tool, go away once it has begun, and return the moment of that."""
    async with gate.connected() as client:
        client.request("POST", "/mcp", **modern("tools/call", {"name": tool, "arguments": {}}))
        await until(begun)
        client.writer.transport.abort()
        return monotonic()


async def _measured(leave: Callable[[int], Awaitable[float]], noticed: Callable[[], list[float]]) -> float:
    """Return how many seconds it takes from a client that leaves to the server that hears of it, in the middle."""
    took: list[float] = []
    for at in range(TIMES):
        left = await leave(at)
        await until(lambda at=at: len(noticed()) > at)
        took.append(noticed()[at] - left)
    return median(took)


def cancelled(seen: Path) -> list[float]:
    """Return when a child was told that calls are cancelled."""
    return [one["at"] for one in messages_to(seen) if one["method"] == "notifications/cancelled"]


def calls(seen: Path) -> int:
    """Return how many calls of `wait` a child has got."""
    return sum(one["method"] == "tools/call" for one in messages_to(seen))


@pytest.mark.parametrize("tool", ["wait", "composed"])
async def test_a_client_that_leaves_ends_its_call_at_a_server_over_http(tmp_path: Path, tool: str) -> None:
    async with upstream("wait") as up:
        config = {"servers": {"up": {"url": up.url}}}
        async with house(tmp_path, config, registry(pipeline("composed", "wait"))) as gate:
            took = await _measured(lambda _: _leave(gate, tool, lambda: up.waiting == 1), lambda: up.left)
            assert took < LATEST
            await until(lambda: up.waiting == 0)
            await until(lambda: gate.running.gateway.pool.servers["up"].in_flight == 0)
            outcomes = {"tool": tool, "outcome": "cancelled"}
            assert await gate.metric("weft_tool_calls_total", **outcomes) == TIMES
            assert await gate.metric("weft_upstream_requests_total", server="up", outcome="cancelled") == TIMES
            assert await gate.metric("weft_in_flight") == 0


@pytest.mark.parametrize("tool", ["wait", "composed"])
async def test_a_client_that_leaves_ends_its_call_at_a_child(tmp_path: Path, tool: str) -> None:
    seen = tmp_path / "seen"
    async with house(tmp_path, {"servers": {"child": witness(seen)}}, registry(pipeline("composed", "wait"))) as gate:
        await gate.tools()
        took = await _measured(lambda at: _leave(gate, tool, lambda: calls(seen) > at), lambda: cancelled(seen))
        assert took < LATEST
        assert (await gate.call("ping"))["content"][0]["text"].startswith("ping of"), "the child goes on"


async def test_all_branches_of_a_composition_end_with_its_client(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    branches = [{"tool": {"name": name}} for name in ("up_wait", "child_wait")]
    scatter = {
        "name": "scatter",
        "spec": {"scatterGather": {"targets": branches, "aggregation": {"ops": [{"merge": True}]}}},
    }
    async with upstream("wait") as up:
        servers = {"up": {"url": up.url}, "child": witness(seen)}
        async with house(tmp_path, {"servers": servers}, registry(scatter)) as gate:
            left = await _leave(gate, "scatter", lambda: up.waiting == 1 and calls(seen) == 1)
            await until(lambda: up.left and cancelled(seen))
            assert max(up.left[0], cancelled(seen)[0]) - left < LATEST


async def test_a_plain_call_ends_with_its_client(tmp_path: Path) -> None:
    async with upstream("wait") as up, house(tmp_path, {"servers": {"up": {"url": up.url}}}) as gate:
        async with gate.connected() as client:
            client.request("POST", "/mcp/tools/call", body=b'{"tool": "wait"}', content_type="application/json")
            await until(lambda: up.waiting == 1)
            client.writer.transport.abort()
            left = monotonic()
        await until(lambda: up.left)
        assert up.left[0] - left < LATEST


async def test_a_client_that_does_not_read_is_cut_off_and_holds_up_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with upstream("large", "echo") as up, house(tmp_path, {"servers": {"up": {"url": up.url}}}) as gate:
        gate.listener.limits = changed(gate.listener.limits, write_timeout=1.0)
        async with gate.connected() as slow:
            transport: Any = slow.writer.transport
            transport.pause_reading()
            for _ in range(4):
                slow.request(
                    "POST", "/mcp", **modern("tools/call", {"name": "large", "arguments": {"size": 6_000_000}})
                )
            await until(lambda: gate.listener.unsent > 0)
            assert "structuredContent" in await gate.call("echo")
            await until(lambda: len(gate.listener.connections) == 0)
        # What waits to be read is bounded: the next is not asked for before the last was taken.
        assert up.calls <= 3
        assert "structuredContent" in await gate.call("echo")
        await until(lambda: not gate.listener.exchanges)
    assert "internal error" not in caplog.text

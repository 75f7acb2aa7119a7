"""Timeouts and retries against real servers: what is cancelled there, and what the servers are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.app.served import house, messages_to, modern, registry, witness
from tests.app.upstream import upstream
from tests.waiting import until

SENTENCE = "Timeout after 100ms waiting for pattern execution"


def composed(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a registry of one composition, `it`."""
    return registry({"name": "it", "description": "It.", "spec": spec})


def told_to(seen: Path, method: str) -> list[dict[str, Any]]:
    """Return the messages of a kind that a child got."""
    return [one for one in messages_to(seen) if one["method"] == method]


async def test_timeout_03_a_child_is_told_that_the_call_is_cancelled_and_goes_on(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    spec = {"timeout": {"inner": {"tool": {"name": "wait"}}, "durationMs": 100}}
    async with house(tmp_path, {"servers": {"child": witness(seen)}}, composed(spec)) as gate:
        await gate.has("it")
        result = await gate.call("it")
        assert result["isError"] is True
        assert SENTENCE in result["content"][0]["text"]
        await until(lambda: told_to(seen, "notifications/cancelled"))
        (call,), (cancelled,) = told_to(seen, "tools/call"), told_to(seen, "notifications/cancelled")
        assert cancelled["params"]["requestId"] == call["id"]
        assert (await gate.call("ping"))["content"][0]["text"].startswith("ping of")
        assert gate.running.gateway.pool.servers["child"].in_flight == 0


async def test_timeout_03_the_stream_of_the_call_to_a_server_over_http_is_closed(tmp_path: Path) -> None:
    spec = {"timeout": {"inner": {"tool": {"name": "wait"}}, "durationMs": 100}}
    async with upstream("wait") as up, house(tmp_path, {"servers": {"up": {"url": up.url}}}, composed(spec)) as gate:
        await gate.has("it")
        result = await gate.call("it")
        assert SENTENCE in result["content"][0]["text"]
        await until(lambda: up.left and up.waiting == 0)
        await until(lambda: gate.running.gateway.pool.servers["up"].in_flight == 0)


async def test_retry_10_a_client_that_leaves_ends_the_attempt_and_there_is_no_other(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    spec = {"retry": {"inner": {"tool": {"name": "wait"}}, "maxAttempts": 5, "retryUnknown": True}}
    async with house(tmp_path, {"servers": {"child": witness(seen)}}, composed(spec)) as gate:
        await gate.has("it")
        async with gate.connected() as client:
            client.request("POST", "/mcp", **modern("tools/call", {"name": "it", "arguments": {}}))
            await until(lambda: told_to(seen, "tools/call"))
            client.writer.transport.abort()
        await until(lambda: told_to(seen, "notifications/cancelled"))
        await gate.call("ping")
        assert [one["params"]["name"] for one in told_to(seen, "tools/call")] == ["wait", "ping"]


async def test_retry_16_a_server_gets_the_same_key_with_each_attempt_and_its_number(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    backoff = {"fixed": {"delayMs": 1}}
    inner = {"tool": {"name": "wait"}}
    spec = {"retry": {"inner": inner, "maxAttempts": 3, "attemptTimeoutMs": 100, "backoff": backoff}}
    async with house(tmp_path, {"servers": {"child": witness(seen)}}, composed(spec)) as gate:
        await gate.has("it")
        result = await gate.call("it")
        assert f"Max retries (3) exhausted. Last error: {SENTENCE}" in result["content"][0]["text"]
        await until(lambda: len(told_to(seen, "notifications/cancelled")) == 3)
        metas = [one["params"]["_meta"] for one in told_to(seen, "tools/call")]
        assert [meta["weft/attempt"] for meta in metas] == [1, 2, 3]
        assert len({meta["weft/idempotencyKey"] for meta in metas}) == 1
        await gate.call("it")
        assert len({one["params"]["_meta"]["weft/idempotencyKey"] for one in told_to(seen, "tools/call")}) == 2

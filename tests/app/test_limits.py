"""Limits: each that weft.yaml sets is heeded, ends in an error with its name, and is counted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.app.served import House, house, modern, pipeline, registry, replace, witness
from tests.app.upstream import Upstream, upstream
from tests.waiting import until

JSON = "application/json"


def over_http(up: Upstream, **limits: Any) -> dict[str, Any]:
    """Return the settings of a gateway with these limits."""
    return {"servers": {"up": {"url": up.url}}, "limits": limits}


def nested(depth: int) -> Any:
    """Return a value that is so deep."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


async def refused(gate: House, arguments: Any, *, name: str, status: int, tool: str = "echo") -> None:
    """Check that a call is refused under a name at both doors for calls, and counted."""
    before = await gate.metric("weft_limit_exceeded_total", limit=name)
    answer = await gate.post("tools/call", {"name": tool, "arguments": arguments})
    assert (answer.status, answer.json["error"]["data"]["code"]) == (status, name)
    body = orjson.dumps({"tool": tool, "arguments": arguments})
    plain = await gate.ask("POST", "/mcp/tools/call", body=body, content_type=JSON)
    assert plain.status == (status if status != 503 else 400), plain.body
    assert name in plain.body.decode()
    assert await gate.metric("weft_limit_exceeded_total", limit=name) == before + 2


@pytest.mark.req("ALG-55")
async def test_a_message_is_as_large_deep_and_wide_as_the_configuration_says(tmp_path: Path) -> None:
    async with (
        upstream("echo") as up,
        house(tmp_path, over_http(up, body="4KiB", depth=10, nodes=200, string=100)) as gate,
    ):
        assert (await gate.call("echo", {"a": nested(4)}))["structuredContent"]["arguments"] == {"a": nested(4)}
        before = up.calls
        await refused(gate, {"a": "x" * 5000}, name="BodyTooLarge", status=413)
        await refused(gate, {"a": nested(12)}, name="MaxDepth", status=400)
        await refused(gate, {"a": [0] * 300}, name="TooManyNodes", status=400)
        assert up.calls == before
        assert (await gate.call("echo", {"a": "x" * 300}))["structuredContent"]["arguments"] == {"a": "x" * 300}
        for method, params in (("tools/call", {"name": "n" * 101}), ("resources/read", {"uri": "u" * 101})):
            named = {"mcp-name": str(next(iter(params.values())))}
            answer = await gate.post(method, params, **named)
            assert (answer.status, answer.json["error"]["data"]["code"]) == (400, "StringTooLong")
        assert await gate.metric("weft_limit_exceeded_total", limit="StringTooLong") == 2


async def test_headers_are_as_large_as_the_configuration_says(tmp_path: Path) -> None:
    async with house(tmp_path, {"limits": {"headers": "8KiB"}}) as gate:
        assert (await gate.ask("GET", "/healthz", x_filler="x" * 7000)).status == 200
        answer = await gate.ask("GET", "/healthz", x_filler="x" * 9000)
        assert (answer.status, answer.json["error"]["code"]) == (431, "HeadersTooLarge")
        assert await gate.metric("weft_limit_exceeded_total", limit="HeadersTooLarge") == 1


async def test_a_result_is_as_large_as_the_configuration_says(tmp_path: Path) -> None:
    async with upstream("large") as up, house(tmp_path, over_http(up, response="64KiB")) as gate:
        assert len((await gate.call("large", {"size": 60_000}))["content"][0]["text"]) == 60_000
        for _ in range(3):
            result = await gate.call("large", {"size": 70_000})
            assert result["_meta"]["weft/error"]["code"] == "UpstreamMessageTooLarge"
            assert "(limit 65536 bytes)" in result["content"][0]["text"]
        assert len((await gate.call("large", {"size": 100}))["content"][0]["text"]) == 100
        assert await gate.metric("weft_limit_exceeded_total", limit="UpstreamMessageTooLarge") == 3


async def test_a_result_of_a_child_is_as_large_as_the_configuration_says(tmp_path: Path) -> None:
    # What the child says is its tool's name, so the list of its tools is over the limit already.
    config = {"servers": {"child": witness(tmp_path / "seen")}, "limits": {"response": 200}}
    async with house(tmp_path, config) as gate:
        await gate.tools()
        told = (await gate.ready())["upstreams"]["child"]
        assert told["state"] == "degraded"
        assert "a line (limit 200 bytes)" in told["problem"]


async def test_a_call_takes_no_longer_than_the_configuration_says(tmp_path: Path) -> None:
    async with upstream("wait") as up:
        config = over_http(up, timeout="200ms")
        async with house(tmp_path, config, registry(pipeline("waits", "wait"))) as gate:
            for tool in ("wait", "waits"):
                result = await gate.call(tool)
                assert result["_meta"]["weft/error"]["code"] == "DeadlineExceeded"
            await until(lambda: up.waiting == 0)
            assert await gate.metric("weft_limit_exceeded_total", limit="DeadlineExceeded") == 2
            # A limit of calls that is changed counts from the next call on.
            config["limits"] = {"timeout": "30s", "steps": 1}
            replace(gate.config, yaml.safe_dump(config))
            assert (await gate.ask("POST", "/reload", admin=True)).status == 200
            call = asyncio.create_task(gate.call("wait"))
            await until(lambda: up.waiting == 1)
            await asyncio.sleep(0.3)
            up.let_go.set()
            assert "isError" not in await call


async def test_a_server_has_so_many_calls_at_once_and_so_many_waiting(tmp_path: Path) -> None:
    async with upstream("wait") as up, upstream("echo") as other:
        config = {
            "servers": {"up": {"url": up.url, "concurrency": 2, "queue": 3}, "other": {"url": other.url}},
        }
        async with house(tmp_path, config) as gate:
            calls = [asyncio.create_task(gate.call("wait")) for _ in range(8)]
            await until(lambda: sum(call.done() for call in calls) == 3)
            for call in calls:
                if call.done():
                    assert call.result()["_meta"]["weft/error"]["code"] == "UpstreamBusy"
            await until(lambda: up.waiting == 2)
            assert "isError" not in await gate.call("echo"), "other servers are not held up"
            up.let_go.set()
            results = await asyncio.gather(*calls)
            assert sum("isError" not in result for result in results) == 5
            assert up.most_waiting == 2
            assert await gate.metric("weft_limit_exceeded_total", limit="UpstreamBusy") == 3
            assert await gate.metric("weft_upstream_requests_total", server="up", outcome="ok") == 5


async def test_so_many_calls_at_once_and_no_more(tmp_path: Path) -> None:
    async with upstream("wait", "echo") as up, house(tmp_path, over_http(up, inFlight=3)) as gate:
        calls = [asyncio.create_task(gate.call("wait")) for _ in range(3)]
        await until(lambda: up.waiting == 3)
        plain: dict[str, Any] = {"body": b"{}", "content_type": JSON}
        for path, given in (("/mcp", modern("tools/list", {})), ("/mcp/tools/call", plain)):
            answer = await gate.ask("POST", path, **given)
            assert (answer.status, answer.headers["retry-after"]) == (429, "1")
            assert "TooManyRequests" in answer.body.decode()
        assert (await gate.ask("GET", "/healthz")).status == 200
        up.let_go.set()
        await asyncio.gather(*calls)
        assert (await gate.post("tools/list", {})).status == 200
        assert await gate.metric("weft_limit_exceeded_total", limit="TooManyRequests") == 2


async def test_so_many_requests_a_second_and_no_more(tmp_path: Path) -> None:
    async with upstream("echo") as up, house(tmp_path, over_http(up, rate=2)) as gate:
        answers = [await gate.post("tools/call", {"name": "echo", "arguments": {}}) for _ in range(20)]
        refused = [answer for answer in answers if answer.status != 200]
        assert len(answers) - len(refused) >= 4, "a burst is fine"
        assert up.calls == len(answers) - len(refused)
        assert {(one.status, one.headers["retry-after"]) for one in refused} == {(429, "1")}
        assert await gate.metric("weft_limit_exceeded_total", limit="TooManyRequests") == len(refused)
        assert (await gate.ask("GET", "/healthz")).status == 200


async def test_so_many_bytes_at_once_and_no_more(tmp_path: Path) -> None:
    async with (
        upstream("wait", "echo") as up,
        house(tmp_path, over_http(up, inFlightBytes="256KiB", body="64KiB")) as gate,
    ):
        calls = [asyncio.create_task(gate.call("wait", {"a": "x" * 60_000})) for _ in range(2)]
        await until(lambda: up.waiting == 2)
        answer = await gate.post("tools/call", {"name": "echo", "arguments": {}})
        assert (answer.status, answer.json["error"]["data"]["code"]) == (503, "Overloaded")
        assert answer.headers["retry-after"] == "1"
        up.let_go.set()
        await asyncio.gather(*calls)
        assert "structuredContent" in await gate.call("echo")
        assert await gate.metric("weft_limit_exceeded_total", limit="Overloaded") == 1


async def test_what_clients_do_not_read_counts_too(tmp_path: Path) -> None:
    config = {"inFlightBytes": "1MiB"}
    async with upstream("large", "echo") as up, house(tmp_path, over_http(up, **config)) as gate:
        async with gate.connected() as slow:
            transport: Any = slow.writer.transport
            transport.pause_reading()
            for _ in range(3):  # more than the buffers of two sockets hold
                slow.request(
                    "POST", "/mcp", **modern("tools/call", {"name": "large", "arguments": {"size": 7_900_000}})
                )
            await until(lambda: gate.listener.unsent > 1 << 20)
            answer = await gate.post("tools/call", {"name": "echo", "arguments": {}})
            assert (answer.status, answer.json["error"]["data"]["code"]) == (503, "Overloaded")
        await until(lambda: gate.listener.unsent == 0)
        assert "structuredContent" in await gate.call("echo")


@pytest.mark.parametrize(
    ("limits", "name"),
    [({"steps": 3}, "StepLimit"), ({"calls": 3}, "FanOutLimit")],
)
async def test_a_composition_spends_no_more_than_the_configuration_says(
    tmp_path: Path, limits: dict[str, int], name: str
) -> None:
    async with upstream("echo") as up:
        compositions = registry(pipeline("short", "echo"), pipeline("long", *["echo"] * 6))
        async with house(tmp_path, over_http(up, **limits), compositions) as gate:
            assert (await gate.call("short"))["isError"] is False
            assert (await gate.call("long"))["_meta"]["weft/error"]["code"] == name
            assert await gate.metric("weft_limit_exceeded_total", limit=name) == 1


async def test_limits_of_the_doors_that_change_are_told_to_need_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with upstream("echo") as up, house(tmp_path, over_http(up)) as gate:
        replace(gate.config, yaml.safe_dump(over_http(up, body="2MiB")))
        assert (await gate.ask("POST", "/reload", admin=True)).status == 200
    assert "`limits` of requests and connections have changed: that takes a restart" in caplog.text

"""What operators see of calls: one trace through everything, numbers of every request, one line for an episode."""

from __future__ import annotations

import logging
import re
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.app.served import house, messages_to, modern, pipeline, program, registry, witness
from tests.app.upstream import upstream
from tests.waiting import until

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.mark.parametrize("tool", ["echo", "both"])
@pytest.mark.parametrize("way", ["header", "meta", "plain"])
async def test_the_trace_of_a_client_goes_through_to_the_servers(tmp_path: Path, tool: str, way: str) -> None:
    seen = tmp_path / "seen"
    async with upstream("echo") as up:
        servers = {"up": {"url": up.url}, "child": witness(seen)}
        async with house(tmp_path, {"servers": servers}, registry(pipeline("both", "echo", "ping"))) as gate:
            params: dict[str, Any] = {"name": tool, "arguments": {}}
            if way == "header":
                answer = await gate.post("tools/call", params, traceparent=PARENT, tracestate="a=1")
            elif way == "meta":
                answer = await gate.post(
                    "tools/call", {**params, "_meta": {"traceparent": PARENT, "tracestate": "a=1"}}
                )
            else:
                headers: dict[str, Any] = {"traceparent": PARENT, "tracestate": "a=1"}
                body = orjson.dumps({"tool": tool})
                answer = await gate.ask(
                    "POST", "/mcp/tools/call", body=body, content_type="application/json", **headers
                )
            assert answer.status == 200
            (call,) = (await gate.ask("GET", f"/traces/{TRACE}", admin=True)).json["calls"]
            assert (call["tool"], call["outcome"], call["parent"]) == (tool, "ok", "b7ad6b7169203331")
            (sent,) = up.messages
            assert sent["params"]["_meta"]["traceparent"] == f"00-{TRACE}-{call['span']}-01"
            assert sent["params"]["_meta"]["tracestate"] == "a=1"
            assert f"traceparent: 00-{TRACE}-{call['span']}-01".encode() in up.heads[-1].lower()
            if tool == "both":
                assert [step["tool"] for step in call["spans"]["children"]] == ["echo", "ping"]
                to_child = [one["params"]["_meta"] for one in messages_to(seen) if one["method"] == "tools/call"]
                assert [one["traceparent"] for one in to_child] == [f"00-{TRACE}-{call['span']}-01"]


async def test_readyz_names_what_is_away_and_says_no_only_without_a_required_server(tmp_path: Path) -> None:
    servers = {"child": witness(tmp_path / "seen", required=True), "away": {"url": "http://127.0.0.1:9/mcp"}}
    async with house(tmp_path, {"servers": servers}) as gate:
        told = await gate.ask("GET", "/readyz")
        assert (told.status, told.json["status"], told.json["degraded"]) == (200, "degraded", ["away"])
        assert "Connection refused" in told.json["upstreams"]["away"]["problem"]
        for _ in range(6):  # it dies until it is no longer started at once
            await gate.call("die")
        told = await gate.ask("GET", "/readyz")
        assert (told.status, told.json["status"], told.json["degraded"]) == (503, "unready", ["child", "away"])
        assert (await gate.ask("GET", "/healthz")).status == 200


async def test_a_trace_that_is_none_begins_a_new_one(tmp_path: Path) -> None:
    async with upstream("echo") as up, house(tmp_path, {"servers": {"up": {"url": up.url}}}) as gate:
        for parent in ("nonsense", f"00-{'0' * 32}-{'1' * 16}-01", PARENT + "\u00e9"):
            await gate.call("echo", traceparent=parent)
        told = [one["params"]["_meta"]["traceparent"].split("-")[1] for one in up.messages]
        assert len(set(told)) == 3
        assert TRACE not in told


async def test_every_request_to_a_server_is_counted_by_how_it_ended(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    async with upstream("echo", "large") as up:
        servers = {"up": {"url": up.url}, "child": witness(seen)}
        compositions = registry(pipeline("thrice", "echo", "echo", "echo"), pipeline("fails", "echo", "die"))
        async with house(tmp_path, {"servers": servers}, compositions) as gate:
            await gate.call("thrice")
            await gate.call("echo")
            await gate.call("large", {"wrong": 1})
            assert (await gate.call("fails"))["isError"] is True

            async def count(server: str, outcome: str) -> float:
                return await gate.metric("weft_upstream_requests_total", server=server, outcome=outcome)

            assert await count("up", "ok") == 5
            assert await count("up", "error") == 1
            assert await count("child", "error") == 1
            assert await gate.metric("weft_tool_calls_total", tool="thrice", outcome="ok") == 1
            assert await gate.metric("weft_tool_calls_total", tool="fails", outcome="error") == 1
            await gate.tools()
            assert await gate.metric("weft_requests_total", method="tools/list", outcome="ok") == 1
            assert (await gate.post("resources/read", {"uri": "x://y"}, mcp_name="x://y")).status in (400, 404)
            assert await gate.metric("weft_upstream_up", server="up") == 1


async def test_a_child_that_dies_is_one_line_with_its_last_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with house(tmp_path, {"servers": {"child": witness(tmp_path / "seen")}}) as gate:
        for _ in range(3):
            await gate.call("whisper", {"text": "chatter"})
        await gate.call("die")
        await until(lambda: "degraded" in caplog.text)
        lines = [record.getMessage() for record in caplog.records if record.name == "weft.upstream"]
    assert lines[0] == "ready"
    assert lines[1].startswith("degraded: exit status 9; stderr: chatter\nchatter\nchatter\nthe last words")
    assert not [line for line in lines if line == "chatter"]


async def test_spans_are_exported_when_an_sdk_is_configured(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    async with upstream("echo") as up:
        (tmp_path / "registry.json").write_bytes(orjson.dumps(registry(pipeline("twice", "echo", "echo"))))
        config = {"servers": {"up": {"url": up.url}}}
        env = {"OTEL_TRACES_EXPORTER": "console", "OTEL_SERVICE_NAME": "weft-under-test"}
        async with program(tmp_path, config, env=env) as gate:
            for _ in range(2):
                answer = await gate.post("tools/call", {"name": "twice", "arguments": {}}, traceparent=PARENT)
                assert answer.status == 200
            gate.process.terminate()
            assert await gate.ended() == 0
            await until(lambda: sum('"parent_id"' in line for line in gate.said) == 6)
    told = "\n".join(gate.said)
    assert set(re.findall(r'"trace_id": "0x(\w+)"', told)) == {TRACE}
    # Each of the two calls has a span with two steps below it, and its parent is the client's.
    spans = re.findall(r'"span_id": "0x(\w+)"', told)
    parents = Counter(re.findall(r'"parent_id": "0x(\w+)"', told))
    assert parents.pop("b7ad6b7169203331") == 2
    assert list(parents.values()) == [2, 2]
    assert set(parents) < set(spans)
    assert {one["params"]["_meta"]["traceparent"].split("-")[2] for one in up.messages} == set(parents)


async def test_listening_clients_and_lists_leave_no_traces(tmp_path: Path) -> None:
    async with upstream("echo") as up, house(tmp_path, {"servers": {"up": {"url": up.url}}}) as gate:
        await gate.tools()
        async with gate.connected() as client:
            client.request("POST", "/mcp", **modern("server/discover", {}))
            assert (await client.answer()).status == 200
        assert (await gate.ask("GET", "/traces", admin=True)).json["traces"] == []

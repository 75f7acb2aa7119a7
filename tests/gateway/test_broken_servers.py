"""Servers that do not keep to the protocol: what is wrong with one of their tools costs a client nothing else."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from mcp import Client

from tests.gateway.served import document
from weft.doors.guard import Guard
from weft.doors.listener import Listener, bind
from weft.doors.mcp.app import McpDoor
from weft.doors.mcp.older import older
from weft.doors.sites import Site
from weft.dsl.local import LocalTools, python_tool
from weft.gateway.callers import Nobody
from weft.gateway.gateway import Gateway
from weft.gateway.live import Content
from weft.ir.document import Document
from weft.upstreams.leniently import read_json
from weft.upstreams.sound import sound
from weft.upstreams.spec import ServerSpec

CHILD = """
import json, sys

LISTS = json.loads(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    method = asked.get("method")
    if method == "initialize":
        info = {"name": "sloppy", "version": "1"}
        told = {"protocolVersion": "2025-06-18", "capabilities": {key: {} for key in LISTS}, "serverInfo": info}
    elif method == "tools/call":
        told = json.loads(asked["params"]["arguments"]["result"])
    elif method.endswith("/list"):
        told = {"resourceTemplates": []} | LISTS
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": told}), flush=True)
"""
SCHEMA = {"type": "object"}
ERAS = ["legacy", "2026-07-28"]


@asynccontextmanager
async def served(folder: Path, **lists: Any) -> AsyncGenerator[str]:
    """Serve a gateway before a server that lists these, and yield its URL."""
    (folder / "sloppy.py").write_text(CHILD)
    command = (sys.executable, str(folder / "sloppy.py"), orjson.dumps(lists).decode())
    gateway = Gateway([ServerSpec(name="sloppy", command=command, era="legacy", start_timeout=60.0)])
    await gateway.start()
    await gateway.ready()
    listener = Listener(Guard({"/mcp": McpDoor(gateway)}, site=Site()), sockets=[bind("127.0.0.1", 0)])
    await listener.start()
    try:
        yield f"http://127.0.0.1:{listener.address[1]}/mcp"
    finally:
        await listener.drain(0.1)
        await gateway.close()


@pytest.mark.parametrize("mode", ERAS)
async def test_one_malformed_tool_does_not_cost_a_client_the_whole_list(tmp_path: Path, mode: str):
    malformed: list[dict[str, Any]] = [
        {"name": "good", "inputSchema": SCHEMA},
        {"name": "no_schema"},
        {"name": "null", "inputSchema": None},
        {"name": "empty", "inputSchema": {}},
        {"name": "lists", "inputSchema": {"type": "object", "properties": [], "required": "x"}},
        {"name": "fields", "inputSchema": SCHEMA, "annotations": [], "_meta": [], "description": 5, "icons": "x"},
        {"name": "hints", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": "perhaps", "title": 1}},
        {"name": "output", "inputSchema": SCHEMA, "outputSchema": {"type": "array"}},
        {"name": "no_output", "inputSchema": SCHEMA, "outputSchema": True},
    ]
    async with served(tmp_path, tools=malformed) as url, Client(url, mode=mode, cache=None) as client:
        found = await client.list_tools()
    assert [tool.name for tool in found.tools] == [tool["name"] for tool in malformed]
    assert {tool.input_schema["type"] for tool in found.tools} == {"object"}


@pytest.mark.parametrize("mode", ERAS)
async def test_malformed_prompts_and_resources_cost_nothing_else(tmp_path: Path, mode: str):
    prompts = [{"name": "greet", "arguments": "none"}]
    resources = [{"uri": "a://b"}, {"uri": "c://d", "name": "d", "size": "big", "mimeType": 7}]
    async with (
        served(tmp_path, prompts=prompts, resources=resources) as url,
        Client(url, mode=mode, cache=None) as client,
    ):
        listed = await client.list_prompts()
        assert [one.name for one in listed.prompts] == ["greet"]
        found = await client.list_resources()
    assert [(one.uri, one.name) for one in found.resources] == [("a://b", "a://b"), ("c://d", "d")]


@pytest.mark.parametrize(
    ("value", "told"),
    [('{"text": "cut \\ud83d"}', {"text": "cut \ufffd"}), ('{"mean": NaN}', {"mean": None})],
    ids=["half a character", "NaN"],
)
async def test_an_answer_that_strict_json_refuses_reaches_the_client(tmp_path: Path, value: str, told: Any):
    tool = {"name": "say", "inputSchema": SCHEMA}
    async with served(tmp_path, tools=[tool]) as url, Client(url, mode="legacy", cache=None) as client:
        answer = f'{{"content": [], "structuredContent": {value}}}'
        result = await client.call_tool("say", {"result": answer}, read_timeout_seconds=20)
    assert result.structured_content == told


async def test_structured_content_that_is_no_object_reaches_a_legacy_client_as_text(tmp_path: Path):
    tool = {"name": "say", "inputSchema": SCHEMA}
    async with served(tmp_path, tools=[tool]) as url, Client(url, mode="legacy", cache=None) as client:
        result = await client.call_tool("say", {"result": '{"content": [], "structuredContent": [1, 2]}'})
    assert result.structured_content is None
    assert [getattr(block, "text", None) for block in result.content] == ["[1,2]"]


def test_what_is_sound_stays_the_same_object():
    tool = {"name": "a", "inputSchema": SCHEMA, "outputSchema": SCHEMA, "annotations": {"x": 1}, "x-vendor": None}
    assert sound(tool, "tools") is tool
    listed: dict[str, Any] = {"tools": [tool]}
    assert older("tools/list", listed) is listed


def test_large_integers_are_read_as_everywhere_else():
    assert read_json(b'{"a": 18446744073709551615, "b": 1%s, "c": NaN}' % (b"0" * 30)) == {
        "a": 18446744073709551615,
        "b": 1e30,
        "c": None,
    }


@pytest.mark.parametrize("text", [b"", b"NaN", b"banner", b'{"a": ', b"{" * 100_000, b'{"a":' * 100_000])
def test_what_is_not_json_is_not_read(text: bytes):
    with pytest.raises(ValueError, match=r"line \d+ column \d+|nested too deeply"):
        read_json(text)


@pytest.mark.parametrize("value", [{"n": 10**40}, {1: 2}, {"a": {1}}, "\ud83d"], ids=["huge", "key", "set", "half"])
async def test_a_python_tool_whose_result_is_not_json_fails_as_a_tool_does(value: Any):
    def odd() -> dict[str, Any]:
        return value

    gateway = Gateway(content=Content(Document(), LocalTools([python_tool(odd)])))
    await gateway.start()
    try:
        result = await gateway.handle(None, "tools/call", {"name": "odd"}, Nobody())
    finally:
        await gateway.close()
    assert result["isError"] is True
    assert result["_meta"]["weft/error"]["code"] == "NotJson"


async def test_a_result_that_is_not_as_declared_is_no_success_in_the_traces():
    wrong = {
        "name": "wrong",
        "outputSchema": {"type": "object", "required": ["n"]},
        "spec": {"schemaMap": {"mappings": {"a": "$.a"}}},
    }
    gateway = Gateway(content=Content(document(wrong)))
    await gateway.start()
    try:
        result = await gateway.handle(None, "tools/call", {"name": "wrong", "arguments": {"a": 1}}, Nobody())
        [trace] = gateway.telemetry.traces.get(result["_meta"]["weft/traceId"])
    finally:
        await gateway.close()
    assert result["isError"] is True
    assert trace["outcome"] == "error"

"""Calls through the gateway, for each pair of client era and upstream era: nothing is lost on the way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_types as t
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.oracle.conftest import VERSIONS, Era, Raw, connected
from tests.oracle.upstream import ANNOTATIONS, ICONS, META, OUTPUT, REFUSAL, SCHEMA
from tests.waiting import until


async def raw(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool, and return the result as it stood on the wire."""
    request = t.CallToolRequest(params=t.CallToolRequestParams(name=tool, arguments=arguments))
    return (await client.session.send_request(request, Raw)).root


@pytest.mark.req("ALG-52", "REG-44")
async def test_a_result_is_relayed_as_the_server_gave_it(client: Client, upstream: str):
    given = {"at": {"x": 1}, "label": "ü", "unknown": [None, {"deep": 1.5}]}
    result = await raw(client, f"{upstream}_echo", given)
    assert result["structuredContent"] == {"heard": given, "deep": [None, 1, 1.5, 12345678901234567, "ü\u2028"]}
    text, link = result["content"]
    assert text == {"type": "text", "text": "heard", "_meta": META}
    assert link["annotations"] == {"priority": 0.5}
    assert META.items() <= result["_meta"].items()
    assert result["x-vendor-result"] == {"kept": True}


@pytest.mark.req("ALG-52", "REG-44")
async def test_a_tool_is_listed_as_the_server_described_it(client: Client, upstream: str):
    listed = (await client.session.send_request(t.ListToolsRequest(), Raw)).root
    [tool] = [tool for tool in listed["tools"] if tool["name"] == f"{upstream}_echo"]
    assert tool == {
        "name": f"{upstream}_echo", "title": "Echo", "description": "Says it again", "inputSchema": SCHEMA,
        "outputSchema": OUTPUT, "annotations": ANNOTATIONS, "icons": ICONS, "_meta": META,
        "x-vendor-tool": {"kept": [None, 1.5]},
    }  # fmt: skip


async def test_each_side_speaks_its_own_era(client: Client, era: Era, upstream: str):
    assert client.protocol_version == VERSIONS[era]
    result = await client.call_tool(f"{upstream}_who", {})
    assert result.structured_content == {"version": VERSIONS[upstream.partition("_")[0]], "capabilities": {}}


async def test_an_unknown_tool_is_refused(client: Client):
    with pytest.raises(MCPError, match="nowhere_to_be_found") as refused:
        await client.call_tool("nowhere_to_be_found", {})
    assert refused.value.error.code == t.INVALID_PARAMS


async def test_a_refusal_keeps_its_code_message_and_data(client: Client, upstream: str):
    with pytest.raises(MCPError) as refused:
        await client.call_tool(f"{upstream}_refuse", {})
    assert refused.value.error == REFUSAL


async def test_a_failed_tool_stays_a_result(client: Client, upstream: str):
    result = await raw(client, f"{upstream}_fail", {})
    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": "The printer is on fire"}]
    assert result["structuredContent"] == {"printer": "LP0"}


async def test_progress_reaches_the_client_in_order(client: Client, upstream: str):
    seen: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    await client.call_tool(f"{upstream}_steps", {}, progress_callback=on_progress)
    assert seen == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_many_calls_at_once_get_each_their_own_progress_and_result(client: Client, upstream: str):
    async def one(number: int) -> tuple[list[float], Any]:
        seen: list[float] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            seen.append(progress)

        echoed = client.call_tool(f"{upstream}_echo", {"label": str(number)})
        _, result = await asyncio.gather(
            client.call_tool(f"{upstream}_steps", {}, progress_callback=on_progress), echoed
        )
        return seen, result.structured_content["heard"]["label"]

    assert await asyncio.gather(*map(one, range(5))) == [([1, 2, 3], str(number)) for number in range(5)]


async def test_a_cancelled_call_ends_at_the_server(
    client: Client, upstream: str, tmp_path: Path, record_property: Callable[[str, object], None]
):
    call = asyncio.create_task(client.call_tool(f"{upstream}_wait", {"folder": str(tmp_path)}))
    await until((tmp_path / "started").exists)
    asked = time.time()
    call.cancel()
    await until((tmp_path / "cancelled").exists)
    took = float((tmp_path / "cancelled").read_text()) - asked
    record_property("cancel_ms", round(took * 1000, 1))
    assert took < 5.0
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await client.call_tool(f"{upstream}_who", {})).content


async def test_log_messages_of_a_call_reach_a_client_that_wants_them(door: str, era: Era, upstream: str):
    seen: list[tuple[str, str | None, Any]] = []

    async def on_log(params: t.LoggingMessageNotificationParams) -> None:
        seen.append((params.level, params.logger, params.data))

    wanted = {"log_level": "info"} if era == "modern" else {}
    async with connected(door, era, logging_callback=on_log, **wanted) as client:
        if era == "legacy":
            level = t.SetLevelRequest(params=t.SetLevelRequestParams(level="info"))
            await client.session.send_request(level, t.EmptyResult)
        await client.call_tool(f"{upstream}_chatter", {})
        await until(lambda: len(seen) >= 2)
    assert seen == [("info", "fixture", "a word at info"), ("error", "fixture", "a word at error")]


async def test_a_modern_client_that_wants_no_log_messages_gets_none(door: str, upstream: str):
    seen: list[Any] = []

    async def on_log(params: t.LoggingMessageNotificationParams) -> None:
        seen.append(params)

    async with connected(door, "modern", logging_callback=on_log) as client:
        await client.call_tool(f"{upstream}_chatter", {})
    assert seen == []

"""The door as the SDK's client sees it, in every mode, over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.doors.mcp.fakes import Happened, serving
from tests.waiting import until

MODES = ["legacy", "auto", "2026-07-28"]


async def anna(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Anna"})


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_lists_and_calls(mode: Any) -> None:
    async with serving() as place, Client(place.url, mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo", "regional"]
        answer = await client.call_tool("echo", {"text": "hi"})
        assert answer.content == [types.TextContent(text="hi")]
        if mode != "2026-07-28":  # which does not ask
            assert client.server_info is not None
            assert client.server_info.name == "weft"
            assert client.instructions == "be kind"


@pytest.mark.parametrize("mode", MODES)
async def test_an_unknown_tool_is_an_error_of_the_request(mode: Any) -> None:
    async with serving() as place, Client(place.url, mode=mode) as client:
        with pytest.raises(MCPError, match="Unknown tool: ech") as caught:
            await client.call_tool("ech")
        assert caught.value.code == -32602
        assert caught.value.error.data == {"hint": "did you mean 'echo'?"}


@pytest.mark.parametrize("mode", MODES)
async def test_a_quota_that_is_used_up_is_an_error_of_the_request(mode: Any) -> None:
    async with serving() as place, Client(place.url, mode=mode) as client, asyncio.timeout(10):
        with pytest.raises(MCPError):
            await client.call_tool("rationed")
        answer = await client.call_tool("echo", {"text": "still here"})
        assert answer.content == [types.TextContent(text="still here")]


@pytest.mark.parametrize("mode", MODES)
async def test_progress_and_logs_come_before_the_result(mode: Any) -> None:
    told: list[Any] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    async def logged(params: types.LoggingMessageNotificationParams) -> None:
        told.append(params.data)

    async with (
        serving() as place,
        Client(place.url, mode=mode, logging_callback=logged, log_level="info") as client,
    ):
        await client.call_tool("busy", progress_callback=progressed)
    assert told == [1, 2, 3, "info", "error"], "what does not go up, and what is not grave enough, is not told"


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_that_cancels_stops_the_call(mode: Any) -> None:
    async with serving() as place, Client(place.url, mode=mode) as client:
        call = asyncio.create_task(client.call_tool("slow"))
        await asyncio.wait_for(place.gateway.began.wait(), 10)
        began = asyncio.get_running_loop().time()
        call.cancel()
        await asyncio.wait_for(place.gateway.stopped.wait(), 10)
        assert asyncio.get_running_loop().time() - began < 1
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await client.call_tool("echo", {"text": "still here"})).content


async def test_a_legacy_client_is_asked_on_the_stream_of_its_call() -> None:
    async with serving() as place, Client(place.url, mode="legacy", elicitation_callback=anna) as client:
        answer = await client.call_tool("curious")
        assert answer.content == [types.TextContent(text="{'name': 'Anna'}")]


async def test_a_modern_client_is_asked_by_a_result_and_calls_again() -> None:
    async with serving() as place, Client(place.url, mode="2026-07-28", elicitation_callback=anna) as client:
        answer = await client.call_tool("modest")
        assert answer.content == [types.TextContent(text="Anna signed")]
        assert "elicitation" in place.gateway.seen[-1].capabilities


async def test_a_legacy_client_that_cannot_be_asked_is_not() -> None:
    async with serving() as place, Client(place.url, mode="legacy") as client:
        with pytest.raises(MCPError, match="cannot be asked for elicitation/create"):
            await client.call_tool("curious")


@pytest.mark.filterwarnings("ignore:resources/subscribe")
async def test_a_legacy_client_hears_of_changes_on_its_stream() -> None:
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def hear(message: Any) -> None:
        await heard.put(message)

    async with serving() as place, Client(place.url, mode="legacy", message_handler=hear) as client:
        await client.subscribe_resource("file:///a")  # pyright: ignore[reportDeprecated] - only there until 2026
        await until(lambda: place.gateway.followed)
        place.gateway.happen(Happened("notifications/resources/updated", {"uri": "file:///b"}))
        place.gateway.happen(Happened("notifications/resources/updated", {"uri": "file:///a"}))
        place.gateway.happen(Happened("notifications/tools/list_changed", view="research"))
        place.gateway.happen(Happened("notifications/tools/list_changed"))
        first = await asyncio.wait_for(heard.get(), 10)
        second = await asyncio.wait_for(heard.get(), 10)
    assert first.params.uri == "file:///a"
    assert isinstance(second, types.ToolListChangedNotification)
    assert heard.empty()


async def test_a_modern_client_hears_of_what_it_asked_for() -> None:
    async with serving() as place, Client(place.url, mode="2026-07-28") as client:
        async with client.listen(tools_list_changed=True, resource_subscriptions=["file:///a", "lost:b"]) as changes:
            assert changes.honored.resource_subscriptions == ["file:///a"]
            assert place.gateway.followed == ["file:///a"]
            place.gateway.happen(Happened("notifications/prompts/list_changed"))
            place.gateway.happen(Happened("notifications/resources/updated", {"uri": "file:///a/deeper"}))
            place.gateway.happen(Happened("notifications/tools/list_changed", view=None))
            got = [type(await asyncio.wait_for(anext(changes), 10)).__name__ for _ in range(2)]
        assert got == ["ResourceUpdated", "ToolsListChanged"]
        await until(lambda: not place.gateway.followed)


async def test_a_door_that_closes_ends_the_streams_of_modern_clients_in_good_order() -> None:
    async with (
        serving() as place,
        Client(place.url, mode="2026-07-28") as client,
        client.listen(tools_list_changed=True) as changes,
        asyncio.timeout(10),
    ):
        place.door.close()
        assert [change async for change in changes] == []

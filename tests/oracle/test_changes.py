"""Changes at a server reach the clients of the gateway, whatever era either side speaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as t
from mcp import Client
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged

from tests.oracle.conftest import PATIENCE, Era, Heard, connected
from tests.waiting import until


def text(result: t.CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, t.TextContent)
    return block.text


async def listed(client: Client, name: str) -> None:
    """Wait until a tool is listed."""
    async with asyncio.timeout(PATIENCE):
        while name not in {tool.name for tool in (await client.list_tools()).tools}:  # noqa: ASYNC110 - it grows elsewhere
            await asyncio.sleep(0.02)


@asynccontextmanager
async def following(target: Any, era: Era, uri: str) -> AsyncGenerator[tuple[Client, Heard]]:
    """Connect a client that hears of changes of the tools and of one resource, in the way of its era."""
    heard = Heard()
    async with connected(target, era, message_handler=heard) as client:
        if era == "legacy":
            subscribe = t.SubscribeRequest(params=t.SubscribeRequestParams(uri=uri))
            await client.session.send_request(subscribe, t.EmptyResult)
            yield client, heard
            return
        async with client.listen(tools_list_changed=True, resource_subscriptions=[uri]) as subscription:

            async def listen() -> None:
                async for event in subscription:
                    if isinstance(event, ToolsListChanged):
                        await heard(t.ToolListChangedNotification())
                    if isinstance(event, ResourceUpdated):
                        params = t.ResourceUpdatedNotificationParams(uri=event.uri)
                        await heard(t.ResourceUpdatedNotification(params=params))

            listener = asyncio.create_task(listen())
            yield client, heard
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)


async def test_a_new_tool_is_announced_and_then_listed(door: str, era: Era, upstream: str):
    uri = f"{upstream.replace('_', '-')}://texts/changing"
    async with following(door, era, uri) as (client, heard):
        grown = text(await client.call_tool(f"{upstream}_grow", {}))
        await until(lambda: "notifications/tools/list_changed" in heard.methods())
        await listed(client, grown)


async def test_a_changed_resource_is_told_to_whoever_follows_it(door: str, era: Era, upstream: str):
    uri = f"{upstream.replace('_', '-')}://texts/changing"
    async with following(door, era, uri) as (client, heard):
        assert text(await client.call_tool(f"{upstream}_touch", {})) == uri
        await until(lambda: "notifications/resources/updated" in heard.methods())
    [told] = {message.params.uri for message in heard.messages if message.method == "notifications/resources/updated"}
    assert told == uri


async def test_a_client_that_follows_nothing_hears_nothing_of_resources(door: str, era: Era, upstream: str):
    heard = Heard()
    uri = f"{upstream.replace('_', '-')}://texts/changing"
    async with connected(door, era, message_handler=heard) as idle, following(door, era, uri) as (client, told):
        await client.call_tool(f"{upstream}_touch", {})
        await until(lambda: "notifications/resources/updated" in told.methods())
        await idle.list_tools()
    assert "notifications/resources/updated" not in heard.methods()

"""Two workers of one gateway: a session of either is served by both, whichever its messages come to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from tests.doors.mcp.fakes import Happened, Place, serving
from tests.waiting import until
from weft.doors.mcp.peers import Heard
from weft.doors.mcp.questions import asked_by

KEY = b"k" * 32


class TwoPeers:
    """Workers that reach each other by a call, as if over a socket."""

    def __init__(self, index: int, others: dict[int, TwoPeers]) -> None:
        self.index = index
        self._others = others
        self._handlers: dict[str, Heard] = {}
        others[index] = self

    async def tell(self, worker: int, message: dict[str, Any]) -> dict[str, Any]:
        return await self._others[worker].hear(message)

    async def tell_all(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        return [await peer.hear(message) for index, peer in self._others.items() if index != self.index]

    def on(self, op: str, handler: Heard) -> None:
        self._handlers[op] = handler

    async def hear(self, message: dict[str, Any]) -> dict[str, Any]:
        return orjson.loads(orjson.dumps(await self._handlers[message["op"]](orjson.loads(orjson.dumps(message)))))


@asynccontextmanager
async def two_workers() -> AsyncGenerator[tuple[Place, Place]]:
    peers: dict[int, TwoPeers] = {}
    async with (
        serving(key=KEY, peers=TwoPeers(0, peers)) as first,
        serving(key=KEY, peers=TwoPeers(1, peers)) as second,
    ):
        yield first, second


async def test_an_answer_reaches_the_worker_that_asked_and_nobody_else_can_give_it() -> None:
    async with two_workers() as (first, second):
        session, stranger = await first.session(), await first.session()
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "curious"}}
        headers = {"Accept": "application/json, text/event-stream", "Mcp-Session-Id": session}
        async with first.http.stream("POST", first.url, json=body, headers=headers) as stream:
            lines = stream.aiter_lines()
            question = orjson.loads((await anext(line async for line in lines if line.startswith("data")))[5:])
            assert question["method"] == "elicitation/create"
            assert question["id"].startswith("w0-")
            answer = {"id": question["id"], "result": {"action": "accept", "content": {"name": "Anna"}}}
            forged = {"id": question["id"], "result": {"action": "accept", "content": {"name": "Eve"}}}
            assert (await second.legacy(stranger, forged)).status_code == 202
            assert (await second.legacy(session, {"id": "w7-x", "result": {}})).status_code == 202
            assert (await second.legacy(session, answer)).status_code == 202
            result = orjson.loads((await anext(line async for line in lines if line.startswith("data")))[5:])
        assert "Anna" in str(result["result"])


async def test_a_request_is_cancelled_on_the_worker_that_serves_it() -> None:
    async with two_workers() as (first, second):
        session = await first.session()
        call = asyncio.create_task(first.legacy(session, {"id": 5, "method": "tools/call", "params": {"name": "slow"}}))
        await asyncio.wait_for(first.gateway.began.wait(), 10)
        await second.legacy(session, {"method": "notifications/cancelled", "params": {"requestId": 5}})
        await asyncio.wait_for(first.gateway.stopped.wait(), 10)
        assert (await call).json()["error"]["code"] == -32800


async def test_what_changes_in_a_session_is_known_to_all_workers() -> None:
    async with two_workers() as (first, second):
        session = await first.session()
        headers = {"Mcp-Session-Id": session, "Accept": "text/event-stream"}
        await first.legacy(session, {"id": 1, "method": "logging/setLevel", "params": {"level": "error"}})
        await second.legacy(session, {"id": 2, "method": "tools/call", "params": {"name": "echo"}})
        assert second.gateway.seen[-1].log_level == "error"
        async with second.http.stream("GET", second.url, headers=headers) as stream:
            await first.legacy(session, {"id": 3, "method": "resources/subscribe", "params": {"uri": "file:///a"}})
            await until(lambda: second.gateway.followed == ["file:///a"])
            second.gateway.happen(Happened("notifications/resources/updated", {"uri": "file:///a"}))
            lines = stream.aiter_lines()
            assert "file:///a" in await anext(line async for line in lines if line.startswith("data"))
            await first.http.delete(first.url, headers=headers)
            async with asyncio.timeout(10):
                assert [line async for line in lines if line.startswith("data")] == []
        assert (await second.legacy(session, {"id": 4, "method": "ping"})).status_code == 404


def test_the_id_of_a_question_says_who_asked() -> None:
    assert asked_by("w3-17") == 3
    assert [asked_by(id_) for id_ in (5, "w3", "3-1", "wx-1", "w-1", "w3-x", "")] == [None] * 7

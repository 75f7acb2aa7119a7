"""Long calls: clients that leave, that read slowly, and connections that must not look idle."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from tests.doors.mcp.fakes import EVENTS, META, Happened, Place, serving
from tests.doors.mcp.test_bad_inputs import error_of
from tests.waiting import until
from weft.doors.mcp import exchange, streams
from weft.doors.mcp.outbox import Outbox
from weft.ports import Caller


@asynccontextmanager
async def calling(
    place: Place, name: str, *, era: str = "modern", method: str = "tools/call", **params: Any
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Call a tool over a plain connection."""
    meta = {**(META if era == "modern" else {}), "progressToken": 1}
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"name": name, **params, "_meta": meta}}
    headers = {"Accept": EVENTS, "Content-Type": "application/json", "Host": "x"}
    if era == "modern":
        headers |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}
    else:
        headers["Mcp-Session-Id"] = await place.session()
    body = orjson.dumps(message)
    headers["Content-Length"] = str(len(body))
    host, _, port = place.url.removeprefix("http://").removesuffix("/mcp").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
    writer.write(f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body)
    try:
        yield reader, writer
    finally:
        writer.close()


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_client_that_leaves_stops_its_call_at_once(era: str) -> None:
    async with serving() as place, calling(place, "slow", era=era) as (_, writer):
        await asyncio.wait_for(place.gateway.began.wait(), 10)
        left = asyncio.get_running_loop().time()
        writer.close()
        await asyncio.wait_for(place.gateway.stopped.wait(), 10)
        assert asyncio.get_running_loop().time() - left < 0.5, "100 ms, on a machine that has nothing else to do"


async def test_a_silent_call_becomes_a_stream_that_shows_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "KEEP_ALIVE", 0.05)
    async with serving() as place, calling(place, "slow") as (reader, _):
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"text/event-stream" in head
            await reader.readuntil(b": still here")
            await reader.readuntil(b": still here")
            place.gateway.may_end.set()
            assert b"at last" in await reader.readuntil(b"at last")


async def test_a_silent_call_of_a_client_that_takes_only_json_stays_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "KEEP_ALIVE", 0.02)
    async with serving() as place:
        call = asyncio.create_task(place.modern("tools/call", {"name": "slow"}, headers={"Accept": "application/json"}))
        await asyncio.wait_for(place.gateway.began.wait(), 10)
        await asyncio.sleep(0.1)
        place.gateway.may_end.set()
        assert (await call).headers["content-type"] == "application/json"


async def flood(place: Place, size: int) -> list[bool]:
    """Make a tool that tells far more than a client that does not read can take; return whether it was held up."""
    ended: list[bool] = []

    async def tool_flood(arguments: dict[str, Any], caller: Caller) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(3000):
            caller.progress({"progress": number, "message": "x" * size})
            if number % 50 == 0:
                await asyncio.sleep(0)
        ended.append(loop.time() - began < 10)
        return {"content": [{"type": "text", "text": "done"}]}

    place.gateway.tool_flood = tool_flood  # pyright: ignore[reportAttributeAccessIssue] - tools are looked up by name
    return ended


async def test_a_slow_reader_holds_up_nobody_and_misses_the_oldest_progress() -> None:
    async with serving() as place:
        ended = await flood(place, 10_000)
        async with calling(place, "flood") as (reader, _):
            await until(lambda: ended)
            assert ended == [True]
            got = b""
            async with asyncio.timeout(20):
                while b'"done"' not in got[-1000:]:
                    got += await reader.read(1 << 20)
        assert len(got) < 20_000_000, "30 MB were told"
        assert b'"progress":2999,' in got, "the newest is not missed"


async def test_a_client_that_reads_nothing_for_long_is_let_go(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(streams, "STALL", 0.1)
    async with serving() as place:

        async def tool_endless(arguments: dict[str, Any], caller: Caller) -> dict[str, Any]:
            try:
                for number in itertools.count():
                    caller.progress({"progress": number, "message": "x" * 10_000})
                    await asyncio.sleep(0)
            except asyncio.CancelledError:
                place.gateway.stopped.set()
                raise
            return {}

        place.gateway.tool_endless = tool_endless  # pyright: ignore[reportAttributeAccessIssue] - by name
        async with calling(place, "endless"):
            await asyncio.wait_for(place.gateway.stopped.wait(), 10)
        assert "taken nothing" in caplog.text


async def test_a_listener_that_does_not_read_is_let_go(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as place:
        wanted = {"resourceSubscriptions": ["file:///a"]}
        async with calling(place, "", method="subscriptions/listen", notifications=wanted):
            await until(lambda: place.gateway.followed)
            for number in range(2000):
                uri = f"file:///a/{number}/{'x' * 10_000}"
                place.gateway.happen(Happened("notifications/resources/updated", {"uri": uri}))
                if number % 50 == 0:
                    await asyncio.sleep(0)
            await until(lambda: not place.gateway.followed)
        assert "does not read" in caplog.text


async def test_errors_after_the_stream_has_begun_come_on_the_stream() -> None:
    async with serving() as place:

        async def tool_late(arguments: dict[str, Any], caller: Caller) -> dict[str, Any]:
            caller.progress({"progress": 1})
            raise RuntimeError("late")

        place.gateway.tool_late = tool_late  # pyright: ignore[reportAttributeAccessIssue] - by name
        answer = await place.modern("tools/call", {"name": "late"}, meta={"progressToken": 1})
        assert answer.headers["content-type"] == "text/event-stream"
        assert "internal error" in answer.text
        assert "late" not in answer.text.replace("tool_late", "")


async def test_a_server_that_shuts_down_ends_its_calls_without_a_word() -> None:
    async with serving() as place, calling(place, "slow"):
        await asyncio.wait_for(place.gateway.began.wait(), 10)
    await asyncio.wait_for(place.gateway.stopped.wait(), 10)


async def test_too_many_listeners_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.doors.mcp.listening.MOST", 0)
    async with serving() as place:
        answer = await place.modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        error_of(answer, 503, -32603)


def test_an_outbox_drops_the_oldest_that_may_be_dropped_and_says_when_nothing_may() -> None:
    outbox = Outbox(most=2, most_bytes=10)
    assert outbox.put(b"keep", droppable=False)
    assert outbox.put(b"old", droppable=True)
    assert outbox.put(b"new", droppable=True)
    assert [outbox.pop(), outbox.pop()] == [b"keep", b"new"]
    assert outbox.put(b"one of any size", droppable=False)
    assert not outbox.put(b"two", droppable=False)

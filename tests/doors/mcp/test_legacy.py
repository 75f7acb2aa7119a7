"""The legacy era over HTTP: handshake, sessions, and what belongs to them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import orjson
import pytest

from tests.doors.mcp.fakes import HELLO, Happened, serving
from tests.doors.mcp.test_bad_inputs import error_of
from tests.waiting import until
from weft.doors.mcp.sessions import Sessions


def messages(answer: httpx2.Response) -> list[dict[str, Any]]:
    """Return the messages of a stream."""
    assert answer.headers["content-type"] == "text/event-stream"
    return [orjson.loads(line[5:]) for line in answer.text.splitlines() if line.startswith("data:")]


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1.0", "2025-11-25"),
    ],
)
async def test_the_version_is_the_clients_if_it_is_one_of_ours(asked: str, agreed: str) -> None:
    async with serving() as place:
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {**HELLO, "protocolVersion": asked}}
        answer = await place.post(hello)
        result = answer.json()["result"]
        assert result["protocolVersion"] == agreed
        assert result["serverInfo"]["name"] == "weft"
        assert result["capabilities"] == place.gateway.offers
        assert result["instructions"] == "be kind"
        session = answer.headers["mcp-session-id"]
        assert session.isprintable()
        for headers in ({}, {"MCP-Protocol-Version": agreed}):
            listed = await place.legacy(session, {"id": 2, "method": "tools/list"}, headers)
            assert "tools" in listed.json()["result"]
            assert "resultType" not in listed.json()["result"]


@pytest.mark.parametrize("missing", ["protocolVersion", "capabilities", "clientInfo"])
async def test_a_handshake_that_does_not_say_enough_is_refused(missing: str) -> None:
    async with serving() as place:
        params = {key: value for key, value in HELLO.items() if key != missing}
        error_of(await place.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}), 400, -32602)


async def test_a_handshake_too_large_for_a_session_id_is_refused() -> None:
    async with serving() as place:
        params = {**HELLO, "capabilities": {"elicitation": {"x": "y" * 5000}}}
        answer = await place.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        assert "too large" in error_of(answer, 400, -32602)


async def test_requests_without_a_session_are_told_what_is_missing() -> None:
    async with serving() as place:
        answer = await place.legacy(None, {"id": 2, "method": "tools/list"})
        assert "initialize first" in error_of(answer, 400, -32600)
        answer = await place.http.get(place.url, headers={"MCP-Protocol-Version": "2025-11-25"})
        assert "Mcp-Session-Id is missing" in error_of(answer, 400, -32600)


async def test_a_session_is_not_found_when_it_is_forged_ended_or_somebody_elses() -> None:
    async with serving() as place:
        session = await place.session({"X-Principal": "anna"})
        mine = {"X-Principal": "anna"}
        ping = {"id": 1, "method": "ping"}
        assert (await place.legacy(session, ping, mine)).json()["result"] == {}
        flipped = ("A" if session[0] != "A" else "B") + session[1:]
        for token, who in (("nonsense", "anna"), (flipped, "anna"), (session, "bob"), ("!", "anna"), ("", "anna")):
            error_of(await place.legacy(token, ping, {"X-Principal": who}), 404, -32600)
        elsewhere = await place.http.post(
            place.url + "/research",
            json={"jsonrpc": "2.0", **ping},
            headers={"Accept": "*/*", "Mcp-Session-Id": session, **mine},
        )
        error_of(elsewhere, 404, -32600)
        ended = await place.http.delete(place.url, headers={"Mcp-Session-Id": session, **mine})
        assert (ended.status_code, ended.content) == (204, b"")
        error_of(await place.legacy(session, ping, mine), 404, -32600)
        again = await place.http.delete(place.url, headers={"Mcp-Session-Id": session, **mine})
        assert again.status_code == 404


async def test_any_worker_with_the_same_key_serves_a_session() -> None:
    key = b"k" * 32
    async with serving(key=key) as first, serving(key=key) as second, serving() as stranger:
        session = await first.session()
        answer = await second.legacy(session, {"id": 1, "method": "tools/call", "params": {"name": "echo"}})
        assert answer.status_code == 200
        assert second.gateway.seen[0].capabilities == {"elicitation": {}}
        assert second.gateway.seen[0].info == {"name": "tests", "version": "1"}
        assert (await stranger.legacy(session, {"id": 1, "method": "ping"})).status_code == 404


def test_an_old_session_is_not_found() -> None:
    sessions = Sessions(lifetime=-10)
    _, token = sessions.begin(HELLO, bound="x")
    assert sessions.find(token, bound="x") is None


async def test_an_unknown_version_in_the_header_of_a_session_is_refused() -> None:
    async with serving() as place:
        session = await place.session()
        answer = await place.legacy(session, {"id": 1, "method": "ping"}, {"MCP-Protocol-Version": "2031-01-01"})
        error_of(answer, 400, -32022)


async def test_notifications_are_taken_whatever_they_say() -> None:
    async with serving() as place:
        session = await place.session()
        for method in ("notifications/initialized", "notifications/roots/list_changed", "notifications/what"):
            answer = await place.legacy(session, {"method": method})
            assert (answer.status_code, answer.content) == (202, b"")


async def test_log_messages_come_from_the_level_on_that_was_set() -> None:
    async with serving() as place:
        session = await place.session()
        call = {"id": 1, "method": "tools/call", "params": {"name": "busy"}}
        levels = [message["params"]["level"] for message in messages(await place.legacy(session, call))[:-1]]
        assert levels == ["info", "error"], "info is where it begins"
        answer = await place.legacy(session, {"id": 2, "method": "logging/setLevel", "params": {"level": "error"}})
        assert answer.json()["result"] == {}
        told = messages(await place.legacy(session, call))
        assert [message.get("method") for message in told] == ["notifications/message", None]


async def test_progress_has_the_clients_token_and_only_goes_up() -> None:
    async with serving() as place:
        session = await place.session()
        params = {"name": "busy", "_meta": {"progressToken": "mine"}}
        told = messages(await place.legacy(session, {"id": 1, "method": "tools/call", "params": params}))
        progress = [message["params"] for message in told if message.get("method") == "notifications/progress"]
        assert [one["progress"] for one in progress] == [1, 2, 3]
        assert {one["progressToken"] for one in progress} == {"mine"}
        assert told[-1]["id"] == 1


async def test_a_cancelled_request_stops_and_only_those_of_the_same_session_do() -> None:
    async with serving() as place:
        session, other = await place.session(), await place.session()
        call = asyncio.create_task(place.legacy(session, {"id": 5, "method": "tools/call", "params": {"name": "slow"}}))
        await asyncio.wait_for(place.gateway.began.wait(), 10)
        cancel = {"method": "notifications/cancelled", "params": {"requestId": 5}}
        await place.legacy(other, cancel)
        await place.legacy(session, {"method": "notifications/cancelled", "params": {"requestId": "5"}})
        await place.legacy(session, {"method": "notifications/cancelled"})
        assert not place.gateway.stopped.is_set()
        assert (await place.legacy(session, cancel)).status_code == 202
        await asyncio.wait_for(place.gateway.stopped.wait(), 10)
        error_of(await call, 200, -32800)


async def test_the_end_of_a_session_ends_its_requests_and_streams() -> None:
    async with serving() as place:
        session = await place.session()
        headers = {"Mcp-Session-Id": session, "Accept": "text/event-stream"}
        call = asyncio.create_task(place.legacy(session, {"id": 5, "method": "tools/call", "params": {"name": "slow"}}))
        await asyncio.wait_for(place.gateway.began.wait(), 10)
        async with place.http.stream("GET", place.url, headers=headers) as stream:
            await place.http.delete(place.url, headers={"Mcp-Session-Id": session})
            assert (await call).json()["error"]["code"] == -32800
            async with asyncio.timeout(10):
                assert "data:" not in (await stream.aread()).decode()


async def test_each_change_is_told_on_the_newest_stream_only() -> None:
    async with serving() as place:
        session = await place.session()
        headers = {"Mcp-Session-Id": session, "Accept": "text/event-stream"}
        async with place.http.stream("GET", place.url, headers=headers) as older:
            async with place.http.stream("GET", place.url, headers=headers) as newer:
                place.gateway.happen(Happened("notifications/tools/list_changed"))
                lines = newer.aiter_lines()
                assert "tools/list_changed" in await anext(line async for line in lines if line.startswith("data"))
            state = await place.legacy(session, {"id": 1, "method": "ping"})
            assert state.status_code == 200
            lines = older.aiter_lines()
            waiting = asyncio.create_task(anext(line async for line in lines if line.startswith("data")))
            while not waiting.done():
                place.gateway.happen(Happened("notifications/prompts/list_changed"))
                await asyncio.sleep(0.01)
            assert "prompts/list_changed" in waiting.result()


async def test_a_session_has_so_many_streams_and_no_more() -> None:
    async with serving() as place:
        headers = {"Mcp-Session-Id": await place.session(), "Accept": "text/event-stream"}
        streams = [place.http.stream("GET", place.url, headers=headers) for _ in range(4)]
        for stream in streams:
            await stream.__aenter__()
        assert (await place.http.get(place.url, headers=headers)).status_code == 409
        not_a_stream = {**headers, "Accept": "application/json"}
        assert (await place.http.get(place.url, headers=not_a_stream)).status_code == 406
        for stream in streams:
            await stream.__aexit__(None, None, None)


async def test_what_is_followed_without_a_stream_is_asked_for_when_one_opens() -> None:
    async with serving() as place:
        session = await place.session()
        follow = {"id": 1, "method": "resources/subscribe", "params": {"uri": "file:///a"}}
        assert (await place.legacy(session, follow)).json()["result"] == {}
        assert place.gateway.followed == []
        headers = {"Mcp-Session-Id": session, "Accept": "text/event-stream"}
        async with place.http.stream("GET", place.url, headers=headers):
            await until(lambda: place.gateway.followed == ["file:///a"])
        await until(lambda: place.gateway.followed == [])

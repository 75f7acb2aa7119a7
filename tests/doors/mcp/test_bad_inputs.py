"""What the door says to requests that are not right: bad inputs 17 and 88 to 94."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import orjson
import pytest

from tests.doors.mcp.fakes import EVENTS, META, Place, serving
from weft.doors.mcp.messages import MessageLimits

PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
MODERN = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}


def error_of(answer: httpx2.Response, status: int, code: int) -> str:
    """Return the sentence of an error that has the right status and code."""
    body = answer.json()
    assert (answer.status_code, body["error"]["code"]) == (status, code), answer.text
    assert body["jsonrpc"] == "2.0"
    assert "id" in body
    assert "Traceback" not in answer.text
    return body["error"]["message"]


async def test_a_batch_is_refused_in_every_era() -> None:
    async with serving() as place:
        for headers in (MODERN, {"Mcp-Session-Id": await place.session()}, {"MCP-Protocol-Version": "2025-03-26"}):
            assert "batch" in error_of(await place.post([PING, PING], headers), 400, -32600)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/json; charset=latin1"}, 415),
        ({"Content-Type": 'application/json; charset="UTF-8"'}, 200),
        ({"Content-Type": "application/json;charset=utf-8"}, 200),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Accept": "text/html"}, 406),
        ({"Accept": "text/event-stream"}, 406),
        ({"Accept": "application/json;q=0, text/event-stream"}, 406),
        ({"Accept": ""}, 406),
        ({"Accept": "*/*"}, 200),
        ({"Accept": "application/json"}, 200),
        ({"Accept": "text/event-stream;q=0.5, Application/JSON"}, 200),
    ],
)
async def test_content_type_and_accept_are_read_as_http_has_them(headers: dict[str, str], status: int) -> None:
    async with serving() as place:
        answer = await place.post(PING, {**MODERN, **headers})
        assert answer.status_code == status
        if status != 200:
            assert "must have" in answer.text or "must be" in answer.text or "Content-Encoding" in answer.text


async def test_a_request_without_content_type_is_refused() -> None:
    async with serving() as place:
        answer = await place.http.post(place.url, content=orjson.dumps(PING), headers={**MODERN, "Accept": EVENTS})
        assert "application/json" in error_of(answer, 415, -32600)


async def test_get_and_delete_and_other_methods_are_not_served_to_modern_clients() -> None:
    async with serving() as place:
        for method in ("GET", "DELETE"):
            for headers in ({}, {"MCP-Protocol-Version": "2026-07-28"}):
                answer = await place.http.request(method, place.url, headers={"Accept": EVENTS, **headers})
                assert answer.status_code == 405
                assert answer.headers["allow"] == "POST"
        assert (await place.http.put(place.url)).status_code == 405


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"jsonrpc": "2.0",}',
        b"{} {}",
        b"\xff\xfe{\x00}\x00",
        b'{"a": "\xff"}',
        b'{"a": NaN}',
        b'{"a": 1e400}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": "\\ud800"}',
        b"[" * 5000 + b"]" * 5000,
    ],
)
async def test_what_is_not_json_is_a_parse_error(body: bytes) -> None:
    async with serving() as place:
        assert "not JSON" in error_of(await place.post(body, MODERN), 400, -32700)


@pytest.mark.parametrize(
    "body",
    [
        b'"text"',
        b"1",
        b"null",
        b"{}",
        b'{"jsonrpc":"2.0"}',
        b'{"id":1,"method":"ping"}',
        b'{"jsonrpc":2.0,"method":"x"}',
    ],
)
async def test_what_is_no_message_is_an_invalid_request(body: bytes) -> None:
    async with serving() as place:
        error_of(await place.post(body, MODERN), 400, -32600)
        error_of(await place.post(body, {"Mcp-Session-Id": await place.session()}), 400, -32600)


async def test_depth_and_number_of_values_are_bounded_but_brackets_in_text_are_not_counted() -> None:
    def nested(levels: int) -> Any:
        return {"a": nested(levels - 1)} if levels else 1

    async def ask(arguments: Any) -> httpx2.Response:
        return await place.modern("tools/call", {"name": "echo", "arguments": arguments})

    async with serving() as place:
        assert (await ask(nested(62))).status_code == 200
        assert "deeper than 64" in error_of(await ask(nested(63)), 400, -32600)
        assert (await ask({"a": [0] * 90_000})).status_code == 200
        assert "more than 100000 values" in error_of(await ask({"a": [0] * 100_000}), 400, -32600)
        assert (await ask({"text": "[{," * 60_000})).status_code == 200


async def test_a_large_body_is_refused_before_it_is_read_and_while_it_is_read() -> None:
    async with serving(limits=MessageLimits(body=1000)) as place:
        assert "1000 bytes" in error_of(await place.post(b" " * 1001, MODERN), 413, -32600)

        async def trickle() -> AsyncGenerator[bytes]:
            for _ in range(11):
                yield b" " * 100

        headers = {**MODERN, "Accept": EVENTS, "Content-Type": "application/json"}
        answer = await place.http.post(place.url, content=trickle(), headers=headers)
        error_of(answer, 413, -32600)


@pytest.mark.parametrize("id_", [None, 1.5, True, [1], {}, "x" * 2000])
async def test_an_id_is_a_string_or_an_integer(id_: Any) -> None:
    async with serving() as place:
        answer = await place.post({**PING, "id": id_}, MODERN)
        assert "id must be" in error_of(answer, 400, -32600)
        assert answer.json()["id"] is None


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"id": 1, "method": "tools/list", "params": []}, "params must be an object"),
        ({"id": 1, "method": 7}, "method must be a string"),
        ({"id": 1, "method": "notifications/cancelled"}, "a notification has no id"),
        ({"method": "tools/call", "params": {"name": "echo"}}, "needs an id"),
        ({"id": 1, "result": {}, "error": {}}, "either result or error"),
        ({"id": 1, "result": 5}, "an object as its result"),
    ],
)
async def test_each_part_of_a_message_is_checked_in_both_eras(message: dict[str, Any], says: str) -> None:
    async with serving() as place:
        message = {"jsonrpc": "2.0", **message}
        assert says in error_of(await place.post(message, MODERN), 400, -32600)
        assert says in error_of(await place.post(message, {"Mcp-Session-Id": await place.session()}), 400, -32600)


async def test_a_response_that_nobody_asked_for_is_refused() -> None:
    async with serving() as place:
        response: dict[str, Any] = {"jsonrpc": "2.0", "id": "w0-1", "result": {}}
        error_of(await place.post(response, MODERN), 400, -32600)
        assert "Mcp-Session-Id is missing" in error_of(await place.post(response), 400, -32600)
        assert (await place.post(response, {"Mcp-Session-Id": await place.session()})).status_code == 202


async def test_an_unknown_method_is_not_found_with_the_status_that_each_era_understands() -> None:
    async with serving() as place:
        for method in ("nothing/here", "initialize", "ping", "logging/setLevel", "resources/subscribe"):
            answer = await place.modern(method)
            error_of(answer, 404, -32601)
            assert answer.json()["id"] == 7
        answer = await place.legacy(await place.session(), {"id": 1, "method": "nothing/here"})
        error_of(answer, 200, -32601)


async def test_a_method_that_the_view_does_not_offer_is_not_found() -> None:
    async with serving() as place:
        error_of(await place.modern("prompts/list"), 404, -32601)
        error_of(await place.legacy(await place.session(), {"id": 1, "method": "prompts/list"}), 200, -32601)


async def test_errors_of_the_gateway_have_the_code_and_status_of_the_table() -> None:
    async with serving() as place:
        answer = await place.modern("tools/call", {"name": "nobody"})
        assert error_of(answer, 400, -32602) == "Unknown tool: nobody"
        assert "not one of ours" in error_of(await place.modern("tools/list", {"cursor": "x"}), 400, -32602)
        answer = await place.modern("resources/read", {"uri": "file:///no"})
        assert error_of(answer, 400, -32602) == "Unknown resource: file:///no"
        assert answer.json()["error"]["data"] == {"uri": "file:///no"}
        answer = await place.modern("resources/read", {"uri": "down:x"})
        error_of(answer, 200, -32603)
        assert answer.json()["error"]["data"]["code"] == "UpstreamUnavailable"
        answer = await place.modern("tools/call", {"name": "crowded"})
        error_of(answer, 503, -32603)
        assert answer.headers["retry-after"] == "1"
        answer = await place.modern("tools/call", {"name": "refused"})
        assert error_of(answer, 400, -32021) == "needs sampling"
        assert answer.json()["error"]["data"] == {"x": 1}


async def test_who_calls_too_often_is_told_when_to_come_back_in_both_eras() -> None:
    async with serving() as place:
        session = await place.session()
        call = {"id": 3, "method": "tools/call", "params": {"name": "rationed"}}
        for answer in (await place.modern("tools/call", {"name": "rationed"}), await place.legacy(session, call)):
            assert "quota 'few'" in error_of(answer, 429, -32000)
            assert answer.headers["retry-after"] == "13", "a moment sooner would be too soon"
            data = answer.json()["error"]["data"]
            assert (data["code"], data["retryAfterMs"]) == ("QuotaExceeded", 12400)


async def test_a_legacy_client_is_told_with_200_and_its_own_code_for_lost_resources() -> None:
    async with serving() as place:
        session = await place.session()

        async def ask(method: str, **params: Any) -> httpx2.Response:
            return await place.legacy(session, {"id": 1, "method": method, "params": params})

        error_of(await ask("resources/read", uri="file:///no"), 200, -32002)
        error_of(await ask("tools/call", name="nobody"), 200, -32602)
        error_of(await ask("tools/call", name="refused"), 200, -32021)
        error_of(await ask("resources/subscribe", uri="lost:x"), 200, -32002)
        error_of(await ask("resources/subscribe", uri=5), 200, -32602)
        error_of(await ask("logging/setLevel", level="loud"), 200, -32602)


@pytest.mark.parametrize("name", ["broken", "huge"])
async def test_a_bug_behind_the_door_is_a_reference_to_the_log(name: str, caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as place:
        says = error_of(await place.modern("tools/call", {"name": name}), 500, -32603)
        assert "1234" not in says
        assert says.rpartition(" ")[2] in caplog.text, "the reference is found in the log"


async def test_an_unknown_view_is_named_with_those_that_exist() -> None:
    async with serving() as place:
        assert (await place.modern("tools/list", view="/research")).status_code == 200
        says = error_of(await place.modern("tools/list", view="/reserch"), 404, -32602)
        assert "did you mean 'research'?" in says


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_forgotten() -> None:
    async with serving() as place:
        await half_a_request(place)
        assert (await place.modern("tools/list")).status_code == 200


async def half_a_request(place: Place) -> None:
    host, _, port = place.url.removeprefix("http://").removesuffix("/mcp").partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAccept: {EVENTS}\r\nContent-Length: 99\r\n"
    )
    writer.write(head.encode() + b"\r\n{")
    await writer.drain()
    writer.close()
    await writer.wait_closed()

"""Messages over HTTP: what is sent with them, and what comes of the answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.upstreams.faults import STREAM, STREAM_END, Peer, Request, chunk, event, http, result_json, rpc, serving
from tests.waiting import soon
from weft.errors import (
    DeadlineExceeded,
    InputError,
    SessionGone,
    UpstreamDied,
    UpstreamProtocolError,
    UpstreamUnavailable,
)
from weft.upstreams.http import HttpTransport
from weft.upstreams.transport import Transport

CALL: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t"}}
INITIALIZE: dict[str, Any] = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
NOTE: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def always(answer: Callable[[Request], bytes]) -> Callable[[Peer], Awaitable[None]]:
    async def script(peer: Peer) -> None:
        while True:
            await peer.send(answer(await peer.request()))

    return script


def http_is_a_transport(transport: HttpTransport) -> Transport:
    return transport


async def test_a_message_goes_out_with_the_headers_of_the_operator_and_of_the_request():
    async with serving(always(rpc)) as server:
        transport = HttpTransport(server.url, headers={"Authorization": "Bearer x", "MCP-Protocol-Version": "old"})
        await transport.start()
        await transport.request(CALL, deadline=soon(), headers={"MCP-Protocol-Version": "2026-07-28"})
        await transport.close()
    sent = server.requests[0]
    assert (sent.method, sent.path, sent.json) == ("POST", "/mcp", CALL)
    assert sent.headers == {
        "host": f"127.0.0.1:{server.port}",
        "accept": "application/json, text/event-stream",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "content-length": str(len(sent.body)),
        "authorization": "Bearer x",
        "mcp-protocol-version": "2026-07-28",
    }


async def test_a_session_is_kept_from_initialize_and_ended_by_close():
    def answer(request: Request) -> bytes:
        if request.method == "DELETE" or "id" not in request.json:
            return http(status=202)
        return rpc(request, headers={"Mcp-Session-Id": "abc"} if request.json["method"] == "initialize" else None)

    async with serving(always(answer)) as server:
        transport = HttpTransport(server.url)
        await transport.request(INITIALIZE, deadline=soon())
        assert transport.session_id == "abc"
        await transport.notify(NOTE)
        await transport.request(CALL, deadline=soon())
        await transport.request(INITIALIZE, deadline=soon())
        await transport.close()
    told = [(request.method, request.headers.get("mcp-session-id")) for request in server.requests]
    assert told == [("POST", None), ("POST", "abc"), ("POST", "abc"), ("POST", None), ("DELETE", "abc")]


async def test_closing_does_not_wait_for_a_server_that_is_gone(unused_port: int):
    transport = HttpTransport(f"http://127.0.0.1:{unused_port}/mcp")
    transport.session_id = "abc"
    await transport.close()
    assert transport.session_id is None


@pytest.mark.parametrize("id_", ["null", '"server-error"', "1"])
async def test_a_json_rpc_error_with_status_400_is_the_answer_whatever_its_id(id_: str):
    body = f'{{"jsonrpc":"2.0","id":{id_},"error":{{"code":-32020,"message":"no"}}}}'.encode()
    async with serving(always(lambda _: http(body, status=400))) as server:
        transport = HttpTransport(server.url)
        answer = await transport.request(CALL, deadline=soon())
        await transport.close()
    assert (answer["id"], answer["error"]["code"]) == (1, -32020)


async def test_messages_are_told_in_their_order_and_other_events_are_not():
    def answer(request: Request) -> bytes:
        notes = b"".join(event(b'{"method":"n","params":{"i":%d}}' % number) for number in range(3))
        other = chunk(b"event: ping\ndata: {\n\n") + chunk(b"id: 1\ndata:\n\n") + chunk(b": hello\n\n")
        asks = event(b'{"id":1,"method":"sampling/createMessage"}')
        return STREAM + notes + other + asks + event(result_json(request)) + STREAM_END

    told: list[Any] = []
    async with serving(always(answer)) as server:
        transport = HttpTransport(server.url)
        found = await transport.request(CALL, deadline=soon(), on_message=told.append)
        assert (await transport.request(CALL, deadline=soon()))["id"] == 1
        await transport.close()
    assert found["result"] == {}
    assert [one["params"]["i"] for one in told[:3]] == [0, 1, 2]
    assert told[3:] == [{"id": 1, "method": "sampling/createMessage"}]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (http(status=404), SessionGone),
        (http(status=500), UpstreamUnavailable),
        (http(b'{"error":{"code":-32600}}', status=400), UpstreamProtocolError),
        (http(b"no", status=400, kind="text/plain"), UpstreamProtocolError),
    ],
)
async def test_a_notification_that_was_refused_is_an_error(answer: bytes, error: type[Exception]):
    async with serving(always(lambda _: answer)) as server:
        transport = HttpTransport(server.url)
        transport.session_id = "abc"
        with pytest.raises(error):
            await transport.notify(NOTE)
        transport.session_id = None
        await transport.close()


@pytest.mark.parametrize("answer", [http(status=202, kind=None), http(b"{}"), http(b"ok", kind="text/plain")])
async def test_a_notification_needs_no_answer(answer: bytes):
    async with serving(always(lambda _: answer)) as server:
        transport = HttpTransport(server.url)
        for _ in range(3):
            await transport.notify(NOTE)
        await transport.close()
    assert (server.connections, len(server.requests)) == (1, 3)


async def test_a_message_that_is_not_json_is_refused_before_it_is_sent():
    transport = HttpTransport("http://127.0.0.1:1/mcp")
    with pytest.raises(InputError):
        await transport.request({**CALL, "params": {"a": object()}}, deadline=soon())


async def test_a_deadline_that_has_passed_sends_nothing():
    async with serving(always(rpc)) as server:
        transport = HttpTransport(server.url)
        with pytest.raises(DeadlineExceeded) as caught:
            await transport.request(CALL, deadline=soon(-1))
        await transport.close()
    assert caught.value.retryable == "yes"
    assert server.requests == []


async def test_a_session_id_that_no_header_may_carry_is_refused():
    async with serving(always(lambda request: rpc(request, headers={"Mcp-Session-Id": "caf\u00e9"}))) as server:
        transport = HttpTransport(server.url)
        with pytest.raises(UpstreamProtocolError, match="session id"):
            await transport.request(INITIALIZE, deadline=soon())
        await transport.close()
    assert transport.session_id is None


async def test_h10_a_legacy_stream_goes_on_behind_its_last_event():
    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            number = len(peer.requests)
            if number < 4:
                await peer.send(STREAM + chunk(b'retry: 1\nid: e%d\ndata: {"method":"n"}\n\n' % number) + STREAM_END)
            else:
                await peer.send(STREAM + event(result_json(peer.requests[0])) + STREAM_END)
            assert request.headers.get("last-event-id") == (None if number == 1 else f"e{number - 1}")

    told: list[Any] = []
    async with serving(script) as server:
        transport = HttpTransport(server.url)
        transport.session_id = "abc"
        assert (await transport.request(CALL, deadline=soon(), on_message=told.append))["id"] == 1
        transport.session_id = None
        await transport.close()
    assert [request.method for request in server.requests] == ["POST", "GET", "GET", "GET"]
    assert len(told) == 3


@pytest.mark.parametrize("again", [http(status=405), http(status=503), STREAM + STREAM_END, b""])
async def test_h10_a_legacy_stream_with_nothing_new_in_it_is_given_up(again: bytes):
    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            first = STREAM + chunk(b"retry: 1\nid: e1\ndata:\n\n") + STREAM_END
            await peer.send(first if request.method == "POST" else again)
            if not again and request.method == "GET":
                return

    async with serving(script) as server:
        transport = HttpTransport(server.url)
        transport.session_id = "abc"
        with pytest.raises(UpstreamDied) as caught:
            await transport.request(CALL, deadline=soon())
        transport.session_id = None
        await transport.close()
    assert caught.value.retryable == "unknown-outcome"
    assert [request.method for request in server.requests] == ["POST", "GET", "GET", "GET"]


async def test_listening_tells_the_messages_of_the_session_until_the_server_ends_the_stream():
    notes = event(b'{"method":"a"}') + event(b'{"id":9,"result":{}}') + event(b'{"method":"b"}')
    told: list[Any] = []
    async with serving(always(lambda _: STREAM + notes + STREAM_END)) as server:
        transport = HttpTransport(server.url)
        await transport.listen(on_message=told.append)
        await transport.close()
    assert told == [{"method": "a"}, {"method": "b"}]
    assert (server.requests[0].method, server.requests[0].headers["accept"]) == ("GET", "text/event-stream")


async def test_a_server_without_a_stream_for_the_session_says_so():
    async with serving(always(lambda _: http(status=405, kind=None))) as server:
        transport = HttpTransport(server.url)
        with pytest.raises(UpstreamProtocolError) as caught:
            await transport.listen(on_message=lambda _: None)
        await transport.close()
    assert caught.value.status == 405

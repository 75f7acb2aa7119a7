"""The fault matrix of HTTP, H1 to H14: each fault is made to happen, and each ends as the matrix says."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
import tracemalloc
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.upstreams.faults import STREAM, STREAM_END, Peer, Request, chunk, event, http, result_json, rpc, serving
from tests.waiting import soon
from weft.errors import (
    DeadlineExceeded,
    SessionGone,
    UpstreamAuth,
    UpstreamDied,
    UpstreamMessageTooLarge,
    UpstreamProtocolError,
    UpstreamUnavailable,
    WeftError,
)
from weft.upstreams.http import HttpTransport
from weft.upstreams.httpwire import Limits

CALL: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t", "arguments": {}}}
Answer = Callable[[Request], bytes]


def always(answer: bytes | Answer) -> Callable[[Peer], Awaitable[None]]:
    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            await peer.send(answer if isinstance(answer, bytes) else answer(request))

    return script


async def failure(
    script: Callable[[Peer], Awaitable[object]], *, within: float = 5.0, session: str | None = None, **given: Any
) -> WeftError:
    """Return the error of one call, which left nothing behind."""
    async with serving(script) as server:
        transport = HttpTransport(server.url, name="s", **given)
        transport.session_id = session
        try:
            with pytest.raises(WeftError) as caught:
                await transport.request(CALL, deadline=soon(within))
        finally:
            transport.session_id = None
            await transport.close()
        assert transport.open_connections == 0
    return caught.value


@pytest.mark.parametrize("status", [500, 502, 504])
async def test_h1_a_failing_server_may_have_done_the_work(status: int):
    error = await failure(always(http(b"<h1>Bad</h1>", status=status, kind="text/html")))
    assert isinstance(error, UpstreamUnavailable)
    assert (error.status, error.retryable, error.origin) == (status, "unknown-outcome", "upstream")
    assert "<h1>Bad</h1>" in error.message


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "Sun, 06 Nov 1994 08:49:47 GMT", "Date": "Sun, 06 Nov 1994 08:49:37 GMT"}, 10.0),
        ({"Retry-After": "Sun, 06 Nov 1994 08:49:37 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize(("status", "code"), [(503, "UpstreamUnavailable"), (429, "UpstreamRateLimited")])
async def test_h1_h4_a_busy_server_is_retried_when_it_says(
    status: int, code: str, header: dict[str, str], seconds: float | None
):
    error = await failure(always(http(status=status, headers=header)))
    assert isinstance(error, UpstreamUnavailable)
    assert (error.code, error.retryable, error.retry_after) == (code, "yes", seconds)


@pytest.mark.parametrize("status", [401, 403])
async def test_h2_refused_credentials_are_not_retried_nor_shown(status: int):
    told = http(b"no such token: canary-1234567", status=status, kind="text/plain")
    error = await failure(always(told), headers={"Authorization": "Bearer canary-1234567"})
    assert isinstance(error, UpstreamAuth)
    assert (error.retryable, error.status) == ("no", status)
    assert "canary" not in error.message
    assert "***" in error.message


async def test_h2_credentials_are_refreshed_once_for_all_who_were_refused():
    asked = 0

    async def refresh() -> Mapping[str, str]:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return {"Authorization": "Bearer new"}

    def answer(request: Request) -> bytes:
        return rpc(request) if request.headers["authorization"] == "Bearer new" else http(status=401)

    async with serving(always(answer)) as server:
        transport = HttpTransport(server.url, headers={"Authorization": "Bearer old"}, on_unauthorised=refresh)
        calls = [transport.request({**CALL, "id": number}, deadline=soon()) for number in range(8)]
        assert [answer["id"] for answer in await asyncio.gather(*calls)] == list(range(8))
        await transport.close()
    assert asked == 1


@pytest.mark.parametrize("better", [None, {"Authorization": "Bearer no better"}])
async def test_h2_a_second_refusal_is_final(better: dict[str, str] | None):
    asked = 0

    async def refresh() -> Mapping[str, str] | None:
        nonlocal asked
        asked += 1
        return better

    assert isinstance(await failure(always(http(status=401)), on_unauthorised=refresh), UpstreamAuth)
    assert asked == 1


async def test_h2_a_refresh_that_hangs_ends_at_the_deadline():
    async def refresh() -> None:
        await asyncio.Event().wait()

    error = await failure(always(http(status=401)), on_unauthorised=refresh, within=0.1)
    assert isinstance(error, DeadlineExceeded)


async def test_h3_a_forgotten_session_is_told_apart_from_a_wrong_url():
    gone = await failure(always(http(status=404)), session="abc")
    assert isinstance(gone, SessionGone)
    assert gone.retryable == "yes"
    wrong = await failure(always(http(b"<html>", status=404, kind="text/html")))
    assert isinstance(wrong, UpstreamProtocolError)
    assert wrong.status == 404


async def test_h5_a_refused_connection_was_definitely_not_sent(unused_port: int):
    transport = HttpTransport(f"http://127.0.0.1:{unused_port}/mcp")
    with pytest.raises(UpstreamUnavailable) as caught:
        await transport.request(CALL, deadline=soon())
    assert caught.value.retryable == "yes"
    await transport.close()


async def test_h5_a_host_without_an_address_was_definitely_not_sent(monkeypatch: pytest.MonkeyPatch):
    async def nowhere(*_: object, **__: object) -> None:
        raise OSError("Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", nowhere)
    transport = HttpTransport("http://nowhere.invalid/mcp")
    with pytest.raises(UpstreamUnavailable, match="Name or service not known") as caught:
        await transport.request(CALL, deadline=soon())
    assert caught.value.retryable == "yes"


async def test_h5_a_certificate_that_nobody_trusts_is_refused(certificate: tuple[Path, Path]):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    async with serving(always(rpc), ssl=context) as server:
        url = server.url.replace("http:", "https:").replace("127.0.0.1", "localhost")
        strange = HttpTransport(url)
        with pytest.raises(UpstreamUnavailable, match="TLS") as caught:
            await strange.request(CALL, deadline=soon())
        assert caught.value.retryable == "yes"
        assert server.requests == []
        known = HttpTransport(url, tls=ssl.create_default_context(cafile=certificate[0]))
        assert (await known.request(CALL, deadline=soon()))["result"] == {}
        await strange.close()
        await known.close()


async def test_h6_slow_headers_end_at_the_deadline():
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.drip(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 500, pause=0.01)

    error = await failure(script, within=0.1)
    assert isinstance(error, DeadlineExceeded)
    assert error.retryable == "unknown-outcome"


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\nContent-Ty", http(b"{" * 9)[:-5], STREAM + chunk(b"data: {")])
async def test_h6_silence_in_the_middle_of_an_answer_ends_it(start: bytes):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(start)
        await peer.gone()

    error = await failure(script, limits=Limits(idle_read=0.05))
    assert isinstance(error, UpstreamDied)
    assert error.retryable == "unknown-outcome"


async def test_h6_a_tool_that_thinks_for_long_is_not_silent():
    async def script(peer: Peer) -> None:
        request = await peer.request()
        await asyncio.sleep(0.1)
        await peer.send(STREAM)
        await asyncio.sleep(0.1)
        await peer.send(event(result_json(request)) + STREAM_END)
        await peer.gone()

    async with serving(script) as server:
        transport = HttpTransport(server.url, limits=Limits(idle_read=0.03))
        assert (await transport.request(CALL, deadline=soon()))["result"] == {}
        await transport.close()


@pytest.mark.parametrize(
    "cut",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n",
        b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"id":1,"result":{}}',
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        + chunk(b'{"id":1,"result":{}}'),
        b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"id":1,"result":{"a":',
    ],
)
@pytest.mark.parametrize("ending", ["close", "half-close", "reset"])
async def test_h7_a_truncated_answer_has_an_unknown_outcome(cut: bytes, ending: str):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(cut)
        if ending == "half-close":
            peer.half_close()
            await peer.gone()
        elif ending == "reset":
            peer.reset()

    error = await failure(script)
    assert isinstance(error, UpstreamDied)
    assert error.retryable == "unknown-outcome"


WHOLE = b'{"jsonrpc":"2.0","id":1,"result":{"text":"\xc3\xa9}","n":[1,{"a":null}]}}'
FRAMES = {
    "length": http(WHOLE),
    "chunks": http(b"", kind=None).replace(b"Content-Length: 0\r\n\r\n", b"Content-Type: application/json\r\n")
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + chunk(WHOLE[:30])
    + chunk(WHOLE[30:])
    + STREAM_END,
    "close": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + WHOLE,
    "events": STREAM + event(WHOLE),
}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frame=st.sampled_from(sorted(FRAMES)), share=st.floats(0, 1, exclude_max=True))
def test_h7_no_part_of_an_answer_is_ever_taken_for_the_whole(frame: str, share: float):
    data = FRAMES[frame]
    kept = data[: int(len(data) * share)]

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(kept)

    async def scenario() -> None:
        async with serving(script) as server:
            transport = HttpTransport(server.url)
            try:
                answer = await transport.request(CALL, deadline=soon())
            except UpstreamDied:
                answer = None
            assert answer in (None, json.loads(WHOLE))
            await transport.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            http(b"<html>\x1b[31m" + b"x" * 500, kind="text/html; charset=utf-8"),
            ["200", "text/html", "<html>\\x1b[31mxxx"],
        ),
        (http(b'{"jsonrpc":"2.0","id":1,"result":{}}', kind="text/plain"), ["200", "text/plain", '"result"']),
        (http(b"", status=202, kind=None), ["202", "no content type"]),
        (http(b"{nope"), ["not JSON", "{nope"]),
        (http(b'{"a":"\xff"}'), ["not JSON"]),
        (http(b"[]"), ["not a JSON-RPC response", "[]"]),
        (http(b'{"id":1}'), ["not a JSON-RPC response"]),
        (http(b'{"id":1,"result":1,"error":{}}'), ["not a JSON-RPC response"]),
        (http(b"nope", status=400), ["400", "nope"]),
        (b"SSH-2.0-OpenSSH_9.6\r\n", ["not HTTP"]),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", ["switched protocols"]),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc", ["Content-Length"]),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ["Transfer-Encoding"]),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc", ["Transfer-Encoding"]),
    ],
)
async def test_h8_what_is_no_answer_is_told_with_its_beginning(answer: bytes, told: list[str]):
    error = await failure(always(answer))
    assert isinstance(error, UpstreamProtocolError)
    assert error.retryable == "no"
    assert [part for part in told if part not in error.message] == []
    assert error.message.isascii()
    assert error.message.isprintable()
    assert len(error.message) < 400


async def test_h9_a_compressed_answer_is_refused_unread():
    bomb = gzip.compress(b" " * 10_000_000)
    tracemalloc.start()
    error = await failure(always(http(bomb, headers={"Content-Encoding": "gzip"})))
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
    assert isinstance(error, UpstreamProtocolError)
    assert "gzip" in error.message


@pytest.mark.parametrize("end", [STREAM_END, b""])
async def test_h10_a_stream_that_ends_before_the_answer_has_an_unknown_outcome(end: bytes):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM + event(b'{"jsonrpc":"2.0","method":"notifications/progress"}') + end)

    error = await failure(script)
    assert isinstance(error, UpstreamDied)
    assert error.retryable == "unknown-outcome"


@pytest.mark.parametrize("noise", [chunk(b": still here\n\n"), event(b'{"method":"notifications/progress"}')])
async def test_h11_endless_progress_ends_at_the_deadline_and_fills_no_memory(noise: bytes):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM)
        while True:
            await peer.send(noise * 100)

    tracemalloc.start()
    error = await failure(script, within=0.3)
    assert tracemalloc.get_traced_memory()[1] < 8_000_000
    tracemalloc.stop()
    assert isinstance(error, DeadlineExceeded)


@pytest.mark.parametrize("line", [b"data: ", b": "])
async def test_h12_an_endless_event_is_refused_at_the_limit(line: bytes):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM + chunk(line))
        while True:
            await peer.send(chunk(b"x" * 65536))

    tracemalloc.start()
    error = await failure(script, limits=Limits(body_bytes=1_000_000))
    assert tracemalloc.get_traced_memory()[1] < 6_000_000
    tracemalloc.stop()
    assert isinstance(error, UpstreamMessageTooLarge)
    assert error.limit == 1_000_000


async def test_h12_any_lawful_event_is_read():
    async def script(peer: Peer) -> None:
        request = await peer.request()
        first, second = result_json(request).split(b",", 1)
        lines = b"\xef\xbb\xbf: hi\r\nid: a\0b\revent: message\ndata: %s,\r\ndata: %s\n\r" % (first, second)
        await peer.send(STREAM)
        for byte in lines:
            await peer.send(chunk(bytes([byte])))
        await peer.gone()

    async with serving(script) as server:
        transport = HttpTransport(server.url)
        assert (await transport.request(CALL, deadline=soon()))["id"] == 1
        await transport.close()


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_over_the_limit_is_refused(declared: bool):
    async def script(peer: Peer) -> None:
        await peer.request()
        length = b"Content-Length: 50000000" if declared else b"Transfer-Encoding: chunked"
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + length + b"\r\n\r\n")
        while not declared:
            await peer.send(chunk(b"x" * 65536))
        await peer.gone()

    error = await failure(script, limits=Limits(body_bytes=500_000))
    assert isinstance(error, UpstreamMessageTooLarge)


@pytest.mark.parametrize(
    "start", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: "]
)
async def test_headers_and_trailers_over_the_limit_are_refused(start: bytes):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(start)
        while True:
            await peer.send(b"x: y\r\n" * 1000 if not start else b"x" * 4096)

    error = await failure(script)
    assert isinstance(error, UpstreamMessageTooLarge | UpstreamProtocolError)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_h13_a_redirect_is_not_followed_and_says_where_it_points(status: int):
    error = await failure(always(http(status=status, headers={"Location": "http://169.254.169.254/latest"})))
    assert isinstance(error, UpstreamProtocolError)
    assert "169.254.169.254/latest" in error.message


@pytest.mark.parametrize("id_", [2, "1", True, 1.0])
async def test_h14_an_answer_to_another_request_is_an_error(id_: Any):
    assert isinstance(await failure(always(lambda request: rpc(request, id_=id_))), UpstreamProtocolError)

    def streamed(request: Request) -> bytes:
        return STREAM + event(result_json(request, id_=id_)) + STREAM_END

    assert isinstance(await failure(always(streamed)), UpstreamProtocolError)


async def test_h14_the_first_of_two_answers_wins():
    def twice(request: Request) -> bytes:
        return STREAM + event(result_json(request, 1)) + event(result_json(request, 2)) + STREAM_END

    async with serving(always(twice)) as server:
        transport = HttpTransport(server.url)
        assert [(await transport.request(CALL, deadline=soon()))["result"] for _ in range(3)] == [1, 1, 1]
        await transport.close()


async def test_a_second_answer_behind_the_first_never_becomes_that_of_the_next_request():
    async with serving(always(lambda request: rpc(request, "mine") + rpc(request, "stray"))) as server:
        transport = HttpTransport(server.url)
        for number in range(5):
            assert (await transport.request({**CALL, "id": number}, deadline=soon()))["result"] == "mine"
        await transport.close()

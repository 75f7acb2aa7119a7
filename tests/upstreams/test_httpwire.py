"""Connections: reused while they are good, counted, queued for, and closed when a caller lets go."""

from __future__ import annotations

import asyncio
import gc
import itertools
from typing import Any

import pytest

from tests.upstreams.faults import STREAM, STREAM_END, Peer, Request, chunk, event, http, result_json, rpc, serving
from tests.waiting import soon
from weft.errors import DeadlineExceeded, InputError, UpstreamDied, UpstreamUnavailable
from weft.upstreams.http import HttpTransport
from weft.upstreams.httpwire import Limits, Target, clean_header

CALL: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t"}}


async def echo(peer: Peer) -> None:
    while True:
        await peer.send(rpc(await peer.request()))


async def turns(transport: HttpTransport, connections: int) -> None:
    """Let the loop turn until so many connections are open."""
    async with asyncio.timeout(2):
        while transport.open_connections != connections:  # noqa: ASYNC110 - nobody tells of a closed socket
            await asyncio.sleep(0.001)


async def test_calls_one_after_the_other_share_one_connection():
    async with serving(echo) as server:
        transport = HttpTransport(server.url)
        for number in range(20):
            assert (await transport.request({**CALL, "id": number}, deadline=soon()))["id"] == number
        await transport.close()
    assert server.connections == 1


async def test_a_stream_read_to_its_answer_gives_its_connection_back():
    async def streamed(peer: Peer) -> None:
        while True:
            request = await peer.request()
            await peer.send(STREAM + event(result_json(request)))
            await peer.send(STREAM_END)

    async with serving(streamed) as server:
        transport = HttpTransport(server.url)
        for _ in range(5):
            await transport.request(CALL, deadline=soon())
            for _ in range(3):
                await asyncio.sleep(0.002)
        await transport.close()
    assert server.connections == 1


async def test_a_stream_that_goes_on_after_its_answer_costs_its_connection():
    async def chatty(peer: Peer) -> None:
        request = await peer.request()
        await peer.send(STREAM + event(result_json(request)))
        while True:
            await peer.send(chunk(b": more\n" * 10_000))

    async with serving(chatty) as server:
        transport = HttpTransport(server.url)
        assert (await transport.request(CALL, deadline=soon()))["id"] == 1
        await turns(transport, 0)
        await transport.close()


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used():
    async def once(peer: Peer) -> None:
        await peer.send(rpc(await peer.request()))

    async with serving(once) as server:
        transport = HttpTransport(server.url)
        for _ in range(10):
            await transport.request(CALL, deadline=soon())
        await transport.close()
    assert server.connections == 10
    assert len(server.requests) == 10


async def test_a_request_that_a_dying_server_may_have_read_is_never_sent_again():
    async def dies_on_the_second(peer: Peer) -> None:
        await peer.send(rpc(await peer.request()))
        await peer.request()
        peer.reset()

    async with serving(dies_on_the_second) as server:
        transport = HttpTransport(server.url)
        await transport.request(CALL, deadline=soon())
        with pytest.raises(UpstreamDied) as caught:
            await transport.request(CALL, deadline=soon())
        await transport.close()
    assert caught.value.retryable == "unknown-outcome"
    assert len(server.requests) == 2


async def test_a_write_that_failed_at_once_is_made_again_on_a_new_connection(monkeypatch: pytest.MonkeyPatch):
    async with serving(echo) as server:
        transport = HttpTransport(server.url)
        await transport.request(CALL, deadline=soon())
        kept = transport._pool._idle[0]  # pyright: ignore[reportPrivateUsage] - a race that no server can time

        def fails(*_: object, **__: object) -> bool:
            kept.abort()
            return False

        monkeypatch.setattr(kept, "send", fails)
        assert (await transport.request(CALL, deadline=soon()))["id"] == 1
        await transport.close()
    assert (server.connections, len(server.requests)) == (2, 2)


@pytest.mark.parametrize("header", [{"Connection": "close"}, {"Keep-Alive": "timeout=1"}])
async def test_a_server_that_will_close_is_believed(header: dict[str, str]):
    async def script(peer: Peer) -> None:
        while True:
            await peer.send(rpc(await peer.request(), headers=header))

    async with serving(script) as server:
        transport = HttpTransport(server.url)
        await transport.request(CALL, deadline=soon())
        await transport.request(CALL, deadline=soon())
        await transport.close()
    assert server.connections == 2


async def test_a_kept_connection_is_closed_when_its_time_is_over():
    async with serving(echo) as server:
        transport = HttpTransport(server.url, limits=Limits(keep_idle=0.03))
        await transport.request(CALL, deadline=soon())
        assert transport.open_connections == 1
        await turns(transport, 0)
        await transport.request(CALL, deadline=soon())
        await transport.close()


async def test_words_out_of_turn_cost_the_connection():
    async def script(peer: Peer) -> None:
        await peer.send(rpc(await peer.request()))
        await asyncio.sleep(0.01)
        await peer.send(http(b"{}"))
        await peer.gone()

    async with serving(script) as server:
        transport = HttpTransport(server.url)
        await transport.request(CALL, deadline=soon())
        await turns(transport, 0)
        await transport.close()


async def test_no_more_connections_than_the_cap_and_nobody_is_forgotten_in_the_queue():
    busy = most = 0

    async def script(peer: Peer) -> None:
        nonlocal busy, most
        while True:
            request = await peer.request()
            busy += 1
            most = max(most, busy)
            await asyncio.sleep(0.002)
            busy -= 1
            await peer.send(rpc(request))

    async with serving(script) as server:
        transport = HttpTransport(server.url, limits=Limits(connections=4, queue=100))
        calls = [transport.request({**CALL, "id": number}, deadline=soon()) for number in range(60)]
        assert sorted(answer["id"] for answer in await asyncio.gather(*calls)) == list(range(60))
        await transport.close()
    assert server.connections == 4
    assert most <= 4


async def test_cancelled_waiters_leave_no_permit_behind():
    async with serving(echo) as server:
        transport = HttpTransport(server.url, limits=Limits(connections=2, queue=100))
        for delays in itertools.product(range(4), repeat=2):
            tasks = [asyncio.create_task(transport.request(CALL, deadline=soon())) for _ in range(8)]
            for task, delay in zip(tasks, delays * 4, strict=True):
                for _ in range(delay):
                    await asyncio.sleep(0)
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        answers = await asyncio.gather(*[transport.request(CALL, deadline=soon()) for _ in range(8)])
        assert len(answers) == 8
        assert transport.open_connections <= 2
        await transport.close()
        assert transport.open_connections == 0


async def test_a_full_queue_turns_requests_away_unsent():
    async def hangs(peer: Peer) -> None:
        await peer.gone()

    async with serving(hangs) as server:
        transport = HttpTransport(server.url, limits=Limits(connections=1, queue=1))
        calls = [asyncio.create_task(transport.request(CALL, deadline=soon(0.1))) for _ in range(3)]
        told = await asyncio.gather(*calls, return_exceptions=True)
        busy = [error for error in told if isinstance(error, UpstreamUnavailable)]
        assert [(error.code, error.retryable) for error in busy] == [("UpstreamBusy", "yes")]
        late = [error.retryable for error in told if isinstance(error, DeadlineExceeded)]
        assert late == ["unknown-outcome", "yes"]
        await transport.close()


async def test_cancelling_a_call_closes_its_connection_at_once():
    closed = asyncio.Event()
    begun = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM)
        begun.set()
        await peer.gone()
        closed.set()

    async with serving(script) as server:
        transport = HttpTransport(server.url)
        call = asyncio.create_task(transport.request(CALL, deadline=soon()))
        await begun.wait()
        call.cancel()
        async with asyncio.timeout(0.1):
            await closed.wait()
        with pytest.raises(asyncio.CancelledError):
            await call
        await turns(transport, 0)
        await transport.close()


async def test_closing_fails_what_is_in_flight_and_what_waits_and_leaves_nothing():
    async def hangs(peer: Peer) -> None:
        await peer.gone()

    async with serving(hangs) as server:
        before = asyncio.all_tasks()
        transport = HttpTransport(server.url, limits=Limits(connections=1))
        calls = [asyncio.create_task(transport.request(CALL, deadline=soon())) for _ in range(2)]
        await turns(transport, 1)
        await transport.close()
        first, second = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(first, UpstreamDied)
        assert isinstance(second, UpstreamUnavailable)
        assert transport.open_connections == 0
        with pytest.raises(UpstreamUnavailable):
            await transport.request(CALL, deadline=soon())
        await transport.close()
        gc.collect()
        assert asyncio.all_tasks() - before - server.playing == set()


async def test_a_reader_that_is_slow_slows_the_server():
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(STREAM)
        while True:
            await peer.send(chunk(b": noise\n\n" * 1000))
            sent += 1

    async with serving(script) as server:
        transport = HttpTransport(server.url)
        pool = transport._pool  # pyright: ignore[reportPrivateUsage] - no transport leaves an answer unread
        response = await pool.request(pool.head("GET", {}), None, deadline=soon())
        before = -1
        async with asyncio.timeout(2):
            while sent != before:
                before = sent
                await asyncio.sleep(0.05)
        assert len(await response.read()) < 1_000_000
        async with asyncio.timeout(2):
            while sent == before:
                await response.read()
        response.close()
        await transport.close()


async def test_an_interim_answer_is_skipped():
    def hinted(request: Request) -> bytes:
        return b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + rpc(request)

    async def script(peer: Peer) -> None:
        while True:
            await peer.send(hinted(await peer.request()))

    async with serving(script) as server:
        transport = HttpTransport(server.url)
        for _ in range(2):
            assert (await transport.request(CALL, deadline=soon()))["id"] == 1
        await transport.close()
    assert server.connections == 1


async def test_an_ipv6_server_is_called_by_its_address():
    seen: list[str] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer, 1, [])
        request = await peer.request()
        seen.append(request.headers["host"])
        await peer.send(rpc(request, headers={"Connection": "close"}))
        writer.close()

    try:
        server = await asyncio.start_server(script, "::1", 0)
    except OSError:
        pytest.skip("no IPv6 here")
    port = server.sockets[0].getsockname()[1]
    transport = HttpTransport(f"http://[::1]:{port}/mcp")
    await transport.request(CALL, deadline=soon())
    await transport.close()
    server.close()
    assert seen == [f"[::1]:{port}"]


async def test_each_address_is_tried_and_a_forbidden_one_is_not(monkeypatch: pytest.MonkeyPatch):
    async def resolve(*_: object, **__: object) -> list[Any]:
        return [(0, 0, 0, "", (address, 0)) for address in ("127.0.0.9", "127.0.0.1")]

    async with serving(echo) as server:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
        url = server.url.replace("127.0.0.1", "somewhere.test")
        transport = HttpTransport(url)
        assert (await transport.request(CALL, deadline=soon()))["id"] == 1
        strict = HttpTransport(url, allow_address=lambda address: address == "127.0.0.9")
        with pytest.raises(UpstreamUnavailable):
            await strict.request(CALL, deadline=soon())
        none = HttpTransport(url, allow_address=lambda _: False)
        with pytest.raises(UpstreamUnavailable, match="may be connected to"):
            await none.request(CALL, deadline=soon())
        for each in (transport, strict, none):
            await each.close()
        assert server.connections == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X", "a\r\nEvil: 1"),
        ("X", "a\nb"),
        ("X", "a\0b"),
        ("X", "snow \u2603"),
        ("X\r\nEvil", "1"),
        ("X Y", "1"),
        ("", "1"),
        ("Content-Length", "1"),
        ("transfer-encoding", "chunked"),
        ("Host", "other"),
        ("Connection", "close"),
    ],
)
def test_a_header_that_would_break_out_is_refused_without_showing_its_value(name: str, value: str):
    with pytest.raises(InputError) as caught:
        clean_header(name, value)
    assert "Evil: 1" not in str(caught.value)


@pytest.mark.parametrize("name", ["Authorization", "cookie"])
async def test_the_headers_of_a_request_bring_no_credentials(name: str):
    transport = HttpTransport("http://127.0.0.1:1/mcp")
    with pytest.raises(InputError):
        await transport.request(CALL, deadline=soon(), headers={name: "canary"})


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h/", Target(False, "h", 80, "h", "/")),
        ("http://h:80", Target(False, "h", 80, "h", "/")),
        ("https://H.example:8443/a?b=c", Target(True, "h.example", 8443, "h.example:8443", "/a?b=c")),
        ("http://[::1]:8080/x", Target(False, "::1", 8080, "[::1]:8080", "/x")),
    ],
)
def test_a_url_is_taken_apart(url: str, expected: Target):
    assert Target.parse(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h/",
        "h/mcp",
        "http:///x",
        "http://u:p@h/",
        "http://h/#f",
        "http://h/a b",
        "http://h/\r\nX: y",
        "http://h:x/",
    ],
)
def test_a_url_that_weft_cannot_call_is_refused(url: str):
    with pytest.raises(InputError):
        Target.parse(url)

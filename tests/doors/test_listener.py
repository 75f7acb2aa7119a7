"""Connections, time limits, TLS and the drain, over real sockets."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doors.certificates import made_certificate
from tests.doors.serving import Client, asked, connected, echo, serving
from tests.waiting import until
from weft.doors.asgi import GONE, Receive, Scope, Send, answer, refuse
from weft.doors.listener import Limits, Listener, Tls, bind, serve
from weft.errors import InputError

IMPATIENT = Limits(header_timeout=0.2, body_timeout=0.2, idle_timeout=0.3, write_timeout=0.3)
HEAD = b"POST /x HTTP/1.1\r\nHost: 127.0.0.1\r\n"


class Slow:
    """An application that answers when it is told to."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.go = asyncio.Event()
        self.ends: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.entered.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise
        await answer(send, 200, b"late")


async def test_answers_carry_no_banner_and_forbid_sniffing_framing_and_storing():
    async with serving(echo) as listener:
        got = await asked(listener)
    assert got.status == 200
    assert "server" not in got.headers
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["x-frame-options"] == "DENY"
    assert got.headers["cache-control"] == "no-store"
    assert "date" in got.headers


async def test_a_connection_serves_many_requests():
    async with serving(echo) as listener, connected(listener) as client:
        for number in range(3):
            client.request("POST", f"/{number}", body=b"hello")
            assert (await client.answer()).body == f"POST /{number} hello".encode()
        assert len(listener.connections) == 1


async def test_pipelined_requests_are_answered_in_order():
    async with serving(echo) as listener, connected(listener) as client:
        for number in range(8):
            client.request("POST", f"/{number}", body=b"x" * number)
        answers = [await client.answer() for _ in range(8)]
    assert [got.body for got in answers] == [f"POST /{number} ".encode() + b"x" * number for number in range(8)]


async def test_too_many_pipelined_requests_are_refused_after_the_answers_to_those_before():
    slow = Slow()
    async with serving(slow) as listener, connected(listener) as client:
        for _ in range(40):
            client.request()
        await slow.entered.wait()
        slow.go.set()
        answers = [(await client.answer()).status for _ in range(18)]
        assert answers == [200] * 17 + [400]
        assert await client.ended()


async def test_headers_that_do_not_come_in_time_are_answered_with_408():
    async with serving(echo, limits=IMPATIENT) as listener, connected(listener) as client:
        client.send(b"GET / HTTP/1.1\r\nHo")
        got = await client.answer()
        assert (got.status, got.json["error"]["code"]) == (408, "RequestTimeout")
        assert "headers" in got.json["error"]["message"]
        assert await client.ended()
        assert listener.timeouts == 1


async def test_headers_that_trickle_do_not_put_the_limit_off():
    async with serving(echo, limits=IMPATIENT) as listener, connected(listener) as client:
        client.send(b"GET / HTTP/1.1\r\n")

        async def trickle() -> None:
            while True:
                client.send(b"X: y\r\n")
                await asyncio.sleep(0.02)

        trickling = asyncio.create_task(trickle())
        assert (await client.answer()).status == 408
        trickling.cancel()


async def test_a_body_that_does_not_come_in_time_is_answered_with_408():
    async with serving(echo, limits=IMPATIENT) as listener, connected(listener) as client:
        client.send(HEAD + b"Content-Length: 10\r\n\r\nhalf")
        got = await client.answer()
        assert got.status == 408
        assert "body" in got.json["error"]["message"]
        assert await client.ended()


async def test_a_silent_connection_is_closed_without_a_word():
    async with serving(echo, limits=IMPATIENT) as listener, connected(listener) as client:
        assert await client.ended()
        assert listener.timeouts == 0


async def test_an_idle_connection_is_closed():
    async with serving(echo, limits=IMPATIENT) as listener, connected(listener) as client:
        client.request()
        await client.answer()
        assert await client.ended()


async def test_a_slow_answer_is_not_a_slow_client():
    slow = Slow()
    async with serving(slow, limits=IMPATIENT) as listener, connected(listener) as client:
        client.request("POST", body=b"all")
        await slow.entered.wait()
        await asyncio.sleep(0.5)
        slow.go.set()
        assert (await client.answer()).status == 200


async def test_a_client_that_does_not_read_is_cut_off_and_its_producer_was_paused():
    produced = 0

    async def flood(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal produced
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(10_000):
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
            produced += 1

    async with serving(flood, limits=IMPATIENT) as listener, connected(listener, limit=1024) as client:
        client.request()
        await until(lambda: listener.connections)
        await until(lambda: not listener.connections)
    assert produced < 1_000


async def test_headers_larger_than_the_limit_are_refused_with_431():
    limits = Limits(header_bytes=4096)
    async with serving(echo, limits=limits) as listener:
        got = await asked(listener, x="y" * 5000)
        assert (got.status, got.json["error"]["code"]) == (431, "HeadersTooLarge")
        assert (await asked(listener, "POST", body=b"z" * 60_000, x="y" * 3000)).status == 200


async def test_a_header_without_an_end_is_refused_before_it_fills_the_memory():
    async with serving(echo, limits=Limits(header_bytes=4096)) as listener, connected(listener) as client:
        client.send(b"GET / HTTP/1.1\r\nX: " + b"y" * 5000)
        assert (await client.answer()).status == 431


async def test_one_address_gets_so_many_connections():
    limits = Limits(connections_per_ip=2, uncapped=())
    async with serving(echo, limits=limits) as listener:
        async with connected(listener) as one, connected(listener) as two:
            for client in (one, two):
                client.request()
                assert (await client.answer()).status == 200
            async with connected(listener) as three:
                got = await three.answer()
                assert (got.status, got.json["error"]["code"]) == (503, "TooManyConnections")
        assert listener.refused_connections == 1
        await until(lambda: not listener.connections)
        assert (await asked(listener)).status == 200


async def test_this_machine_is_not_capped_by_default():
    limits = Limits(connections_per_ip=1)
    async with serving(echo, limits=limits) as listener, connected(listener), connected(listener) as two:
        two.request()
        assert (await two.answer()).status == 200


async def test_who_works_for_a_client_is_told_at_once_that_it_has_gone():
    told = asyncio.Event()
    entered = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope[GONE](told.set)
        entered.set()
        await receive()
        assert (await receive())["type"] == "http.disconnect"

    async with serving(app) as listener:
        async with connected(listener) as client:
            client.request("POST", body=b"x")
            await entered.wait()
        async with asyncio.timeout(5):
            await told.wait()


async def test_a_pipelining_client_that_goes_is_noticed_too():
    told = asyncio.Event()
    entered = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope[GONE](told.set)
        entered.set()
        await asyncio.Event().wait()

    async with serving(app) as listener, connected(listener) as client:
        client.request()
        client.request()
        await entered.wait()
        client.writer.transport.abort()
        # Nothing is read while requests queue, so only the drain may notice; it must not hang on it.
        await listener.drain(0.1)


async def test_a_client_that_expects_it_is_told_to_continue():
    async with serving(echo) as listener, connected(listener) as client:
        client.send(HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert (await client.answer()).status == 100
        client.send(b"ok")
        assert (await client.answer()).body == b"POST /x ok"


async def test_a_client_that_was_not_told_to_continue_is_not_misunderstood():
    async def refusing(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, 401, b"")

    async with serving(refusing) as listener, connected(listener) as client:
        client.send(HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        got = await client.answer()
        assert (got.status, got.headers["connection"]) == (401, "close")


async def test_a_request_that_came_with_the_end_is_not_waited_for_for_ever():
    slow = Slow()
    async with serving(slow) as listener, connected(listener) as client:
        client.request()
        await until(lambda: listener.exchanges)
        for exchange in listener.exchanges:
            assert exchange.task is not None
            exchange.task.cancel()
        async with asyncio.timeout(10):
            await listener.drain(5)


async def test_a_body_that_still_comes_after_its_answer_is_not_answered_twice():
    async def early(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, 200, b"early")

    async with serving(early, limits=IMPATIENT) as listener, connected(listener) as client:
        client.send(HEAD + b"Content-Length: 10\r\n\r\nhalf")
        assert (await client.answer()).body == b"early"
        assert await client.ended()


async def test_a_client_that_still_sends_can_read_why_it_is_refused():
    async def refusing(scope: Scope, receive: Receive, send: Send) -> None:
        await refuse(scope, send, 413, "BodyTooLarge", "too large", headers=[(b"connection", b"close")])

    async with serving(refusing) as listener, connected(listener) as client:
        client.send(HEAD + b"Content-Length: 3000000\r\n\r\n")

        async def upload() -> None:
            for _ in range(30):
                client.send(b"x" * 100_000)
                await client.writer.drain()

        uploading = asyncio.create_task(upload())
        assert (await client.answer()).status == 413
        await asyncio.gather(uploading, return_exceptions=True)


async def test_an_application_that_fails_gives_500_without_internals(caplog: pytest.LogCaptureFixture):
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise KeyError("secret")

    async with serving(broken) as listener:
        got = await asked(listener)
    assert got.status == 500
    assert b"secret" not in got.body
    assert "secret" in caplog.text


async def test_an_answer_that_breaks_off_is_cut_so_that_nobody_takes_it_for_whole(caplog: pytest.LogCaptureFixture):
    async def half(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError("gone")

    async with serving(half) as listener, connected(listener) as client:
        client.request()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ValueError)):
            await client.answer()
    assert "cannot answer" in caplog.text


async def test_an_answer_cannot_smuggle_a_header(caplog: pytest.LogCaptureFixture):
    async def injecting(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x", b"a\r\nset-cookie: b")]})

    async with serving(injecting) as listener:
        got = await asked(listener)
    assert got.status == 500
    assert "set-cookie" not in got.headers
    assert "control character" in caplog.text


async def test_an_old_client_gets_a_body_that_ends_with_the_connection():
    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in (b"a", b"b"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"c"})

    async with serving(stream) as listener:
        async with connected(listener) as client:
            client.send(b"GET / HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            assert (await client.reader.read()).endswith(b"\r\n\r\nabc")
        assert (await asked(listener)).body == b"abc"


async def test_a_head_request_gets_headers_only():
    async with serving(echo) as listener, connected(listener) as client:
        client.send(b"HEAD / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        head = await client.reader.readuntil(b"\r\n\r\n")
        assert b"content-length: 7" in head
        assert (await client.answer()).body == b"GET / "


async def secretly(listener: Listener, context: ssl.SSLContext, body: bytes) -> bytes:
    """Return the answer to a request over TLS."""
    async with connected(listener, ssl=context, server_hostname="localhost") as client:
        client.request("POST", "/tls", body=body)
        return (await client.answer()).body


async def test_it_speaks_tls(certificate: tuple[Path, Path]):
    cert, key = certificate
    async with serving(echo, tls=Tls(cert=cert, key=key)) as listener:
        body = await secretly(listener, ssl.create_default_context(cafile=str(cert)), b"x" * 100_000)
    assert body == b"POST /tls " + b"x" * 100_000


async def test_a_certificate_is_renewed_without_a_restart(certificate: tuple[Path, Path], tmp_path: Path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    for here, there in zip((cert, key), certificate, strict=True):
        here.write_bytes(there.read_bytes())
    trusting = ssl.create_default_context(cafile=str(cert))
    async with serving(echo, tls=Tls(cert=cert, key=key)) as listener:
        cert.write_text("not a certificate")
        with pytest.raises(InputError, match=r"cert\.pem"):
            listener.renew_certificate()
        assert await secretly(listener, trusting, b"old") == b"POST /tls old"
        new_cert, new_key = made_certificate(tmp_path / "new")
        cert.write_bytes(new_cert.read_bytes())
        key.write_bytes(new_key.read_bytes())
        listener.renew_certificate()
        with pytest.raises(ssl.SSLError):
            await secretly(listener, trusting, b"")
        renewed = ssl.create_default_context(cafile=str(cert))
        assert await secretly(listener, renewed, b"new") == b"POST /tls new"


async def test_a_client_without_a_certificate_is_turned_away_when_one_is_asked_for(certificate: tuple[Path, Path]):
    cert, key = certificate
    trusting = ssl.create_default_context(cafile=str(cert))
    async with serving(echo, tls=Tls(cert=cert, key=key, client_ca=cert)) as listener:
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await secretly(listener, trusting, b"")
        trusting.load_cert_chain(cert, key)
        assert await secretly(listener, trusting, b"me") == b"POST /tls me"


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path):
    with pytest.raises(InputError, match=r"missing\.pem"):
        Tls(cert=tmp_path / "missing.pem", key=tmp_path / "missing.pem").context()


def test_a_port_in_use_is_named():
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=str(port)):
            bind("127.0.0.1", port)


async def test_a_drain_lets_requests_in_flight_finish_and_turns_new_ones_away():
    slow = Slow()
    stop, stopped = asyncio.Event(), asyncio.Event()

    async def on_stop() -> None:
        stopped.set()

    listener = Listener(slow, sockets=[bind("127.0.0.1", 0)])
    started = asyncio.Event()
    serve_task = asyncio.create_task(serve(listener, stop=stop, on_started=started.set, on_stop=on_stop))
    await started.wait()
    async with connected(listener) as busy, connected(listener) as idle:
        busy.request()
        await slow.entered.wait()
        address = listener.address
        stop.set()
        await until(lambda: listener.draining)
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(*address)
        idle.request()
        refused = await idle.answer()
        assert (refused.status, refused.headers["connection"]) == (503, "close")
        assert int(refused.headers["retry-after"]) >= 1
        assert not stopped.is_set()
        slow.go.set()
        got = await busy.answer()
        assert (got.status, got.headers["connection"]) == (200, "close")
        async with asyncio.timeout(10):
            await serve_task
    assert stopped.is_set()


async def test_a_drain_ends_what_takes_too_long():
    slow = Slow()
    async with serving(slow) as listener, connected(listener) as client:
        client.request()
        await slow.entered.wait()
        await listener.drain(0.05)
        got = await client.answer()
    assert (got.status, slow.ends) == (503, ["cancelled"])
    assert got.json["error"]["code"] == "ShuttingDown"


SERVER = """
import asyncio, sys
from weft.doors.listener import Listener, bind, run, serve
async def app(scope, receive, send):
    print("entered", flush=True)
    await asyncio.sleep(60)
async def main():
    listener = Listener(app, sockets=[bind("127.0.0.1", 0)])
    async def on_stop():
        print("stopped", flush=True)
    def on_started():
        print(listener.address[1], flush=True)
    await serve(listener, drain=float(sys.argv[1]), on_started=on_started, on_stop=on_stop)
run(main())
"""


@pytest.mark.parametrize(("drain", "signals", "code", "said"), [("0.1", 1, 0, "stopped\n"), ("60", 2, 130, "")])
async def test_a_signal_drains_and_a_second_one_ends_at_once(drain: str, signals: int, code: int, said: str):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, drain, stdout=subprocess.PIPE, env={**os.environ}
    )
    assert process.stdout is not None
    async with asyncio.timeout(30):
        port = int(await process.stdout.readline())
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        Client(reader, writer).request()
        assert await process.stdout.readline() == b"entered\n"
        for _ in range(signals):
            process.send_signal(signal.SIGINT)
            await asyncio.sleep(0.1)
        rest = await process.stdout.read()
        assert (await process.wait(), rest.decode()) == (code, said)
        writer.close()

"""Weft's own tokens for an upstream, from a real token endpoint that behaves and misbehaves."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, unquote_plus

import pytest

from tests.upstreams.faults import Peer, Request, http, rpc, serving
from tests.waiting import soon
from weft.errors import DeadlineExceeded, UpstreamAuth
from weft.upstreams import oauth
from weft.upstreams.http import HttpTransport
from weft.upstreams.oauth import ClientCredentials, TokenSource

SECRET = "s3cr3t-of+weft/=&"
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}}


@dataclass
class TokenServer:
    """A token endpoint that gives t1, t2 and so on, to who knows the secret."""

    lasts: float | None = 3600
    answer: Callable[[Request], bytes | Awaitable[bytes]] | None = None
    asked: list[Request] = field(default_factory=list[Request])
    url: str = ""

    async def script(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            self.asked.append(request)
            given = self.answer(request) if self.answer is not None else self.token(request)
            await peer.send(given if isinstance(given, bytes) else await given)

    def token(self, request: Request) -> bytes:
        if self.known(request) != ("weft:1", SECRET):
            return http(json.dumps({"error": "invalid_client", "error_description": "who?"}).encode(), status=401)
        told: dict[str, Any] = {"access_token": f"t{len(self.asked)}", "token_type": "bearer"}
        if self.lasts is not None:
            told["expires_in"] = self.lasts
        return http(json.dumps(told).encode())

    def form(self, number: int = -1) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.asked[number].body.decode()).items()}

    def known(self, request: Request) -> tuple[str, str]:
        basic = request.headers.get("authorization")
        if basic is None:
            return self.form()["client_id"], self.form()["client_secret"]
        name, _, secret = base64.b64decode(basic.removeprefix("Basic ")).decode().partition(":")
        return unquote_plus(name), unquote_plus(secret)

    def credentials(self, **changes: Any) -> ClientCredentials:
        return replace(ClientCredentials(token_url=self.url, client_id="weft:1", client_secret=SECRET), **changes)


@asynccontextmanager
async def token_server(**options: Any) -> AsyncGenerator[TokenServer]:
    tokens = TokenServer(**options)
    async with serving(tokens.script) as server:
        tokens.url = f"http://127.0.0.1:{server.port}/token"
        yield tokens


@dataclass
class Guarded:
    """An upstream that takes only some tokens."""

    accepts: set[str]
    shown: list[str] = field(default_factory=list[str])

    async def script(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            self.shown.append(request.headers.get("authorization", ""))
            known = self.shown[-1].removeprefix("Bearer ") in self.accepts
            await peer.send(rpc(request) if known else http(self.shown[-1].encode(), status=401, kind="text/plain"))


async def test_a_token_is_asked_for_once_and_shown_with_each_request():
    upstream = Guarded({"t1"})
    async with token_server() as tokens, serving(upstream.script) as server:
        source = TokenSource(tokens.credentials(scopes=("read", "write"), audience="mcp"), server="docs")
        transport = HttpTransport(server.url, tokens=source)
        await asyncio.gather(*(transport.request(CALL, deadline=soon()) for _ in range(8)))
        assert set(upstream.shown) == {"Bearer t1"}
        assert len(tokens.asked) == 1
        assert tokens.form() == {"grant_type": "client_credentials", "scope": "read write", "audience": "mcp"}
        await transport.close()


async def test_the_secret_may_go_in_the_form():
    async with token_server() as tokens:
        source = TokenSource(tokens.credentials(method="post", resource="https://docs.example/mcp"), server="docs")
        assert await source.headers() == {"authorization": "Bearer t1"}
        assert "authorization" not in tokens.asked[0].headers
        assert tokens.form()["resource"] == "https://docs.example/mcp"


async def test_a_token_is_renewed_before_it_ends():
    upstream = Guarded({"t1", "t2"})
    async with token_server(lasts=0.4) as tokens, serving(upstream.script) as server:
        transport = HttpTransport(server.url, tokens=TokenSource(tokens.credentials(), server="docs"))
        await transport.request(CALL, deadline=soon())
        await asyncio.sleep(0.35)
        await transport.request(CALL, deadline=soon())
        assert upstream.shown == ["Bearer t1", "Bearer t2"]
        await transport.close()


async def test_a_token_that_cannot_be_renewed_serves_to_its_end(monkeypatch: pytest.MonkeyPatch):
    later = 0.0
    monkeypatch.setattr(oauth, "_time", lambda: asyncio.get_running_loop().time() + later)
    async with token_server(lasts=100) as tokens:
        source = TokenSource(tokens.credentials(), server="docs")
        first = await source.headers()

        def down(_: Request) -> bytes:
            return http(status=503)

        tokens.answer = down
        later = 80.0
        assert await source.headers() == first
        assert len(tokens.asked) == 2
        later = 200.0
        with pytest.raises(UpstreamAuth, match="status 503"):
            await source.headers()


async def test_a_token_that_was_refused_is_not_shown_again_though_there_is_no_other():
    async with token_server() as tokens:
        source = TokenSource(tokens.credentials(), server="docs")
        first = await source.headers()

        def down(_: Request) -> bytes:
            return http(status=503)

        tokens.answer = down
        with pytest.raises(UpstreamAuth, match="status 503"):
            await source.instead_of(first)


@pytest.mark.parametrize("lasts", [None, 0, -5, "soon", True])
async def test_a_token_whose_end_is_not_told_is_kept_for_a_while(lasts: Any):
    async with token_server(lasts=lasts) as tokens:
        source = TokenSource(tokens.credentials(), server="docs")
        assert await source.headers() == await source.headers()
        assert len(tokens.asked) == 1


async def test_a_refused_token_is_replaced_once_for_all_calls():
    upstream = Guarded({"t2"})
    async with token_server() as tokens, serving(upstream.script) as server:
        transport = HttpTransport(server.url, tokens=TokenSource(tokens.credentials(), server="docs"))
        await asyncio.gather(*(transport.request(CALL, deadline=soon()) for _ in range(5)))
        assert len(tokens.asked) == 2
        await transport.request(CALL, deadline=soon())
        assert upstream.shown[-1] == "Bearer t2"
        await transport.close()


async def test_a_server_that_refuses_every_token_gets_two_and_sees_no_more_of_them():
    upstream = Guarded(set())
    async with token_server() as tokens, serving(upstream.script) as server:
        transport = HttpTransport(server.url, tokens=TokenSource(tokens.credentials(), server="docs"))
        with pytest.raises(UpstreamAuth, match="status 401") as caught:
            await transport.request(CALL, deadline=soon())
        assert upstream.shown == ["Bearer t1", "Bearer t2"]
        assert caught.value.retryable == "no"
        await transport.close()


async def test_a_wrong_secret_is_told_without_showing_it_and_not_tried_with_every_call():
    async with token_server() as tokens, serving(Guarded({"t1"}).script) as server:
        wrong = tokens.credentials(client_secret="not-the-secret")
        transport = HttpTransport(server.url, tokens=TokenSource(wrong, server="docs"))
        for _ in range(3):
            with pytest.raises(UpstreamAuth, match="status 401: 'invalid_client': 'who\\?'") as caught:
                await transport.request(CALL, deadline=soon())
            assert (caught.value.server, caught.value.retryable) == ("docs", "no")
            assert "not-the-secret" not in str(caught.value) + repr(wrong) + repr(caught.value.__cause__)
        assert len(tokens.asked) == 1
        assert server.requests == []
        await transport.close()


@pytest.mark.parametrize(
    ("answer", "reason", "retryable"),
    [
        (http(b"<html>", kind="text/html"), "without an access token", "no"),
        (http(b'{"access_token": "a\\r\\nb: c"}'), "without an access token", "no"),
        (http(b'{"access_token": ""}'), "without an access token", "no"),
        (http(b'["t1"]'), "without an access token", "no"),
        (http(b'{"access_token": "t1", "token_type": "DPoP"}'), "not Bearer", "no"),
        (http(b'{"error": "' + SECRET.encode() + b'"}', status=400), "status 400: '\\*\\*\\*'", "no"),
        (http(b"", status=302, headers={"Location": "http://127.0.0.1:1/"}), "status 302", "no"),
        (http(b"x" * 100_000), "sent too much", "yes"),
        (http(b"", status=503), "status 503", "yes"),
        (b"garbage\r\n\r\n", "not HTTP", "yes"),
    ],
)
async def test_a_broken_token_endpoint_is_told(answer: bytes, reason: str, retryable: str):
    def broken(_: Request) -> bytes:
        return answer

    async with token_server(answer=broken) as tokens:
        with pytest.raises(UpstreamAuth, match=reason) as caught:
            await TokenSource(tokens.credentials(), server="docs").headers()
        assert caught.value.retryable == retryable
        assert SECRET not in str(caught.value)
        assert tokens.url in str(caught.value)


async def test_a_token_endpoint_that_is_not_there_is_told(unused_port: int):
    credentials = ClientCredentials(
        token_url=f"http://127.0.0.1:{unused_port}/", client_id="weft", client_secret=SECRET
    )
    with pytest.raises(UpstreamAuth, match="no answer") as caught:
        await TokenSource(credentials, server="docs").headers()
    assert caught.value.retryable == "yes"


async def test_a_slow_token_endpoint_holds_a_call_until_its_deadline_and_serves_the_next():
    go = asyncio.Event()

    async def slowly(request: Request) -> bytes:
        await go.wait()
        return http(b'{"access_token": "t1"}')

    async with token_server(answer=slowly) as tokens, serving(Guarded({"t1"}).script) as server:
        transport = HttpTransport(server.url, tokens=TokenSource(tokens.credentials(), server="docs"))
        with pytest.raises(DeadlineExceeded, match="waiting for a token") as caught:
            await transport.request(CALL, deadline=soon(0.1))
        assert caught.value.retryable == "yes"
        patient = asyncio.create_task(transport.request(CALL, deadline=soon()))
        go.set()
        assert (await patient)["result"] == {}
        assert len(tokens.asked) == 1
        await transport.close()


async def test_a_token_endpoint_that_never_answers_is_given_up():
    async def never(_: Request) -> bytes:
        await asyncio.Event().wait()
        return b""

    async with token_server(answer=never) as tokens:
        source = TokenSource(tokens.credentials(), server="docs", takes=0.1)
        with pytest.raises(UpstreamAuth, match="in time") as caught:
            await source.headers()
        assert caught.value.retryable == "yes"


async def test_closing_gives_up_a_question_that_is_on_its_way():
    asked = asyncio.Event()

    async def never(_: Request) -> bytes:
        asked.set()
        await asyncio.Event().wait()
        return b""

    async with token_server(answer=never) as tokens, serving(Guarded(set()).script) as server:
        transport = HttpTransport(server.url, tokens=TokenSource(tokens.credentials(), server="docs"))
        call = asyncio.create_task(transport.request(CALL, deadline=soon()))
        await asked.wait()
        await transport.close()
        await asyncio.wait([call])
        assert isinstance(call.exception(), UpstreamAuth)

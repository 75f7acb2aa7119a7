"""Out of the network through a proxy: a small real one, and ones that refuse or break."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.upstreams.faults import Peer, http, rpc, serving
from tests.upstreams.stdio_wires import nothing_left
from tests.waiting import soon
from weft.errors import InputError, UpstreamProtocolError, UpstreamUnavailable
from weft.upstreams.egress import only_public
from weft.upstreams.http import HttpTransport
from weft.upstreams.httpdial import Proxy
from weft.upstreams.httpfetch import fetch
from weft.upstreams.httpwire import Limits

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}}
KNOWN = "Basic " + base64.b64encode(b"weft:p@ss word").decode()


@pytest.fixture(autouse=True)
async def clean() -> AsyncGenerator[None]:
    async with nothing_left():
        yield


async def answer(peer: Peer) -> None:
    while True:
        await peer.send(rpc(await peer.request()))


@dataclass
class RealProxy:
    """A proxy of both kinds, which may want to be shown something, and knows all hosts under one name."""

    wants: str | None = None
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list[tuple[str, dict[str, str]]])
    url: str = ""

    async def script(self, peer: Peer) -> None:
        head = (await peer.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.seen.append((first, headers))
        if self.wants is not None and headers.get("proxy-authorization") != self.wants:
            await peer.send(http(b"who are you?", status=407, kind="text/plain"))
            return
        method, where, _ = first.split(" ")
        port = int(where.rpartition(":")[2]) if method == "CONNECT" else urlsplit(where).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if method == "CONNECT":
            await peer.send(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
        else:
            writer.write(head.encode("latin-1"))
        await self.pumped(peer, reader, writer)

    async def pumped(self, peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while piece := await source.read(65536):
                sink.write(piece)
                await sink.drain()

        ways = [asyncio.ensure_future(pump(peer.reader, writer)), asyncio.ensure_future(pump(reader, peer.writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def real_proxy(**options: Any) -> AsyncGenerator[RealProxy]:
    proxy = RealProxy(**options)
    async with serving(proxy.script) as server:
        proxy.url = f"http://127.0.0.1:{server.port}"
        yield proxy


def contexts(certificate: tuple[Path, Path]) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    serves = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serves.load_cert_chain(*certificate)
    return serves, ssl.create_default_context(cafile=certificate[0])


async def test_http_goes_through_the_proxy_in_the_absolute_form():
    async with serving(answer) as server, real_proxy() as proxy:
        transport = HttpTransport(f"http://docs.example:{server.port}/mcp?a=b", proxy=proxy.url)
        for _ in range(3):
            assert (await transport.request(CALL, deadline=soon()))["id"] == 1
        await transport.close()
        first, headers = proxy.seen[0]
        assert first == f"POST http://docs.example:{server.port}/mcp?a=b HTTP/1.1"
        assert headers["host"] == f"docs.example:{server.port}"
        assert "proxy-authorization" not in headers
        assert len(proxy.seen) == 1


async def test_https_goes_through_a_tunnel_that_the_proxy_cannot_read(certificate: tuple[Path, Path]):
    serves, trusts = contexts(certificate)
    async with serving(answer, ssl=serves) as server, real_proxy(wants=KNOWN) as proxy:
        url = f"https://localhost:{server.port}/mcp"
        way = proxy.url.replace("http://", "http://weft:p%40ss%20word@")
        transport = HttpTransport(url, tls=trusts, proxy=way, headers={"Authorization": "Bearer upstreams-own"})
        for _ in range(3):
            assert (await transport.request(CALL, deadline=soon()))["id"] == 1
        await transport.close()
        where = f"localhost:{server.port}"
        assert proxy.seen == [(f"CONNECT {where} HTTP/1.1", {"host": where, "proxy-authorization": KNOWN})]
        assert "proxy-authorization" not in server.requests[0].headers


async def test_a_certificate_is_checked_through_the_tunnel_too(certificate: tuple[Path, Path]):
    serves, trusts = contexts(certificate)
    async with serving(answer, ssl=serves) as server, real_proxy() as proxy:
        transport = HttpTransport(f"https://docs.example:{server.port}/mcp", tls=trusts, proxy=proxy.url)
        with pytest.raises(UpstreamUnavailable, match=r"TLS: .*certificate"):
            await transport.request(CALL, deadline=soon())
        assert server.requests == []
        await transport.close()


async def test_a_proxy_that_wants_to_know_who_asks_is_shown_it_and_nobody_else():
    async with serving(answer) as server, real_proxy(wants=KNOWN) as proxy:
        way = proxy.url.replace("http://", "http://weft:p%40ss%20word@")
        known = HttpTransport(server.url, proxy=way)
        assert (await known.request(CALL, deadline=soon()))["id"] == 1
        await known.close()
        wrong = proxy.url.replace("http://", "http://weft:canary-word@")
        transport = HttpTransport(server.url, proxy=wrong)
        with pytest.raises(UpstreamProtocolError, match="status 407") as caught:
            await transport.request(CALL, deadline=soon())
        assert "canary" not in str(caught.value) + repr(Proxy.parse(wrong))
        await transport.close()
        secure = HttpTransport(f"https://localhost:{server.port}/", proxy=wrong)
        with pytest.raises(UpstreamUnavailable, match=r"the proxy refused: .HTTP/1\.1 407") as refused:
            await secure.request(CALL, deadline=soon())
        assert "canary" not in str(refused.value)
        await secure.close()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", "the proxy gave no answer"),
        (b"HTTP/1.1 200", "the proxy gave no answer"),
        (b"x" * 20_000, "the proxy gave no answer"),
        (b"SSH-2.0-x\r\n\r\n", "the proxy refused: 'SSH-2.0-x'"),
        (b"HTTP/1.1 200 OK\r\n\r\nand more", "the proxy refused"),
        (b"HTTP/1.1 502 Bad\r\n\r\n", "502 Bad"),
    ],
)
async def test_a_proxy_that_opens_no_tunnel_is_told(said: bytes, reason: str):
    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(said)

    async with serving(script) as proxy:
        transport = HttpTransport("https://docs.example/mcp", proxy=f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(UpstreamUnavailable, match=reason) as caught:
            await transport.request(CALL, deadline=soon())
        assert caught.value.retryable == "yes"
        await transport.close()


async def test_a_proxy_that_says_nothing_is_given_up_in_time():
    async with serving(lambda peer: peer.gone()) as proxy:
        limits = Limits(connect=0.2)
        transport = HttpTransport("https://docs.example/", proxy=f"http://127.0.0.1:{proxy.port}", limits=limits)
        with pytest.raises(UpstreamUnavailable, match=r"within 0\.2 s"):
            await transport.request(CALL, deadline=soon())
        await transport.close()


@pytest.mark.parametrize("host", ["10.0.0.1", "0x7f.1", "[::ffff:169.254.169.254]", "2130706433"])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_is_not_asked_for_an_inner_address(host: str, scheme: str):
    async with real_proxy() as proxy:
        with pytest.raises(UpstreamUnavailable, match="may be connected to"):
            await fetch(f"{scheme}://{host}/", deadline=soon(), limit=10, proxy=proxy.url, allow_address=only_public())
        assert proxy.seen == []


@pytest.mark.parametrize(
    "url", ["https://weft:secret-word@proxy/", "socks5://proxy", "proxy:3128", "http://", "http://p:x/", "http://p/way"]
)
def test_what_is_no_proxy_is_refused_without_showing_it(url: str):
    with pytest.raises(InputError, match="a proxy is http://host:port") as caught:
        Proxy.parse(url)
    assert "secret-word" not in str(caught.value)

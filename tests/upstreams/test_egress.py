"""Where weft does not connect to, however the address is spelled, and where a redirect does not lead."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from tests.upstreams.faults import Peer, http, rpc, serving
from tests.waiting import soon
from weft.errors import (
    DeadlineExceeded,
    InputError,
    UpstreamDied,
    UpstreamMessageTooLarge,
    UpstreamProtocolError,
    UpstreamUnavailable,
    WeftError,
)
from weft.upstreams.egress import allowed_address, network, only_public
from weft.upstreams.http import HttpTransport
from weft.upstreams.httpfetch import fetch

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}}


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.127.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "239.1.2.3",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:a00:1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::8.8.8.8",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "2001:0:7f00:1::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd12:3456::1",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
        "not an address",
        "",
    ],
)
def test_an_address_that_is_not_public_is_refused(address: str):
    assert not allowed_address(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_a_public_address_is_allowed(address: str):
    assert allowed_address(address)


def test_an_operator_may_allow_networks_of_their_own():
    check = only_public(["10.1.0.0/16", "::1"])
    assert [check(one) for one in ("10.1.2.3", "10.2.0.1", "::1", "::ffff:10.1.2.3", "127.0.0.1")] == [
        True,
        False,
        True,
        True,
        False,
    ]
    with pytest.raises(InputError, match="not a network"):
        network("10.1.0.0/99")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:169.254.169.254]",
        "localhost",
        "localhost.",
        "LOCALHOST",
    ],
)
async def test_no_spelling_of_an_inner_address_is_connected_to(host: str):
    async def script(peer: Peer) -> None:
        await peer.send(rpc(await peer.request()))

    async with serving(script) as server:
        transport = HttpTransport(f"http://{host}:{server.port}/mcp", allow_address=only_public())
        # Some resolvers do not know localhost with a dot at its end.
        with pytest.raises(UpstreamUnavailable, match=r"may be connected to|not known") as caught:
            await transport.request(CALL, deadline=soon())
        assert caught.value.retryable == "yes"
        await transport.close()
        assert server.connections == 0


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "017700000001", "127.0.0.1."])
async def test_what_is_allowed_is_reached_by_every_spelling(host: str):
    async def script(peer: Peer) -> None:
        await peer.send(rpc(await peer.request()))

    async with serving(script) as server:
        transport = HttpTransport(f"http://{host}:{server.port}/mcp", allow_address=only_public(["127.0.0.0/8", "::1"]))
        assert (await transport.request(CALL, deadline=soon()))["id"] == 1
        await transport.close()


@pytest.mark.parametrize(
    "url", ["http://a@127.0.0.1/", "http://a:b@127.0.0.1/", "http://good.example@127.0.0.1/", "http://@127.0.0.1/"]
)
async def test_a_url_with_a_user_in_it_is_refused(url: str):
    with pytest.raises(InputError, match="user name"):
        await fetch(url, deadline=soon(), limit=1000)


async def test_a_name_that_is_rebound_is_checked_at_each_connection(monkeypatch: pytest.MonkeyPatch):
    async def script(peer: Peer) -> None:
        await peer.send(rpc(await peer.request()))

    async with serving(script) as server:
        answers = iter(["127.0.0.1", "127.0.0.2", "127.0.0.1"])
        asked: list[str] = []

        async def resolve(_: Any, host: str, port: int, **options: Any) -> list[Any]:
            asked.append(host)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

        monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolve)
        transport = HttpTransport(f"http://docs.example:{server.port}/mcp", allow_address=only_public(["127.0.0.1/32"]))
        await transport.request(CALL, deadline=soon())
        with pytest.raises(UpstreamUnavailable, match=r"docs\.example may be connected to"):
            await transport.request(CALL, deadline=soon())
        await transport.request(CALL, deadline=soon())
        # Resolved once for each connection, and the address that was checked is the one that was connected to.
        assert asked == ["docs.example"] * 3
        await transport.close()


async def test_only_the_allowed_of_several_addresses_are_tried(monkeypatch: pytest.MonkeyPatch):
    async def script(peer: Peer) -> None:
        await peer.send(rpc(await peer.request()))

    async with serving(script) as server:

        async def resolve(_: Any, host: str, port: int, **options: Any) -> list[Any]:
            both = ("127.0.0.2", "127.0.0.1")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in both]

        monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolve)
        tried: list[str] = []

        def allow(address: str) -> bool:
            tried.append(address)
            return address == "127.0.0.1"

        transport = HttpTransport(f"http://docs.example:{server.port}/mcp", allow_address=allow)
        await transport.request(CALL, deadline=soon())
        assert tried == ["127.0.0.2", "127.0.0.1"]
        await transport.close()


async def test_a_redirect_is_told_and_not_followed():
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(http(status=302, headers={"Location": f"http://127.0.0.1:{secret.port}/"}))

    async with serving(script) as secret, serving(script) as server:
        transport = HttpTransport(server.url)
        with pytest.raises(UpstreamProtocolError, match="redirects are not followed"):
            await transport.request(CALL, deadline=soon())
        found = await fetch(server.url, deadline=soon(), limit=1000)
        assert (found.status, found.headers["location"]) == (302, f"http://127.0.0.1:{secret.port}/")
        assert secret.connections == 0
        await transport.close()


async def test_a_document_is_fetched_and_not_again_while_it_has_not_changed():
    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            same = request.headers.get("if-none-match") == '"one"'
            etag = {"ETag": '"one"'}
            await peer.send(http(headers=etag, status=304) if same else http(b"body", headers=etag))

    async with serving(script) as server:
        found = await fetch(server.url, headers={"Accept": "application/json"}, deadline=soon(), limit=1000)
        assert (found.status, found.headers["etag"], found.body) == (200, '"one"', b"body")
        assert (server.requests[0].method, server.requests[0].headers["accept"]) == ("GET", "application/json")
        again = await fetch(server.url, headers={"If-None-Match": found.headers["etag"]}, deadline=soon(), limit=1000)
        assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (http(b"x" * 2000), UpstreamMessageTooLarge),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\nx\r\n", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", UpstreamDied),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", UpstreamProtocolError),
        (b"nonsense\r\n\r\n", UpstreamProtocolError),
        (b"", UpstreamDied),
    ],
)
async def test_a_document_is_whole_and_small_or_not_there(answer: bytes, error: type[WeftError] | None):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer)

    async with serving(script) as server:
        with pytest.raises(error or UpstreamMessageTooLarge):
            await fetch(server.url, deadline=soon(), limit=1000)


async def test_a_document_that_does_not_come_is_given_up_at_the_deadline():
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.gone()

    async with serving(script) as server:
        with pytest.raises(DeadlineExceeded):
            await fetch(server.url, deadline=soon(0.1), limit=1000)


async def test_a_document_inside_is_not_fetched():
    async with serving(lambda peer: peer.gone()) as server:
        with pytest.raises(UpstreamUnavailable, match="may be connected to"):
            await fetch(server.url, deadline=soon(), limit=1000, allow_address=only_public())
        assert server.connections == 0

"""Host, Origin, CORS, routes and load, as a client meets them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.doors.serving import Answer, asked, connected, echo, serving
from tests.waiting import until
from weft.doors.asgi import Asgi, Receive, Scope, Send, answer
from weft.doors.fronts import public_front
from weft.doors.guard import Guard
from weft.doors.load import Buckets, Load, LoadLimits
from weft.doors.sites import Site, check_bind, is_loopback, keep_warning
from weft.errors import InputError, LimitExceeded
from weft.gateway.identity import Authenticators


def guarded(app: Asgi = echo, *, site: Site | None = None, **more: Any) -> Guard:
    return Guard({"/mcp": app, "/healthz": app}, prefixes={"/mcp/": app}, site=site or Site(), **more)


async def ask(guard: Guard, method: str = "POST", path: str = "/mcp", **headers: str) -> Answer:
    body = b"x" if method == "POST" else None
    async with serving(guard) as listener:
        return await asked(listener, method, path, body=body, **headers)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:15000", "[::1]:15000", "tools.example"])
async def test_a_request_to_a_name_of_ours_is_served(host: str):
    assert (await ask(guarded(site=Site(hosts=["tools.example"])), host=host)).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.com", "127.0.0.1.evil.com", "localhost.", "[::2]", "x@localhost"]
)
async def test_a_request_to_another_name_is_misdirected(host: str):
    guard = guarded()
    got = await ask(guard, host=host)
    assert (got.status, got.json["error"]["data"]["code"]) == (421, "UnknownHost")
    assert "allowedHosts" in got.json["error"]["message"]
    assert guard.bad_hosts == 1


async def test_a_host_with_a_port_is_that_port_only():
    site = Site(hosts=["tools.example:8443"])
    assert site.has_host(b"tools.example:8443")
    assert not site.has_host(b"tools.example:9")


async def test_on_a_wildcard_bind_the_address_connected_to_is_a_name_of_ours():
    site = Site(bound="0.0.0.0")
    assert site.has_host(b"10.1.2.3:15000", address="10.1.2.3")
    assert not site.has_host(b"10.1.2.4:15000", address="10.1.2.3")
    assert not site.has_host(b"0.0.0.0", address="10.1.2.3")


@pytest.mark.parametrize("hosts", [b"", b"Host: 127.0.0.1\r\nHost: 127.0.0.1\r\n", b"Host: \r\n"])
async def test_a_request_has_one_host(hosts: bytes):
    async with serving(guarded()) as listener, connected(listener) as client:
        client.send(b"GET /mcp HTTP/1.1\r\n" + hosts + b"\r\n")
        assert (await client.answer()).status == 400


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil",
        "null",
        "http://localhost.evil.com",
        "https://127.0.0.1.evil.com",
        "file://",
        "evil",
        "http://x@localhost:1",
    ],
)
async def test_a_page_of_elsewhere_may_not_ask(origin: str):
    guard = guarded()
    got = await ask(guard, origin=origin)
    assert (got.status, guard.bad_origins) == (403, 1)
    assert "access-control-allow-origin" not in got.headers


@pytest.mark.parametrize("origin", ["http://localhost:6274", "http://127.0.0.1", "http://[::1]:3000"])
async def test_a_page_of_this_machine_may_ask_but_not_read_unless_it_is_configured(origin: str):
    got = await ask(guarded(), origin=origin)
    assert got.status == 200
    assert "access-control-allow-origin" not in got.headers


async def test_on_another_bind_pages_of_the_users_machine_may_not_ask():
    site = Site(bound="10.1.2.3")
    assert not site.has_origin(b"http://localhost:3000", scheme="http", host=b"10.1.2.3")
    assert site.has_origin(b"http://10.1.2.3", scheme="http", host=b"10.1.2.3")
    assert not site.has_origin(b"https://10.1.2.3", scheme="http", host=b"10.1.2.3")


async def test_a_page_of_a_configured_origin_may_read_but_never_with_credentials():
    guard = guarded(site=Site(origins=["https://app.example"]))
    got = await ask(guard, origin="https://app.example")
    assert got.headers["access-control-allow-origin"] == "https://app.example"
    assert "mcp-session-id" in got.headers["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in got.headers


async def test_a_preflight_allows_what_mcp_clients_send():
    guard = guarded(site=Site(origins=["https://app.example"]))
    async with serving(guard) as listener, connected(listener) as client:
        client.request(
            "OPTIONS",
            "/mcp",
            origin="https://app.example",
            access_control_request_method="POST",
            access_control_request_headers="content-type, mcp-param-x, x-evil",
        )
        got = await client.answer()
        assert got.status == 204
        assert got.headers["access-control-allow-headers"] == "content-type, mcp-param-x"
        client.request("OPTIONS", "/mcp", origin="https://other.example", access_control_request_method="POST")
        assert (await client.answer()).status == 403


async def test_every_origin_may_be_allowed_but_never_null():
    site = Site(origins=["*"])
    assert site.shares_with(b"https://any.example")
    assert not site.has_origin(b"null", scheme="http", host=b"localhost")


def test_what_is_not_an_origin_is_refused_at_the_start():
    with pytest.raises(InputError, match="not an origin"):
        Site(origins=["app.example/path"])


async def test_a_path_with_a_slash_at_its_end_is_the_same():
    assert (await ask(guarded(), path="/mcp/")).body == b"POST /mcp/ x"
    assert (await ask(guarded(), path="/mcp/research")).body == b"POST /mcp/research x"


async def test_what_is_not_there_is_answered_with_what_is():
    got = await ask(guarded(), path="/nope")
    assert (got.status, got.json["error"]["hint"]) == (404, "there is /healthz, /mcp, /mcp/...")


class Held:
    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.entered = asyncio.Semaphore(0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.entered.release()
        await self.go.wait()
        await echo(scope, receive, send)


async def test_more_bytes_than_the_limit_are_refused_before_they_are_read():
    held = Held()
    load = Load(LoadLimits(bytes=100_000, reserve=1_000))
    async with serving(guarded(held, load=load)) as listener, connected(listener) as first:
        first.request("POST", "/mcp", body=b"x" * 90_000)
        await held.entered.acquire()
        got = await asked(listener, "POST", "/mcp", body=b"x" * 20_000)
        assert (got.status, got.json["error"]["data"]["code"]) == (503, "Overloaded")
        assert int(got.headers["retry-after"]) >= 1
        assert (await asked(listener, "GET", "/nope")).status == 404
        held.go.set()
        assert (await first.answer()).status == 200
        assert (await asked(listener, "POST", "/mcp", body=b"x" * 20_000)).status == 200
    assert (load.bytes, load.requests, load.overloaded) == (0, 0, 1)


async def test_one_principal_does_not_get_everything():
    held = Held()
    load = Load(LoadLimits(per_principal=1))
    guard = guarded(held, load=load, authenticators=Authenticators())
    async with serving(guard) as listener, connected(listener) as first:
        first.request("GET", "/mcp", x_agent_name="ann")
        await held.entered.acquire()
        refused = await asked(listener, "GET", "/mcp", x_agent_name="ann")
        assert (refused.status, refused.json["error"]["data"]["code"]) == (429, "TooManyRequests")
        assert "retry-after" in refused.headers
        async with connected(listener) as second:
            second.request("GET", "/mcp", x_agent_name="ben")
            await held.entered.acquire()
            held.go.set()
            assert (await second.answer()).status == 200
        assert (await first.answer()).status == 200
    assert (load.by_principal, load.throttled) == ({}, 1)


async def test_who_is_refused_takes_no_room_and_is_told_so_when_there_is_none():
    load = Load(LoadLimits(bytes=0))
    guard = guarded(load=load, authenticators=Authenticators(anonymous=False, self_asserted=False))
    async with serving(guard) as listener:
        assert (await asked(listener, "POST", "/mcp", body=b"x")).status == 401
        assert (await asked(listener, "POST", "/mcp", body=b"x", x_agent_name="ann")).status == 400
        assert (await asked(listener, "GET", "/healthz")).status == 200
        assert (await asked(listener, "GET", "/healthz/")).status == 200
    assert (load.requests, load.overloaded, load.by_principal) == (0, 0, {})


async def test_health_is_answered_under_any_load():
    load = Load(LoadLimits(bytes=0))
    async with serving(guarded(load=load)) as listener:
        assert (await asked(listener, "GET", "/healthz")).status == 200
        assert (await asked(listener, "GET", "/mcp")).status == 503


def test_a_body_of_unknown_length_counts_as_the_largest():
    load = Load(LoadLimits(reserve=10, unknown_body=1000))
    load.take("a", None)
    assert load.bytes == 1010


def test_a_rate_allows_a_burst_and_then_one_at_a_time():
    now = 0.0
    buckets = Buckets(2.0, 3, now=lambda: now)
    assert [buckets.take("a") for _ in range(3)] == [0.0, 0.0, 0.0]
    assert buckets.take("a") == pytest.approx(0.5)
    assert buckets.take("b") == 0.0
    now = 0.5
    assert buckets.take("a") == 0.0
    assert buckets.take("a") > 0


def test_a_rate_is_a_limit_of_the_load():
    load = Load(LoadLimits(rate=1.0, burst=1), now=lambda: 0.0)
    load.give("a", load.take("a", 0))
    with pytest.raises(LimitExceeded, match="a second") as caught:
        load.take("a", 0)
    assert caught.value.retry_after == pytest.approx(1.0)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "::ffff:127.0.0.1"])
def test_loopback_needs_no_authenticator(host: str):
    assert is_loopback(host)
    assert check_bind(host, authenticated=False, insecure=False) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.evil.com", ""])
def test_a_bind_that_others_can_reach_needs_an_authenticator_or_a_warning(host: str):
    with pytest.raises(InputError, match="no authenticator") as caught:
        check_bind(host, authenticated=False, insecure=False)
    assert caught.value.hint is not None
    for way in ("identity.keyFile", "identity.jwt", "identity.certificates", "identity.proxies", "--insecure"):
        assert way in caught.value.hint
    assert check_bind(host, authenticated=True, insecure=False) is None
    warning = check_bind(host, authenticated=False, insecure=True)
    assert warning is not None
    assert "without an authenticator" in warning


async def test_an_insecure_bind_is_warned_of_again_and_again(caplog: pytest.LogCaptureFixture):
    warning = asyncio.create_task(keep_warning("anybody can call", every=0.01))
    await until(lambda: caplog.text.count("anybody can call") >= 3)
    warning.cancel()


async def test_each_door_is_at_its_path():
    def door(name: str) -> Asgi:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await answer(send, 200, name.encode())

        return app

    class Well:
        def report(self) -> dict[str, Any]:
            return {"ready": True}

    front = public_front(door("mcp"), door("plain"), health=Well(), site=Site())
    async with serving(front) as listener:
        paths = ("/mcp", "/mcp/", "/mcp/research", "/mcp/tools/call", "/mcp/research/tools/call", "/mcp/tools")
        told = [(await asked(listener, path=path)).body.decode() for path in paths]
        assert told == ["mcp", "mcp", "mcp", "plain", "plain", "mcp"]
        assert (await asked(listener, path="/readyz")).status == 200

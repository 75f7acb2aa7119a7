"""A registry from a service: asked with its ETag, kept for the day that it is down, never fetched from inside."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.app.served import house, pipeline, registry
from tests.app.upstream import upstream
from tests.waiting import until
from weft.doors.asgi import Receive, Scope, Send, answer, header
from weft.doors.listener import Listener, bind
from weft.errors import DocumentInvalid, InputError


class Service:
    """Serves a registry at `/registry.json`, with an ETag."""

    def __init__(self) -> None:
        self.data = orjson.dumps(registry(pipeline("first", "echo")))
        self.etag = b'"1"'
        self.status = 200
        self.kind = b"application/json"
        self.asked: list[tuple[bytes | None, bytes | None]] = []
        self.url = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        condition = header(scope, b"if-none-match")
        self.asked.append((condition, header(scope, b"authorization")))
        if self.status == 200 and condition == self.etag:
            await answer(send, 304, b"")
        else:
            more = [(b"etag", self.etag), (b"location", b"http://169.254.169.254/latest")]
            await answer(send, self.status, self.data, kind=self.kind, headers=more)


@asynccontextmanager
async def service() -> AsyncGenerator[Service]:
    """Serve one at a free port."""
    made = Service()
    listener = Listener(made, sockets=[bind("127.0.0.1", 0)])
    await listener.start()
    made.url = f"http://127.0.0.1:{listener.address[1]}/registry.json"
    try:
        yield made
    finally:
        await listener.drain(0)


def config(service: Service, server: str, **more: Any) -> dict[str, Any]:
    """Return the settings of a gateway with this registry."""
    source = {"source": service.url, "refreshInterval": "200ms", "headers": {"Authorization": "${env:PASS}"}}
    return {"registry": source, "servers": {"up": {"url": server}}, **more}


ENV = {"PASS": "Bearer registry-pass"}


@pytest.mark.req("REG-45", "REG-27")
async def test_a_registry_over_http_is_asked_for_only_when_it_changed(tmp_path: Path) -> None:
    async with service() as shelf, upstream("echo") as up, house(tmp_path, config(shelf, up.url), env=ENV) as gate:
        assert "first" in await gate.tools()
        assert shelf.asked[0] == (None, b"Bearer registry-pass")
        await until(lambda: shelf.asked[-1][0] == b'"1"')
        assert (await gate.ready())["generation"] == 1
        shelf.data, shelf.etag = orjson.dumps(registry(pipeline("second", "echo"))), b'"2"'
        await gate.has("second")
        assert (await gate.ready())["generation"] == 2


@pytest.mark.req("REG-45")
@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (500, b"application/json", "SourceUnavailable"),
        (302, b"application/json", "SourceUnavailable"),
        (200, b"text/html", "NotADocument"),
    ],
)
async def test_a_service_that_gives_nothing_good_changes_nothing(
    tmp_path: Path, status: int, kind: bytes, code: str
) -> None:
    async with service() as shelf, upstream("echo") as up, house(tmp_path, config(shelf, up.url), env=ENV) as gate:
        shelf.status, shelf.kind = status, kind
        answer = await gate.ask("POST", "/reload", admin=True)
        assert (answer.status, answer.json["problems"][0]["code"]) == (422, code)
        assert "first" in await gate.tools()
        assert (await gate.ready())["degraded"] == ["registry"]


@pytest.mark.req("REG-45", "ALG-53")
async def test_a_service_that_is_down_when_weft_starts_is_replaced_by_its_last_good_copy(tmp_path: Path) -> None:
    async with upstream("echo") as up:
        async with service() as shelf:
            given = config(shelf, up.url)
            async with house(tmp_path, given, env=ENV) as gate:
                assert "first" in await gate.tools()
        async with house(tmp_path, given, env=ENV) as gate:
            assert "first" in await gate.tools()
            told = await gate.ready()
            assert (told["status"], told["degraded"]) == ("degraded", ["registry"])
            assert "SourceUnavailable" in str(told["registry"]["reload_failed"])
        (kept,) = (tmp_path / ".weft" / "registry").iterdir()
        assert kept.stat().st_mode & 0o077 == 0
        assert b"registry-pass" not in kept.read_bytes()


async def test_without_a_service_and_without_a_copy_weft_does_not_start(tmp_path: Path) -> None:
    async with service() as shelf:
        given = config(shelf, "http://127.0.0.1:9/mcp")
    with pytest.raises(DocumentInvalid, match="the service gave nothing"):
        async with house(tmp_path, given, env=ENV):
            pass


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "169.254.169.254", "[::ffff:10.0.0.1]", "0xa9fea9fe", "2852039166", "100.64.0.1"]
)
async def test_a_registry_is_not_fetched_from_a_private_address_that_nobody_allowed(tmp_path: Path, host: str) -> None:
    given = {"registry": {"source": f"https://{host}:9/registry.json"}}
    with pytest.raises(DocumentInvalid, match=r"no address of .* may be connected to"):
        async with house(tmp_path, given):
            pass


async def test_a_registry_that_others_could_change_on_its_way_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the registry would come unprotected"):
        async with house(tmp_path, {"registry": {"source": "http://registry.example/registry.json"}}):
            pass

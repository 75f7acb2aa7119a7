"""Secrets stay where they belong: a client's with weft, weft's with the server they are for, none in what is shown."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.app.served import House, house, message_of, modern, pipeline, registry, seen_by, witness
from tests.app.upstream import Upstream, upstream
from tests.waiting import until
from weft.errors import DocumentInvalid

CANARY = "canary-9f8e7d6c5b4a"
OF_CLIENTS: dict[str, Any] = {
    "authorization": f"Bearer {CANARY}",
    "cookie": f"session={CANARY}",
    "proxy_authorization": f"Basic {CANARY}",
    "x_api_key": CANARY,
    "x_forwarded_for": CANARY,
    "te": CANARY,
}


@asynccontextmanager
async def gateway(folder: Path, **more: Any) -> AsyncGenerator[tuple[House, Upstream]]:
    """Run a gateway in front of a server over HTTP and a child."""
    async with upstream("echo") as up:
        servers = {"up": {"url": up.url}, "child": witness(folder / "seen"), **more.pop("servers", {})}
        compositions = registry(pipeline("both", "echo", "ping"))
        async with house(folder, {"servers": servers, **more}, compositions) as gate:
            yield gate, up


async def shown(gate: House) -> bytes:
    """Return all that operators are shown."""
    paths = ("/readyz", "/healthz", "/metrics", "/upstreams", "/traces")
    pages = [(await gate.ask("GET", path, admin=True)).body for path in paths]
    for call in (await gate.ask("GET", "/traces", admin=True)).json["traces"]:
        pages.append((await gate.ask("GET", f"/traces/{call['id']}", admin=True)).body)
    return b"\n".join([*pages, (await gate.ask("GET", "/readyz")).body])


async def test_what_a_client_shows_of_itself_goes_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with gateway(tmp_path) as (gate, up):
        bodies: list[bytes] = []
        for tool in ("echo", "ping", "both", "nothing"):
            async with gate.connected() as client:
                asked = modern("tools/call", {"name": tool, "arguments": {}}, **OF_CLIENTS)
                client.request("POST", f"/mcp?access_token={CANARY}", **asked)
                bodies.append((await client.answer()).body)
        call = orjson.dumps({"tool": "echo", "arguments": {}})
        plain: dict[str, Any] = {"body": call, "content_type": "application/json", **OF_CLIENTS}
        bodies.append((await gate.ask("POST", f"/mcp/tools/call?token={CANARY}", **plain)).body)
        bodies.append((await gate.ask("POST", "/mcp", body=b"{", content_type="application/json", **OF_CLIENTS)).body)
        assert up.calls == 3
        assert up.traffic
        assert CANARY.encode() not in up.traffic
        assert CANARY not in (tmp_path / "seen").read_text()
        assert CANARY.encode() not in b"\n".join(bodies)
        assert CANARY.encode() not in await shown(gate)
    assert CANARY not in caplog.text


async def test_weft_s_own_secrets_are_shown_to_nobody_but_the_server_they_are_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "s3cr3t-of-weft-0123456789"
    env = {"PASS": secret}
    async with upstream("echo") as up, upstream("other") as stranger:
        servers = {
            "up": {"url": f"{up.url}", "headers": {"X-Pass": "${env:PASS}"}},
            "stranger": {"url": stranger.url},
            "child": witness(tmp_path / "seen", env={"PASS": "${env:PASS}"}),
            "away": {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer ${env:PASS}"}},
        }
        async with house(tmp_path, {"servers": servers}, env=env) as gate:
            assert (await gate.call("echo"))["structuredContent"]["arguments"] == {}
            died = await gate.call("whisper", {"text": f"PASS is {secret}"})
            assert "whisper of" in died["content"][0]["text"]
            failed = await gate.post("tools/call", {"name": "die", "arguments": {}})
            assert b"the last words" in failed.body
            await until(lambda: "degraded" in caplog.text)
            assert f"x-pass: {secret}".encode() in up.traffic
            assert secret.encode() not in stranger.traffic
            assert secret in (tmp_path / "seen").read_text()
            assert secret.encode() not in await shown(gate)
            assert secret.encode() not in failed.body
            assert secret not in repr(gate.running.config) + repr(gate.running.gateway.pool.servers["up"].spec)
        told = " ".join([caplog.text, *(str(record.__dict__) for record in caplog.records)])
        assert "PASS is [redacted]" in told, "what a child says is logged, at DEBUG"
        assert secret not in told


async def test_a_child_gets_an_environment_of_listed_names_and_nothing_else_of_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY", "LD_PRELOAD_X", "PYTHONSTARTUP", "WEFT_KEY"):
        monkeypatch.setenv(name, CANARY)
    inherited = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    try:
        servers = {
            "child": witness(tmp_path / "seen", "$(touch x)", "; touch y", env={"OWN": "yes"}, cwd=str(tmp_path))
        }
        async with house(tmp_path, {"servers": servers}) as gate:
            assert "ping" in await gate.tools()
            start = seen_by(tmp_path / "seen")[0]
    finally:
        os.close(inherited)
    assert CANARY not in str(start["env"])
    assert start["env"]["OWN"] == "yes"
    allowed = {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "OWN"}
    assert {name for name in start["env"] if not name.startswith("LC_")} <= allowed
    # One more is the folder that the child itself reads to see them.
    assert set(start["fds"]) - {"0", "1", "2"} <= {fd for fd, to in start["fds"].items() if to.startswith("/proc/")}
    assert start["group"] == start["session"] == start["pid"]
    assert start["argv"][2:] == ["$(touch x)", "; touch y"]
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "y").exists()


async def test_headers_of_the_hop_are_refused_in_the_configuration(tmp_path: Path) -> None:
    for name in ("Connection", "Transfer-Encoding", "Host", "Content-Length"):
        with pytest.raises(DocumentInvalid, match=rf"(?i){name}"):
            async with house(tmp_path, {"servers": {"a": {"url": "http://127.0.0.1:9/mcp", "headers": {name: "x"}}}}):
                pass


ROUTES = [
    ("POST", "/mcp", False),
    ("GET", "/mcp", False),
    ("DELETE", "/mcp", False),
    ("POST", "/mcp/view", False),
    ("POST", "/mcp/tools/call", False),
    ("GET", "/healthz", False),
    ("GET", "/readyz", False),
    ("GET", "/metrics", False),
    ("GET", "/nothing", False),
    ("POST", "/reload", True),
    ("GET", "/traces", True),
    ("GET", "/traces/1", True),
    ("GET", "/upstreams", True),
    ("GET", "/metrics", True),
    ("GET", "/readyz", True),
]


@pytest.mark.req("ALG-55")
async def test_every_route_asks_where_a_request_comes_from_and_shows_little(tmp_path: Path) -> None:
    async with gateway(tmp_path) as (gate, _):
        for method, path, admin in ROUTES:
            for origin in ("http://evil.example", "null", "http://localhost.evil.example", "http://127.0.0.1.nip.io"):
                answer = await gate.ask(method, path, admin=admin, body=b"{}", origin=origin)
                assert answer.status == 403, (method, path, origin)
                assert "access-control-allow-origin" not in answer.headers
            for host in ("evil.example", "169.254.169.254", "localhost.evil.example:80"):
                answer = await gate.ask(method, path, admin=admin, body=b"{}", host=host)
                assert answer.status == 421, (method, path, host)
            answer = await gate.ask(method, path, admin=admin, body=b"{}", content_type="application/json")
            assert answer.headers["x-content-type-options"] == "nosniff", (path, answer.headers)
            assert answer.headers["cache-control"] == "no-store", (path, answer.headers)
            assert "server" not in answer.headers
            assert "access-control-allow-origin" not in answer.headers
            assert b"Traceback" not in answer.body
        preflight = await gate.ask("OPTIONS", "/mcp", origin="http://evil.example")
        assert preflight.status == 403
        page = f"http://127.0.0.1:{gate.port}"
        same = await gate.ask("GET", "/healthz", origin=page, host=f"127.0.0.1:{gate.port}")
        assert same.status == 200
        assert await gate.metric("weft_limit_exceeded_total", limit="ForbiddenOrigin") > 0
        assert await gate.metric("weft_limit_exceeded_total", limit="UnknownHost") > 0


async def test_an_error_that_nobody_foresaw_shows_nothing_of_the_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path) as (gate, _):

        async def breaks(*_args: object, **_more: object) -> dict[str, Any]:
            raise RuntimeError(f"secret inside {sys.prefix}")

        monkeypatch.setattr(gate.running.gateway.pool.servers["up"], "request", breaks)
        answer = await gate.post("tools/call", {"name": "echo", "arguments": {}})
        assert answer.status == 500
        assert "reference" in message_of(answer)["error"]["message"]
        assert b"inside" not in answer.body

"""The life of a server: started, lost, started again, put in quarantine, and what callers are told meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.upstreams.children.workshop import Workshop
from tests.upstreams.listening import listening
from tests.upstreams.pools import FRAGILE, QUICK, Watched, call, has, nothing_left, open_shop, running
from tests.upstreams.stdio_wires import lives
from tests.waiting import soon, until
from weft.errors import DeadlineExceeded, UpstreamDied, UpstreamUnavailable
from weft.upstreams.spec import ServerSpec


def fragile(folder: Path, *faults: str, **options: object) -> ServerSpec:
    return ServerSpec(name="shop", command=(*FRAGILE, str(folder / "starts"), *faults), **options)  # pyright: ignore[reportArgumentType] - for tests


def starts(folder: Path) -> int:
    return len((folder / "starts").read_text().split())


async def test_a_child_that_is_killed_is_started_again_and_read_anew(tmp_path: Path):
    async with running(fragile(tmp_path, era="legacy"), policy=QUICK) as watched:
        server = watched.server()
        first = int(await call(server, "pid"))
        os.kill(first, signal.SIGKILL)
        await until(has(server, "start2"))
        assert server.state == "ready"
        assert int(await call(server, "pid")) != first
        assert not lives(first)
    about = [line for line in watched.logged if "SIGKILL" in line]
    assert len(about) == 1
    assert watched.logged.count("shop: ready") == 2


async def test_a_call_in_flight_when_the_child_dies_has_an_unknown_outcome(tmp_path: Path):
    async with running(fragile(tmp_path, era="legacy"), policy=QUICK) as watched:
        with pytest.raises(UpstreamDied, match="exit status 7") as caught:
            await call(watched.server(), "die")
        assert caught.value.retryable == "unknown-outcome"
        await watched.turns("degraded")
        with pytest.raises(UpstreamUnavailable, match=r"exit status 7.*tried again") as away:
            await call(watched.server(), "pid")
        assert (away.value.retryable, away.value.retry_after is not None) == ("yes", True)
        assert has(watched.server(), "pid")()


async def test_a_child_that_crashes_all_the_time_is_put_in_quarantine_and_tried_seldom(tmp_path: Path):
    async with running(fragile(tmp_path, "crashes"), policy=QUICK) as watched:
        await watched.turns("quarantined")
        with pytest.raises(UpstreamUnavailable, match="in quarantine after 3 deaths") as caught:
            await call(watched.server(), "pid")
        assert caught.value.retry_after is not None
        seen = starts(tmp_path)
        await until(lambda: starts(tmp_path) > seen)
        assert watched.server().state == "quarantined"
    assert len([line for line in watched.logged if line.startswith("shop: quarantined")]) == 1
    assert len([line for line in watched.logged if line.startswith("shop: degraded")]) == 1


async def test_a_child_that_ends_when_it_is_asked_for_its_era_is_taken_for_a_legacy_one(tmp_path: Path):
    async with running(fragile(tmp_path, "ends when discovered"), policy=QUICK) as watched:
        server = watched.server()
        assert (server.state, server.inventory.era, starts(tmp_path)) == ("ready", "legacy", 2)
        os.kill(int(await call(server, "pid")), signal.SIGKILL)
        await until(has(server, "start3"))
        assert starts(tmp_path) == 3


async def test_a_server_that_says_nothing_is_degraded_and_tried_again_behind_the_scenes(tmp_path: Path):
    spec = fragile(tmp_path, "silent at first", era="legacy", start_timeout=0.5)
    async with running(spec, policy=QUICK) as watched:
        server = watched.server()
        assert server.state == "degraded"
        assert "did not answer initialize" in (server.problem or "")
        await watched.turns("ready")
        assert server.problem is None


async def test_a_call_waits_for_a_server_that_is_starting(tmp_path: Path):
    async with nothing_left():
        watched = Watched(fragile(tmp_path, era="legacy"))
        await watched.pool.start()
        assert watched.server().state == "starting"
        assert int(await call(watched.server(), "pid")) > 0
        await watched.pool.close()


async def test_a_call_waits_no_longer_than_its_deadline(tmp_path: Path):
    async with nothing_left():
        watched = Watched(fragile(tmp_path, "silent", start_timeout=0.8))
        await watched.pool.start()
        with pytest.raises(UpstreamUnavailable, match="still starting"):
            await watched.server().request("tools/list", {}, deadline=soon(0.2))
        await watched.pool.settled()
        assert starts(tmp_path) == 1
        await watched.pool.close()


async def test_a_command_that_does_not_exist_is_told():
    async with running(ServerSpec(name="shop", command=("no-such-program",)), policy=QUICK) as watched:
        assert "command not found: no-such-program" in (watched.server().problem or "")
        with pytest.raises(UpstreamUnavailable, match="command not found"):
            await call(watched.server(), "who")


async def test_what_is_hidden_when_away_comes_back(tmp_path: Path):
    spec = fragile(tmp_path, "crashes later", era="legacy", on_unavailable="hide")
    async with running(spec, policy=QUICK) as watched:
        server = watched.server()
        assert has(server, "pid")()
        with pytest.raises(UpstreamDied):
            await call(server, "die")
        await watched.turns("quarantined")
        assert (server.inventory.tools, server.known.tool("pid")) == (
            (),
            {"name": "pid", "inputSchema": {"type": "object"}},
        )


async def test_a_server_over_http_that_goes_is_noticed_and_found_again(unused_port: int):
    spec = ServerSpec(name="shop", url=f"http://127.0.0.1:{unused_port}/mcp")
    watched = Watched(spec)
    await watched.pool.start()
    await watched.pool.settled()
    server = watched.server()
    assert (server.state, has(server, "who")()) == ("degraded", False)
    with open_shop(unused_port):
        await watched.turns("ready")
        assert (await call(server, "who"))["pid"] == os.getpid()
    with pytest.raises((UpstreamUnavailable, UpstreamDied)):
        await call(server, "who")
    await watched.turns("degraded")
    with pytest.raises(UpstreamUnavailable, match="Connection refused; it is"):
        await call(server, "who")
    assert has(server, "who")()
    with open_shop(unused_port):
        await watched.turns("ready")
        assert (await call(server, "who"))["pid"] == os.getpid()
        await watched.pool.close()
    assert len([line for line in watched.logged if "degraded" in line]) == 2


async def test_a_call_goes_on_while_its_connection_is_thought_lost(tmp_path: Path):
    """One call too late makes the server suspect; the others must not pay for that."""
    with open_shop() as url:
        async with running(ServerSpec(name="shop", url=url)) as watched:
            server = watched.server()
            slow = asyncio.create_task(call(server, "wait", who="ann", seconds=0.5))
            with pytest.raises(DeadlineExceeded):
                await server.request("tools/call", {"name": "wait", "arguments": {"who": "b"}}, deadline=soon(0.1))
            assert await slow == "waited"
            assert server.state == "ready"


class Moody:
    """An application that answers everything with one status, when it is in the mood."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.status: int | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or self.status is None:
            await self.app(scope, receive, send)
            return
        headers = [(b"retry-after", b"77"), (b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"not now"})


@pytest.mark.parametrize(("status", "state"), [(503, "degraded"), (429, "ready"), (500, "ready")])
async def test_a_server_that_is_left_alone_as_long_as_it_asks_is_one_that_is_away(status: int, state: str):
    app = Moody(Workshop().server().streamable_http_app())
    with listening(app) as port:
        watched = Watched(ServerSpec(name="shop", url=f"http://127.0.0.1:{port}/mcp", era="modern"))
        await watched.pool.start()
        await watched.pool.settled()
        app.status = status
        server = watched.server()
        with pytest.raises(UpstreamUnavailable, match=f"status {status}"):
            await call(server, "who")
        if state == "degraded":
            await watched.turns(state)
            with pytest.raises(UpstreamUnavailable, match="tried again in 7") as caught:
                await call(server, "who")
            assert 60 < (caught.value.retry_after or 0) <= 77
        else:
            app.status = None
            assert (await call(server, "who"))["pid"] == os.getpid()
        assert server.state == state
        await watched.pool.close()


async def test_closing_does_not_wait_for_a_server_that_is_just_being_added(tmp_path: Path):
    async with nothing_left():
        watched = Watched()
        replacing = asyncio.create_task(watched.pool.replace([fragile(tmp_path, "silent", start_timeout=60.0)]))
        await until((tmp_path / "starts").exists)
        async with asyncio.timeout(10):
            await watched.pool.close()
            await replacing
        assert watched.server().state == "stopped"

"""Ways to a server: the old HTTP+SSE, tokens, TLS, a server that forgets or is another after a restart."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.upstreams.children.workshop import Workshop
from tests.upstreams.listening import listening
from tests.upstreams.pools import FORM, FRAGILE, Person, Watched, call, has, running
from tests.upstreams.stdio_wires import lives
from tests.upstreams.test_httpsse import over_sse
from tests.upstreams.test_oauth import token_server
from tests.waiting import soon, until
from weft.errors import InputError, UpstreamAuth, UpstreamDied
from weft.upstreams.http import HttpTransport
from weft.upstreams.session import Session
from weft.upstreams.sessions import Sessions
from weft.upstreams.spec import ServerSpec, Tls
from weft.upstreams.wires import Way, Wires

OLD_SHOP = """
import threading
from tests.upstreams.children.workshop import Workshop
from tests.upstreams.listening import listening
from tests.upstreams.test_httpsse import over_sse

with listening(over_sse(Workshop().server())) as port:
    print(port, flush=True)
    threading.Event().wait()
"""


@pytest.fixture(scope="module")
def old_url() -> Generator[str]:
    with listening(over_sse(Workshop().server())) as port:
        yield f"http://127.0.0.1:{port}/sse"


@pytest.mark.parametrize("transport", ["auto", "sse"])
async def test_the_old_two_endpoints_are_found_and_spoken(old_url: str, transport: Any):
    watched = Watched(ServerSpec(name="shop", url=old_url, transport=transport))
    await watched.pool.start()
    await watched.pool.settled()
    server = watched.server()
    assert (server.state, server.inventory.era) == ("ready", "legacy")
    ann, bob = (Person(name, capabilities=FORM, wants_progress=True) for name in ("ann", "bob"))
    assert await asyncio.gather(*(call(server, "ask", caller=who) for who in (ann, bob))) == ["ann", "bob"]
    await call(server, "steps", caller=ann, who="ann")
    assert [one["message"] for one in ann.heard] == ["ann 1", "ann 2", "ann 3"]
    await call(server, "grow", name=f"lathe-{transport}")
    await until(has(server, f"lathe-{transport}"))
    await watched.pool.close()


async def test_a_server_that_must_be_streamable_is_not_looked_for_elsewhere(old_url: str):
    async with running(ServerSpec(name="shop", url=old_url, transport="streamable-http")) as watched:
        assert (watched.server().state, "405" in (watched.server().problem or "")) == ("degraded", True)


async def test_the_end_of_the_old_stream_is_the_end_of_a_life():
    # In a process of its own, since the SDK's server leaves things open when it is ended in the middle of a stream.
    running = await asyncio.create_subprocess_exec(sys.executable, "-c", OLD_SHOP, stdout=asyncio.subprocess.PIPE)
    assert running.stdout is not None
    port = int(await running.stdout.readline())
    watched = Watched(ServerSpec(name="shop", url=f"http://127.0.0.1:{port}/sse", transport="sse"))
    await watched.pool.start()
    await watched.pool.settled()
    assert watched.server().state == "ready"
    running.kill()
    await running.communicate()
    await watched.turns("degraded")
    await watched.pool.close()


class Guarded:
    """An application behind a check of its bearer, that notes the sessions which it saw."""

    def __init__(self, app: Any, *, bearer: str | None = None) -> None:
        self.app, self.bearer = app, bearer
        self.sessions: set[str] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            self.sessions |= {headers["mcp-session-id"]} if "mcp-session-id" in headers else set()
            if self.bearer is not None and headers.get("authorization") != f"Bearer {self.bearer}":
                await send({"type": "http.response.start", "status": 401, "headers": []})
                await send({"type": "http.response.body", "body": b"who are you?"})
                return
        await self.app(scope, receive, send)


async def test_a_server_is_shown_its_own_token():
    with listening(Guarded(Workshop().server().streamable_http_app(), bearer="t1")) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with token_server() as tokens:
            watched = Watched(ServerSpec(name="shop", url=url, auth=tokens.credentials()))
            await watched.pool.start()
            await watched.pool.settled()
            assert (await call(watched.server(), "who", caller=Person(capabilities=FORM)))["pid"]
            assert len(tokens.asked) == 1
            await watched.pool.close()


async def test_wrong_credentials_are_told_as_such():
    with listening(Guarded(Workshop().server().streamable_http_app(), bearer="right")) as port:
        watched = Watched(ServerSpec(name="shop", url=f"http://127.0.0.1:{port}/mcp"))
        await watched.pool.start()
        await watched.pool.settled()
        assert watched.server().state == "degraded"
        with pytest.raises(UpstreamAuth, match=r"401.*tried again|401.*being tried"):
            await call(watched.server(), "who")
        await watched.pool.close()


async def test_a_session_that_the_server_forgot_is_begun_again_with_all_that_was_watched():
    shop = Workshop()
    app = Guarded(shop.server().streamable_http_app())
    with listening(app) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        watched = Watched(ServerSpec(name="shop", url=url, era="legacy"))
        await watched.pool.start()
        await watched.pool.settled()
        server = watched.server()
        await server.subscribe("shop://bench")
        await call(server, "log", caller=Person(log_level="info"), who="a")
        await until(lambda: len(app.sessions) == 1)
        shop.names.append("lathe")
        forgetting = HttpTransport(url)
        (forgetting.session_id,) = app.sessions
        await forgetting.close()
        await until(has(server, "lathe"))
        assert shop.watched == ["shop://bench", "shop://bench"]
        assert watched.events[-1][1:] == ("notifications/resources/updated", {"uri": "shop://bench"})
        await call(server, "log", caller=Person(log_level="info"), who="a")
        assert shop.levels == ["info", "info"]
        assert [line for line in watched.logged if "degraded" in line] == []
        await watched.pool.close()


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_that_is_another_after_a_restart_is_read_anew_without_a_call(unused_port: int, era: Any):
    watched = Watched(ServerSpec(name="shop", url=f"http://127.0.0.1:{unused_port}/mcp", era=era))
    first, second = Workshop(), Workshop()
    second.names = ["lathe", "touch"]
    with listening(first.server().streamable_http_app(), port=unused_port):
        await watched.pool.start()
        await watched.turns("ready")
        await watched.server().subscribe("shop://bench")
    with listening(second.server().streamable_http_app(), port=unused_port):
        server = watched.server()
        await until(lambda: [tool["name"] for tool in server.inventory.tools] == ["lathe", "touch"])
        watched.events.clear()
        await call(server, "touch", uri="shop://bench")
        await until(lambda: bool(watched.events))
        await watched.pool.close()


async def test_a_server_is_verified_by_the_authority_of_its_own(certificate: tuple[Path, Path]):
    cert, key = certificate
    config = uvicorn.Config(
        Workshop().server().streamable_http_app(), port=0, log_level="error", ws="none",
        ssl_certfile=cert, ssl_keyfile=key,
    )  # fmt: skip
    async with over_tls(config) as url:
        specs = ServerSpec(name="shop", url=url, tls=Tls(ca=cert)), ServerSpec(name="other", url=url)
        watched = Watched(*specs)
        await watched.pool.start()
        await watched.pool.settled()
        assert [server.state for server in watched.pool.servers.values()] == ["ready", "degraded"]
        assert "TLS" in (watched.server("other").problem or "")
        await watched.pool.close()
    with pytest.raises(InputError, match="TLS files"):
        Tls(ca=cert.with_name("missing.pem")).context()


@contextlib.asynccontextmanager
async def over_tls(config: uvicorn.Config) -> AsyncGenerator[str]:
    listener, sock = uvicorn.Server(config), config.bind_socket()
    config.timeout_graceful_shutdown = 1
    sock.listen()
    serving = asyncio.get_running_loop().run_in_executor(None, lambda: listener.run(sockets=[sock]))
    yield f"https://127.0.0.1:{sock.getsockname()[1]}/mcp"
    listener.should_exit = True
    await serving
    sock.close()


@contextlib.asynccontextmanager
async def leases(folder: Path, **options: Any) -> AsyncGenerator[tuple[Sessions, list[Session]]]:
    opened: list[Session] = []
    wires = Wires(ServerSpec(name="shop", command=(*FRAGILE, str(folder / "starts")), era="legacy"), log=lambda _: None)

    async def open(offers: Any) -> Session:
        session, _ = await wires.connect(Way("stdio", "legacy"), offers=offers, heard=lambda _: None, deadline=soon())
        opened.append(session)
        return session

    sessions = Sessions("shop", open, at_once=1, **options)
    yield sessions, opened
    await sessions.close()


async def asked_who(sessions: Sessions, offers: dict[str, Any], caller: Person) -> dict[str, Any]:
    params: dict[str, Any] = {"name": "who", "arguments": {}}
    result = await sessions.request(offers, "tools/call", params, deadline=soon(), caller=caller)
    return result["structuredContent"]


async def test_a_leased_child_that_is_idle_for_long_is_closed(tmp_path: Path):
    async with leases(tmp_path, places=2, idle=0.3) as (sessions, opened):
        told = await asked_who(sessions, FORM, Person(capabilities=FORM))
        assert (len(sessions), len(opened)) == (1, 1)
        await until(lambda: len(sessions) == 0 and not lives(told["pid"]))


async def test_an_idle_child_makes_room_for_one_that_offers_something_else(tmp_path: Path):
    async with leases(tmp_path, places=1) as (sessions, opened):
        roots: dict[str, Any] = {"roots": {}}
        people = Person(capabilities=FORM), Person(capabilities=roots), Person(capabilities=roots)
        told = await asyncio.gather(*(asked_who(sessions, dict(who.capabilities), who) for who in people))
        assert [sorted(one["can"]) for one in told] == [["elicitation"], ["roots"], ["roots"]]
        assert (told[1]["pid"], len(sessions), len(opened)) == (told[2]["pid"], 1, 2)


async def test_a_leased_child_that_died_is_replaced(tmp_path: Path):
    async with leases(tmp_path, places=1) as (sessions, opened):
        person = Person(capabilities=FORM)
        await asked_who(sessions, FORM, person)
        dying = asyncio.create_task(
            sessions.request(
                FORM, "tools/call", {"name": "wait", "arguments": {"who": "a"}}, deadline=soon(), caller=person
            )
        )
        await until(lambda: opened[0].calls == 1)
        await opened[0].close()
        with pytest.raises(UpstreamDied):
            await dying
        assert (await asked_who(sessions, FORM, person))["pid"]
        assert len(opened) == 2

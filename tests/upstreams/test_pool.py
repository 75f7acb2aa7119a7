"""All servers together: whose tool is meant, compositions' calls, and a configuration that changes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.upstreams.pools import FORM, FRAGILE, Person, Watched, call, nothing_left, open_shop, running
from tests.upstreams.stdio_wires import lives
from tests.waiting import soon, until
from weft.errors import InputError, ToolFailed, UpstreamUnavailable
from weft.ports import ToolRef, Upstream
from weft.upstreams.pool import Pool
from weft.upstreams.spec import ServerSpec


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with open_shop() as url:
        yield url


@dataclass
class Call:
    """What a composition hands on: until when, and for whom."""

    deadline: float
    root: Any
    keys: Any = None


def on_behalf_of(person: Person | None) -> Call:
    return Call(soon(), SimpleNamespace(context=person))


def child(name: str, folder: Path) -> ServerSpec:
    return ServerSpec(name=name, command=(*FRAGILE, str(folder / "starts")), era="legacy")


def unstarted(*specs: ServerSpec) -> Pool:
    return Watched(*specs).pool


@pytest.mark.parametrize(
    ("server", "version", "found"),
    [
        ("search@2.0.0", None, "search@2.0.0"),
        ("search", "2.0.0", "search@2.0.0"),
        ("search", None, "search@10.0.0"),
        ("search", "3.0.0", None),
        ("crm", None, "crm@1.0.0"),
        ("docs", None, "docs"),
        ("docs", "1.0", "docs"),
        ("nothing", None, None),
    ],
)
async def test_a_server_is_meant_by_key_by_version_or_by_its_newest(
    server: str, version: str | None, found: str | None
):
    versions = ("2.0.0", "10.0.0", "10.0.0-rc.1", "9.9.9")
    specs = [ServerSpec(name="search", version=one, url="http://127.0.0.1/") for one in versions]
    others = [ServerSpec(name="crm", version="1.0.0", url="http://h/"), ServerSpec(name="docs", url="http://h/")]
    picked = unstarted(*specs, *others).find(ToolRef("x", server=server, version=version))
    assert (picked.key if picked else None) == found


async def test_two_servers_of_one_key_are_refused():
    spec = ServerSpec(name="a", url="http://h/")
    with pytest.raises(InputError, match="the key 'a'"):
        unstarted(spec, spec)
    with pytest.raises(InputError, match="either a command or a url"):
        ServerSpec(name="a")


async def test_a_tool_without_a_server_is_that_of_the_first_that_takes_it(url: str):
    first = ServerSpec(name="first", url=url, include=("w*", "ask"), exclude=("wait",))
    async with running(first, ServerSpec(name="second", url=url)) as watched:
        pool: Upstream = watched.pool
        owner = {name: server.key for name in pool.names() if (server := watched.pool.find(ToolRef(name)))}
        assert (owner["who"], owner["ask"], owner["wait"], owner["log"]) == ("first", "first", "second", "second")
        assert watched.pool.find(ToolRef("nothing")) is None
        assert [tool["name"] for tool in watched.server("first").inventory.tools] == ["who", "ask"]
        assert (pool.bind(ToolRef("nothing")), pool.bind(ToolRef("wait", server="first"))) == (None, None)
        described = pool.describe(ToolRef("who", server="second"))
        assert described is not None
        assert (described.input, described.output) == ({"type": "object"}, None)
        assert pool.describe(ToolRef("wait", server="first")) is None


async def test_a_composition_calls_on_behalf_of_its_client(url: str):
    async with running(ServerSpec(name="shop", url=url)) as watched:
        who, ask, fail = (watched.pool.bind(ToolRef(name)) for name in ("who", "ask", "fail"))
        assert who is not None
        assert ask is not None
        assert fail is not None
        person = Person(capabilities=FORM, meta={"traceparent": "00-2"})
        told = await who({"x": 1}, on_behalf_of(person))
        assert (told["pid"], told["meta"]) == (os.getpid(), {"traceparent": "00-2"})
        assert await ask({}, on_behalf_of(person)) == "ann state-1"
        with pytest.raises(ToolFailed, match="nobody here can give"):
            await ask({}, on_behalf_of(None))
        with pytest.raises(ToolFailed, match="out of stock"):
            await fail({}, on_behalf_of(person))


async def test_a_tool_may_be_bound_before_its_server_has_connected(unused_port: int):
    async with running(ServerSpec(name="shop", url=f"http://127.0.0.1:{unused_port}/mcp")) as watched:
        for ref in (ToolRef("who"), ToolRef("who", server="shop")):
            invoke = watched.pool.bind(ref)
            assert invoke is not None
            with pytest.raises(UpstreamUnavailable, match=r"not connected yet: shop|Connection refused"):
                await invoke({}, on_behalf_of(None))
        assert watched.pool.bind(ToolRef("who", server="other")) is None


async def test_equal_specs_keep_their_connection_and_removed_servers_end_their_calls_first(url: str, tmp_path: Path):
    kept, removed = ServerSpec(name="kept", url=url), child("removed", tmp_path)
    async with running(kept, removed) as watched:
        pool, old = watched.pool, watched.server("removed")
        staying, pid = watched.server("kept"), (await call(old, "who"))["pid"]
        person = Person(capabilities=FORM, thinks=asyncio.Event())
        waiting = asyncio.create_task(call(old, "ask", caller=person))
        await until(lambda: bool(person.asked))
        changes = watched.changes
        await pool.replace([ServerSpec(name="added", url=url), replace(kept)])
        assert list(pool.servers) == ["added", "kept"]
        assert (pool.servers["kept"] is staying, pool.servers["added"].state) == (True, "ready")
        assert watched.changes > changes
        assert pool.find(ToolRef("who", server="removed")) is None
        assert (old.state, waiting.done()) == ("ready", False)
        assert person.thinks is not None
        person.thinks.set()
        assert await waiting == "ann"
        await until(lambda: old.state == "stopped")
        assert not lives(pid)


async def test_a_changed_server_connects_before_it_takes_over(url: str):
    async with running(ServerSpec(name="shop", url=url)) as watched:
        old = watched.server()
        replacing = asyncio.create_task(watched.pool.replace([ServerSpec(name="shop", url=url, exclude=("who",))]))
        while not replacing.done():
            assert watched.server().inventory.tools
            await asyncio.sleep(0)
        assert watched.server() is not old
        assert watched.server().inventory.tool("who") is None
        with pytest.raises(InputError):
            await watched.pool.replace([ServerSpec(name="a", url=url), ServerSpec(name="a", url=url)])
        assert list(watched.pool.servers) == ["shop"]


async def test_closing_ends_what_is_in_flight_and_what_drains(url: str, tmp_path: Path):
    async with nothing_left():
        watched = Watched(child("shop", tmp_path), ServerSpec(name="other", url=url))
        await watched.pool.start()
        await watched.pool.settled()
        person = Person(wants_progress=True)
        calls = [
            asyncio.create_task(call(watched.server(key), "wait", caller=person, who="x")) for key in ("shop", "other")
        ]
        await until(lambda: len(person.heard) == 2)
        await watched.pool.replace([ServerSpec(name="other", url=url)])
        await watched.pool.close()
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(one, Exception) for one in done)
        with pytest.raises(UpstreamUnavailable, match="stopped"):
            await call(watched.server("other"), "who")

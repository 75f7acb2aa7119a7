"""Which tools of a server are there for anybody: each list that it gives is judged, as it came (row U12, rule P4)."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import orjson
import pytest

from tests.upstreams.children.workshop import TOOLS, Workshop
from tests.upstreams.listening import listening
from tests.upstreams.pools import call, has, nothing_left, open_shop
from tests.waiting import soon, until
from weft.errors import NotFound
from weft.ports import ToolRef
from weft.upstreams.pool import Pool
from weft.upstreams.spec import ServerSpec

LISTED = Path(__file__).parents[1] / "cli" / "children" / "listed.py"
Tools = Sequence[dict[str, Any]]


class Judge:
    """Admits all tools but some, and keeps what it was asked."""

    def __init__(self, *held: str) -> None:
        self.held = set(held)
        self.asked: list[Tools] = []

    async def __call__(self, spec: ServerSpec, tools: Tools) -> Tools:
        self.asked.append(tools)
        return [tool for tool in tools if tool["name"] not in self.held]


class Told:
    """A pool that asks a judge, and what it told."""

    def __init__(self, *specs: ServerSpec, admit: Any, recheck: float | None = None) -> None:
        self.changes = 0
        self.logged: list[str] = []
        self.pool = Pool(
            specs,
            on_change=self._change,
            on_event=lambda server, method, params: None,
            log=lambda key, line: self.logged.append(line),
            admit=admit,
            recheck=recheck,
        )
        self.server = self.pool.servers["shop"]

    def names(self) -> list[str]:
        """Return the tools that are there."""
        return [tool["name"] for tool in self.server.known.tools]

    def _change(self) -> None:
        self.changes += 1


@asynccontextmanager
async def pooled(spec: ServerSpec, **given: Any) -> AsyncGenerator[Told]:
    """Start a pool, and check that nothing of it is left in the end."""
    async with nothing_left():
        told = Told(spec, **given)
        await told.pool.start()
        try:
            await told.pool.settled()
            yield told
        finally:
            await told.pool.close()


def listed(folder: Path, *tools: dict[str, Any]) -> ServerSpec:
    """Return a child that lists these tools, without a word when they change."""
    file = folder / "tools.json"
    file.with_suffix(".new").write_bytes(orjson.dumps(tools))
    file.with_suffix(".new").replace(file)
    return ServerSpec(name="shop", command=(sys.executable, "-IS", str(LISTED), str(file)), era="legacy")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_each_list_is_judged_and_what_is_held_back_is_there_for_nobody(era: Literal["legacy", "modern"]):
    judge = Judge("who", "lathe")
    with open_shop() as url:
        async with pooled(ServerSpec(name="shop", url=url, era=era), admit=judge) as told:
            rest = [name for name in TOOLS if name != "who"]
            assert told.names() == told.pool.names() == rest
            assert [tool["name"] for tool in told.server.known.received] == list(TOOLS)
            assert told.pool.bind(ToolRef("who")) is None
            assert told.pool.bind(ToolRef("who", server="shop")) is None
            assert told.pool.describe(ToolRef("who", server="shop")) is None
            with pytest.raises(NotFound, match="who"):
                await call(told.server, "who")
            await call(told.server, "grow", name="lathe")
            await call(told.server, "grow", name="saw")
            await until(has(told.server, "saw"))
            assert told.names() == [*rest, "saw"]
            assert {tool["name"] for tool in judge.asked[-1]} == {*TOOLS, "lathe", "saw"}
            judge.held.clear()
            told.pool.recheck()
            await until(has(told.server, "who"))
            assert (await call(told.server, "who"))["pid"]


async def test_a_composition_that_knew_the_tool_does_not_reach_it_any_more():
    judge = Judge()
    with open_shop() as url:
        async with pooled(ServerSpec(name="shop", url=url), admit=judge) as told:
            who = told.pool.bind(ToolRef("who", server="shop"))
            assert who is not None
            on_behalf: Any = SimpleNamespace(deadline=soon(), root=SimpleNamespace(context=None), keys=None)
            assert await who({}, on_behalf)
            judge.held.add("who")
            told.pool.recheck()
            await until(lambda: "who" not in told.names())
            with pytest.raises(NotFound):
                await who({}, on_behalf)


async def test_a_silent_change_is_found_by_asking_again_and_told_only_when_there_is_one(tmp_path: Path):
    judge, one = Judge("held"), {"name": "one", "inputSchema": {"type": "object"}}
    async with pooled(listed(tmp_path, one), admit=judge, recheck=0.05) as told:
        changes = told.changes
        await until(lambda: len(judge.asked) > 3)
        assert (told.changes, told.names()) == (changes, ["one"])
        listed(tmp_path, one, {"name": "held", "inputSchema": {"type": "object"}})
        await until(lambda: len(judge.asked[-1]) == 2)
        listed(tmp_path, one, {"name": "two", "inputSchema": {"type": "object"}})
        await until(has(told.server, "two"))
        assert (told.changes, told.names()) == (changes + 1, ["one", "two"])


async def test_tools_are_judged_as_they_came_and_mended_afterwards(tmp_path: Path):
    came = {"name": "odd", "title": 7, "inputSchema": {}, "_meta": "none", "annotations": {"readOnlyHint": "yes"}}
    judge = Judge()
    async with pooled(listed(tmp_path, came, {"title": "no name"}, {**came, "title": "twice"}), admit=judge) as told:
        assert judge.asked == [(came,)]
        assert told.server.known.received == (came,)
        assert told.server.known.tools == ({"name": "odd", "inputSchema": {"type": "object"}, "annotations": {}},)


async def test_a_judge_that_fails_admits_nothing(tmp_path: Path):
    async def broken(spec: ServerSpec, tools: Tools) -> Tools:
        raise RuntimeError("no verdict")

    async with pooled(listed(tmp_path, {"name": "one"}), admit=broken) as told:
        assert (told.server.state, told.names()) == ("ready", [])
        assert any("cannot be judged" in line and "no verdict" in line for line in told.logged)


async def test_a_server_that_is_another_after_it_was_away_is_judged_before_anybody_meets_it(unused_port: int):
    judge, first, second = Judge("lathe"), Workshop(), Workshop()
    second.names = ["lathe", "touch"]
    spec = ServerSpec(name="shop", url=f"http://127.0.0.1:{unused_port}/mcp")
    told = Told(spec, admit=judge)
    with listening(first.server().streamable_http_app(), port=unused_port):
        await told.pool.start()
        await told.pool.settled()
        assert told.names() == list(TOOLS)
    with listening(second.server().streamable_http_app(), port=unused_port):
        await until(lambda: told.names() == ["touch"])
        await told.pool.close()
    assert [tool["name"] for tool in judge.asked[-1]] == ["lathe", "touch"]

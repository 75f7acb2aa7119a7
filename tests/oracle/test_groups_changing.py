"""Groups that change while `weft serve` serves, groups in Python, and groups of two workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as t
import yaml
from mcp import Client

from scripts.programs import ROOT
from tests.app.served import Program, program, replace
from tests.oracle.conftest import PATIENCE, Era, Heard, connected
from tests.oracle.library import PROCESS
from tests.oracle.test_groups import ACTIONS, LIBRARY, REGISTRY, STAMPS, text
from tests.waiting import until

CHANGED = "notifications/tools/list_changed"
SLOWLY = {"use": "rateLimited", "perSecond": 0.001, "burst": 2, "by": "all"}
BOOKS = {"include": ["book_*"], "middleware": [SLOWLY]}
WORKING = '''
import asyncio
from pathlib import Path

import weft as w

works = w.group("works", description="What takes its time.")
slow = works.group("slow")

@slow.action
async def count(to: int):
    """Count."""
    for n in range(1, to + 1):
        yield (n, to)
    yield {"counted": to, "by": "one"}

@slow.action
async def wait(folder: str) -> None:
    """Wait for ever."""
    Path(folder, "started").touch()
    try:
        await asyncio.Event().wait()
    finally:
        Path(folder, "cancelled").touch()
'''


def door(gate: Program) -> str:
    return f"http://127.0.0.1:{gate.port}/mcp"


def settings(**groups: Any) -> dict[str, Any]:
    return {"servers": LIBRARY, "groups": groups}


async def names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


async def has(client: Client, wanted: set[str]) -> None:
    """Wait until these tools are listed, and no others."""
    async with asyncio.timeout(PATIENCE):
        while await names(client) != wanted:  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.02)


@asynccontextmanager
async def hearing(target: str, era: Era) -> AsyncGenerator[tuple[Client, Heard]]:
    """Connect a client that hears when the list of tools changes, in the way of its era."""
    heard = Heard()
    async with connected(target, era, message_handler=heard) as client:
        if era == "legacy":
            yield client, heard
            return
        async with client.listen(tools_list_changed=True) as subscription:

            async def listen() -> None:
                async for _ in subscription:
                    await heard(t.ToolListChangedNotification())

            listener = asyncio.create_task(listen())
            yield client, heard
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)


async def test_groups_of_weft_yaml_change_without_a_restart_and_what_is_counted_goes_on(tmp_path: Path, era: Era):
    file = tmp_path / "weft.yaml"
    rest = {name for name in ACTIONS if not name.startswith("book_")} | {"loan_move"}
    given = {"action": "book_get", "id": 7}
    async with program(tmp_path, settings(books=BOOKS)) as gate, hearing(door(gate), era) as (client, heard):
        await has(client, {"books", *rest})
        assert (await client.call_tool("books", given)).is_error is False
        heard.messages.clear()
        replace(file, yaml.safe_dump(settings(books=BOOKS, people={"include": ["member_*"], "title": "People"})))
        await until(lambda: CHANGED in heard.methods())
        await has(client, {"books", "people", "loan_begin", "loan_end", "loan_move"})
        assert (await client.call_tool("people", {"action": "member_get", "id": "m1"})).is_error is False
        # The second of two at once: what came before the change counts.
        assert (await client.call_tool("books", given)).is_error is False
        refused = await client.call_tool("books", {"action": "book_remove", "id": 7})
        assert refused.is_error is True
        assert "'book_remove' is called too often" in text(refused)
        assert refused.meta is not None
        assert refused.meta["weft/error"]["code"] == "RateLimited"
        assert (await client.call_tool("book_get", {"id": 7})).is_error is False, "it stands around the group"
        heard.messages.clear()
        replace(file, yaml.safe_dump({"servers": LIBRARY}))
        await until(lambda: CHANGED in heard.methods())
        await has(client, {*ACTIONS, "loan_move"})


async def test_groups_that_are_no_good_do_not_replace_those_that_are(tmp_path: Path):
    file = tmp_path / "weft.yaml"
    async with program(tmp_path, settings(books=BOOKS)) as gate, connected(door(gate), "modern") as client:
        await gate.has("books")
        before = await names(client)
        replace(file, yaml.safe_dump(settings(books={"servers": ["libary"]})))
        answer = await gate.ask("POST", "/reload", admin=True)
        assert answer.status == 422
        assert answer.json["problems"][0]["suggestion"] == "library"
        assert await names(client) == before
        replace(file, yaml.safe_dump(settings(loan_move={"include": ["loan_*"]}, books=BOOKS)))
        await gate.ask("POST", "/reload", admin=True)
        assert {"loan_move", "library_loan_move"} <= await names(client), "no server takes the name of a group"


async def test_groups_of_a_registry_change_with_it(tmp_path: Path, era: Era):
    file = tmp_path / "registry.yaml"
    file.write_text(yaml.safe_dump(REGISTRY))
    (tmp_path / "stamps.py").write_text(STAMPS)
    config = {"servers": LIBRARY, "registry": {"source": "./registry.yaml"}}
    async with program(tmp_path, config) as gate, hearing(door(gate), era) as (client, heard):
        await has(client, {"science", "loan_move", *ACTIONS})
        heard.messages.clear()
        changed = {**REGISTRY, "groups": [{"name": "loans", "include": ["loan_*"], "detail": "brief"}]}
        replace(file, yaml.safe_dump(changed))
        await until(lambda: CHANGED in heard.methods())
        rest = {name for name in ACTIONS if not name.startswith("loan_")}
        await has(client, {"loans", "science_find", "science_titles", "loan_move", *rest})
        ended = await client.call_tool("loans", {"action": "loan_end", "id": 7})
        assert ended.structured_content == {"did": "loan_end", "with": {"id": 7}}


CALLS: Sequence[tuple[str, dict[str, Any]]] = (
    ("users.list", {"only": "admin"}),
    ("users.get", {"id": 1}),
    ("users.create", {"name": "Grace"}),
    ("users.rename", {"id": 2, "name": "Al"}),
    ("users.delete", {"id": 2}),
    ("projects.list", {}),
    ("projects.get", {"id": 1}),
    ("projects.create", {"name": "Shuttle", "owner": 1}),
    ("projects.assign", {"id": 1, "owner": 1}),
    ("projects.archive", {"id": 1}),
)


async def test_ten_actions_in_python_are_served_called_and_refused_with_the_field(tmp_path: Path, era: Era):
    file = ROOT / "examples" / "grouped_tools.py"
    async with program(tmp_path, {"registry": {"source": str(file)}}) as gate, connected(door(gate), era) as client:
        [tool] = (await client.list_tools()).tools
        assert tool.input_schema["properties"]["action"]["enum"] == [action for action, _ in CALLS]
        for action, given in CALLS:
            called = await client.call_tool("platform", {"action": action, **given})
            assert called.is_error is False, text(called)
            refused = await client.call_tool("platform", {"action": action, **given, "colour": "red"})
            assert refused.is_error is True
            assert "'colour'" in text(refused)
        wrong = await client.call_tool("platform", {"action": "users.get", "id": "one"})
        assert "'id' is \"one\"; expected an integer" in text(wrong)


async def test_actions_in_python_report_end_when_cancelled_and_stand_behind_middleware(tmp_path: Path, era: Era):
    (tmp_path / "registry.py").write_text(WORKING)
    (tmp_path / "stamps.py").write_text(STAMPS)
    stamped = {"use": "stamps:stamped", "with": {"mark": "seen"}}
    config = {"registry": {"source": "./registry.py"}, "middleware": [stamped, {**SLOWLY, "burst": 3}]}
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with program(tmp_path, config) as gate, connected(door(gate), era) as client:
        given = {"action": "slow.count", "to": 3, "_select": ["counted"]}
        counted = await client.call_tool("works", given, progress_callback=on_progress)
        assert (counted.structured_content, seen) == ({"counted": 3}, [1, 2, 3])
        assert counted.meta is not None
        assert counted.meta["example.com/stamp"] == "seen works.slow.count"
        call = asyncio.create_task(client.call_tool("works", {"action": "slow.wait", "folder": str(tmp_path)}))
        await until((tmp_path / "started").exists)
        call.cancel()
        await until((tmp_path / "cancelled").exists)
        await asyncio.gather(call, return_exceptions=True)
        assert (await client.call_tool("works", given)).is_error is False
        assert "is called too often" in text(await client.call_tool("works", given))


async def test_two_workers_list_the_same_groups_also_after_these_have_changed(tmp_path: Path):
    given = {"action": "book_get", "id": 7}

    async def listed(gate: Program, wanted: str) -> list[t.Tool]:
        """Return what both workers list, once both list a group."""
        found: dict[int, list[t.Tool]] = {}
        async with asyncio.timeout(PATIENCE):
            while len(found) < 2:
                async with connected(door(gate), "modern") as client:
                    tools = (await client.list_tools()).tools
                    meta = (await client.call_tool("book_get", {"id": 7})).meta or {}
                    if wanted in {tool.name for tool in tools}:
                        found[meta[PROCESS]] = tools
        one, other = found.values()
        assert one == other
        return one

    async with program(tmp_path, settings(books={"include": ["book_*"]}), "--workers", "2") as gate:
        await gate.has("books")
        before = await listed(gate, "books")
        async with connected(door(gate), "modern") as client:
            assert (await client.call_tool("books", given)).is_error is False
        replace(tmp_path / "weft.yaml", yaml.safe_dump(settings(all={"servers": ["library"], "detail": "brief"})))
        after = await listed(gate, "all")
        assert {tool.name for tool in after} == {"all", "loan_move"}
        assert before != after

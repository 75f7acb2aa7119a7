"""`weft lock` and a gateway that is held to it: rules P1 to P4 and row U12, as clients and operators see them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.app.served import Place, house, pipeline, program, registry, written
from tests.waiting import until
from weft.app.approvals import approval_of, argv_of
from weft.app.approvals import written as as_written
from weft.app.specs import specs_of
from weft.config import load_config
from weft.registry.lock import Lock, ServerPin, read_lock, write_lock

CHILD = Path(__file__).parents[1] / "cli" / "children" / "listed.py"
SEARCH: dict[str, Any] = {"name": "search", "description": "Finds pages.", "inputSchema": {"type": "object"}}
ODD: dict[str, Any] = {"name": "odd", "title": 7, "inputSchema": {}}
PUSH: dict[str, Any] = {"name": "push", "inputSchema": {"type": "object"}}


def settings(mode: str, **lock: Any) -> dict[str, Any]:
    """Return the settings of a gateway with one server and a lock."""
    words = [sys.executable, "-IS", str(CHILD), "tools.json", "--token=${env:WEB_TOKEN}"]
    server = {"command": words, "era": "legacy"}
    return {"servers": {"web": server}, "lock": {"mode": mode, "every": "50ms", **lock}}


def lists(folder: Path, *tools: dict[str, Any]) -> None:
    """Make the server list these from now on."""
    (folder / "tools.new").write_bytes(orjson.dumps(tools))
    (folder / "tools.new").replace(folder / "tools.json")


async def approve(folder: Path) -> None:
    """Run `weft lock`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "weft.cli", "lock", cwd=folder, env=ENV, stdout=asyncio.subprocess.DEVNULL
    )
    assert await process.wait() == 0


async def offers(place: Place, *names: str) -> None:
    """Wait until these are all tools that clients see."""
    async with asyncio.timeout(30):
        while set(await place.tools()) != set(names):  # noqa: ASYNC110 - it happens in another process, or task
            await asyncio.sleep(0.02)


ENV = {**os.environ, "WEB_TOKEN": "canary-secret"}


async def test_a_tool_that_changes_is_gone_for_clients_and_compositions_until_weft_lock_approves_it(tmp_path: Path):
    lists(tmp_path, SEARCH, ODD)
    written(tmp_path, settings("enforce"))
    await approve(tmp_path)
    async with house(tmp_path, settings("enforce"), registry(pipeline("both", "odd", "search")), env=ENV) as gate:
        await offers(gate, "search", "odd", "both")
        assert (await gate.ready())["lock"] == {}
        lists(tmp_path, SEARCH, {**ODD, "title": 8}, PUSH)
        await until(lambda: gate.running.approval is not None and gate.running.approval.report())
        await offers(gate, "search", "both")
        told = await gate.post("tools/call", {"name": "odd", "arguments": {}})
        assert told.json["error"]["message"] == "Unknown tool: odd"
        failed = await gate.call("both")
        assert (failed["isError"], failed["content"][0]["text"]) == (True, "Failed at step 's0': Tool not found: odd")
        states = (await gate.ask("GET", "/upstreams", admin=True)).json
        assert "odd" in str(states)
        held = (await gate.ready())["lock"]["web"]["quarantined"]
        assert [(one["name"], one["why"]) for one in held] == [("odd", "changed"), ("push", "new")]
        await approve(tmp_path)
        await offers(gate, "search", "odd", "push", "both")
        assert (await gate.ready())["lock"] == {}
    assert "canary" not in (tmp_path / "weft.lock").read_text()


async def test_enforced_without_a_lock_nothing_is_served_and_readyz_says_why(tmp_path: Path):
    lists(tmp_path, SEARCH)
    async with house(tmp_path, settings("enforce"), env=ENV) as gate:
        assert await gate.tools() == []
        assert any("weft lock" in problem for problem in (await gate.ready())["problems"])


async def test_with_the_lock_off_a_change_is_served(tmp_path: Path):
    lists(tmp_path, SEARCH)
    write_lock(tmp_path / "weft.lock", Lock({"web": ServerPin.of([PUSH])}))
    async with house(tmp_path, settings("off"), env=ENV) as gate:
        assert await gate.tools() == ["search"]
        assert gate.running.approval is None


async def test_workers_that_trust_at_once_record_everything_and_hold_to_it(tmp_path: Path):
    lists(tmp_path, SEARCH, ODD)
    async with program(tmp_path, settings("tofu"), "--workers", "2", env=ENV) as gate:
        await gate.has("search", "odd")
        pin = read_lock(tmp_path / "weft.lock").servers["web"]
        assert pin.tools.keys() == {"search", "odd"}
        assert pin.argv is not None
        assert pin.argv[-1] == "--token=${env:WEB_TOKEN}"
        lists(tmp_path, {**SEARCH, "description": "Deletes pages."}, ODD)
        await offers(gate, "odd")
        await gate.says("the tool search is held back")
        gate.signal(signal.SIGTERM)
        assert await gate.ended() == 0
    assert read_lock(tmp_path / "weft.lock").servers["web"] == pin


async def test_another_command_line_in_the_settings_is_not_the_one_that_was_approved(tmp_path: Path):
    lists(tmp_path, SEARCH)
    written(tmp_path, settings("enforce"))
    await approve(tmp_path)
    async with house(tmp_path, settings("enforce"), env={**ENV, "WEB_TOKEN": "another-secret"}) as gate:
        await offers(gate, "search")
        changed = settings("enforce")
        changed["servers"]["web"]["command"].append("--more")
        written(tmp_path, changed)
        assert (await gate.ask("POST", "/reload", admin=True)).status == 200
        await offers(gate)
        (held,) = (await gate.ready())["lock"]["web"]["quarantined"]
        assert (held["why"], "command line" in held["message"]) == ("launch", True)
        await approve(tmp_path)
        await offers(gate, "search")


def test_a_command_line_is_that_of_the_settings_or_of_what_was_started(tmp_path: Path):
    first = load_config(written(tmp_path, {"servers": {"web": {"command": ["python", "-m", "weft.demo", "x"]}}}), {})
    (spec,) = specs_of(first)
    assert spec.command[0] == sys.executable
    assert argv_of(first)(spec) == ("python", "-m", "weft.demo", "x")
    other = load_config(written(tmp_path, {"servers": {"web": {"command": ["python", "-m", "weft.demo", "y"]}}}), {})
    assert argv_of(other)(spec) == (sys.executable, "-m", "weft.demo", "x")
    assert as_written(["--key", "sk-abcdefghijklmnopqrstuvwxyz"]) == ("--key", "********")


@pytest.mark.parametrize("mode", ["off", "tofu", "warn", "enforce"])
def test_only_without_a_mode_nothing_holds_servers_to_the_lock(tmp_path: Path, mode: str):
    config = load_config(written(tmp_path, {"lock": {"mode": mode}}), {})
    assert (approval_of(config) is None) is (mode == "off")

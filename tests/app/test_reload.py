"""Hot reload: registry and configuration change while weft serves; what is no good never replaces what works."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.app.served import House, house, message_of, modern, pipeline, registry, replace, seen_by, witness
from tests.app.upstream import upstream
from tests.doors.serving import Client
from tests.waiting import until
from weft.gateway.sources import FileSource

PYTHON = '''
import weft as w

@w.python_tool
def {name}(text: str) -> str:
    """Say it."""
    return "{said} " + text
'''


def compositions(*names: str) -> bytes:
    """Return a registry of compositions of these names."""
    return orjson.dumps(registry(*(pipeline(name, "echo") for name in names)), option=orjson.OPT_INDENT_2)


@pytest.mark.req("REG-45")
async def test_a_registry_that_was_replaced_or_written_anew_is_served_without_a_restart(tmp_path: Path) -> None:
    async with upstream() as up, house(tmp_path, {"servers": {"up": {"url": up.url}}}, registry()) as gate:
        replace(gate.registry, compositions("renamed").decode())
        await gate.has("renamed")
        gate.registry.write_bytes(compositions("renamed", "rewritten"))
        await gate.has("renamed", "rewritten")
        assert (await gate.call("rewritten", {"a": 1}))["structuredContent"]["arguments"] == {"a": 1}
        assert (await gate.ready())["registry"]["generation"] == 3
        assert await gate.metric("weft_snapshot_generation") == 3


@pytest.mark.req("REG-45")
async def test_a_registry_that_is_no_good_is_told_with_its_lines_and_the_last_good_one_stays(tmp_path: Path) -> None:
    async with upstream() as up, house(tmp_path, {"servers": {"up": {"url": up.url}}}) as gate:
        replace(gate.registry, compositions("good").decode())
        assert (await gate.ask("POST", "/reload", admin=True)).status == 200
        replace(gate.registry, compositions("other").decode().replace('"pipeline"', '"pipelin"'))
        answer = await gate.ask("POST", "/reload", admin=True)
        assert answer.status == 422
        (problem,) = answer.json["problems"]
        assert (problem["file"], problem["line"]) == (str(gate.registry), 7)
        told = await gate.ready()
        assert (told["status"], told["degraded"]) == ("degraded", ["registry"])
        assert told["registry"]["reload_failed"]["problems"] == [problem]
        assert "good" in await gate.tools()
        assert (await gate.call("good"))["isError"] is False
        assert await gate.metric("weft_reloads_total", result="failed") >= 1
        gate.registry.unlink()
        assert (await gate.ask("POST", "/reload", admin=True)).status == 422
        assert "good" in await gate.tools()
        replace(gate.registry, compositions("better").decode())
        assert (await gate.ask("POST", "/reload", admin=True)).json["problems"] == []
        assert "better" in await gate.tools()
        assert (await gate.ready())["status"] == "ready"


async def test_stores_that_have_changed_wait_for_a_restart_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with upstream() as up:
        config: dict[str, Any] = {"servers": {"up": {"url": up.url}}, "stores": {"s": {"type": "memory"}}}
        async with house(tmp_path, config, registry()) as gate:
            changed = {**yaml.safe_load((tmp_path / "weft.yaml").read_text()), "stores": {"other": {"type": "memory"}}}
            replace(tmp_path / "weft.yaml", yaml.safe_dump(changed))
            await gate.ask("POST", "/reload", admin=True)
            assert "`stores` has changed: that takes a restart" in caplog.text
            assert set(gate.running.keeping.stores.names) == {"s", "default"}


async def test_python_tools_are_reloaded_with_their_file(tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text(PYTHON.format(name="say", said="one"))
    async with house(tmp_path, registry=file) as gate:
        assert (await gate.call("say", {"text": "x"}))["structuredContent"] == {"result": "one x"}
        replace(file, PYTHON.format(name="say", said="two") + PYTHON.format(name="shout", said="!"))
        assert (await gate.ask("POST", "/reload", admin=True)).status == 200
        assert await gate.tools() == ["say", "shout"]
        assert (await gate.call("say", {"text": "x"}))["structuredContent"] == {"result": "two x"}
        replace(file, "def broken(:\n")
        answer = await gate.ask("POST", "/reload", admin=True)
        assert (answer.status, answer.json["problems"][0]["line"]) == (422, 1)
        assert (await gate.call("say", {"text": "x"}))["structuredContent"] == {"result": "two x"}


async def test_ten_reloads_a_second_fail_no_call_and_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The files are replaced whole: there is nothing to wait for.
    monkeypatch.setattr(FileSource, "SETTLE", 0.0)
    stop = asyncio.Event()
    answered = 0

    async def work(gate: House) -> None:
        nonlocal answered
        while not stop.is_set():
            result = await gate.call("steady", {"n": answered})
            assert result["isError"] is False, result
            answered += 1

    async with upstream("echo") as up, house(tmp_path, {"servers": {"up": {"url": up.url}}}, registry()) as gate:

        async def reload(times: int) -> None:
            for at in range(times):
                due = asyncio.get_running_loop().time() + 0.1
                more = [pipeline(f"extra{at}_{n}", "echo", "echo") for n in range(20)]
                replace(gate.registry, orjson.dumps(registry(pipeline("steady", "echo"), *more)).decode())
                await gate.running.reload()
                await asyncio.sleep(due - asyncio.get_running_loop().time())

        await reload(3)
        calls = [asyncio.create_task(work(gate)) for _ in range(4)]
        await reload(5)
        gc.collect()
        before = len(gc.get_objects())
        await reload(20)
        stop.set()
        await asyncio.gather(*calls)
        gate.running.telemetry.traces.settle()
        gc.collect()
        assert answered > 20
        # Twenty more generations of 21 compositions would be tens of thousands of objects.
        assert len(gc.get_objects()) - before < 4000
        assert (await gate.ready())["registry"]["generation"] == 29


async def test_servers_come_change_and_go_while_their_calls_end(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    async with upstream("echo", "wait") as old, upstream("fresh") as new:
        servers: dict[str, Any] = {"old": {"url": old.url}, "child": witness(seen, include=["ping"])}
        async with house(tmp_path, {"servers": servers}, registry(pipeline("both", "wait", "ping"))) as gate:
            calls = [asyncio.create_task(gate.call(name)) for name in ("wait", "both")]
            await until(lambda: old.waiting == 2)
            changed = {"child": servers["child"], "new": {"url": new.url}}
            replace(gate.config, yaml.safe_dump({"servers": changed}))
            assert (await gate.ask("POST", "/reload", admin=True)).json["problems"] == []
            assert sorted(await gate.tools()) == ["both", "fresh", "ping"]
            assert len({one["pid"] for one in seen_by(seen)}) == 1, "a server that did not change keeps its process"
            old.let_go.set()
            relayed, composed = await asyncio.gather(*calls)
            assert relayed["structuredContent"]["arguments"] == {}
            assert composed["content"][0]["text"].startswith("ping of")
            await until(lambda: not gate.running.gateway.pool._draining)  # pyright: ignore[reportPrivateUsage]
            assert "old" not in (await gate.ask("GET", "/upstreams", admin=True)).json["upstreams"]


async def test_a_configuration_that_is_no_good_changes_nothing(tmp_path: Path) -> None:
    async with upstream("echo") as up, house(tmp_path, {"servers": {"up": {"url": up.url}}}) as gate:
        good = gate.config.read_text()
        gate.config.write_text("servers:\n  up:\n    urll: x\n")
        answer = await gate.ask("POST", "/reload", admin=True)
        assert answer.status == 422
        assert {(one["file"], one["line"]) for one in answer.json["problems"]} <= {
            (str(gate.config), 2),
            (str(gate.config), 3),
        }
        told = await gate.ready()
        assert (told["status"], told["degraded"]) == ("degraded", ["config"])
        assert told["config"]["reload_failed"]["count"] >= 1
        assert await gate.tools() == ["echo"]
        gate.config.write_text(good)
        assert (await gate.ask("POST", "/reload", admin=True)).status == 200
        assert (await gate.ready())["status"] == "ready"


async def _events(client: Client) -> asyncio.Queue[dict[str, Any]]:
    """Read the head of a stream, and give what comes on it."""
    assert b" 200 " in (await client.reader.readuntil(b"\r\n\r\n")).splitlines()[0]
    queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def read() -> None:
        while line := await client.reader.readline():
            if line.startswith(b"data: "):
                queue.put_nowait(orjson.loads(line[6:]))

    task = asyncio.create_task(read())
    task.add_done_callback(lambda _: None)
    return queue


async def test_a_view_that_changed_is_told_to_clients_of_both_eras(tmp_path: Path) -> None:
    async with upstream("echo", "large") as up:
        config = {"servers": {"up": {"url": up.url}}, "views": {"small": {"include": ["echo"]}}}
        async with house(tmp_path, config) as gate, gate.connected() as newer, gate.connected() as older:
            newer.request("POST", "/mcp/small", **_listen())
            told = await _events(newer)
            assert (await told.get())["method"] == "notifications/subscriptions/acknowledged"
            session = await _session(gate, "/mcp/small")
            older.request("GET", "/mcp/small", accept="text/event-stream", mcp_session_id=session)
            heard = await _events(older)
            config["views"] = {"small": {"include": ["large"]}}
            replace(gate.config, yaml.safe_dump(config))
            async with asyncio.timeout(20):
                assert (await told.get())["method"] == "notifications/tools/list_changed"
                assert (await heard.get())["method"] == "notifications/tools/list_changed"
            assert await gate.tools("/small") == ["large"]
            config["views"] = {}
            replace(gate.config, yaml.safe_dump(config))
            assert (await gate.ask("POST", "/reload", admin=True)).status == 200
            assert (await gate.post("tools/list", {}, view="/small")).status == 404


async def _session(gate: House, path: str) -> str:
    """Begin a session of a legacy client, and return its id."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    answer = await gate.ask("POST", path, body=body, content_type="application/json", accept="application/json")
    assert "protocolVersion" in message_of(answer)["result"]
    return answer.headers["mcp-session-id"]


def _listen() -> dict[str, Any]:
    return modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})

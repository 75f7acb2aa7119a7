"""Groups in a registry.py: served by the gateway, called by compositions and by the commands."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

import weft as w
from tests.app.served import house, replace
from tests.cli.conftest import process
from tests.gateway.served import Client as Heard
from tests.gateway.served import call, tools_of
from weft.app import open_registry
from weft.doors.attach import attach
from weft.errors import DeadlineExceeded, DocumentInvalid
from weft.gateway.gateway import Gateway
from weft.gateway.live import Content
from weft.gateway.results import ERROR, TRACE
from weft.run.limits import Limits

REGISTRY = '''
import weft as w

shop = w.group("shop", description="A small shop.")
orders = shop.group("orders")

@orders.action(reads_only=True)
async def find(id: int) -> dict[str, object]:
    """Find an order."""
    if id > 99:
        raise w.failure(f"there is no order {id}", hint="the highest is 99")
    return {"id": id, "item": "yarn", "lines": list(range(id))}

@orders.action
async def pack(boxes: int):
    """Pack an order."""
    for box in range(1, boxes + 1):
        yield (box, boxes)
    yield {"packed": boxes}

@w.python_tool
async def double(item: str) -> str:
    return item * 2

looked = w.composition(
    "looked", "Find an order, and write its item twice.", w.pipeline(w.tool("shop"), double),
)
'''
CONFIG = {"registry": {"source": "./registry.py"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a registry in Python."""
    (tmp_path / "registry.py").write_text(REGISTRY)
    return tmp_path


async def test_a_group_in_a_registry_is_a_tool_that_clients_call_and_hear_of(folder: Path):
    heard: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async with house(folder, CONFIG) as one, Client(f"http://127.0.0.1:{one.port}/mcp") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"shop", "looked", "double"}
        assert tools["shop"].input_schema["properties"]["action"]["enum"] == ["orders.find", "orders.pack"]
        found = await client.call_tool("shop", {"action": "orders.find", "id": 7, "_select": ["item"]})
        assert found.structured_content == {"item": "yarn"}
        packed = await client.call_tool("shop", {"action": "orders.pack", "boxes": 3}, progress_callback=hear)
        assert packed.structured_content == {"packed": 3}
        assert await one.metric("weft_tool_calls_total", tool="shop", outcome="ok") == 2
    assert heard == [1, 2, 3]


async def test_what_an_action_says_no_to_is_told_to_the_model_counted_and_traced(folder: Path):
    async with house(folder, CONFIG) as one:
        result = await one.call("shop", {"action": "orders.find", "id": 100})
        assert result["isError"] is True
        assert result["content"][0]["text"] == "there is no order 100. Hint: the highest is 99"
        assert result["_meta"][ERROR]["code"] == "ActionFailed"
        traced = await one.running.trace(result["_meta"][TRACE])
        assert traced[0]["tool"] == "shop"
        unknown = await one.call("shop", {"action": "orders.fnd", "id": 1})
        assert "orders.find" in unknown["content"][0]["text"]
        assert await one.metric("weft_tool_calls_total", tool="shop", outcome="tool_error") == 2


async def test_a_group_is_seen_and_called_only_by_those_for_whom_it_is(folder: Path):
    policy = [{"name": "closed", "effect": "deny", "tools": ["shop"]}]
    async with house(folder, {**CONFIG, "policy": policy}) as one:
        assert set(await one.tools()) == {"looked", "double"}
        answer = await one.post("tools/call", {"name": "shop", "arguments": {"action": "orders.find", "id": 1}})
        assert b"Unknown tool: shop" in answer.body


async def test_a_registry_that_is_written_anew_serves_its_new_groups(folder: Path):
    async with house(folder, CONFIG) as one:
        replace(
            folder / "registry.py",
            REGISTRY.replace('w.group("shop"', 'w.group("store"').replace('w.tool("shop")', 'w.tool("store")'),
        )
        await one.running.reload()
        assert set(await one.tools()) == {"store", "looked", "double"}
        broken = REGISTRY.replace("async def find(id: int)", "async def find(boxes: str, id: int = 1)")
        replace(folder / "registry.py", broken)
        told = await one.running.reload()
        assert "boxes" in told["problems"][0]["message"]
        assert set(await one.tools()) == {"store", "looked", "double"}


def gateway_of(*groups: w.GroupedTool, **given: Any) -> Gateway:
    return Gateway(content=Content(groups=groups), **given)


async def test_a_composition_calls_a_group_as_a_step(folder: Path):
    registry = open_registry(folder / "registry.py").valid()
    gateway = Gateway(content=Content(registry.document, registry.tools, (), registry.groups))
    await gateway.start()
    heard = Heard(progress=True)
    try:
        given = {"action": "orders.find", "id": 3, "_select": ["item"]}
        assert (await call(gateway, "looked", given, caller=heard))["structuredContent"] == {"result": "yarnyarn"}
        assert all("done" in told["message"] for told in heard.heard), "of steps, not of what goes on in each"
        failed = await call(gateway, "looked", {"action": "orders.find", "id": 100}, caller=heard)
        assert failed["isError"] is True
        assert "there is no order 100" in failed["content"][0]["text"]
    finally:
        await gateway.close()


async def test_a_call_that_is_given_up_cancels_the_action():
    began, ended = asyncio.Event(), asyncio.Event()
    group = w.group("waiting")

    @group.action
    async def wait() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    gateway = gateway_of(group)
    await gateway.start()
    calling = asyncio.create_task(call(gateway, "waiting", {"action": "wait"}))
    await began.wait()
    calling.cancel()
    await asyncio.wait_for(ended.wait(), 10)
    await gateway.close()


async def test_an_action_takes_no_longer_than_any_call_may():
    group = w.group("waiting")

    @group.action
    async def wait() -> None:
        await asyncio.Event().wait()

    gateway = gateway_of(group, limits=Limits(timeout=0.01))
    await gateway.start()
    result = await call(gateway, "waiting", {"action": "wait"})
    assert result["_meta"][ERROR]["code"] == DeadlineExceeded.code
    await gateway.close()


async def test_a_gateway_takes_groups_of_its_program_before_it_starts():
    group = w.group("early")
    group.add("one", lambda: 1)
    gateway = Gateway()
    attach(gateway, group)
    await gateway.start()
    assert list(await tools_of(gateway)) == ["early"]
    assert (await call(gateway, "early", {"action": "one"}))["structuredContent"] == {"result": 1}
    await gateway.close()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ('again = w.group("shop")\nagain.add("one", lambda: 1)\n', "two groups are named 'shop'"),
        ('@w.python_tool(name="shop")\ndef other() -> int:\n    return 1\n', "a group and a tool are named 'shop'"),
        ('empty = w.group("empty")\n', "the grouped tool 'empty' has no action"),
    ],
)
def test_a_file_whose_groups_do_not_go_together_is_told_with_its_place(folder: Path, more: str, told: str):
    path = folder / "registry.py"
    path.write_text(REGISTRY + more)
    with pytest.raises(DocumentInvalid, match=told) as caught:
        open_registry(path).valid()
    assert caught.value.problems[-1].file == str(path)
    assert caught.value.problems[-1].line is not None


def test_the_commands_run_validate_and_call_a_group(folder: Path):
    done = process(
        "run", "shop", "--registry", "registry.py", "--input", '{"action": "orders.find", "id": 2}', cwd=folder
    )
    assert (json.loads(done.stdout), done.stderr) == ({"id": 2, "item": "yarn", "lines": [0, 1]}, "")
    wrong = process("run", "shop", "--registry", "registry.py", "--input", '{"action": "orders.fnd"}', cwd=folder)
    assert wrong.returncode == 1
    assert "orders.find" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    assert process("validate", "registry.py", cwd=folder).returncode == 0
    as_tools = process(
        "run", "shop", "--tools", "registry.py", "--input", '{"action": "orders.find", "id": 0}', cwd=folder
    )
    assert json.loads(as_tools.stdout)["item"] == "yarn"
    (folder / "weft.yaml").write_text("registry: {source: ./registry.py}\n")
    # A child gets little of the environment.
    found = f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}"
    stdio = (
        "--stdio",
        "--",
        "env",
        found,
        sys.executable,
        "-m",
        "weft.cli",
        "serve",
        "--stdio",
        "--log-level",
        "error",
    )
    listed = process("tools", *stdio, cwd=folder)
    assert "shop" in listed.stdout, listed.stderr
    called = process("call", "shop", "action=orders.find", "id=1", *stdio, cwd=folder)
    assert json.loads(called.stdout)["id"] == 1, called.stderr

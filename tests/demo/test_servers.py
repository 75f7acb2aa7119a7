"""The demo's servers as programs, spoken to by the SDK's client over stdio."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

CALLS: dict[str, tuple[list[str], str, dict[str, Any]]] = {
    "documents": (["search_documents", "get_document", "create_document"], "search_documents", {"query": "bees"}),
    "search": (["search"], "search", {"query": "bees"}),
    "arxiv": (["arxiv_search", "arxiv_paper"], "arxiv_search", {"query": "bees"}),
    "flaky": (["news_search", "news_mood"], "news_search", {"query": "bees"}),
    "fetch": (["fetch"], "fetch", {"url": "demo://wiki/mowing"}),
    "summarize": (["summarize"], "summarize", {"documents": [{"content": "Bees fly. Bees sleep."}]}),
    "inventory": (["inventory_stock", "inventory_reserve", "inventory_release"], "inventory_stock", {}),
    "payment": (
        ["payment_charges", "payment_charge", "payment_refund"], "payment_charge", {"order_id": "o1", "amount": 5},
    ),
    "shipping": (
        ["shipping_list", "shipping_create", "shipping_cancel", "shipping_refuse", "shipping_hold"],
        "shipping_create", {"order_id": "o1", "address": "Main St"},
    ),
}  # fmt: skip
PATIENCE = 60.0


def program(name: str) -> Any:
    return stdio_client(StdioServerParameters(command=sys.executable, args=["-m", f"weft.demo.{name}"]))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_each_server_lists_its_tools_and_answers(mode: str):
    # All at once: most of the time goes into starting them.
    await asyncio.gather(*(lists_and_answers(name, mode) for name in CALLS))


async def lists_and_answers(name: str, mode: str) -> None:
    tools, tool, arguments = CALLS[name]
    async with asyncio.timeout(PATIENCE), Client(program(name), mode=mode) as client:
        listed = (await client.list_tools()).tools
        done = await client.call_tool(tool, arguments)
    assert [one.name for one in listed] == tools
    assert all(one.description and one.annotations and one.output_schema for one in listed), name
    assert not done.is_error, done.content
    assert done.structured_content, name


@pytest.mark.parametrize("name", ["inventory", "documents"])
@pytest.mark.parametrize(
    ("data", "told"), [("none/such.db", "there is no folder '{}/none'"), ("text.db", "file is not a database")]
)
def test_a_data_file_that_cannot_be_used_is_told_in_a_sentence(name: str, data: str, told: str, tmp_path: Path):
    (tmp_path / "text.db").write_text("no database at all, and longer than the head of one " * 20)
    command = [sys.executable, "-m", f"weft.demo.{name}", "--data", str(tmp_path / data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--data: cannot use '{tmp_path / data}': {told.format(tmp_path)}" in done.stderr
    assert "Traceback" not in done.stderr


async def test_what_a_tool_refuses_is_told_to_the_model():
    async with asyncio.timeout(PATIENCE), Client(program("shipping")) as client:
        await client.call_tool("shipping_refuse", {"refuse": True, "reason": "snow"})
        done = await client.call_tool("shipping_create", {"order_id": "o1", "address": "Main St"})
    assert done.is_error
    assert "the carrier takes no parcels: snow" in str(done.content)


async def test_reading_tools_say_that_they_only_read():
    async with asyncio.timeout(PATIENCE), Client(program("inventory")) as client:
        hints = {one.name: one.annotations for one in (await client.list_tools()).tools}
    assert {name: hint and hint.read_only_hint for name, hint in hints.items()} == {
        "inventory_stock": True,
        "inventory_reserve": False,
        "inventory_release": False,
    }
    assert hints["inventory_release"]
    assert hints["inventory_release"].destructive_hint


async def test_a_server_can_be_reached_over_http_too():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = (sys.executable, "-m", "weft.demo.summarize", "--http", str(port))
    server = await asyncio.create_subprocess_exec(*command)
    try:
        async with asyncio.timeout(PATIENCE):
            await until_open(port)
            async with Client(f"http://127.0.0.1:{port}/mcp") as client:
                listed = await client.list_tools()
    finally:
        server.terminate()
        await server.wait()
    assert [tool.name for tool in listed.tools] == ["summarize"]


async def until_open(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return await writer.wait_closed()

"""`weft tools`: what a server offers, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import mcp_types as t
import pytest
from mcp.server import Server

from tests.upstreams.listening import listening
from weft.cli.tools import mark

from .conftest import Run


async def list_tools(_: object, params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
    first = params is None or params.cursor is None
    reads = t.ToolAnnotations(read_only_hint=True)
    tool = t.Tool(
        name="search" if first else "drop_table",
        description="Search\nwith care." if first else "\x1b[31mDrop " + "it " * 200,
        input_schema={"type": "object"},
        annotations=reads if first else t.ToolAnnotations(read_only_hint=False, destructive_hint=True),
    )
    return t.ListToolsResult(tools=[tool], next_cursor="more" if first else None, ttl_ms=0, cache_scope="private")


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    server: Any = Server("oracle", on_list_tools=list_tools)
    with listening(server.streamable_http_app()) as port:
        yield f"http://127.0.0.1:{port}/mcp"


def test_every_page_is_listed_with_what_a_tool_may_do_on_one_line_each(run: Run, url: str):
    done = run("tools", "--url", url)
    first, second = done.stdout.splitlines()
    assert first.split() == ["search", "reads", "Search"]
    assert second.startswith("drop_table  destroys  \\x1b[31mDrop")
    assert second.endswith("...")
    assert done.stderr == "2 tools\n"


def test_json_is_what_the_server_told(run: Run, url: str):
    tools = json.loads(run("tools", "--url", url, "--json").stdout)["tools"]
    assert [tool["name"] for tool in tools] == ["search", "drop_table"]
    assert tools[0]["annotations"] == {"readOnlyHint": True}


def test_a_gateway_that_is_not_there_is_told_with_what_to_start(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("weft.cli.remote.URL", "http://127.0.0.1:9/mcp")
    done = run("tools", "--json")
    assert done.exit_code == 1
    assert "weft demo --serve" in json.loads(done.stdout)["error"]["hint"]


@pytest.mark.parametrize(
    ("hints", "word"),
    [
        (None, ""),
        ({}, ""),
        ({"readOnlyHint": True, "destructiveHint": True}, "reads"),
        ({"readOnlyHint": False, "destructiveHint": False}, "adds"),
        ({"destructiveHint": True}, "destroys"),
    ],
)
def test_the_mark_says_what_the_server_says(hints: dict[str, bool] | None, word: str):
    assert word in mark({"name": "x", "annotations": hints})
    assert bool(mark({"name": "x", "annotations": hints}).strip()) is bool(word)

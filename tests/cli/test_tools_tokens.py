"""`weft tools --tokens`: what the list that a client receives costs a model, and what groups save of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from typing import Any

import mcp_types as t
import pytest
from mcp.server import Server

from tests.upstreams.listening import listening
from weft.cli.tokens import TokenCounter, estimate
from weft.cli.tools_tokens import weigh
from weft.errors import ExecutionFailed

from .conftest import Run

LETTERS = TokenCounter(method="letters", count=len)
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string", "description": "Wörter"}}}


async def list_tools(_: object, params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
    plain = t.Tool(name="search", description="Search.", input_schema=SCHEMA, annotations=t.ToolAnnotations(title="S"))
    group = {"weft/group": {"actions": 12, "bytes": 4000}}
    grouped = t.Tool.model_validate(
        {"name": "forge\x1b", "description": "x" * 900, "inputSchema": SCHEMA, "_meta": group}
    )
    first = params is None or params.cursor is None
    return t.ListToolsResult(
        tools=[plain if first else grouped], next_cursor="more" if first else None, ttl_ms=0, cache_scope="private"
    )


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    server: Any = Server("oracle", on_list_tools=list_tools)
    with listening(server.streamable_http_app()) as port:
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture(autouse=True)
def no_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    monkeypatch.setitem(sys.modules, "rs_bpe", None)


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def test_bytes_are_those_of_the_list_and_tokens_those_of_what_a_model_is_given(run: Run, url: str):
    listed = json.loads(run("tools", "--url", url, "--json").stdout)["tools"]
    told = json.loads(run("tools", "--url", url, "--tokens", "--json").stdout)
    given = {"name": "search", "description": "Search.", "inputSchema": SCHEMA}
    assert told["tools"][0] == {
        "name": "search",
        "bytes": len(compact(listed[0])),
        "tokens": estimate(compact(given).decode()),
    }
    assert told["bytes"] == sum(len(compact(one)) for one in listed)
    assert told["tokens"] == sum(one["tokens"] for one in told["tools"])
    assert told["method"].startswith("estimate: ")
    assert told["tools"][1]["group"] == {"actions": 12, "bytes": 4000}
    assert told["saved"] == {"groups": 1, "tools": 12, "before": 4000, "after": told["tools"][1]["bytes"]}


def test_the_table_ends_in_the_sum_and_in_what_groups_save(run: Run, url: str):
    done = run("tools", "--url", url, "--tokens")
    search, forge, total, saving = done.stdout.splitlines()
    told = json.loads(run("tools", "--url", url, "--tokens", "--json").stdout)
    first, second = told["tools"]
    assert search.split() == ["search", str(first["bytes"]), "bytes", str(first["tokens"]), "tokens"]
    assert forge.startswith("forge\\x1b  1,")
    assert forge.endswith("tokens  for 12 tools")
    assert total.split() == ["total", f"{told['bytes']:,}", "bytes", f"{told['tokens']:,}", "tokens"]
    percent = round(100 * second["bytes"] / 4000)
    assert saving == f"1 group stands for 12 tools: 4,000 bytes became {second['bytes']:,} ({percent} %)"
    assert done.stderr.splitlines()[0] == "2 tools"
    assert done.stderr.splitlines()[1].startswith("tokens by estimate: ")


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        {"weft/group": 3},
        {"weft/group": {"actions": 2}},
        {"weft/group": {"actions": 0, "bytes": 10}},
        {"weft/group": {"actions": True, "bytes": 10}},
        {"weft/group": {"actions": 2, "bytes": -1}},
        {"weft/group": {"actions": 2, "bytes": 0}},
        {"weft/group": {"actions": "2", "bytes": 10.5}},
        {"weft/group": {"actions": 2, "bytes": 10**20}},
    ],
)
def test_what_cannot_be_a_group_is_a_tool_like_any_other(said: Any):
    weighed = weigh([{"name": "a", "_meta": said}], by=LETTERS)
    assert weighed.weights[0].group is None
    assert "saved" not in weighed.to_json()
    assert len(list(weighed.lines())) == 2


def test_a_tool_that_nests_too_deeply_is_named():
    schema: dict[str, Any] = {}
    for _ in range(100_000):
        schema = {"not": schema}
    with pytest.raises(ExecutionFailed, match="tool 'deep' nests too deeply"):
        weigh([{"name": "deep", "inputSchema": schema}], by=LETTERS)


def test_an_empty_list_costs_nothing():
    assert list(weigh([], by=LETTERS).lines()) == ["total  0 bytes  0 tokens"]

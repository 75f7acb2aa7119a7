"""Tools of servers and of the registry, gathered in groups and met through `weft serve` with a client of either era."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import jsonschema_rs
import mcp_types as t
import pytest
import yaml
from mcp import Client

from scripts.programs import ROOT, gateway
from tests.oracle.conftest import Era, command, connected
from tests.oracle.library import RIGHT, TOOLS, WRONG
from tests.waiting import until

REGISTRY: dict[str, Any] = {
    "schemaVersion": "1.0",
    "tools": [
        {
            "name": "science_find",
            "description": "Find books of science.",
            "source": {
                "server": "library", "tool": "book_find", "defaults": {"kind": "science"}, "hideFields": ["kind"]
            },
            "metadata": {"tags": ["reading"]},
        }
    ],
    "compositions": [
        {
            "name": "science_titles",
            "description": "The titles of books of science.",
            "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
            "spec": {
                "pipeline": {
                    "steps": [
                        {"id": "find", "operation": {"tool": "science_find"}},
                        {"id": "pick", "operation": {"schemaMap": {"mappings": {"titles": "$.books[*].title"}}}},
                    ]
                }
            },
            "metadata": {"tags": ["reading"]},
        }
    ],
    "groups": [{"name": "science", "description": "Books of science.", "tags": ["reading"], "format": "toon"}],
}  # fmt: skip
STAMPS = '''
def stamped(mark):
    """Return middleware that leaves a mark on results."""
    async def middleware(call, next):
        result = await next(call)
        return {**result, "_meta": {**result.get("_meta", {}), "example.com/stamp": f"{mark} {call.name}"}}
    return middleware
'''
LIBRARY: dict[str, Any] = {
    "library": {"command": [sys.executable, "-m", "tests.oracle.library"], "cwd": str(ROOT), "era": "modern"}
}
SECTIONS: dict[str, Any] = {
    "registry": {"source": "./registry.yaml"},
    "middleware": [{"use": "stamps:stamped", "with": {"mark": "seen"}, "tools": ["book_*", "science_*"]}],
    "groups": {
        "books": {"description": "A library.", "servers": ["library"], "response": {"maxItems": 5}},
        "brief": {"servers": ["library"], "detail": "brief"},
        "index": {"servers": ["library"], "detail": "index", "format": "toon"},
        "legacy": {"servers": ["legacy_stdio"], "actions": {"ask.size": "legacy_stdio_elicit"}},
        "modern": {"servers": ["modern_stdio"], "actions": {"ask.size": "modern_stdio_elicit"}, "discriminator": "do"},
    },
}
ACTIONS = [tool.name for tool in TOOLS if tool.name != "loan_move"]
"""What of the server can be in a group: that one has a field of the group's own."""


def written(folder: Path) -> Path:
    """Write what stands beside weft.yaml, and return the folder."""
    (folder / "registry.yaml").write_text(yaml.safe_dump(REGISTRY, sort_keys=False))
    (folder / "stamps.py").write_text(STAMPS)
    return folder


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Give the URL of a gateway whose tools are in groups."""
    servers = LIBRARY | {name: command(name) for name in ("legacy_stdio", "modern_stdio")}
    with gateway(servers, folder=written(tmp_path_factory.mktemp("groups")), sections=SECTIONS) as url:
        yield url


@pytest.fixture(params=["legacy", "modern"])
def upstream(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Give a group, with the field that says which of its actions is meant."""
    return request.param, SECTIONS["groups"][request.param].get("discriminator", "action")


def text(result: t.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, t.TextContent))


def meta(result: t.CallToolResult) -> dict[str, Any]:
    return dict(result.meta or {})


@pytest.mark.req("GRP-8", "GRP-16")
async def test_a_client_is_listed_groups_in_the_place_of_their_tools(client: Client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {"loan_move", "books", "brief", "index", "legacy", "modern", "science"}
    for tool in tools.values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **tool.input_schema})
        assert tool.input_schema["type"] == "object"
    for name in ("books", "brief", "index"):
        helps = [] if name == "books" else ["help"]
        assert _choices(tools[name]) == ["science_find", *ACTIONS, *helps]
        assert _hints(tools[name]) == (False, True)
    assert _choices(tools["science"]) == ["science_find", "science_titles"]
    assert _hints(tools["science"]) == (True, False)
    assert tools["modern"].input_schema["required"] == ["do"]


def _choices(tool: t.Tool) -> list[str]:
    return tool.input_schema["properties"]["action"]["enum"]


def _hints(tool: t.Tool) -> tuple[bool | None, bool | None]:
    assert tool.annotations is not None
    return tool.annotations.read_only_hint, tool.annotations.destructive_hint


@pytest.mark.req("GRP-24", "GRP-26")
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("group", ["books", "brief", "index"])
async def test_each_action_is_called_and_what_it_does_not_take_is_refused_with_the_field(
    client: Client, group: str, action: str
):
    [tool] = [tool for tool in (await client.list_tools()).tools if tool.name == group]
    schema = jsonschema_rs.validator_for(tool.input_schema)
    right = {"action": action, **RIGHT[action]}
    assert list(schema.iter_errors(right)) == []
    direct, called = await client.call_tool(action, RIGHT[action]), await client.call_tool(group, right)
    assert (called.is_error, text(called).splitlines()[0]) == (False, action)
    if action != "member_list":
        assert called.structured_content == direct.structured_content
    given, field = WRONG[action]
    refused = await client.call_tool(group, {"action": action, **given})
    assert refused.is_error is True
    assert field in text(refused)
    error = meta(refused)["weft/error"]
    assert error["code"] == "InvalidArguments"
    assert [problem["field"].partition(".")[0] for problem in error["problems"]] == [field]


@pytest.mark.req("GRP-22", "GRP-23")
async def test_a_call_without_a_known_action_is_told_which_there_are(client: Client):
    missing = await client.call_tool("books", {"id": 7})
    assert missing.is_error is True
    assert all(action in text(missing) for action in ("action", *ACTIONS))
    unknown = await client.call_tool("books", {"action": "book_gt", "id": 7})
    assert unknown.is_error is True
    assert "did you mean 'book_get'?" in text(unknown)
    wrong = await client.call_tool("books", {"action": 7})
    assert wrong.is_error is True
    other = await client.call_tool("modern", {"action": "modern_stdio_who"})
    assert other.is_error is True
    assert "'do'" in text(other)


async def test_a_model_asks_a_short_group_for_more_and_gets_what_the_server_lists(client: Client):
    [listed] = [tool for tool in TOOLS if tool.name == "member_add"]
    for group in ("brief", "index"):
        told = await client.call_tool(group, {"action": "help", "of": "member_add"})
        assert told.is_error is False
        assert told.structured_content["inputSchema"]["required"] == ["action", "name"]
        [address] = told.structured_content["inputSchema"]["$defs"].values()
        assert address == listed.input_schema["$defs"]["Address"]
        assert (await client.call_tool(group, {"action": "help", "of": "nothing"})).is_error is True


async def test_virtual_tools_and_compositions_are_actions_of_a_group_of_the_registry(client: Client):
    found = await client.call_tool("science", {"action": "science_find", "query": "bees", "limit": 1})
    assert found.structured_content == {"books": [{"id": 0, "title": "Bees", "kind": "science", "shelf": "S3"}]}
    titles = await client.call_tool("science", {"action": "science_titles", "query": "bees"})
    assert titles.structured_content == {"titles": ["Bees"] * 10}
    hidden = await client.call_tool("science", {"action": "science_find", "query": "bees", "kind": "novel"})
    assert hidden.is_error is True
    assert "kind" in text(hidden)


async def test_a_caller_selects_fields_and_is_told_what_was_cut(client: Client):
    given = {"action": "book_find", "query": "bees", "limit": 3, "_select": ["books.id"]}
    selected = await client.call_tool("books", given)
    assert selected.structured_content == {"books": [{"id": 0}, {"id": 1}, {"id": 2}]}
    cut = await client.call_tool("books", {"action": "member_list"})
    assert len(cut.structured_content["members"]) == 5
    assert "5 of 50" in text(cut)
    unknown = await client.call_tool("books", {"action": "book_get", "id": 7, "_select": ["titel"]})
    assert "did you mean 'title'?" in text(unknown)
    wrong = await client.call_tool("books", {"action": "book_get", "id": 7, "_select": 7})
    assert wrong.is_error is True
    assert "_select is 7" in text(wrong)


async def test_middleware_of_ones_own_stands_around_actions_as_around_their_tools(client: Client):
    direct = await client.call_tool("book_get", {"id": 7})
    assert meta(direct)["example.com/stamp"] == "seen book_get"
    through = await client.call_tool("books", {"action": "book_get", "id": 7})
    assert meta(through)["example.com/stamp"] == "seen book_get"
    composed = await client.call_tool("science", {"action": "science_titles", "query": "bees"})
    assert meta(composed)["example.com/stamp"] == "seen science_titles"
    untouched = await client.call_tool("books", {"action": "member_get", "id": "m1"})
    assert "example.com/stamp" not in meta(untouched)


async def test_progress_of_an_action_reaches_the_client(client: Client, upstream: tuple[str, str]):
    group, by = upstream
    seen: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    await client.call_tool(group, {by: f"{group}_stdio_steps"}, progress_callback=on_progress)
    assert seen == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_a_question_of_an_action_reaches_the_client_and_the_answer_the_action(
    door: str, era: Era, upstream: tuple[str, str]
):
    group, by = upstream
    asked: list[str] = []

    async def on_elicit(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        asked.append(params.message)
        return t.ElicitResult(action="accept", content={"size": len(asked)})

    async with connected(door, era, elicitation_callback=on_elicit) as client:
        once = await client.call_tool(group, {by: "ask.size"})
        thrice = await client.call_tool(group, {by: f"{group}_stdio_thrice"}) if group == "legacy" else None
    assert text(once) == "action=accept, content={'size': 1}"
    if thrice is not None:
        assert text(thrice) == "; ".join(f"action=accept, content={{'size': {n}}}" for n in (2, 3, 4))


async def test_a_cancelled_call_of_an_action_ends_at_the_server(
    client: Client, upstream: tuple[str, str], tmp_path: Path
):
    group, by = upstream
    call = asyncio.create_task(client.call_tool(group, {by: f"{group}_stdio_wait", "folder": str(tmp_path)}))
    await until((tmp_path / "started").exists)
    call.cancel()
    await until((tmp_path / "cancelled").exists)
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await client.call_tool(group, {by: f"{group}_stdio_who"})).is_error is False


async def test_a_failing_action_fails_as_its_tool_does(client: Client, upstream: tuple[str, str]):
    group, by = upstream
    failed = await client.call_tool(group, {by: f"{group}_stdio_fail"})
    assert (failed.is_error, failed.structured_content) == (True, {"printer": "LP0"})
    assert text(failed) == "The printer is on fire"

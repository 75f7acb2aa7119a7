"""Groups attached to servers of others: real clients of the `mcp` package, in memory, over HTTP and over stdio."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from fastmcp import FastMCP
from fastmcp.server.middleware import Middleware as Watcher
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer
from pydantic import AnyHttpUrl

import weft as w
from tests.gateway.served import Client as Heard
from tests.gateway.served import call, gateway, tools_of
from tests.upstreams.listening import listening
from weft.errors import Frozen
from weft.gateway.gateway import Gateway

pytestmark = pytest.mark.req("GRP-32")

MODES = ["legacy", "2026-07-28"]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


def platform() -> w.GroupedTool:
    """Return a group that greets, counts and waits."""
    made = w.group("platform", description="What a platform does.")
    users = made.group("users", "Who is there.")

    @users.action(reads_only=True)
    async def greet(name: str) -> dict[str, str]:
        """Greet somebody."""
        return {"said": f"hello {name}"}

    @users.action(tags=["slow"])
    async def count(to: int) -> Any:
        """Count, and tell how far it is."""
        for number in range(1, to + 1):
            yield (number, to, f"at {number}")
        yield {"counted": to}

    @users.action(tags=["admin"])
    async def whoami(call: w.ToolCall) -> dict[str, Any]:
        """Tell who calls."""
        return {"id": call.principal.id, "label": call.principal.label, "scopes": sorted(call.principal.scopes)}

    return made


def low() -> tuple[Server[Any], Server[Any]]:
    """Return a low-level server with a tool of its own on each of two pages."""

    async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
        if params is None or params.cursor is None:
            return types.ListToolsResult(tools=[types.Tool(name="own", input_schema=SCHEMA)], next_cursor="2")
        return types.ListToolsResult(tools=[types.Tool(name="other", input_schema=SCHEMA)])

    async def called(ctx: Any, params: Any) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text=f"{params.name} itself")])

    made = Server("low", on_list_tools=listed, on_call_tool=called)
    return made, made


def high() -> tuple[MCPServer, MCPServer]:
    made: MCPServer = MCPServer("high")

    @made.tool()
    def own() -> str:
        return "own itself"

    return made, made


def fast() -> tuple[FastMCP[Any], Server[Any]]:
    made: FastMCP[Any] = FastMCP("fast")

    @made.tool
    def own() -> str:
        return "own itself"

    return made, made._mcp_server  # pyright: ignore[reportPrivateUsage]  (what a client of the package can speak to)


SERVERS = [low, high, fast]


def text_of(answer: types.CallToolResult, at: int = 0) -> str:
    block = answer.content[at]
    assert isinstance(block, types.TextContent)
    return block.text


async def everything(client: Client) -> list[types.Tool]:
    """Return the tools of every page."""
    page = await client.list_tools()
    found = list(page.tools)
    while page.next_cursor is not None:
        page = await client.list_tools(cursor=page.next_cursor)
        found += page.tools
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("made", SERVERS)
async def test_a_client_sees_the_group_behind_the_servers_own_tools_and_calls_both(
    made: Callable[[], tuple[object, Any]], mode: Any
):
    server, reached = made()
    group = platform()
    w.attach(server, group)
    async with Client(reached, mode=mode) as client:
        tools = await everything(client)
        assert [tool.name for tool in tools] == (["own", "other", "platform"] if made is low else ["own", "platform"])
        assert tools[-1].input_schema == group.definition["inputSchema"]
        assert tools[-1].description == group.definition["description"]
        answer = await client.call_tool("platform", {"action": "users.greet", "name": "Ada"})
        assert answer.structured_content == {"said": "hello Ada"}
        assert not answer.is_error
        assert text_of(await client.call_tool("own", {})) == "own itself"


@pytest.mark.parametrize("made", SERVERS)
async def test_a_wrong_call_is_a_result_from_which_a_model_learns(made: Callable[[], tuple[object, Any]]):
    server, reached = made()
    w.attach(server, platform())
    async with Client(reached) as client:
        answer = await client.call_tool("platform", {"action": "users.gret", "name": "Ada"})
        assert answer.is_error
        assert "users.greet" in text_of(answer)
        answer = await client.call_tool("platform", {"action": "users.greet", "nme": "Ada"})
        assert answer.is_error
        assert "name" in text_of(answer)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("made", SERVERS)
async def test_progress_reaches_the_client_in_order_and_before_the_result(
    made: Callable[[], tuple[object, Any]], mode: Any
):
    server, reached = made()
    w.attach(server, platform())
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with Client(reached, mode=mode) as client:
        answer = await client.call_tool("platform", {"action": "users.count", "to": 3}, progress_callback=hear)
    assert answer.structured_content == {"counted": 3}
    assert heard == [(1, 3, "at 1"), (2, 3, "at 2"), (3, 3, "at 3")]


@pytest.mark.parametrize("made", SERVERS)
async def test_a_client_that_gives_up_cancels_the_action(made: Callable[[], tuple[object, Any]]):
    began, ended = asyncio.Event(), asyncio.Event()
    group = w.group("platform")

    @group.action
    async def wait() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    server, reached = made()
    w.attach(server, group)
    async with Client(reached) as client:
        calling = asyncio.create_task(client.call_tool("platform", {"action": "wait"}))
        await asyncio.wait_for(began.wait(), 10)
        calling.cancel()
        await asyncio.wait_for(ended.wait(), 10)


async def test_a_server_that_had_no_tools_has_them_then():
    server: Server[Any] = Server("bare")
    w.attach(server, platform())
    async with Client(server) as client:
        assert [tool.name for tool in await everything(client)] == ["platform"]
        answer = await client.call_tool("platfrm", {})
        assert answer.is_error
        assert "platform" in text_of(answer)


async def test_several_groups_can_be_attached_at_once_and_later():
    server, reached = high()
    first, second = platform(), w.group("second")
    second.add("one", lambda: 1)
    w.attach(server, w.ToolSet(first))
    w.attach(server, second)
    async with Client(reached) as client:
        assert [tool.name for tool in await everything(client)] == ["own", "platform", "second"]
        answer = await client.call_tool("second", {"action": "one"})
        assert answer.structured_content == {"result": 1}
        assert (await client.call_tool("platform", {"action": "users.greet", "name": "x"})).structured_content


async def test_tags_say_which_actions_are_attached():
    server, reached = high()
    w.attach(server, platform(), exclude_tags=["admin", "slow"])
    async with Client(reached) as client:
        tool = (await everything(client))[-1]
        assert tool.input_schema["properties"]["action"]["enum"] == ["users.greet"]
        assert (await client.call_tool("platform", {"action": "users.whoami"})).is_error


def test_when_no_action_has_the_tags_that_is_an_error():
    with pytest.raises(ValueError, match="no action is left"):
        w.attach(high()[0], platform(), tags=["nothing"])


async def test_the_caller_of_an_action_is_the_client_of_the_server():
    server, reached = high()
    w.attach(server, platform())
    info = types.Implementation(name="inspector", version="3")
    async with Client(reached, client_info=info) as client:
        answer = await client.call_tool("platform", {"action": "users.whoami"})
    assert answer.structured_content == {"id": "anonymous", "label": "inspector 3", "scopes": []}


class Verifier:
    """Knows one token."""

    async def verify_token(self, token: str) -> AccessToken | None:
        known: dict[str, Any] = {"subject": "ada", "scopes": ["read"], "claims": {"iss": "https://login"}}
        return AccessToken(token=token, client_id="app", **known) if token == "t0ken" else None


@pytest.mark.parametrize("mode", MODES)
async def test_who_has_a_token_that_the_server_verified_is_known_by_it(mode: Any):
    login = AnyHttpUrl("https://login")
    auth = AuthSettings(issuer_url=login, resource_server_url=login, validate_token_resource=False)
    server: MCPServer = MCPServer("guarded", auth=auth, token_verifier=Verifier())
    w.attach(server, platform())
    with listening(server.streamable_http_app()) as port:
        async with httpx2.AsyncClient(headers={"Authorization": "Bearer t0ken"}) as http:
            reached = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)
            async with Client(reached, mode=mode) as client:
                answer = await client.call_tool("platform", {"action": "users.whoami"})
    told: dict[str, Any] = answer.structured_content or {}
    assert told["id"] == "jwt:default:https%3A%2F%2Flogin:ada::"
    assert told["scopes"] == ["read"]


async def test_a_server_that_has_the_one_that_speaks_in_server_is_taken_too():
    class Higher:
        server: Server[Any] = Server("inner")

    higher = Higher()
    w.attach(higher, platform())
    async with Client(higher.server) as client:
        assert [tool.name for tool in await everything(client)] == ["platform"]


@pytest.mark.parametrize("made", [high, fast])
def test_a_name_that_the_server_has_is_refused(made: Callable[[], tuple[object, Any]]):
    taken = w.group("own")
    taken.add("one", lambda: 1)
    with pytest.raises(ValueError, match="has a tool named 'own'"):
        w.attach(made()[0], taken)


@pytest.mark.parametrize("made", SERVERS)
def test_the_same_name_cannot_be_attached_twice(made: Callable[[], tuple[object, Any]]):
    server = made()[0]
    w.attach(server, platform())
    with pytest.raises(ValueError, match="has a tool named 'platform'"):
        w.attach(server, platform())


async def test_a_tool_that_the_server_gets_later_does_not_stand_twice_in_the_list(caplog: pytest.LogCaptureFixture):
    server, reached = high()
    w.attach(server, platform())

    def later() -> str:
        return "later"

    server.add_tool(later, name="platform")
    async with Client(reached) as client:
        assert [tool.name for tool in await everything(client)] == ["own", "platform"]
        answer = await client.call_tool("platform", {"action": "users.greet", "name": "Ada"})
        assert answer.structured_content == {"said": "hello Ada"}
    assert "a tool of the name of a group" in caplog.text


def test_what_is_attached_is_frozen():
    group = platform()
    w.attach(high()[0], group)
    with pytest.raises(Frozen):
        group.add("late", lambda: 1)


@pytest.mark.parametrize(
    ("server", "told"),
    [
        (object(), "not an object of object"),
        (None, "not an object of NoneType"),
        ("server", "not an object of str"),
        (MCPServer, "not the class MCPServer"),
        (Gateway, "not the class Gateway"),
    ],
)
def test_anything_else_is_a_type_error_that_says_what_is_taken(server: object, told: str):
    with pytest.raises(TypeError, match=r"w\.attach takes a server: .*MCPServer.*FastMCP") as caught:
        w.attach(server, platform())
    assert told in str(caught.value)


def test_what_is_no_group_is_a_type_error():
    with pytest.raises(TypeError, match=r"takes what w\.group makes, .* not an object of str"):
        w.attach(high()[0], "platform")  # pyright: ignore[reportArgumentType]  (authors without a checker)
    with pytest.raises(TypeError, match="at least one group"):
        w.attach(high()[0])


async def test_the_gateway_of_weft_takes_groups_while_it_serves():
    heard = Heard(progress=True)
    async with gateway({}) as one:
        w.attach(one, platform())
        await one.live.settle()
        assert list(await tools_of(one)) == ["platform"]
        answer = await call(one, "platform", {"action": "users.count", "to": 2}, caller=heard)
        assert answer["structuredContent"] == {"counted": 2}
        assert [told["progress"] for told in heard.heard] == [1, 2]
        with pytest.raises(ValueError, match="the gateway has a tool named 'platform'"):
            w.attach(one, platform())


PROGRAM = """
import weft as w
from mcp.server.mcpserver import MCPServer
from pydantic import AnyHttpUrl

server = MCPServer("shop")
shop = w.group("shop")

@shop.action
def price(item: str) -> dict[str, object]:
    return {"item": item, "price": 3}

w.attach(server, shop)
server.run("stdio")
"""


async def test_a_program_serves_its_group_over_stdio(tmp_path: Path):
    program = tmp_path / "shop.py"
    program.write_text(PROGRAM)
    command = StdioServerParameters(command=sys.executable, args=[str(program)], env=dict(os.environ))
    async with Client(command) as client:
        assert [tool.name for tool in await everything(client)] == ["shop"]
        answer = await client.call_tool("shop", {"action": "price", "item": "yarn", "_select": ["price"]})
        assert answer.structured_content == {"price": 3}


async def test_a_fastmcp_knows_the_group_as_a_tool_of_its_own():
    seen: list[str] = []

    class Watching(Watcher):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            seen.append(context.message.name)
            return await call_next(context)

    server: FastMCP[Any] = FastMCP("fast", middleware=[Watching()])
    w.attach(server, platform())
    assert [tool.name for tool in await server.list_tools()] == ["platform"]
    answer = await server.call_tool("platform", {"action": "users.greet", "name": "Ada"})
    assert answer.structured_content == {"said": "hello Ada"}
    assert seen == ["platform"]

    around: FastMCP[Any] = FastMCP("around")
    around.mount(server, namespace="inner")
    async with Client(around._mcp_server) as client:  # pyright: ignore[reportPrivateUsage]  (what a client of the package can speak to)
        assert [tool.name for tool in await everything(client)] == ["inner_platform"]
        answer = await client.call_tool("inner_platform", {"action": "users.gret"})
        assert answer.is_error
        assert "users.greet" in text_of(answer)
    assert seen == ["platform", "platform"]


@pytest.mark.parametrize("made", SERVERS)
async def test_progress_of_a_function_in_a_thread_reaches_the_client(made: Callable[[], tuple[object, Any]]):
    group = w.group("platform")

    @group.action(threaded=True)
    def count(call: w.ToolCall) -> str:
        for number in (1, 2, 3):
            call.progress(number, 3, f"at {number}")
        return "done"

    server, reached = made()
    w.attach(server, group)
    heard: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async with Client(reached) as client:
        answer = await client.call_tool("platform", {"action": "count"}, progress_callback=hear)
    assert (text_of(answer), heard) == ("done", [1, 2, 3])

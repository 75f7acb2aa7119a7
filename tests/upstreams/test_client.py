"""The MCP client over a wire that answers as the test says."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.waiting import soon
from weft.errors import (
    DeadlineExceeded,
    SessionGone,
    UpstreamAuth,
    UpstreamDied,
    UpstreamProtocolError,
    UpstreamRefused,
    UpstreamUnavailable,
    WeftError,
)
from weft.upstreams.client import McpClient
from weft.upstreams.transport import OnMessage

DISCOVERED: dict[str, Any] = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete"}
HELLO: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "old"}}


def refusal(code: int, data: Any = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": "no", "data": data}}


class Script:
    """A wire whose server answers each method as told: by a result, an error, or what a function makes of it."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {"server_discover": refusal(-32601), "initialize": HELLO, **answers}
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.notified: list[dict[str, Any]] = []
        self.tell: OnMessage | None = None

    async def start(self, **_: Any) -> None: ...

    async def request(
        self,
        message: dict[str, Any],
        *,
        deadline: float,
        on_message: OnMessage | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        self.asked.append(message)
        self.headers.append(dict(headers or {}))
        self.tell = on_message
        scripted: Any = self.answers[message["method"].replace("/", "_")]
        answer: Any = scripted(message) if callable(scripted) else scripted
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, asyncio.Event):
            answer.set()
            await asyncio.Event().wait()
        elif isinstance(answer, WeftError):
            raise answer
        told: Any = answer
        return {"jsonrpc": "2.0", "id": message["id"], **(told if "error" in told else {"result": told})}

    async def follow(
        self, message: dict[str, Any], *, on_message: OnMessage, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        return await self.request(message, deadline=soon(), on_message=on_message, headers=headers)

    async def notify(self, message: dict[str, Any], *, headers: Mapping[str, str] | None = None) -> None:
        self.notified.append(message)

    async def close(self) -> None: ...


def in_turn(*answers: Any) -> Callable[[dict[str, Any]], Any]:
    left = iter(answers)

    def answer(_: dict[str, Any]) -> Any:
        return next(left)

    return answer


async def connected(script: Script, **options: Any) -> McpClient:
    client = McpClient(script, server="scripted", **options)
    await client.connect(soon())
    return client


@pytest.mark.parametrize(
    "answer",
    [
        *(refusal(code) for code in (-32601, -32600, -32602, -32603, -32022, -32000, 0, 404)),
        UpstreamProtocolError("s", "status 400 without a JSON-RPC error", status=400),
        UpstreamProtocolError("s", "not JSON"),
        UpstreamAuth("s", "status 403", status=403),
        UpstreamUnavailable("s", "status 500", status=500, sent=True),
        DeadlineExceeded("it says nothing"),
        {"supportedVersions": ["2025-11-25"]},
        {},
    ],
    ids=str,
)
async def test_any_refusal_of_the_question_leads_to_the_handshake(answer: Any):
    script = Script(server_discover=answer)
    client = await connected(script)
    assert (client.era, client.version, client.server_info) == ("legacy", "2025-06-18", {"name": "old"})
    assert [message["method"] for message in script.asked] == ["server/discover", "initialize"]
    assert script.asked[1]["params"]["protocolVersion"] == "2025-11-25"
    assert [message["method"] for message in script.notified] == ["notifications/initialized"]


@pytest.mark.parametrize(
    "error",
    [
        UpstreamUnavailable("s", "connection refused"),
        UpstreamUnavailable("s", "status 429", status=429),
        UpstreamUnavailable("s", "status 503", status=503),
        UpstreamDied("s", "it ended"),
    ],
    ids=str,
)
async def test_a_server_that_is_not_there_says_nothing_about_its_era(error: WeftError):
    script = Script(server_discover=error)
    with pytest.raises(type(error)):
        await connected(script)
    assert len(script.asked) == 1


async def test_a_modern_server_that_was_slow_to_start_is_asked_again():
    answers = in_turn(DeadlineExceeded("still starting"), DISCOVERED)
    script = Script(server_discover=answers, initialize=refusal(-32022))
    assert (await connected(script)).era == "modern"


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_every_legacy_version_is_accepted(version: str):
    script = Script(initialize={**HELLO, "protocolVersion": version}, tools_list={"tools": []})
    client = await connected(script)
    await client.list_tools(deadline=soon())
    assert (client.version, script.headers[-1]) == (version, {"MCP-Protocol-Version": version})


@pytest.mark.parametrize("version", ["2023-01-01", "2026-07-28", None, 3])
async def test_a_version_that_nobody_knows_is_refused(version: Any):
    with pytest.raises(UpstreamProtocolError, match="which weft does not"):
        await connected(Script(initialize={**HELLO, "protocolVersion": version}))


async def test_a_known_era_is_not_asked_for():
    script = Script(server_discover=DISCOVERED)
    assert (await connected(script, era="legacy")).era == "legacy"
    assert [message["method"] for message in script.asked] == ["initialize"]
    with pytest.raises(UpstreamRefused):
        await connected(Script(), era="modern")


async def test_nothing_is_asked_before_the_greeting():
    with pytest.raises(UpstreamUnavailable, match="not connected"):
        await McpClient(Script(), server="s").list_tools(deadline=soon())


async def test_a_modern_request_says_who_asks_and_keeps_the_callers_meta():
    script = Script(server_discover=DISCOVERED, tools_call={"content": []})
    client = await connected(script, offers={"roots": {}})
    own = "io.modelcontextprotocol/"
    given: dict[str, Any] = {
        "traceparent": "00-1",
        own + "clientCapabilities": {"sampling": {}},
        own + "protocolVersion": "1",
    }
    await client.call_tool("prüfe", {}, deadline=soon(), meta={**given, "progressToken": 1})
    meta = script.asked[-1]["params"]["_meta"]
    assert meta.pop(own + "clientInfo")["name"] == "weft"
    assert meta == {**given, own + "protocolVersion": "2026-07-28"}
    assert script.headers[-1]["Mcp-Name"] == "=?base64?cHLDvGZl?="
    assert script.asked[0]["params"]["_meta"][own + "clientCapabilities"] == {"roots": {}}


async def test_a_legacy_request_says_nothing_of_the_modern_era():
    script = Script(tools_call={"content": []})
    client = await connected(script)
    meta = {"traceparent": "00-1", "io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": 1}
    await client.call_tool("echo", {}, deadline=soon(), meta=meta)
    assert script.asked[-1]["params"]["_meta"] == {"traceparent": "00-1"}


def endless(message: dict[str, Any]) -> dict[str, Any]:
    return {"tools": [], "nextCursor": str(int(message["params"].get("cursor", 0)) + 1)}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (endless, "more than 1000 pages"),
        ({"tools": [], "nextCursor": "a"}, "same cursor twice"),
        ({"tools": [], "nextCursor": 7}, "no string"),
        ({"tools": {}}, "without a list of tools"),
        ({}, "without a list of tools"),
    ],
)
async def test_pages_that_do_not_end_or_are_none_are_refused(answer: Any, reason: str):
    client = await connected(Script(tools_list=answer))
    with pytest.raises(UpstreamProtocolError, match=reason):
        await client.list_tools(deadline=soon())


async def test_an_item_that_is_nothing_does_not_cost_the_others():
    client = await connected(Script(tools_list={"tools": ["echo", None, {"name": "look"}, 7]}))
    assert [tool["name"] for tool in await client.list_tools(deadline=soon())] == ["look"]


@pytest.mark.parametrize("last", [{}, {"nextCursor": None}, {"nextCursor": ""}])
async def test_no_cursor_or_an_empty_one_ends_the_list(last: dict[str, Any]):
    tool = {"name": "echo", "unknown": [1]}
    client = await connected(Script(tools_list={"tools": [tool], **last}))
    assert await client.list_tools(deadline=soon()) == [tool]


async def test_progress_after_the_answer_is_not_told():
    script = Script(tools_call={"content": []})
    client = await connected(script)
    told: list[Any] = []
    await client.call_tool("echo", {}, deadline=soon(), on_progress=told.append)
    token = script.asked[-1]["params"]["_meta"]["progressToken"]
    client.take({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token}})
    assert told == []


async def test_the_server_of_a_legacy_session_is_told_that_the_caller_gave_up():
    begun = asyncio.Event()
    script = Script(tools_call=begun)
    client = await connected(script)
    call = asyncio.create_task(client.call_tool("echo", {}, deadline=soon()))
    await begun.wait()
    call.cancel()
    await asyncio.wait([call])
    await client.close()
    assert script.notified[1:] == [gone(script.asked[-1]["id"])]


async def test_the_server_of_a_legacy_session_is_told_that_it_is_too_late():
    script = Script(tools_call=DeadlineExceeded("late"))
    client = await connected(script)
    with pytest.raises(DeadlineExceeded):
        await client.call_tool("echo", {}, deadline=soon())
    await client.close()
    assert script.notified[1:] == [gone(script.asked[-1]["id"])]


def gone(id_: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}}


async def test_requests_of_the_server_are_answered_and_the_rest_is_passed_on():
    heard: list[Any] = []
    script = Script()
    client = await connected(script, on_message=heard.append)
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    for message in ({"id": "p", "method": "ping"}, {"id": 5, "method": "roots/list"}, changed, {"no": "message"}):
        client.take({"jsonrpc": "2.0", **message})
    await client.close()
    replies = {message["id"]: message for message in script.notified[1:]}
    assert (replies["p"]["result"], replies[5]["error"]["code"]) == ({}, -32601)
    assert heard == [changed]


async def test_a_session_that_is_forgotten_again_at_once_is_given_up():
    script = Script(tools_call=SessionGone("s", "status 404"))
    client = await connected(script)
    with pytest.raises(SessionGone):
        await client.call_tool("echo", {}, deadline=soon())
    assert [message["method"] for message in script.asked[2:]] == ["tools/call", "initialize", "tools/call"]


async def test_a_late_word_of_a_session_that_is_over_does_not_end_the_new_one():
    late: asyncio.Future[WeftError] = asyncio.get_running_loop().create_future()
    done: dict[str, Any] = {"content": []}
    begun, forgotten = asyncio.Event(), SessionGone("s", "status 404")
    answers = in_turn(late, forgotten, done, done)

    def answer(message: dict[str, Any]) -> Any:
        begun.set()
        return answers(message)

    script = Script(tools_call=answer)
    client = await connected(script)
    slow = asyncio.create_task(client.call_tool("echo", {}, deadline=soon()))
    await begun.wait()
    assert await client.call_tool("echo", {}, deadline=soon()) == done
    late.set_result(forgotten)
    assert await slow == done
    assert [message["method"] for message in script.asked].count("initialize") == 2


async def test_a_session_that_could_not_be_begun_again_is_begun_by_the_next_call():
    greetings = in_turn(HELLO, UpstreamUnavailable("s", "restarting"), HELLO)
    script = Script(initialize=greetings, tools_call=in_turn(SessionGone("s", "status 404"), {"content": []}))
    client = await connected(script)
    with pytest.raises(UpstreamUnavailable, match="restarting"):
        await client.call_tool("echo", {}, deadline=soon())
    assert await client.call_tool("echo", {}, deadline=soon()) == {"content": []}


@pytest.mark.parametrize("answer", [[], {"error": "no"}], ids=["result", "error"])
async def test_an_answer_that_is_no_object_breaks_the_protocol(answer: Any):
    client = await connected(Script(tools_call=answer))
    with pytest.raises(UpstreamProtocolError, match="no object"):
        await client.call_tool("echo", {}, deadline=soon())


@pytest.mark.parametrize("discovered", [DISCOVERED, {}], ids=["modern", "legacy"])
async def test_a_closed_client_asks_nothing_more(discovered: dict[str, Any]):
    script = Script(server_discover=discovered)
    client = await connected(script)
    asked = len(script.asked)
    await client.close()
    with pytest.raises(UpstreamUnavailable, match="not connected"):
        await client.list_tools(deadline=soon())
    assert len(script.asked) == asked

"""The door on stdin and stdout: as the SDK's client sees it, and line by line."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import orjson
import pytest
from mcp import Client, StdioServerParameters

from tests.doors.mcp.fakes import HELLO, META, FakeGateway, Happened
from weft.doors.mcp import StdioDoor
from weft.doors.mcp.messages import MessageLimits
from weft.doors.mcp.pipes import Lines
from weft.ports import Principal

CHILD = StdioServerParameters(command=sys.executable, args=[str(Path(__file__).with_name("stdio_child.py"))])
MODES = ["legacy", "auto", "2026-07-28"]


class Pipes:
    """The other ends of a door's pipes."""

    def __init__(
        self, gateway: FakeGateway, door: asyncio.Task[None], write: int, reader: asyncio.StreamReader
    ) -> None:
        self.gateway, self.door, self._write, self._reader = gateway, door, write, reader
        self._open = True

    def send(self, *messages: Any) -> None:
        for message in messages:
            line = message if isinstance(message, bytes) else orjson.dumps({"jsonrpc": "2.0", **message})
            os.write(self._write, line + b"\n")

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(10):
            return orjson.loads(await self._reader.readline())

    async def rest(self) -> list[dict[str, Any]]:
        """End stdin, and return all that still comes."""
        self.close()
        async with asyncio.timeout(10):
            await self.door
            return [orjson.loads(line) for line in (await self._reader.read()).splitlines()]

    async def meet(self) -> None:
        self.send({"id": 0, "method": "initialize", "params": HELLO}, {"method": "notifications/initialized"})
        assert (await self.next())["result"]["protocolVersion"] == "2025-11-25"

    def close(self) -> None:
        if self._open:
            self._open = False
            os.close(self._write)


@asynccontextmanager
async def piped(**options: Any) -> AsyncGenerator[Pipes]:
    """Serve the fake gateway over pipes of this process."""
    gateway = FakeGateway()
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    reader = asyncio.StreamReader(limit=1 << 24)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours_in, "rb", buffering=0)
    )

    async def serve() -> None:
        try:
            await StdioDoor(gateway, incoming=theirs_in, outgoing=theirs_out, **options).serve()
        finally:
            os.close(theirs_out)
            os.close(theirs_in)

    pipes = Pipes(gateway, asyncio.create_task(serve()), ours_out, reader)
    try:
        yield pipes
    finally:
        pipes.close()
        async with asyncio.timeout(10):
            await pipes.door
        transport.close()


def modern(id_: int | str, method: str, **params: Any) -> dict[str, Any]:
    return {"id": id_, "method": method, "params": {**params, "_meta": {**META, **params.pop("meta", {})}}}


@pytest.mark.parametrize("mode", MODES)
async def test_the_sdks_client_calls_and_hears_and_cancels(mode: Any, caplog: pytest.LogCaptureFixture) -> None:
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def hear(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            await heard.put(message)

    async def anna(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Anna"})

    told: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    async with Client(CHILD, mode=mode, message_handler=hear, elicitation_callback=anna) as client:
        assert len((await client.list_tools()).tools) == 2
        await client.call_tool("busy", progress_callback=progressed)
        assert told == [1, 2, 3]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await client.call_tool("slow")
        asked = await client.call_tool("curious" if mode == "legacy" else "modest")
        assert "Anna" in str(asked.content)
        if mode == "legacy":
            await client.call_tool("change")
            await asyncio.wait_for(heard.get(), 10)
        else:
            async with client.listen(tools_list_changed=True) as changes:
                await client.call_tool("change")
                assert await asyncio.wait_for(anext(changes), 10)
    assert "Failed to parse" not in caplog.text, "what a tool prints does not get between the messages"


async def test_requests_run_beside_each_other_and_are_answered_as_they_end() -> None:
    async with piped() as pipes:
        pipes.send(modern("a", "tools/call", name="slow"), modern("b", "tools/call", name="echo"))
        assert (await pipes.next())["id"] == "b"
        pipes.gateway.may_end.set()
        assert (await pipes.next())["id"] == "a"


async def test_a_cancelled_request_stops_and_is_not_answered() -> None:
    async with piped() as pipes:
        await pipes.meet()
        pipes.send({"id": 1, "method": "tools/call", "params": {"name": "slow"}})
        await asyncio.wait_for(pipes.gateway.began.wait(), 10)
        pipes.send({"method": "notifications/cancelled", "params": {"requestId": 1}})
        await asyncio.wait_for(pipes.gateway.stopped.wait(), 10)
        assert await pipes.rest() == []


async def test_garbage_is_answered_and_the_next_line_is_read() -> None:
    async with piped(limits=MessageLimits(body=1000)) as pipes:
        lines = [b"not json", b"\xff\xfe", b"x" * 200_000, b"", b"[]", b'{"jsonrpc":"1.0","id":4,"method":"ping"}']
        await asyncio.to_thread(pipes.send, *lines)
        pipes.send({"id": 5, "method": "ping"})
        answers = [await pipes.next() for _ in range(6)]
        assert [answer["id"] for answer in answers] == [None, None, None, None, 4, 5]
        assert [answer["error"]["code"] for answer in answers[:5]] == [-32700, -32700, -32700, -32600, -32600]
        assert "longer than 1000 bytes" in answers[2]["error"]["message"]
        assert "batch" in answers[3]["error"]["message"]
        assert answers[5]["result"] == {}


async def test_a_request_before_the_handshake_is_told_what_to_do() -> None:
    async with piped() as pipes:
        pipes.send({"id": 1, "method": "tools/list"})
        assert "initialize first" in (await pipes.next())["error"]["message"]


async def test_modern_requests_are_checked_as_over_http() -> None:
    async with piped() as pipes:
        pipes.send(modern(1, "tools/list", meta={"io.modelcontextprotocol/protocolVersion": "2031-01-01"}))
        pipes.send(modern(2, "ping"))
        pipes.send(modern(3, "server/discover"))
        wrong, gone, found = [await pipes.next() for _ in range(3)]
        assert wrong["error"]["code"] == -32022
        assert gone["error"]["code"] == -32601
        assert found["result"]["resultType"] == "complete"


async def test_a_legacy_client_hears_of_resources_that_it_follows() -> None:
    async with piped() as pipes:
        await pipes.meet()
        pipes.send({"id": 1, "method": "resources/subscribe", "params": {"uri": "file:///a"}})
        assert (await pipes.next())["result"] == {}
        pipes.gateway.happen(Happened("notifications/resources/updated", {"uri": "file:///a"}))
        assert (await pipes.next())["params"] == {"uri": "file:///a"}
        pipes.send({"id": 2, "method": "resources/unsubscribe", "params": {"uri": "file:///a"}})
        assert (await pipes.next())["id"] == 2
        assert pipes.gateway.followed == []


async def test_a_client_that_shakes_hands_again_hears_everything_once() -> None:
    async with piped() as pipes:
        await pipes.meet()
        await pipes.meet()
        pipes.send({"id": 1, "method": "ping"})
        assert (await pipes.next())["id"] == 1
        pipes.gateway.happen(Happened("notifications/tools/list_changed"))
        assert len(await pipes.rest()) == 1


async def test_what_was_asked_before_stdin_ended_is_still_answered() -> None:
    async with piped() as pipes:
        pipes.send(modern(1, "tools/call", name="echo", arguments={"text": "last"}))
        assert [answer["id"] for answer in await pipes.rest()] == [1]


async def test_what_is_piped_in_at_once_waits_for_a_gateway_that_is_still_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ready(self: FakeGateway) -> None:
        await asyncio.sleep(0.3)

    monkeypatch.setattr(FakeGateway, "ready", ready)
    monkeypatch.setattr("weft.doors.mcp.stdio.GRACE", 0.2)
    async with piped() as pipes:
        pipes.send({"id": 1, "method": "initialize", "params": HELLO}, modern(2, "server/discover"))
        assert {answer["id"] for answer in await pipes.rest()} == {1, 2}


async def test_a_request_that_takes_too_long_does_not_keep_a_door_whose_client_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("weft.doors.mcp.stdio.GRACE", 0.05)
    async with piped() as pipes:
        pipes.send(modern(1, "tools/call", name="slow"))
        await asyncio.wait_for(pipes.gateway.began.wait(), 10)
        assert await pipes.rest() == []
        assert pipes.gateway.stopped.is_set()


async def test_a_listening_client_is_told_the_end_when_stdin_ends() -> None:
    async with piped() as pipes:
        pipes.send(modern("l", "subscriptions/listen", notifications={"toolsListChanged": True}))
        assert (await pipes.next())["method"] == "notifications/subscriptions/acknowledged"
        (end,) = await pipes.rest()
        assert end["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "l"


async def test_a_bug_behind_the_door_is_a_reference_and_no_traceback() -> None:
    async with piped() as pipes:
        pipes.send(modern(1, "tools/call", name="broken"), modern(2, "tools/call", name="huge"))
        answers = [await pipes.next(), await pipes.next()]
        assert all("reference" in answer["error"]["message"] for answer in answers)
        assert "1234" not in str(answers)


def test_lines_are_put_together_from_chunks_and_long_ones_left_out() -> None:
    lines = Lines(limit=5)
    got = [line for chunk in (b"ab", b"c\nde", b"fghi", b"jk\nl", b"m\n", b"n") for line in lines.feed(chunk)]
    assert [*got, *lines.last()] == [b"abc", None, b"lm", b"n"]


async def test_the_environment_says_who_the_client_is_and_the_client_only_what_it_is_called() -> None:
    alice = Principal(subject="alice", method="key")
    async with piped(principal=alice) as pipes:
        pipes.send(modern(1, "tools/list"))
        await pipes.next()
        await pipes.meet()
        pipes.send({"id": 2, "method": "tools/list"})
        await pipes.next()
        told = [(one.principal.id, one.principal.label) for one in pipes.gateway.seen]
    assert told == [(alice.id, "tests 1")] * 2


async def test_a_quota_that_is_used_up_is_an_error_of_the_request() -> None:
    async with piped() as pipes:
        pipes.send(modern(1, "tools/call", name="rationed"))
        first = await pipes.next()
        await pipes.meet()
        pipes.send({"id": 2, "method": "tools/call", "params": {"name": "rationed"}})
        second = await pipes.next()
    for answer in (first, second):
        assert (answer["error"]["code"], answer["error"]["data"]["code"]) == (-32000, "QuotaExceeded")

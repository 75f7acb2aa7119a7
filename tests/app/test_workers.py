"""Two workers on one port: whichever answers, sessions, questions, state and numbers are right."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import yaml

from tests.app.served import (
    ASKABLE,
    EVENTS,
    Program,
    alive,
    children_of,
    message_of,
    messages_to,
    modern,
    parent_of,
    program,
    replace,
    seen_by,
    witness,
)
from tests.app.upstream import Upstream, upstream
from tests.doors.serving import Answer, Client
from tests.waiting import until

HELLO: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "tests", "version": "1"},
}


class Crew:
    """Two workers, and connections of which each is kept by one of them."""

    def __init__(self, gate: Program, stack: AsyncExitStack) -> None:
        self.gate = gate
        self._stack = stack

    async def both(self) -> tuple[Client, Client]:
        """Return a connection to each of the workers, told apart by who refuses whose session stream."""
        found: dict[str, Client] = {}
        async with asyncio.timeout(30):
            while len(found) < 2:
                client = await self._stack.enter_async_context(self.gate.connected())
                found.setdefault(await self.worker_of(client), client)
        first, second = found.values()
        return first, second

    async def worker_of(self, client: Client) -> str:
        """Return which worker has a connection: the child that answers is that worker's own."""
        client.request("POST", "/mcp", **modern("tools/call", {"name": "ping", "arguments": {}}))
        return message_of(await client.answer())["result"]["content"][0]["text"]


@asynccontextmanager
async def crew(folder: Path, up: Upstream | None = None, *arguments: str, **config: Any) -> AsyncGenerator[Crew]:
    """Run two workers, each with a child of its own."""
    servers: dict[str, Any] = {"child": witness(folder / "seen", include=["ping", "ask"])}
    if up is not None:
        servers["up"] = {"url": up.url}
    async with (
        program(folder, {"servers": servers, **config}, "--workers", "2", *arguments) as gate,
        AsyncExitStack() as stack,
    ):
        yield Crew(gate, stack)


async def rpc(client: Client, method: str, params: Any = None, *, session: str = "", **more: Any) -> Answer:
    """Send a message of a legacy client and return the answer."""
    send(client, method, params, session=session, **more)
    return await client.answer()


def send(client: Client, method: str, params: Any = None, *, session: str = "", **more: Any) -> None:
    """Send a message of a legacy client."""
    message = {"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {}), **more}
    post(client, message, session)


def post(client: Client, message: dict[str, Any], session: str) -> None:
    """Post a message on a session."""
    headers = {"content_type": "application/json", "accept": EVENTS, "mcp_session_id": session}
    client.request("POST", "/mcp", body=orjson.dumps(message), **headers)


async def session_at(client: Client) -> str:
    """Begin a session at the worker of a connection."""
    answer = await rpc(client, "initialize", HELLO, id=0)
    return answer.headers["mcp-session-id"]


async def events(client: Client) -> AsyncGenerator[dict[str, Any]]:
    """Yield what comes on the stream of an answer."""
    assert b" 200 " in (await client.reader.readuntil(b"\r\n\r\n")).splitlines()[0]
    while line := await client.reader.readline():
        if line.startswith(b"data: "):
            yield orjson.loads(line[6:])
        if line == b"0\r\n":
            await client.reader.readline()
            return


async def test_a_session_of_one_worker_is_served_asked_cancelled_and_ended_at_the_other(tmp_path: Path) -> None:
    async with upstream("wait") as up, crew(tmp_path, up) as workers, asyncio.timeout(60):
        one, other = await workers.both()
        session = await session_at(one)
        listed = message_of(await rpc(other, "tools/list", {}, session=session, id=1))["result"]["tools"]
        assert {tool["name"] for tool in listed} == {"ping", "ask", "wait"}

        # A question is asked on the stream of its call, and answered at the other worker.
        send(one, "tools/call", {"name": "ask", "arguments": {}}, session=session, id=2)
        stream = events(one)
        question = await anext(stream)
        assert question["method"] == "elicitation/create"
        answer = {"action": "accept", "content": {"name": "ann"}}
        post(other, {"jsonrpc": "2.0", "id": question["id"], "result": answer}, session)
        assert (await other.answer()).status == 202
        said = (await anext(stream))["result"]["content"][0]["text"]
        assert orjson.loads(said) == {"name": "ann"}
        assert [message async for message in stream] == []

        # A call is cancelled at the other worker.
        send(one, "tools/call", {"name": "wait", "arguments": {}}, session=session, id=3)
        await until(lambda: up.waiting == 1)
        cancelled = await rpc(other, "notifications/cancelled", {"requestId": 3}, session=session)
        assert cancelled.status == 202
        await until(lambda: up.waiting == 0)
        assert "Request cancelled" in (await one.answer()).body.decode()

        # The end of the session is the end everywhere.
        other.request("DELETE", "/mcp", mcp_session_id=session)
        assert (await other.answer()).status == 204
        for client in (one, other):
            assert (await rpc(client, "tools/list", {}, session=session, id=4)).status == 404


async def test_a_call_that_waits_for_an_answer_at_one_worker_goes_on_when_called_again_at_the_other(
    tmp_path: Path,
) -> None:
    async with crew(tmp_path) as workers, asyncio.timeout(60):
        one, other = await workers.both()
        call: dict[str, Any] = {"name": "ask", "arguments": {}, "_meta": ASKABLE}
        one.request("POST", "/mcp", **modern("tools/call", call))
        asked = message_of(await one.answer())["result"]
        assert asked["resultType"] == "input_required"
        (key,) = asked["inputRequests"]
        answers = {key: {"action": "accept", "content": {"name": "bob"}}}
        again = {**call, "inputResponses": answers, "requestState": asked["requestState"]}
        other.request("POST", "/mcp", **modern("tools/call", again))
        said = message_of(await other.answer())["result"]
        assert orjson.loads(said["content"][0]["text"]) == {"name": "bob"}
        # The question was asked once: nothing was begun anew at the other worker.
        calls = [one for one in messages_to(tmp_path / "seen") if one.get("params", {}).get("name") == "ask"]
        assert len(calls) == 1
        # What was answered cannot be answered again, at any worker.
        for client in (one, other):
            client.request("POST", "/mcp", **modern("tools/call", again))
            assert message_of(await client.answer())["error"]["code"] == -32602


async def test_a_call_that_waited_at_a_worker_that_died_is_told_to_begin_again(tmp_path: Path) -> None:
    async with crew(tmp_path) as workers, asyncio.timeout(60):
        one, other = await workers.both()
        call: dict[str, Any] = {"name": "ask", "arguments": {}, "_meta": ASKABLE}
        one.request("POST", "/mcp", **modern("tools/call", call))
        asked = message_of(await one.answer())["result"]
        again: dict[str, Any] = {**call, "inputResponses": {}, "requestState": asked["requestState"]}
        child = int((await workers.worker_of(one)).split()[-1])
        os.kill(parent_of(child), signal.SIGKILL)
        await until(lambda: not alive(child))
        other.request("POST", "/mcp", **modern("tools/call", again))
        refused = message_of(await other.answer())["error"]
        assert refused["code"] == -32602
        assert "call again without it" in refused["message"]


async def test_numbers_and_traces_of_all_workers_are_found_through_any(tmp_path: Path) -> None:
    async with upstream("echo") as up, crew(tmp_path, up) as workers, asyncio.timeout(60):
        gate = workers.gate
        parents: list[str] = []
        for at, client in enumerate(await workers.both()):
            parents.append(f"{at + 1:032x}")
            parent = f"00-{parents[-1]}-{'1' * 16}-01"
            client.request(
                "POST", "/mcp", **modern("tools/call", {"name": "echo", "arguments": {}}, traceparent=parent)
            )
            assert (await client.answer()).status == 200
        assert await gate.metric("weft_tool_calls_total", tool="echo") == 2
        assert await gate.metric("weft_upstream_requests_total", server="up", outcome="ok") == 2
        assert await gate.metric("weft_workers") == 2
        for trace in parents:
            found = await gate.ask("GET", f"/traces/{trace}", admin=True)
            assert (found.status, found.json["calls"][0]["tool"]) == (200, "echo")


async def test_a_reload_reaches_both_workers(tmp_path: Path) -> None:
    async with upstream("echo") as up, upstream("other") as more, crew(tmp_path, up) as workers, asyncio.timeout(60):
        both = await workers.both()
        config = yaml.safe_load((tmp_path / "weft.yaml").read_text())
        config["servers"]["more"] = {"url": more.url}
        replace(tmp_path / "weft.yaml", yaml.safe_dump(config))
        told = await workers.gate.ask("POST", "/reload", admin=True)
        assert (told.status, len(told.json["otherWorkers"])) == (200, 1)
        for client in both:
            client.request("POST", "/mcp", **modern("tools/list", {}))
            assert '"other"' in (await client.answer()).body.decode()
        # SIGHUP to the parent does the same.
        del config["servers"]["more"]
        replace(tmp_path / "weft.yaml", yaml.safe_dump(config))
        workers.gate.signal(signal.SIGHUP)
        for client in both:
            while True:
                client.request("POST", "/mcp", **modern("tools/list", {}))
                if '"other"' not in (await client.answer()).body.decode():
                    break
                await asyncio.sleep(0.05)


async def test_a_worker_that_was_killed_is_replaced_and_its_children_are_gone(tmp_path: Path) -> None:
    async with crew(tmp_path) as workers, asyncio.timeout(60):
        await workers.both()
        before = {one["pid"] for one in seen_by(tmp_path / "seen")}
        os.kill(min(children_of(workers.gate.pid)), signal.SIGKILL)
        await workers.gate.says("signal SIGKILL")
        await until(lambda: len([pid for pid in before if alive(pid)]) == 1)
        # Both places are taken again, and one of the two children is new.
        await workers.both()
        await until(lambda: len({one["pid"] for one in seen_by(tmp_path / "seen")} - before) == 1)
        assert await workers.gate.metric("weft_workers") == 2
        # What belongs to the gateway, its port above all, none of its children has open.
        kept = [to for one in seen_by(tmp_path / "seen") for to in one.get("fds", {}).values() if "socket" in to]
        assert kept == []

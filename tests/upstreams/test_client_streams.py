"""What a server says and asks while it works: on the stream of each request, on one wire for all, to subscribers."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import pytest

from tests.upstreams.children.asker import asker
from tests.upstreams.faults import STREAM, Peer, chunk, event, http, rpc, serving
from tests.upstreams.listening import listening
from tests.upstreams.stdio_wires import CHILDREN, HASTY
from tests.waiting import soon, until
from weft.errors import UpstreamDied, UpstreamRefused
from weft.upstreams.client import McpClient
from weft.upstreams.eras import Era
from weft.upstreams.http import HttpTransport
from weft.upstreams.httpwire import Limits
from weft.upstreams.stdio import StdioLimits, StdioTransport
from weft.upstreams.transport import Transport

ELICITS: dict[str, Any] = {"elicitation": {"form": {}}}
DISCOVERED: dict[str, Any] = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete"}
CHANGES = {"toolsListChanged": True}
CHANGED = "notifications/tools/list_changed"
HELLO: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "old"}}


def text(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with listening(asker().streamable_http_app()) as port:
        yield f"http://127.0.0.1:{port}/mcp"


def over(kind: str, url: str) -> Transport:
    if kind == "http":
        return HttpTransport(url)
    command = [sys.executable, str(CHILDREN / "asker.py")]
    return StdioTransport(command, server="asker", limits=StdioLimits(patience=HASTY))


@contextlib.asynccontextmanager
async def client_of(transport: Transport, *, era: Era | None = None) -> AsyncGenerator[McpClient]:
    client = McpClient(transport, server="asker", era=era, offers=ELICITS)
    await client.connect(soon())
    yield client
    await client.close()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})


def answering(name: str) -> Callable[[dict[str, Any]], Any]:
    async def answer(question: dict[str, Any]) -> dict[str, Any]:
        assert question["method"] == "elicitation/create"
        return {"result": {"action": "accept", "content": {"answer": f"{name} of {question['params']['message']}"}}}

    return answer


async def test_each_call_is_asked_on_its_own_stream(url: str):
    async with client_of(over("http", url), era="legacy") as client:
        calls = (
            client.request(
                "tools/call",
                {"name": "ask", "arguments": {"who": who}},
                deadline=soon(),
                on_request=answering(f"friend {who}"),
            )
            for who in ("ann", "bob", "eve")
        )
        for who, result in zip(("ann", "bob", "eve"), await asyncio.gather(*calls), strict=True):
            assert text(result) == f"accept {{'answer': 'friend {who} of Who is {who}?'}}"


@pytest.mark.parametrize("kind", ["http", "stdio"])
async def test_a_call_without_a_listener_leaves_the_question_to_the_clients(kind: str, url: str):
    async with client_of(over(kind, url), era="legacy") as client:
        params = {"name": "ask", "arguments": {"who": "ann"}}
        client.on_request = answering("leased")
        assert "leased" in text(await client.request("tools/call", params, deadline=soon()))
        client.on_request = None
        with pytest.raises(UpstreamRefused, match="Method not found"):
            await client.request("tools/call", params, deadline=soon())


async def test_a_question_is_given_up_with_the_call_that_it_belongs_to(url: str):
    asked, given_up = asyncio.Event(), asyncio.Event()

    async def never(_: dict[str, Any]) -> dict[str, Any]:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        return {}

    async with client_of(over("http", url), era="legacy") as client:
        params = {"name": "ask", "arguments": {"who": "ann"}}
        call = asyncio.create_task(client.request("tools/call", params, deadline=soon(), on_request=never))
        await asked.wait()
        call.cancel()
        await asyncio.wait([call])
        async with asyncio.timeout(5):
            await given_up.wait()


async def test_what_a_server_says_on_a_stream_is_for_the_call_of_that_stream(url: str):
    async with client_of(over("http", url), era="legacy") as client:
        everybody: list[Any] = []
        client.on_message = everybody.append
        heard: dict[str, list[Any]] = {"ann": [], "bob": []}
        calls = (
            client.request(
                "tools/call", {"name": "say", "arguments": {"text": who}}, deadline=soon(), on_notification=own.append
            )
            for who, own in heard.items()
        )
        await asyncio.gather(*calls)
        assert {who: [one["params"]["data"] for one in own] for who, own in heard.items()} == {
            "ann": ["ann"],
            "bob": ["bob"],
        }
        assert everybody == []
        await client.request("tools/call", {"name": "say", "arguments": {"text": "all"}}, deadline=soon())
        assert [one["params"]["data"] for one in everybody] == ["all"]


async def test_over_stdio_what_a_server_says_is_for_whoever_has_the_wire(url: str):
    async with client_of(over("stdio", url), era="legacy") as client:
        heard: list[Any] = []
        client.on_message = heard.append
        await client.request("tools/call", {"name": "say", "arguments": {"text": "hi"}}, deadline=soon())
        assert [one["params"]["data"] for one in heard] == ["hi"]


@pytest.mark.parametrize("kind", ["http", "stdio"])
async def test_a_subscriber_is_told_of_changes_until_it_leaves(kind: str, url: str):
    async with client_of(over(kind, url)) as client:
        heard: list[dict[str, Any]] = []
        ready: asyncio.Queue[Any] = asyncio.Queue()
        listens = client.listen(CHANGES, on_message=heard.append, on_ready=ready.put_nowait)
        listener = asyncio.create_task(listens)
        async with asyncio.timeout(10):
            assert (await ready.get())["notifications"] == CHANGES
        for _ in range(2):
            await client.call_tool("change", {}, deadline=soon())
        await until(lambda: len(heard) == 2)
        assert {one["method"] for one in heard} == {CHANGED}
        listener.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listener
        await client.call_tool("change", {}, deadline=soon())
        assert len(heard) == 2


async def test_a_legacy_server_has_no_subscriptions(url: str):
    async with client_of(over("http", url), era="legacy") as client:
        with pytest.raises(UpstreamRefused, match="legacy"):
            await client.listen(CHANGES, on_message=lambda _: None)


async def modern(peer: Peer) -> None:
    """Answer everything but a subscription, which is the caller's to play."""
    while (request := await peer.request()).json["method"] != "subscriptions/listen":
        await peer.send(rpc(request, DISCOVERED if request.json["method"] == "server/discover" else {}))
    await peer.send(STREAM + event(acknowledged(request.json["id"])))


def acknowledged(id_: int) -> bytes:
    meta = b'"_meta":{"io.modelcontextprotocol/subscriptionId":%d}' % id_
    return b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{%s}}' % meta


async def test_streams_that_last_take_no_calls_place(url: str):
    async def script(peer: Peer) -> None:
        await modern(peer)
        await peer.gone()

    async with (
        serving(script) as server,
        client_of(HttpTransport(server.url, limits=Limits(connections=1, queue=0))) as client,
    ):
        ready: asyncio.Queue[Any] = asyncio.Queue()
        listeners = [
            asyncio.create_task(client.listen({}, on_message=print, on_ready=ready.put_nowait)) for _ in range(3)
        ]
        async with asyncio.timeout(10):
            for _ in listeners:
                await ready.get()
        await client.call_tool("echo", {}, deadline=soon())
        for listener in listeners:
            listener.cancel()
        await asyncio.wait(listeners)
        await client.call_tool("echo", {}, deadline=soon())


async def test_the_session_stream_of_a_legacy_server_takes_no_calls_place():
    async def script(peer: Peer) -> None:
        while (request := await peer.request()).method == "POST":
            await peer.send(rpc(request) if "id" in request.json else http(status=202))
        await peer.send(STREAM)
        await peer.gone()

    async with serving(script) as server:
        transport = HttpTransport(server.url, limits=Limits(connections=1, queue=0))
        listener = asyncio.create_task(transport.listen(on_message=print))
        await until(lambda: len(server.requests) == 1)
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await transport.request(ping, deadline=soon()))["id"] == 1
        listener.cancel()
        await asyncio.wait([listener])
        await transport.close()
        assert transport.open_connections == 0


async def test_a_quiet_stream_lives_by_its_comments_and_dies_without_them():
    comments = 12

    async def script(peer: Peer) -> None:
        await modern(peer)
        for _ in range(comments):
            await asyncio.sleep(0.05)
            await peer.send(chunk(b": still here\n\n"))
        await peer.gone()

    # Comments for longer than either limit, then nothing at all.
    limits = Limits(idle_read=0.2, stream_silence=0.3)
    async with serving(script) as server, client_of(HttpTransport(server.url, limits=limits)) as client:
        began = asyncio.get_running_loop().time()
        with pytest.raises(UpstreamDied, match=r"not a byte for 0\.3 s"):
            async with asyncio.timeout(10):
                await client.listen({}, on_message=lambda _: None)
        assert asyncio.get_running_loop().time() - began >= comments * 0.05


async def test_a_server_that_never_begins_its_stream_is_given_up():
    async def script(peer: Peer) -> None:
        while (request := await peer.request()).json["method"] != "subscriptions/listen":
            await peer.send(rpc(request, DISCOVERED))
        await peer.gone()

    limits = Limits(stream_silence=0.2)
    async with serving(script) as server, client_of(HttpTransport(server.url, limits=limits)) as client:
        with pytest.raises(UpstreamDied, match="not a byte"):
            async with asyncio.timeout(10):
                await client.listen({}, on_message=lambda _: None)


async def test_a_subscription_ends_when_the_server_ends_it_and_breaks_when_it_is_cut():
    async def script(peer: Peer) -> None:
        await modern(peer)
        id_ = peer.requests[-1].json["id"]
        if len(peer.requests) == 2:
            await peer.send(event(b'{"jsonrpc":"2.0","id":%d,"result":{"resultType":"complete"}}' % id_))
            await peer.gone()

    async with serving(script) as server, client_of(HttpTransport(server.url)) as client:
        await client.listen({}, on_message=lambda _: None)
        with pytest.raises(UpstreamDied):
            await client.listen({}, on_message=lambda _: None)


async def test_a_child_that_dies_ends_its_subscriptions(url: str):
    wire = over("stdio", url)
    assert isinstance(wire, StdioTransport)
    async with client_of(wire) as client:
        ready = asyncio.Event()
        listens = client.listen(CHANGES, on_message=lambda _: None, on_ready=lambda _: ready.set())
        listener = asyncio.create_task(listens)
        await ready.wait()
        await wire.close()
        with pytest.raises(UpstreamDied):
            await listener


async def test_a_flood_of_questions_is_answered_only_so_far():
    asked = 2000

    async def script(peer: Peer) -> None:
        request = await peer.request()
        if "method" not in request.json:
            await peer.gone()  # It never says that it took an answer.
        elif request.json["method"] != "initialize":
            await peer.send(http(status=202))
            request = await peer.request()
            await peer.send(STREAM)
            for number in range(asked):
                await peer.send(event(b'{"jsonrpc":"2.0","id":"q%d","method":"ping"}' % number))
            await peer.send(event(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % request.json["id"]))
        else:
            await peer.send(rpc(request, HELLO))
            await script(peer)

    async with serving(script) as server, client_of(HttpTransport(server.url), era="legacy") as client:
        await client.call_tool("echo", {}, deadline=soon())
        assert len(asyncio.all_tasks()) < asked / 2

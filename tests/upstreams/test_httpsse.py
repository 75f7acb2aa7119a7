"""The old HTTP+SSE, against the SDK's own server and against ones that misbehave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from mcp.server import Server
from mcp.server.sse import SseServerTransport
from starlette.applications import Starlette
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response
from starlette.routing import Mount, Route

from tests.upstreams.children.asker import asker
from tests.upstreams.children.oracle import oracle
from tests.upstreams.faults import STREAM, Peer, chunk, http, serving
from tests.upstreams.listening import listening
from tests.waiting import soon, until
from weft.errors import (
    DeadlineExceeded,
    UpstreamAuth,
    UpstreamDied,
    UpstreamProtocolError,
    UpstreamUnavailable,
    WeftError,
)
from weft.upstreams.client import McpClient
from weft.upstreams.httpsse import SseTransport
from weft.upstreams.httpwire import Limits
from weft.upstreams.results import value_of


def over_sse(server: Server[Any]) -> Starlette:
    wire = SseServerTransport("/messages/")

    async def stream(request: StarletteRequest) -> Response:
        sending: Any = request._send  # pyright: ignore[reportPrivateUsage] - the SDK's own documentation does so
        async with wire.connect_sse(request.scope, request.receive, sending) as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return Response()

    return Starlette(routes=[Route("/sse", stream), Mount("/messages/", app=wire.handle_post_message)])


@pytest.fixture(scope="module", name="url")
def oracle_url() -> Generator[str]:
    with listening(over_sse(oracle())) as port:
        yield f"http://127.0.0.1:{port}/sse"


@pytest.fixture(scope="module")
def asker_url() -> Generator[str]:
    with listening(over_sse(asker())) as port:
        yield f"http://127.0.0.1:{port}/sse"


@asynccontextmanager
async def client_of(url: str, **options: Any) -> AsyncGenerator[McpClient]:
    wire = SseTransport(url)
    given: dict[str, Any] = {"era": "legacy", **options}
    client = McpClient(wire, server="old", **given)
    await client.connect(soon())
    yield client
    await client.close()
    assert wire.open_connections == 0
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})


@pytest.mark.parametrize("era", ["legacy", "modern", None])
async def test_tools_are_listed_and_called(url: str, era: Any):
    async with client_of(url, era=era) as client:
        tools = await client.list_tools(deadline=soon())
        assert [tool["name"] for tool in tools] == ["echo", "steps", "wait", "cancelled", "fail", "regional"]
        results = await asyncio.gather(*(client.call_tool("echo", {"n": n}, deadline=soon()) for n in range(10)))
        assert [value_of(result, tool="echo") for result in results] == [{"n": n} for n in range(10)]


async def test_progress_reaches_its_own_call(url: str):
    async with client_of(url) as client:
        heard: dict[str, list[Any]] = {"ann": [], "bob": []}
        calls = (
            client.call_tool("steps", {"who": who}, deadline=soon(), on_progress=own.append)
            for who, own in heard.items()
        )
        await asyncio.gather(*calls)
        for who, own in heard.items():
            assert [one["message"] for one in own] == [f"{who} {step}" for step in (1, 2, 3)]


async def test_cancelling_a_call_reaches_its_handler(url: str):
    async with client_of(url) as client:
        begun = asyncio.Event()
        call = client.call_tool("wait", {"who": "sse"}, deadline=soon(), on_progress=lambda _: begun.set())
        waiting = asyncio.create_task(call)
        await begun.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        async with asyncio.timeout(5):
            while "sse" not in str(await client.call_tool("cancelled", {}, deadline=soon())):
                pass


async def test_the_server_may_ask(asker_url: str):
    async def answer(question: dict[str, Any]) -> dict[str, Any]:
        return {"result": {"action": "accept", "content": {"answer": question["params"]["message"]}}}

    async with client_of(asker_url, offers={"elicitation": {"form": {}}}, on_request=answer) as client:
        result = await client.call_tool("ask", {"who": "ann"}, deadline=soon())
        assert "Who is ann?" in str(result)


async def test_subscribers_of_a_modern_server_are_told(asker_url: str):
    async with client_of(asker_url, era="modern") as client:
        heard: list[Any] = []
        ready = asyncio.Event()
        listens = client.listen({"toolsListChanged": True}, on_message=heard.append, on_ready=lambda _: ready.set())
        listener = asyncio.create_task(listens)
        await ready.wait()
        await client.call_tool("change", {}, deadline=soon())
        await until(lambda: len(heard) == 1)
        listener.cancel()
        await asyncio.wait([listener])


@dataclass
class OldServer:
    """A stream that begins as told, and a place to post to that answers as told."""

    endpoint: bytes = b"event: endpoint\ndata: /post\n\n"
    posted: Callable[[OldServer, Any], bytes | Awaitable[bytes]] = lambda server, message: http(status=202)
    stream: Peer | None = None
    got: list[Any] = field(default_factory=list[Any])
    cut: asyncio.Event = field(default_factory=asyncio.Event)

    async def script(self, peer: Peer) -> None:
        while (request := await peer.request()).method == "POST":
            assert request.path.startswith("/post")
            self.got.append(request.json)
            given = self.posted(self, request.json)
            await peer.send(given if isinstance(given, bytes) else await given)
        self.stream = peer
        await peer.send(STREAM + (chunk(self.endpoint) if self.endpoint else b""))
        await self.cut.wait()

    async def say(self, message: Any) -> None:
        assert self.stream is not None
        data = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        await self.stream.send(chunk(b"event: message\ndata: " + data + b"\n\n"))


def ask(wire: SseTransport, *, within: float = 10.0, method: str = "tools/call") -> asyncio.Task[dict[str, Any]]:
    message = {"jsonrpc": "2.0", "id": "mine", "method": method}
    return asyncio.create_task(wire.request(message, deadline=soon(within)))


@asynccontextmanager
async def session(old: OldServer, **options: Any) -> AsyncGenerator[SseTransport]:
    async with serving(old.script) as server:
        wire = SseTransport(server.url, name="old", **options)
        await wire.start()
        yield wire
        await wire.close()
        assert wire.open_connections == 0


@pytest.mark.parametrize(
    "place",
    [
        b"http://elsewhere.example/post",
        b"//elsewhere.example/post",
        b"https://127.0.0.1/post",
        b"http://127.0.0.1:1/post",
        b"http://weft@127.0.0.1/post",
        b"file:///etc/passwd",
        b"/post with a space",
        b"/p\xc3\xb6st",
    ],
)
async def test_a_place_on_another_origin_is_refused(place: bytes):
    old = OldServer(endpoint=b"event: endpoint\ndata: " + place + b"\n\n")
    async with serving(old.script) as server:
        wire = SseTransport(server.url, name="old")
        with pytest.raises(UpstreamProtocolError, match=r"its stream names"):
            await wire.start()
        assert wire.open_connections == 0


async def test_a_stream_that_does_not_say_where_to_post_is_given_up():
    async with serving(OldServer(endpoint=b": hello\n\n").script) as server:
        wire = SseTransport(server.url, limits=Limits(connect=0.2))
        with pytest.raises(UpstreamUnavailable, match="did not say where to post"):
            await wire.start()
        assert wire.open_connections == 0
        with pytest.raises(UpstreamUnavailable):
            await ask(wire)


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [
        (http(b"{}"), UpstreamProtocolError, "application/json"),
        (http(b"no", status=404, kind="text/plain"), UpstreamProtocolError, "status 404"),
        (http(b"no", status=401, kind="text/plain"), UpstreamAuth, "status 401"),
        (http(b"no", status=503, kind="text/plain"), UpstreamUnavailable, "status 503"),
        (STREAM + b"0\r\n\r\n", UpstreamDied, "stream of events ended"),
        (b"", UpstreamDied, "closed the connection"),
    ],
)
async def test_what_is_no_stream_is_told(answer: bytes, error: type[WeftError], reason: str):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer)

    async with serving(script) as server:
        with pytest.raises(error, match=reason):
            await SseTransport(server.url).start()


async def test_a_stream_that_is_cut_fails_what_is_in_flight_and_is_told_once():
    old, ends = OldServer(), list[WeftError]()
    async with session(old, on_end=ends.append) as wire:
        calls = [ask(wire), ask(wire)]
        await until(lambda: len(old.got) == 2)
        old.cut.set()
        await asyncio.wait(calls)
        errors = [call.exception() for call in calls]
        assert {type(error) for error in errors} == {UpstreamDied}
        assert errors[0] is not errors[1]
        with pytest.raises(UpstreamUnavailable):
            await ask(wire)
        assert len(ends) == 1
    assert len(ends) == 1


async def test_a_server_that_forgot_the_session_ends_it():
    ends = list[WeftError]()
    old = OldServer(posted=lambda server, message: http(b"Could not find session", status=404, kind="text/plain"))
    async with session(old, on_end=ends.append) as wire:
        with pytest.raises(UpstreamUnavailable, match="does not know the session") as caught:
            await ask(wire)
        assert caught.value.retryable == "yes"
        assert len(ends) == 1


async def test_an_answer_may_come_before_the_post_is_acknowledged():
    async def first_the_answer(server: OldServer, message: Any) -> bytes:
        await server.say({"id": message["id"], "result": {"n": 1}})
        await asyncio.Event().wait()
        return b""

    async with session(OldServer(posted=first_the_answer)) as wire:
        answer = await ask(wire)
        assert (answer["id"], answer["result"]) == ("mine", {"n": 1})


async def test_what_is_no_message_or_nobodys_answer_is_skipped():
    async def noise(server: OldServer, message: Any) -> bytes:
        noises: list[Any] = [b"not json", b"[]", {"id": 99, "result": {}}, {"id": str(message["id"]), "result": {}}]
        for said in noises:
            await server.say(said)
        await server.say({"id": message["id"], "result": {"n": 2}})
        await server.say({"id": message["id"], "result": {"n": 3}})
        return http(status=202)

    async with session(OldServer(posted=noise)) as wire:
        assert (await ask(wire))["result"] == {"n": 2}
        await until(lambda: wire.skipped == 5)


async def test_a_late_server_is_told_that_nobody_waits():
    old = OldServer()
    async with session(old) as wire:
        with pytest.raises(DeadlineExceeded):
            await ask(wire, within=0.1)
        await until(lambda: len(old.got) == 2)
        assert old.got[1]["method"] == "notifications/cancelled"
        assert old.got[1]["params"]["requestId"] == old.got[0]["id"]


async def test_a_silent_server_is_asked_for_a_sign_of_life_and_lives_by_it():
    async def pong(server: OldServer, message: Any) -> bytes:
        await server.say({"id": message["id"], "result": {}})
        return http(status=202)

    ends = list[WeftError]()
    old = OldServer(posted=pong)
    async with session(old, limits=Limits(stream_silence=0.3), on_end=ends.append):
        await until(lambda: len(old.got) >= 8)
        assert {message["method"] for message in old.got} == {"ping"}
        assert ends == []


async def test_a_server_that_gives_no_sign_of_life_is_dead():
    ends = list[WeftError]()
    async with session(OldServer(), limits=Limits(stream_silence=0.3), on_end=ends.append) as wire:
        call = ask(wire)
        await asyncio.wait([call])
        assert isinstance(call.exception(), UpstreamDied)
        assert "not a byte" in str(ends[0])

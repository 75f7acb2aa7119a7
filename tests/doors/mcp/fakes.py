"""A small gateway that knows nothing but what these tests ask of it, and the door in front of it on a real port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import uvicorn

from weft.doors.asgi import PRINCIPAL
from weft.doors.mcp import Event, McpDoor
from weft.errors import InputError, LimitExceeded, NotFound, UpstreamRefused, UpstreamUnavailable
from weft.gateway.quotas import Quota, QuotaExceeded
from weft.gateway.rounds import Answers
from weft.ports import ANONYMOUS, Caller, Principal

ALL = object()
EVENTS = "application/json, text/event-stream"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
}
HELLO: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "tests", "version": "1"},
}
QUESTION = {
    "method": "elicitation/create",
    "params": {"message": "name?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


@dataclass(frozen=True)
class Happened:
    """An event of the gateway."""

    method: str
    params: dict[str, Any] = field(default_factory=dict[str, Any])
    view: object = ALL


def tool(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def said(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


class FakeGateway:
    """Tools by name, each an async function of the arguments and the caller."""

    info: Mapping[str, Any] = {"name": "weft", "version": "0"}

    def __init__(self) -> None:
        self.listeners: list[Callable[[Event], object]] = []
        self.followed: list[str] = []
        self.seen: list[Caller] = []
        self.wanted: list[bool] = []
        self.answers: list[Answers | None] = []
        self.began = asyncio.Event()
        self.stopped = asyncio.Event()
        self.may_end = asyncio.Event()
        self.offers: dict[str, Any] = {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "logging": {},
        }

    async def ready(self) -> None:
        pass

    def views(self) -> list[str]:
        return ["research"]

    def capabilities(self, view: str | None) -> Mapping[str, Any]:
        return self.offers

    async def instructions(self, view: str | None, principal: Principal) -> str | None:
        return "be kind" if view is None else None

    def mirrored(self, view: str | None, tool: str, principal: Principal) -> Mapping[tuple[str, ...], str]:
        return {("region",): "Mcp-Param-Region", ("deep", "n"): "Mcp-Param-N"} if tool == "regional" else {}

    def subscribe(self, listener: Callable[[Event], object]) -> Callable[[], None]:
        self.listeners.append(listener)
        return self.listeners.clear

    def happen(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)

    async def handle(
        self,
        view: str | None,
        method: str,
        params: dict[str, Any],
        caller: Caller,
        *,
        answers: Answers | None = None,
    ) -> dict[str, Any]:
        self.seen.append(caller)
        self.wanted.append(caller.wants_progress)
        self.answers.append(answers)
        if method == "tools/list":
            if params.get("cursor"):
                raise InputError("the cursor is not one of ours")
            return {"tools": [tool("echo"), tool("regional", region={"type": "string", "x-mcp-header": "Region"})]}
        if method == "resources/subscribe":
            if params["uri"].startswith("lost:"):
                raise NotFound("Resource", params["uri"])
            self.followed.append(params["uri"])
            return {}
        if method == "resources/unsubscribe":
            self.followed.remove(params["uri"])
            return {}
        if method == "resources/read":
            if params["uri"].startswith("down:"):
                raise UpstreamUnavailable("files", "refused")
            raise NotFound("Resource", params["uri"])
        play = getattr(self, f"tool_{params.get('name')}", None)
        if play is None:
            raise NotFound("Tool", str(params.get("name")), ["echo"])
        return await play(params.get("arguments") or {}, caller)

    async def tool_echo(self, arguments: dict[str, Any], caller: Caller) -> dict[str, Any]:
        return {**said(str(arguments.get("text", ""))), "_meta": {"mine": 1}}

    tool_regional = tool_echo

    async def tool_slow(self, arguments: dict[str, Any], caller: Caller) -> dict[str, Any]:
        self.began.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        return said("at last")

    async def tool_busy(self, arguments: dict[str, Any], caller: Caller) -> dict[str, Any]:
        for step in arguments.get("steps", [1, 2, 2, 1, 3]):
            caller.progress({"progress": step, "total": 3})
        for level in ("debug", "info", "error"):
            caller.log({"level": level, "data": level})
        return said("done")

    async def tool_curious(self, arguments: dict[str, Any], caller: Caller) -> dict[str, Any]:
        answers = await caller.ask({"who": QUESTION})
        return said(str(answers["who"]["content"]))

    async def tool_modest(self, arguments: dict[str, Any], caller: Caller) -> dict[str, Any]:
        if (answers := self.answers[-1]) is None:
            return {"resultType": "input_required", "inputRequests": {"who": QUESTION}, "requestState": "signed"}
        return said(f"{answers.responses['who']['content']['name']} {answers.state}")

    async def tool_broken(self, arguments: dict[str, Any], caller: Caller) -> dict[str, Any]:
        raise RuntimeError("the secret is 1234")

    async def tool_crowded(self, arguments: dict[str, Any], caller: Caller) -> dict[str, Any]:
        raise LimitExceeded("InFlight", 64, "too many calls at once")

    async def tool_rationed(self, arguments: dict[str, Any], caller: Caller) -> dict[str, Any]:
        raise QuotaExceeded(Quota(name="few", calls=1, per=60.0), 12.4)

    async def tool_refused(self, arguments: dict[str, Any], caller: Caller) -> dict[str, Any]:
        raise UpstreamRefused("up", "tools/call", {"code": -32021, "message": "needs sampling", "data": {"x": 1}})

    async def tool_huge(self, arguments: dict[str, Any], caller: Caller) -> dict[str, Any]:
        return {**said(""), "structuredContent": {"n": 2**70}}


@dataclass
class Place:
    """A door on a port of this machine."""

    url: str
    gateway: FakeGateway
    door: McpDoor
    http: httpx2.AsyncClient

    async def modern(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        headers: dict[str, str] | None = None,
        meta: dict[str, Any] | None = None,
        view: str = "",
    ) -> httpx2.Response:
        """Post a modern request with all that it needs."""
        params = {**(params or {}), "_meta": {**META, **(meta or {})}}
        named = params.get("name", params.get("uri"))
        own = {
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
            **({} if named is None else {"Mcp-Name": named}),
        }
        own.update(headers or {})
        return await self.post({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}, own, view=view)

    async def legacy(
        self, session: str | None, message: dict[str, Any], headers: dict[str, str] | None = None
    ) -> httpx2.Response:
        """Post a message of a legacy session."""
        own = {} if session is None else {"Mcp-Session-Id": session}
        return await self.post({"jsonrpc": "2.0", **message}, {**own, **(headers or {})})

    async def session(self, headers: dict[str, str] | None = None, **hello: Any) -> str:
        """Shake hands, and return the id of the session."""
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {**HELLO, **hello}}
        answer = await self.post(message, headers)
        assert answer.status_code == 200, answer.text
        return answer.headers["mcp-session-id"]

    async def post(self, message: Any, headers: dict[str, str] | None = None, *, view: str = "") -> httpx2.Response:
        """Post a message, or bytes as they are."""
        own = {"Accept": EVENTS, "Content-Type": "application/json", **(headers or {})}
        if isinstance(message, bytes):
            return await self.http.post(self.url + view, content=message, headers=own)
        return await self.http.post(self.url + view, json=message, headers=own)


@asynccontextmanager
async def serving(**options: Any) -> AsyncGenerator[Place]:
    """Serve a door in front of a fake gateway; `X-Principal` says who a client is."""
    gateway = FakeGateway()
    door = McpDoor(gateway, **options)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        who = dict(scope["headers"]).get(b"x-principal")
        principal = ANONYMOUS if who is None else Principal(subject=who.decode(), method="key")
        await door({**scope, "state": {PRINCIPAL: principal}}, receive, send)

    config = uvicorn.Config(app, port=0, log_level="error", ws="none", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    sock = config.bind_socket()
    sock.listen()
    task = asyncio.create_task(server.serve(sockets=[sock]))
    url = f"http://127.0.0.1:{sock.getsockname()[1]}/mcp"
    try:
        async with httpx2.AsyncClient(verify=False, timeout=20) as http:
            yield Place(url, gateway, door, http)
    finally:
        door.close()
        server.should_exit = True
        await task
        sock.close()

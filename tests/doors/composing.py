"""A gateway whose compositions are asked for over HTTP, with a real server behind it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.app.served import House, house
from tests.app.upstream import Upstream
from tests.doors.serving import Answer, Client
from weft.doors.asgi import Receive
from weft.doors.composition_routes import BASE
from weft.doors.listener import Listener, bind
from weft.gateway.keys import KeyFile, make_key

STRICT = {"identity": {"anonymous": "deny", "allowSelfAsserted": False, "keyFile": "keys.json"}}


def step(id: str, tool: str | Mapping[str, Any] = "echo", **more: Any) -> dict[str, Any]:
    """Return a step that calls a tool."""
    return {"id": id, "tool": tool, **more}


def composition(*steps: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a workflow document."""
    return {"name": "two", "description": "two steps", "steps": list(steps), **more}


ECHO = composition(
    step("first", parameters={"text": "{{input.text}}"}),
    step("second", parameters={"text": "{{first.arguments.text}}"}),
    inputSchema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    output={"said": "{{second.arguments.text}}"},
)
WAITS = composition(step("first"), step("held", "wait", depends_on=["first"]))


def template(id: str = "mine", document: Mapping[str, Any] = ECHO, **more: Any) -> dict[str, Any]:
    """Return a template."""
    return {"id": id, "name": "Mine", "composition": document, "metadata": {"category": "automation"}, **more}


@dataclass
class Api:
    """The API at a gateway, as one caller meets it."""

    gate: House
    up: Upstream
    key: str | None = None

    def as_holder_of(self, key: str) -> Api:
        """Return the same for somebody with a key."""
        return Api(self.gate, self.up, key)

    async def ask(self, method: str, path: str, body: Any = None, **headers: Any) -> Answer:
        """Return the answer to one request; bytes are sent as they are, anything else as JSON."""
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        return await self.gate.ask(method, f"{BASE}/{path}", body=sent, **self.headers(body, **headers))

    def headers(self, body: Any = None, **headers: Any) -> dict[str, Any]:
        """Return the headers of a request."""
        kind = {} if body is None else {"content-type": "application/json"}
        return {**kind, **({} if self.key is None else {"x-api-key": self.key}), **headers}

    async def get(self, path: str, **headers: Any) -> Any:
        """Return what is at a path."""
        answer = await self.ask("GET", path, **headers)
        assert answer.status == 200, answer
        return answer.json

    async def post(self, path: str, body: Any = None, *, status: int = 200) -> Any:
        """Return what a request that goes well is answered."""
        answer = await self.ask("POST", path, body)
        assert answer.status == status, answer
        return answer.json

    async def begun(self, document: Mapping[str, Any] = WAITS) -> str:
        """Begin a run that nobody waits for, and return its id."""
        return (await self.post("execute", {"composition": document, "options": {"wait": False}}, status=202))["run_id"]

    @contextlib.asynccontextmanager
    async def following(self, run_id: str, **headers: Any) -> AsyncGenerator[EventReader]:
        """Follow a run."""
        async with self.gate.connected() as client:
            client.request("GET", f"{BASE}/runs/{run_id}/events", **self.headers(**headers))
            head = (await client.reader.readuntil(b"\r\n\r\n")).decode()
            assert head.startswith("HTTP/1.1 200"), head
            yield EventReader(client, head)


class EventReader:
    """A stream of events, read one by one."""

    def __init__(self, client: Client, head: str) -> None:
        self.head = head.lower()
        self._client = client
        self._left = b""

    async def next(self) -> dict[str, str]:
        """Return the fields of the next event; a comment has the empty name. Nothing, when there is no more."""
        while b"\n\n" not in self._left:
            size = int(await self._client.reader.readline(), 16)
            self._left += await self._client.reader.readexactly(size)
            await self._client.reader.readexactly(2)
            if not size:
                return {}
        one, _, self._left = self._left.partition(b"\n\n")
        parts = [line.partition(": ") for line in one.decode().split("\n")]
        return {name: value for name, _, value in parts}

    async def rest(self) -> list[dict[str, str]]:
        """Return all events that are left, without the comments."""
        found: list[dict[str, str]] = []
        while event := await self.next():
            found += [event] if "event" in event else []
        return found


def key_of(folder: Path, tenant: str, agent: str = "agent") -> str:
    """Make a key for an agent of a tenant."""
    key, text = make_key(agent=agent, versions=["1.0.0"], tenant=tenant)
    KeyFile(folder / "keys.json").add(key)
    return text


class Willing(Upstream):
    """A server with `echo`, `wait` and `large`, and `refuse`, which says no."""

    def __init__(self) -> None:
        super().__init__("echo", "wait", "large", "refuse")

    async def _result(self, method: str, params: dict[str, Any], receive: Receive) -> dict[str, Any] | None:
        if method == "tools/call" and params["name"] == "refuse":
            self.calls += 1
            return {"content": [{"type": "text", "text": "no"}], "isError": True}
        return await super()._result(method, params, receive)


@contextlib.asynccontextmanager
async def willing() -> AsyncGenerator[Willing]:
    """Serve one at a free port."""
    made = Willing()
    listener = Listener(made, sockets=[bind("127.0.0.1", 0)])
    await listener.start()
    made.url = f"http://127.0.0.1:{listener.address[1]}/mcp"
    try:
        yield made
    finally:
        made.let_go.set()
        await listener.drain(0)


@contextlib.asynccontextmanager
async def api(folder: Path, config: Mapping[str, Any] | None = None, **given: Any) -> AsyncGenerator[Api]:
    """Run a gateway before such a server."""
    async with (
        willing() as up,
        house(folder, {"servers": {"up": {"url": up.url}}, **(config or {})}, **given) as gate,
    ):
        await gate.running.gateway.ready()
        yield Api(gate, up)

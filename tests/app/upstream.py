"""A modern MCP server over HTTP, in the test's own loop, that keeps all that ever reached it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from time import monotonic
from typing import Any

import orjson

from weft.doors.asgi import Receive, Scope, Send, answer, answer_json, read_body
from weft.doors.listener import Listener, bind

DISCOVERED: dict[str, Any] = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
ANYTHING: dict[str, Any] = {"type": "object"}


class Upstream:
    """The server: `echo` says what it was sent, `wait` waits until it is let go, `large` says much."""

    def __init__(self, *tools: str) -> None:
        self.tools = list(tools) or ["echo", "wait", "large"]
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.targets: list[bytes] = []
        self.waiting = 0
        self.most_waiting = 0
        self.calls = 0
        self.left: list[float] = []
        """When clients went away from a call that waits."""
        self.let_go = asyncio.Event()
        self.url = ""

    @property
    def traffic(self) -> bytes:
        """All that ever came."""
        return b"\n".join([*self.targets, *self.heads, *self.bodies])

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The calls that came."""
        return [message for body in self.bodies if (message := orjson.loads(body))["method"] == "tools/call"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] != "POST":
            await answer(send, 405, b"")
            return
        body = await read_body(scope, receive, limit=1 << 24)
        self.targets.append(scope["raw_path"] + b"?" + scope["query_string"])
        self.heads.append(b"\n".join(name + b": " + value for name, value in scope["headers"]))
        self.bodies.append(body)
        message = orjson.loads(body)
        if message["method"] == "subscriptions/listen":
            await answer_json(send, 404, {"jsonrpc": "2.0", "id": message["id"], "error": _unknown(message["method"])})
            return
        result = await self._result(message["method"], message["params"], receive)
        if result is not None:
            await answer_json(send, 200, {"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def _result(self, method: str, params: dict[str, Any], receive: Receive) -> dict[str, Any] | None:
        if method == "server/discover":
            return DISCOVERED
        if method == "tools/list":
            return {"tools": [{"name": name, "inputSchema": ANYTHING} for name in self.tools]}
        self.calls += 1
        if params["name"] == "wait" and not await self._waited(receive):
            return None
        if params["name"] == "large":
            return {"content": [{"type": "text", "text": "x" * params["arguments"]["size"]}]}
        told = {"arguments": params["arguments"], "meta": params["_meta"]}
        return {"content": [{"type": "text", "text": "said"}], "structuredContent": told}

    async def _waited(self, receive: Receive) -> bool:
        """Wait until let go; return whether the client is still there."""
        self.waiting += 1
        self.most_waiting = max(self.waiting, self.most_waiting)
        gone = asyncio.ensure_future(receive())
        let_go = asyncio.ensure_future(self.let_go.wait())
        try:
            await asyncio.wait({gone, let_go}, return_when=asyncio.FIRST_COMPLETED)
            if let_go.done():
                return True
            self.left.append(monotonic())
            return False
        finally:
            self.waiting -= 1
            for task in (gone, let_go):
                task.cancel()
            await asyncio.gather(gone, let_go, return_exceptions=True)


def _unknown(method: str) -> dict[str, Any]:
    return {"code": -32601, "message": f"Method not found: {method}"}


@contextlib.asynccontextmanager
async def upstream(*tools: str) -> AsyncGenerator[Upstream]:
    """Serve one at a free port."""
    made = Upstream(*tools)
    listener = Listener(made, sockets=[bind("127.0.0.1", 0)])
    await listener.start()
    made.url = f"http://127.0.0.1:{listener.address[1]}/mcp"
    try:
        yield made
    finally:
        made.let_go.set()
        await listener.drain(0)

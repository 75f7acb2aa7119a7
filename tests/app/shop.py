"""A gateway that keeps state: orders as sagas, bookings with dead letters, payments behind a circuit breaker."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, TypeVar

import orjson

from tests.app.served import House, Place, house, registry
from tests.app.upstream import Upstream
from tests.doors.serving import Answer
from weft.doors.asgi import Receive
from weft.doors.listener import Listener, bind

TOOLS = ("reserve", "release", "charge", "refund", "ship", "book", "failed_bookings", "pay")
SQLITE = {"orders": {"type": "sqlite", "path": "./orders.db", "timeout": "5s"}}


S = TypeVar("S", bound="Shop")


class Shop(Upstream):
    """A server whose tools work, but for those that are to refuse."""

    def __init__(self) -> None:
        super().__init__(*TOOLS)
        self.refuses: set[str] = set()
        self.called: list[str] = []

    async def _result(self, method: str, params: dict[str, Any], receive: Receive) -> dict[str, Any] | None:
        if method == "tools/call":
            self.called.append(params["name"])
            if params["name"] in self.refuses:
                return {"content": [{"type": "text", "text": f"no {params['name']} today"}], "isError": True}
        return await super()._result(method, params, receive)


@contextlib.asynccontextmanager
async def shop() -> AsyncGenerator[Shop]:
    """Serve one at a free port."""
    async with opened(Shop()) as made:
        yield made


@contextlib.asynccontextmanager
async def opened(made: S) -> AsyncGenerator[S]:
    """Serve this one at a free port."""
    listener = Listener(made, sockets=[bind("127.0.0.1", 0)])
    await listener.start()
    made.url = f"http://127.0.0.1:{listener.address[1]}/mcp"
    try:
        yield made
    finally:
        await listener.drain(0)


def tool(name: str) -> dict[str, Any]:
    """Return the operation that calls a tool."""
    return {"tool": {"name": name}}


def compositions(*, circuit_store: str | None = None) -> dict[str, Any]:
    """Return the registry."""
    steps = [
        {"id": "reserve", "action": tool("reserve"), "compensate": tool("release")},
        {"id": "charge", "action": tool("charge"), "compensate": tool("refund")},
        {"id": "ship", "action": tool("ship")},
    ]
    rules = {"failureThreshold": 2, "failureWindowSeconds": 60, "resetTimeoutSeconds": 60}
    kept = {} if circuit_store is None else {"store": circuit_store}
    specs: dict[str, Any] = {
        "order": {"saga": {"steps": steps, "store": "orders", "sagaIdPath": "$.id", "maxAttempts": 1}},
        "trip": {"deadLetter": {"inner": tool("book"), "deadLetterTool": "failed_bookings", "store": "orders"}},
        "buy": {"circuitBreaker": {"name": "payments/card", "inner": tool("pay"), **rules, **kept}},
    }
    return registry(*({"name": name, "description": name, "spec": spec} for name, spec in specs.items()))


@contextlib.asynccontextmanager
async def open_shop(
    folder: Path, *, circuit_store: str | None = None, stores: dict[str, Any] | None = None
) -> AsyncGenerator[tuple[Shop, House]]:
    """Run the server, and a gateway before it, in this process."""
    async with shop() as up:
        config = {"servers": {"shop": {"url": up.url}}, "stores": stores or SQLITE}
        async with house(folder, config, compositions(circuit_store=circuit_store)) as gate:
            await gate.has("order", "trip", "buy")
            yield up, gate


async def stuck(up: Shop, gate: House, id: str = "o1") -> None:
    """Let a saga get stuck: what was charged cannot be refunded."""
    up.refuses |= {"ship", "refund"}
    assert (await gate.call("order", {"id": id}))["isError"] is True


async def admin(gate: Place, path: str, *, body: Any = None, post: bool = False) -> Answer:
    """Return what the admin listener answers."""
    posting = post or body is not None
    sent = None if body is None else orjson.dumps(body)
    return await gate.ask("POST" if posting else "GET", path, body=sent, admin=True)

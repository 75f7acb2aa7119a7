"""Tenants at one gateway of two workers, under load, with the same keys at once: nobody gets what is another's (M5)."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from tests.app.served import PATIENCE, Program, message_of, modern, program, registry
from tests.app.shop import tool
from tests.app.upstream import Upstream
from tests.doors.serving import Client
from tests.stores.servers import postgres_server, redis_server
from weft.doors.asgi import Receive
from weft.doors.listener import Listener, bind
from weft.gateway.keys import KeyFile, make_key

KEY = "weft/idempotencyKey"
TENANTS = ("acme", "acme|b", "acme:*")
"""The first one's calls fail, whenever it says so."""
CALLS = 40
"""Of each of a caller's connections."""
STORES: dict[str, Callable[[], dict[str, Any]]] = {
    "sqlite": lambda: {"type": "sqlite", "path": "./state.db", "timeout": "20s"},
    "redis": lambda: {"type": "redis", "url": redis_server().url, "durable": True, "timeout": "20s"},
    "postgres": lambda: {"type": "postgres", "url": postgres_server().url, "timeout": "20s"},
}


class Caller(NamedTuple):
    """Who calls: all that is sent has its name in it, and all that comes back must have."""

    tenant: str
    subject: str
    secret: str

    @property
    def mine(self) -> str:
        return f"{self.tenant}/{self.subject}"


class Echo(Upstream):
    """A server that says what it was sent; `book` never works, and others do not when they are told so."""

    def __init__(self) -> None:
        super().__init__("look", "pay", "book", "file", "reserve", "release")
        self.letters: list[dict[str, Any]] = []
        self.keys: defaultdict[str, set[str]] = defaultdict(set)
        """Whose calls came with each key."""

    async def _result(self, method: str, params: dict[str, Any], receive: Receive) -> dict[str, Any] | None:
        if method == "tools/call":
            given = params["arguments"]
            if params["name"] == "file":
                self.letters.append(given)
            elif KEY in params["_meta"]:
                self.keys[params["_meta"][KEY]].add(f"{params['name']} {given['mine']}")
            if params["name"] == "book" or given.get("fails"):
                return {"content": [{"type": "text", "text": f"no {given['mine']}"}], "isError": True}
            await asyncio.sleep(0)
            return {"content": [{"type": "text", "text": "said"}], "structuredContent": given}
        return await super()._result(method, params, receive)


def compositions() -> dict[str, Any]:
    kept: dict[str, Any] = {"store": "s", "keyPaths": ["$.q"]}
    rules = {"failureThreshold": 2, "failureWindowSeconds": 600, "resetTimeoutSeconds": 600, "scope": "tenant"}
    steps = [{"id": "reserve", "action": tool("reserve"), "compensate": tool("release")}]
    specs: dict[str, Any] = {
        "cached": {"cache": {"inner": tool("look"), "ttlSeconds": 0.2, "staleWhileRevalidateSeconds": 0.2, **kept}},
        "paid": {"idempotent": {"inner": tool("pay"), "ttlSeconds": 1, "fingerprintPaths": ["$.q"], **kept}},
        "ordered": {"saga": {"steps": steps, "store": "s", "sagaIdPath": "$.q"}},
        "booked": {"deadLetter": {"inner": tool("book"), "deadLetterTool": "file", "store": "s"}},
        "guarded": {"circuitBreaker": {"name": "look", "inner": tool("look"), "store": "s", **rules}},
    }
    return registry(*({"name": name, "description": name, "spec": spec} for name, spec in specs.items()))


@asynccontextmanager
async def gateway(folder: Path, store: dict[str, Any]) -> AsyncGenerator[tuple[Echo, Program, list[Caller]]]:
    """Run a server, a gateway of two workers before it, and make keys for two callers of each tenant."""
    callers: list[Caller] = []
    for tenant in TENANTS:
        for subject in ("alice", "b|alice"):
            key, secret = make_key(subject=subject, tenant=tenant)
            KeyFile(folder / "keys.json").add(key)
            callers.append(Caller(tenant, subject, secret))
    (folder / "registry.json").write_bytes(orjson.dumps(compositions()))
    up = Echo()
    listener = Listener(up, sockets=[bind("127.0.0.1", 0)])
    await listener.start()
    config: dict[str, Any] = {
        "servers": {"shop": {"url": f"http://127.0.0.1:{listener.address[1]}/mcp"}},
        "stores": {"s": {**store, "prefix": folder.name} if store["type"] == "redis" else store},
        "registry": {"source": "./registry.json"},
        "identity": {"anonymous": "deny", "allowSelfAsserted": False, "keyFile": "keys.json"},
    }
    try:
        async with program(folder, config, "--workers", "2") as gate:
            yield up, gate, callers
    finally:
        await listener.drain(0)


async def ready(client: Client) -> None:
    """Wait until the worker of a connection has its server."""
    async with asyncio.timeout(PATIENCE):
        while True:
            client.request("GET", "/readyz")
            if (await client.answer()).status == 200:
                return
            await asyncio.sleep(0.05)


async def calls(gate: Program, who: Caller, seed: str) -> list[tuple[str, dict[str, Any]]]:
    """Make calls over one connection, which one of the workers has; return what each gave."""
    rng, given = random.Random(seed), list[tuple[str, dict[str, Any]]]()
    async with gate.connected() as client:
        # Two workers on a file, and a machine that does other things: a store may take its 20 seconds.
        client.patience = 120.0
        await ready(client)
        for _ in range(CALLS):
            name = rng.choice(("cached", "paid", "ordered", "booked", "guarded"))
            arguments: dict[str, Any] = {"q": f"q{rng.randrange(3)}", "mine": who.mine}
            if name == "guarded" and who.tenant == TENANTS[0]:
                arguments["fails"] = True
            asked = modern("tools/call", {"name": name, "arguments": arguments}, **{"x-api-key": who.secret})
            client.request("POST", "/mcp", **asked)
            answer = await client.answer()
            assert answer.status == 200, answer.body
            given.append((name, message_of(answer)["result"]))
    return given


@pytest.mark.parametrize("store", STORES)
async def test_m5_under_load_everybody_gets_what_is_its_own_and_no_key_is_two_callers(tmp_path: Path, store: str):
    async with gateway(tmp_path, STORES[store]()) as (up, gate, callers):
        work = {(who, n): calls(gate, who, f"{who.mine}{n}") for who in callers for n in range(2)}
        results = dict(zip(work, await asyncio.gather(*work.values()), strict=True))
    for (who, _), given in results.items():
        others = [orjson.dumps(other.mine) for other in callers if other != who]
        for name, result in given:
            told = orjson.dumps(result)
            assert not any(other in told for other in others), (who.mine, name, result)
            if name == "booked":
                assert result["structuredContent"]["deadLettered"] is True
            elif name == "guarded" and who.tenant == TENANTS[0]:
                assert result["isError"]
            else:
                assert not result.get("isError"), (who.mine, name, result)
                assert result["structuredContent"]["mine"] == who.mine
    assert {key: whose for key, whose in up.keys.items() if len(whose) > 1} == {}
    assert up.letters
    assert all(letter["originalInput"]["mine"].startswith(f"{letter['tenant']}/") for letter in up.letters)

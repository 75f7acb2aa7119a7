"""One gateway in front of four servers of the SDK, and a client of the SDK of either era to meet them through it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pytest
from mcp import Client
from pydantic import RootModel

from scripts.programs import ROOT, gateway
from tests.oracle.upstream import Oracle
from tests.upstreams.listening import listening

Era: TypeAlias = Literal["legacy", "modern"]
UPSTREAMS = ("legacy_http", "modern_http", "legacy_stdio", "modern_stdio")
VERSIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}
PATIENCE = 20.0


class Raw(RootModel[dict[str, Any]]):
    """A result as it stood on the wire."""


def command(name: str) -> dict[str, Any]:
    """Return the entry of a server that the gateway starts itself."""
    era, _, wire = name.partition("_")
    assert wire == "stdio"
    return {"command": [sys.executable, "-m", "tests.oracle.upstream", name], "cwd": str(ROOT), "era": era}


def late_to_listen(app: Any) -> Any:
    """Return an application that takes its time to open a session's own stream: what is said before is lost."""

    async def late(scope: Any, receive: Any, send: Any) -> None:
        if scope.get("method") == "GET":
            await asyncio.sleep(0.2)
        await app(scope, receive, send)

    return late


@pytest.fixture(scope="session")
def door(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Give the URL of the gateway."""
    with ExitStack() as stack:
        servers: dict[str, dict[str, Any]] = {}
        for name in UPSTREAMS:
            era, _, wire = name.partition("_")
            if wire == "http":
                port = stack.enter_context(listening(late_to_listen(Oracle(name).server().streamable_http_app())))
                servers[name] = {"url": f"http://127.0.0.1:{port}/mcp", "era": era}
            else:
                servers[name] = command(name)
        yield stack.enter_context(gateway(servers, folder=tmp_path_factory.mktemp("gateway")))


@pytest.fixture(params=UPSTREAMS)
def upstream(request: pytest.FixtureRequest) -> str:
    """Give the name of a server, with which the names of its tools begin."""
    return request.param


@pytest.fixture(params=["legacy", "modern"])
def era(request: pytest.FixtureRequest) -> Era:
    """Give the era that the client speaks."""
    return request.param


@dataclass
class Heard:
    """What the client was told outside of results."""

    messages: list[Any] = field(default_factory=list[Any])

    async def __call__(self, message: Any) -> None:
        self.messages.append(message)

    def methods(self) -> list[str]:
        """Return the kinds of what was heard."""
        return [message.method for message in self.messages]


@asynccontextmanager
async def connected(target: Any, era: Era, **callbacks: Any) -> AsyncGenerator[Client]:
    """Connect a client of an era; nothing that it asks is answered from a cache."""
    mode = "legacy" if era == "legacy" else VERSIONS["modern"]
    async with Client(target, mode=mode, cache=None, read_timeout_seconds=PATIENCE, **callbacks) as client:
        assert client.protocol_version == VERSIONS[era]
        yield client


@pytest.fixture
async def client(door: str, era: Era) -> AsyncGenerator[Client]:
    """Give a client that cannot be asked anything."""
    connection: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    enough = asyncio.Event()

    async def hold() -> None:
        async with connected(door, era) as client:
            connection.set_result(client)
            await enough.wait()

    # pytest enters and leaves a fixture in different tasks, which the scopes of the SDK's client do not allow.
    held = asyncio.create_task(hold())
    await asyncio.wait([held, connection], return_when=asyncio.FIRST_COMPLETED)
    yield connection.result() if connection.done() else await _failed(held)
    enough.set()
    await held


async def _failed(held: asyncio.Task[None]) -> Client:
    await held
    raise AssertionError("the client ended before it had connected")

"""What the tests of servers and pools share: a client behind the calls, and a pool that leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.upstreams.children.workshop import Workshop
from tests.upstreams.listening import listening
from tests.upstreams.stdio_wires import CHILDREN, children
from tests.waiting import soon, until
from weft.ports import ANONYMOUS, Principal
from weft.upstreams.child import RestartPolicy
from weft.upstreams.pool import Pool
from weft.upstreams.server import Server
from weft.upstreams.spec import ServerSpec

FRAGILE = (sys.executable, "-IS", str(CHILDREN / "fragile.py"))
WORKSHOP = (sys.executable, str(CHILDREN / "workshop.py"))
QUICK = RestartPolicy(first_pause=0.05, longest_pause=0.2, deaths=3, within=30.0, probe_every=0.4)
FORM: dict[str, Any] = {"elicitation": {"form": {}}}


@contextmanager
def open_shop(at: int = 0) -> Generator[str]:
    """Serve a workshop over HTTP, and return its URL once it is up: then all its own files are open."""
    with listening(Workshop().server().streamable_http_app(), port=at) as port:
        with socket.create_connection(("127.0.0.1", port)) as probe:
            probe.sendall(b"GET /nothing HTTP/1.0\r\n\r\n")
            while probe.recv(65536):
                pass
        yield f"http://127.0.0.1:{port}/mcp"


@dataclass(eq=False)
class Person:
    """A client behind calls, with what it can do and what it was told."""

    name: str = "ann"
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    principal: Principal = ANONYMOUS
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])
    log_level: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    wants_progress: bool = False
    relays_input: bool = False
    heard: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    logged: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    asked: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    thinks: asyncio.Event | None = None

    def progress(self, params: dict[str, Any]) -> None:
        """Hear of progress."""
        self.heard.append(params)

    def log(self, params: dict[str, Any]) -> None:
        """Hear a log message."""
        self.logged.append(params)

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Answer with the name, perhaps after some thought."""
        self.asked.append(requests)
        if self.thinks is not None:
            await self.thinks.wait()
        return {key: {"action": "accept", "content": {"name": self.name}} for key in requests}


class Watched:
    """A pool, and what it told."""

    def __init__(self, *specs: ServerSpec, policy: RestartPolicy | None = None) -> None:
        self.changes = 0
        self.events: list[tuple[str, str, dict[str, Any]]] = []
        self.logged: list[str] = []
        self.pool = Pool(specs, on_change=self._change, on_event=self._event, log=self._log, policy=policy)

    def server(self, key: str = "shop") -> Server:
        """Return a server."""
        return self.pool.servers[key]

    async def turns(self, state: str, key: str = "shop") -> None:
        """Wait for a state."""
        await until(lambda: self.server(key).state == state)

    def _change(self) -> None:
        self.changes += 1

    def _event(self, server: Server, method: str, params: dict[str, Any]) -> None:
        self.events.append((server.key, method, params))

    def _log(self, key: str, line: str) -> None:
        self.logged.append(f"{key}: {line}")


@asynccontextmanager
async def nothing_left() -> AsyncGenerator[None]:
    """Check that what happens inside leaves no task, file or process; a server in a thread closes its ends later."""
    tasks, files, processes = asyncio.all_tasks(), open_files(), children()
    yield
    await until(lambda: asyncio.all_tasks() <= {*tasks, asyncio.current_task()})
    await until(lambda: open_files() <= files)
    assert children() <= processes


def open_files() -> int:
    """Return how many files are open."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count


@asynccontextmanager
async def running(*specs: ServerSpec, policy: RestartPolicy | None = None) -> AsyncGenerator[Watched]:
    """Start a pool, wait for its servers, and check that nothing of it is left in the end."""
    async with nothing_left():
        watched = Watched(*specs, policy=policy)
        await watched.pool.start()
        try:
            await watched.pool.settled()
            yield watched
        finally:
            await watched.pool.close()


async def call(server: Server, tool: str, *, caller: Person | None = None, **arguments: Any) -> Any:
    """Call a tool; return its text, or what it says in a structure."""
    params = {"name": tool, "arguments": arguments}
    result = await server.request("tools/call", params, deadline=soon(), caller=caller)
    return result.get("structuredContent") or result["content"][0]["text"]


def has(server: Server, tool: str) -> Callable[[], bool]:
    """Return whether a server is known to have a tool, for `until`."""
    return lambda: server.inventory.tool(tool) is not None

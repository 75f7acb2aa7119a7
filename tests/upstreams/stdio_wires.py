"""What the tests of stdio share: a puppet at the end of a wire, and the proof that nothing is left of it."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.waiting import until
from weft.upstreams.asked import OnRequest
from weft.upstreams.process import Patience
from weft.upstreams.stdio import Exit, StdioLimits, StdioTransport
from weft.upstreams.transport import OnMessage

CHILDREN = Path(__file__).with_name("children")
PUPPET = [sys.executable, "-IS", str(CHILDREN / "puppet.py")]
HASTY = Patience(0.3, 0.2)


class Wire:
    """A transport to a puppet, and what it said unasked."""

    def __init__(
        self,
        command: list[str] = PUPPET,
        *,
        limits: StdioLimits | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        on_request: OnRequest | None = None,
    ) -> None:
        self.heard: list[dict[str, Any]] = []
        self.logged: list[str] = []
        self.exits: list[Exit] = []
        self.exited = asyncio.Event()
        self.transport = StdioTransport(
            command,
            server="puppet",
            env=env,
            cwd=cwd,
            limits=limits or StdioLimits(patience=HASTY),
            on_message=self.heard.append,
            on_request=on_request,
            on_exit=self._gone,
            log=self.logged.append,
        )

    async def ask(
        self, method: str, *, id: Any = "mine", within: float = 10, on_message: OnMessage | None = None, **params: Any
    ) -> dict[str, Any]:
        """Send a request and return the response."""
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        deadline = asyncio.get_running_loop().time() + within
        return await self.transport.request(message, deadline=deadline, on_message=on_message)

    async def result(self, method: str, **params: Any) -> Any:
        """Send a request and return its result."""
        return (await self.ask(method, **params))["result"]

    async def received(self) -> list[dict[str, Any]]:
        """Return what the puppet got so far."""
        return await self.result("received")

    async def end(self) -> Exit:
        """Wait until the child is gone."""
        async with asyncio.timeout(10):
            await self.exited.wait()
        return self.exits[0]

    def _gone(self, exit: Exit) -> None:
        self.exits.append(exit)
        self.exited.set()


@asynccontextmanager
async def puppet(**options: Any) -> AsyncGenerator[Wire]:
    """Start a puppet, and close it in the end."""
    wire = Wire(**options)
    await wire.transport.start()
    try:
        yield wire
    finally:
        await wire.transport.close()


def running_loop() -> str:
    """Return which of the loops this test runs on."""
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def lives(pid: int) -> bool:
    """Tell whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children() -> set[str]:
    """Return the numbers of all children of this process, zombies too."""
    me = os.getpid()
    listed = Path(f"/proc/{me}/task").glob("*/children")
    return {pid for one in listed for pid in one.read_text().split()}


def open_files() -> int:
    """Return how many files this process has open, without the one /dev/null that a loop of uvloop keeps for itself."""
    links = (os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd"))  # noqa: PTH208 - numbers
    return sum(link != os.devnull for link in links)


@asynccontextmanager
async def nothing_left() -> AsyncGenerator[None]:
    """Check that what happens inside leaves no task, file or process."""
    # What an earlier test left to the collector must not be counted as opened or closed here.
    gc.collect()
    tasks, files, processes = asyncio.all_tasks(), open_files(), children()
    yield
    # A fixture is set up and torn down in two tasks.
    await until(lambda: asyncio.all_tasks() <= {*tasks, asyncio.current_task()}, within=5)
    # Pipes are closed in the next turns of the loop.
    await until(lambda: open_files() <= files, within=5)
    assert children() <= processes

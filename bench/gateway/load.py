"""The load: a process of its own that calls tools over kept connections, as fast as answers come or at a pace.

`python -m bench.gateway.load` reads one job a line from stdin and prints what came of it, as JSON.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import httptools
import orjson

from bench import research
from bench.gateway.messages import initialize, initialized, legacy_call, modern_call


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to call, how often, and over how many connections."""

    port: int
    second_port: int | None = None
    """Where every other connection goes, when two processes share the load."""
    path: str = "/mcp"
    tools: Sequence[str] = ("tool_0",)
    connections: int = 16
    calls: int = 1000
    era: str = "modern"
    pace: float = 0.0
    """Seconds from one call of a connection to its next; 0 is as soon as it has the answer."""
    works: bool = False
    """Whether the data work of the research pipeline is done by hand after each answer, as part of its time."""
    beside: Sequence[tuple[str, float]] = ()
    """Tools that are called all the while, each with the seconds between its calls; their answers do not matter."""

    def encoded(self) -> bytes:
        """Return the job as the line that the process of the load reads."""
        return orjson.dumps(asdict(self)) + b"\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a job: seconds in all, and milliseconds of the calls."""

    calls: int
    wall: float
    p50_ms: float
    p99_ms: float


class Connection(asyncio.Protocol):
    """One kept connection, with one request at a time on it."""

    def __init__(self) -> None:
        """Make one that has asked for nothing yet."""
        self._waiter: asyncio.Future[tuple[int, bytes]] | None = None
        self.headers: dict[bytes, bytes] = {}
        self.session: str | None = None
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        self.transport = cast(asyncio.Transport, transport)
        self._parser: Any = httptools.HttpResponseParser(self)
        self._loop = asyncio.get_running_loop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what waits."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionResetError("the connection was closed before the answer"))

    def data_received(self, data: bytes) -> None:
        """Read."""
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self.headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._body += body

    def on_message_complete(self) -> None:
        """Give the answer to who asked."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result((self._parser.get_status_code(), self._body))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request and return the status and the body of its answer."""
        self._body = b""
        self._waiter = self._loop.create_future()
        self.transport.write(request)
        return await self._waiter


async def _connect(port: int) -> Connection:
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    return connection


async def _requests(job: Job, tools: Sequence[str], connection: Connection, number: int) -> list[bytes]:
    """Return a request for each tool, with an id that no other connection has, in a session if the era has those."""
    if job.era == "modern":
        return [modern_call(job.path, tool, number) for tool in tools]
    if connection.session is None:
        await connection.ask(initialize(job.path))
        connection.session = connection.headers[b"mcp-session-id"].decode()
        await connection.ask(initialized(job.path, connection.session))
    return [legacy_call(job.path, tool, number, connection.session) for tool in tools]


async def _called(connection: Connection, request: bytes, *, works: bool) -> float:
    began = time.perf_counter()
    status, body = await connection.ask(request)
    if status != 200 or b'"result"' not in body or b'"isError":true' in body:
        raise _failed(status, body)
    if works:
        orjson.loads(body)
        await research.by_hand("q")
    return time.perf_counter() - began


async def _in_turn(job: Job, connection: Connection, number: int, times: list[float]) -> None:
    requests = await _requests(job, job.tools, connection, number)
    for at in range(number, job.calls, job.connections):
        took = await _called(connection, requests[at % len(requests)], works=job.works)
        times.append(took)
        if took < job.pace:
            await asyncio.sleep(job.pace - took)


async def _beside(job: Job, tool: str, pause: float, number: int) -> None:
    """Call a tool that may fail or hang, again and again."""
    connection = await _connect(job.port)
    try:
        request = (await _requests(job, [tool], connection, number))[0]
        while True:
            await connection.ask(request)
            await asyncio.sleep(pause)
    finally:
        connection.transport.abort()


async def answer(port: int, tool: str, *, path: str = "/mcp") -> dict[str, Any]:
    """Call a tool once and return its result."""
    connection = await _connect(port)
    try:
        status, body = await connection.ask(modern_call(path, tool, 1))
    finally:
        connection.transport.abort()
    if status != 200:
        raise _failed(status, body)
    return orjson.loads(body)["result"]


class Kept:
    """Connections that stay open from job to job, so that opening them is no part of what calls cost."""

    def __init__(self) -> None:
        """Make a place without any."""
        self._idle: dict[tuple[int, int | None], list[Connection]] = {}

    async def take(self, job: Job) -> list[Connection]:
        """Return as many connections as a job wants, new ones for those that are not there or were closed."""
        key = (job.port, job.second_port)
        alive = [each for each in self._idle.pop(key, []) if not each.transport.is_closing()]
        while len(alive) < job.connections:
            alive.append(await _connect(job.second_port or job.port if len(alive) % 2 else job.port))
        self._idle[key] = alive
        return alive[: job.connections]


async def done(job: Job, kept: Kept) -> Outcome:
    """Do a job."""
    connections = await kept.take(job)
    beside = [
        asyncio.create_task(_beside(job, tool, pause, job.connections + number))
        for number, (tool, pause) in enumerate(job.beside)
    ]
    times: list[float] = []
    began = time.perf_counter()
    try:
        async with asyncio.TaskGroup() as group:
            for number, connection in enumerate(connections):
                group.create_task(_in_turn(job, connection, number, times))
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
    wall = time.perf_counter() - began
    return Outcome(len(times), wall, statistics.median(times) * 1000, percentile(times, 0.99) * 1000)


def _failed(status: int, body: bytes) -> RuntimeError:
    return RuntimeError(f"status {status}: {body[:500].decode(errors='replace')}")


def percentile(times: Sequence[float], share: float) -> float:
    """Return the time that this share of all times does not exceed."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def _main() -> None:
    kept = Kept()
    for line in sys.stdin.buffer:
        told: dict[str, Any] = {}
        try:
            told = asdict(await done(Job(**orjson.loads(line)), kept))
        except* Exception as group:
            told = {"problem": repr(group.exceptions[0])}
        print(orjson.dumps(told).decode(), flush=True)


def main() -> None:
    """Do jobs until stdin ends."""
    import uvloop  # noqa: PLC0415 - this module is also read where nothing runs, to make jobs

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main())


if __name__ == "__main__":
    main()

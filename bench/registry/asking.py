"""The client: asks over kept connections, and looks at every answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from types import TracebackType
from typing import Any, Self

import orjson
import uvloop

from bench.gateway.load import Connection, Outcome, percentile
from bench.gateway.messages import ARGUMENTS, MODERN, post

CONNECTIONS = 16
PATIENCE = 300.0
"""Seconds after which a round of requests is given up."""

_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1.0.0"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What to ask, how often, and what is a right answer."""

    port: int
    requests: Sequence[Iterator[bytes]]
    """What each connection asks, with its number as the id, without an end: the next round goes on from the last."""
    right: Callable[[Any], bool]
    """Tells of a result whether it is right."""
    times: int
    pace: float = 0.0
    """Seconds from one request of a connection to its next; 0 is as soon as it has the answer."""


@dataclass(slots=True)
class Heard:
    """How long answers took, in seconds, and the requests without a right one."""

    times: list[float] = field(default_factory=list[float])
    failed: list[str] = field(default_factory=list[str])
    wrong: list[str] = field(default_factory=list[str])
    wall: float = 0.0

    def outcome(self) -> Outcome:
        """Return what came of it.

        Raises:
            RuntimeError: a request failed, or had a wrong answer.
        """
        if self.failed or self.wrong:
            bad = [*self.failed, *self.wrong]
            raise RuntimeError(f"{len(bad)} requests without a right answer, the first: {bad[0]}")
        times = self.times
        return Outcome(len(times), self.wall, statistics.median(times) * 1000, percentile(times, 0.99) * 1000)


class Client:
    """Asks from this process; connections stay open from round to round."""

    def __init__(self) -> None:
        """Make one that has asked nothing yet."""
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._open: dict[tuple[int, int], list[Connection]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._runner.run(self._close())
        self._runner.close()

    def run(self, asking: Asking) -> Outcome:
        """Ask, and return what came of it.

        Raises:
            RuntimeError: a request failed, or had a wrong answer.
        """
        return self.hear(asking).outcome()

    def hear(self, asking: Asking, beside: Callable[[], Awaitable[object]] | None = None) -> Heard:
        """Ask, with something else done beside it until all is answered; failures are counted."""
        return self._runner.run(self._hear(asking, beside))

    async def _hear(self, asking: Asking, beside: Callable[[], Awaitable[object]] | None) -> Heard:
        async with asyncio.timeout(PATIENCE):
            other = None if beside is None else asyncio.ensure_future(beside())
            try:
                return await _heard(asking, await self._connections(asking.port, len(asking.requests)))
            finally:
                if other is not None:
                    other.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await other

    async def _connections(self, port: int, many: int) -> list[Connection]:
        """Return connections to a port, new ones for those that are not there or were closed."""
        kept = self._open.pop((port, many), [])
        alive = [each for each in kept if not each.transport.is_closing()]
        loop = asyncio.get_running_loop()
        while len(alive) < many:
            alive.append((await loop.create_connection(Connection, "127.0.0.1", port))[1])
        self._open[port, many] = alive
        return alive

    async def _close(self) -> None:
        for connections in self._open.values():
            for each in connections:
                each.transport.abort()


async def _heard(asking: Asking, connections: Sequence[Connection]) -> Heard:
    heard = Heard()
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number, connection in enumerate(connections):
            group.create_task(_in_turn(asking, connection, number, heard))
    heard.wall = time.perf_counter() - began
    return heard


async def _in_turn(asking: Asking, connection: Connection, number: int, heard: Heard) -> None:
    for _ in range(number, asking.times, len(asking.requests)):
        began = time.perf_counter()
        try:
            status, body = await connection.ask(next(asking.requests[number]))
        except ConnectionResetError as error:
            heard.failed.append(str(error))
            return
        took = time.perf_counter() - began
        heard.times.append(took)
        _judge(asking, number, status, body, heard)
        if took < asking.pace:
            await asyncio.sleep(asking.pace - took)


def _judge(asking: Asking, number: int, status: int, body: bytes, heard: Heard) -> None:
    answer: Any = orjson.loads(body) if status == 200 else {}
    result: Any = answer.get("result")
    if result is None or result.get("isError") is True:
        heard.failed.append(f"status {status}: {body[:300].decode(errors='replace')}")
    elif answer["id"] != number or not asking.right(result):
        heard.wrong.append(body[:300].decode(errors="replace"))


def calls(tools: Sequence[str], headers: Mapping[str, str], connections: int = CONNECTIONS) -> list[Iterator[bytes]]:
    """Return calls of tools for each connection, with an id that no other connection has."""
    return [cycle([_call(tool, number, headers) for tool in tools]) for number in range(connections)]


def lists(agents: Sequence[Mapping[str, str]], connections: int = CONNECTIONS) -> list[Iterator[bytes]]:
    """Return requests for the tools of agents, each agent on one connection; `agents` are their headers."""
    shares: Iterable[Sequence[Mapping[str, str]]] = (agents[each::connections] for each in range(connections))
    return [
        cycle([_message("tools/list", {}, number, headers) for headers in share or agents])
        for number, share in enumerate(shares)
    ]


def _call(tool: str, number: int, headers: Mapping[str, str]) -> bytes:
    return _message("tools/call", {"name": tool, "arguments": ARGUMENTS}, number, {**headers, "mcp-name": tool})


def _message(method: str, params: Mapping[str, Any], number: int, headers: Mapping[str, str]) -> bytes:
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": _META}}
    return post("/mcp", message, {"mcp-protocol-version": MODERN, "mcp-method": method, **headers})


async def reload(connection: Connection) -> int:
    """Have a gateway read its registry again, and return the generation that it serves then.

    Raises:
        RuntimeError: it did not take the registry.
    """
    status, body = await connection.ask(b"POST /reload HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n\r\n")
    if status != 200:
        raise RuntimeError(f"reload: status {status}: {body[:500].decode(errors='replace')}")
    return int(json.loads(body)["generation"])

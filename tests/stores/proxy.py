"""A proxy between a store and its server that delays, cuts, and loses what it is told to, and what tests then ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Literal, Self

import pytest

from weft.errors import StoreError
from weft.ports import Store

Loss = Literal["request", "answer"]


class Proxy:
    """Passes bytes on, until it is told otherwise."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._lost: tuple[bytes, Loss] | None = None
        self.port = 0
        self.delay = 0.0
        """Seconds that answers take longer; requests arrive at once."""
        self.accepted = 0
        self.lost = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.shut()

    async def open(self) -> None:
        """Listen, on the same port as before."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        """Cut everything, and listen no more."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cut(self) -> None:
        """Break all connections."""
        for writer in self._writers:
            writer.transport.abort()

    def lead_to(self, port: int) -> None:
        """Break all connections, and pass new ones on to another server."""
        self._target = port
        self.cut()

    def lose(self, which: Loss, mark: bytes) -> None:
        """Break the connection of the next request with a mark in it: before it arrives, or before its answer does."""
        self._lost = (mark, which)
        self.lost.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.add(writer)
        try:
            ahead, there = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(there)
        muted = asyncio.Event()
        for work in (self._requests(reader, there, writer, muted), self._answers(ahead, writer, there, muted)):
            task = asyncio.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        there: asyncio.StreamWriter,
        back: asyncio.StreamWriter,
        muted: asyncio.Event,
    ) -> None:
        try:
            while data := await reader.read(1 << 16):
                if self._lost is not None and self._lost[0] in data:
                    which, self._lost = self._lost[1], None
                    if which == "request":
                        self.lost.set()
                        break
                    muted.set()
                there.write(data)
        except OSError:
            pass
        finally:
            there.transport.abort()
            back.transport.abort()

    async def _answers(
        self,
        reader: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        there: asyncio.StreamWriter,
        muted: asyncio.Event,
    ) -> None:
        try:
            while data := await reader.read(1 << 16):
                if muted.is_set():
                    self.lost.set()
                    break
                if self.delay:
                    await asyncio.sleep(self.delay)
                back.write(data)
        except OSError:
            pass
        finally:
            there.transport.abort()
            back.transport.abort()


class Told:
    """Signals that are kept, for tests to look at."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []

    def count(self, name: str, **labels: str) -> None:
        """Keep nothing."""

    def event(self, name: str, **facts: object) -> None:
        """Keep an event."""
        self.events.append((name, facts))

    def named(self, name: str) -> list[dict[str, object]]:
        """Return the facts of the events with a name."""
        return [facts for told, facts in self.events if told == name]


async def value_of(store: Store, key: str) -> bytes | None:
    """Return the value under a key."""
    stored = await store.get(key)
    return None if stored is None else stored.value


async def works(operation: Callable[[], Awaitable[object]]) -> None:
    """Wait until an operation no longer fails."""
    end = time.monotonic() + 20
    while True:
        try:
            await operation()
            return
        except StoreError as error:
            if error.retryable == "no" or time.monotonic() > end:
                raise
            await asyncio.sleep(0.01)


async def refusal(operation: Awaitable[object]) -> StoreError:
    """Return the error of an operation that must fail."""
    with pytest.raises(StoreError) as raised:
        await operation
    return raised.value

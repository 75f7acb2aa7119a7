"""A pair of pipes with lines of JSON on them, read and written without holding up the event loop.

Threads do the reading and writing, and not the loop's own readers: stdin and stdout may also be files or terminals.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager, suppress

from weft.doors.mcp.outbox import Outbox

CHUNK = 1 << 16
AHEAD = 16
"""How many chunks are read ahead of what has been taken up."""
MOST = 1024
MOST_BYTES = 64 << 20


class Lines:
    """Cuts chunks into lines; one that is too long is left out, and None stands for it."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._partial = bytearray()
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes | None]:
        """Return the lines that a chunk completes."""
        *ends, rest = chunk.split(b"\n")
        lines: list[bytes | None] = []
        for end in ends:
            self._add(end)
            lines.append(None if self._skipping else bytes(self._partial))
            self._partial.clear()
            self._skipping = False
        self._add(rest)
        return lines

    def last(self) -> list[bytes | None]:
        """Return what came after the last end of line."""
        if self._skipping:
            return [None]
        return [bytes(self._partial)] if self._partial else []

    def _add(self, piece: bytes) -> None:
        if self._skipping or len(self._partial) + len(piece) > self._limit:
            self._skipping = True
            self._partial.clear()
        else:
            self._partial += piece


class Incoming:
    """The lines that come in on a file descriptor, until it ends."""

    def __init__(self, fd: int, *, limit: int) -> None:
        self._fd = fd
        self._lines = Lines(limit=limit)
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._ahead = threading.Semaphore(AHEAD)
        self._loop = asyncio.get_running_loop()
        # A daemon: nothing can wake a thread that reads from a pipe on which nothing comes.
        threading.Thread(target=self._read, name="weft-stdin", daemon=True).start()

    async def lines(self) -> AsyncIterator[bytes | None]:
        """Yield each line; None for one that was too long."""
        while chunk := await self._chunks.get():
            for line in self._lines.feed(chunk):
                yield line
            self._ahead.release()
        for line in self._lines.last():
            yield line

    def _read(self) -> None:
        chunk = b"."
        while chunk:
            self._ahead.acquire()
            try:
                chunk = os.read(self._fd, CHUNK)
            except OSError:
                chunk = b""
            with suppress(RuntimeError):  # the loop has ended before the client did
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)


class Outgoing:
    """What goes out on a file descriptor, in order, never waiting."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._outbox = Outbox(most=MOST, most_bytes=MOST_BYTES)
        self._writes: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writing = False
        self._room = asyncio.Event()
        self._idle = asyncio.Event()
        self._room.set()
        self._idle.set()
        self.broken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._write, name="weft-stdout", daemon=True).start()

    def put(self, line: bytes, *, droppable: bool = False) -> None:
        """Send a line."""
        if self.broken.is_set():
            return
        if not self._outbox.put(line, droppable=droppable):
            # Answers are not dropped: whoever brings in more work waits instead.
            self._room.clear()
        self._idle.clear()
        self._next()

    async def room(self) -> None:
        """Wait until a client that reads slowly has read on."""
        await self._room.wait()

    async def flush(self, within: float) -> None:
        """Wait until all is written, but not for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._idle.wait()

    def close(self) -> None:
        """Write no more."""
        self._writes.put(None)

    def _next(self) -> None:
        if not self._writing and self._outbox:
            self._writing = True
            self._writes.put(self._outbox.pop())

    def _written(self, failed: bool) -> None:
        self._writing = False
        if failed:
            self._outbox.clear()
            self.broken.set()
        if not self._outbox.full:
            self._room.set()
        if not self._outbox:
            self._idle.set()
        self._next()

    def _write(self) -> None:
        while (line := self._writes.get()) is not None:
            failed = False
            view = memoryview(line)
            try:
                while view:
                    view = view[os.write(self._fd, view) :]
            except OSError:
                failed = True
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._written, failed)


@contextmanager
def standard_pipes() -> Generator[tuple[int, int]]:
    """Take stdin and stdout for messages alone: what else is read finds an end, what else is printed goes to stderr."""
    stdin, stdout = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield stdin, stdout
    finally:
        sys.stdout.flush()
        # The copies stay open: a thread may still wait on them, and their numbers must not come to mean other files.
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)

"""SQLite: a durable store in one file, for one machine; several processes may share it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from weft.ports import ABSENT, ANYHOW, Change, Put, Signals, Silence, Stored
from weft.stores.rules import MAX_VALUE, key_bytes
from weft.stores.sqlite_file import Synchronous, connect, fault, faulty, file_system, is_busy, prepare
from weft.stores.sqlite_rows import Rows, find, page
from weft.stores.sqlite_time import SteadyTime
from weft.stores.sqlite_writer import Writer

T = TypeVar("T")

AWAY: Final = ("nfs", "nfs4", "cifs", "smb3", "9p", "afs", "fuse.sshfs", "fuse.glusterfs", "ceph")
"""File systems whose locks and shared memory SQLite cannot rely on."""


class _Opened(NamedTuple):
    """What an open file takes: a writer, a connection to read from at once, and one for what takes longer."""

    writer: Writer
    near: sqlite3.Connection
    far: sqlite3.Connection
    pool: ThreadPoolExecutor


class SqliteStore:
    """Writings are on the disk when they return; those that wait at the same time share one commit.

    Single keys are read where they are asked for: that takes microseconds, and a thread's turn takes more. It goes by
    the wall clock, but never back. With `synchronous="NORMAL"` the last writings may be lost with the machine's power.
    """

    def __init__(
        self,
        path: str | Path,
        name: str = "sqlite",
        *,
        busy: float = 0.2,
        synchronous: Synchronous = "FULL",
        max_value: int = MAX_VALUE,
        max_bytes: int | None = None,
        reap: float = 10.0,
        time: SteadyTime | None = None,
        signals: Signals | None = None,
    ) -> None:
        """Name a file; `busy` is how long another process may write, `reap` how often expired rows are deleted."""
        self.name: Final = name
        self.durable: Final = synchronous == "FULL"
        self.shared: Final = True
        self.path: Final = Path(path).absolute()
        self._busy = busy
        self._synchronous: Synchronous = synchronous
        self._max_value = max_value
        self._max_bytes = max_bytes
        self._reap = reap
        self._time = time or SteadyTime()
        self._signals = signals or Silence()
        self._opened: _Opened | None = None
        self._opening: asyncio.Task[_Opened] | None = None
        self._closed = False

    async def open(self) -> None:
        """Make or check the file, and begin.

        Raises:
            StoreError: it cannot be used: StoreCorrupt, StoreReadOnly, StoreNewer, StoreBusy or StoreUnavailable.
        """
        self._closed = False
        await self._open()

    async def close(self) -> None:
        """Finish what was asked for and let the file go."""
        self._closed = True
        if self._opening is not None:
            await asyncio.wait([self._opening])
        if self._opened is not None:
            opened, self._opened = self._opened, None
            await asyncio.get_running_loop().run_in_executor(None, _let_go, opened)

    async def get(self, key: str) -> Stored | None:
        """Return what is stored under a key."""
        opened = self._opened or await self._open()
        wanted = key_bytes(self.name, key)
        try:
            return find(opened.near, wanted, self._time.now())
        except sqlite3.Error as error:
            if not is_busy(error):
                raise fault(self.name, self.path, error) from error
        return await self._far(lambda connection: find(connection, wanted, self._time.now()))

    async def exists(self, key: str) -> bool:
        """Tell whether something is stored under a key."""
        return await self.get(key) is not None

    async def set(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        """Write a key, whatever was there; return the new version."""
        version = await self._do(lambda rows: rows.put(Put(key, value, ttl, ANYHOW)))
        assert version is not None  # there was no condition
        return version

    async def put_if_absent(self, key: str, value: bytes, *, ttl: float | None = None) -> int | None:
        """Write a key where nothing is stored; return the new version, or None when something is."""
        return await self._do(lambda rows: rows.put(Put(key, value, ttl, ABSENT)))

    async def cas(self, key: str, value: bytes, version: int, *, ttl: float | None = None) -> int | None:
        """Write a key that is still of a version; return the new version, or None when it is not."""
        if version < ABSENT:
            return None
        return await self._do(lambda rows: rows.put(Put(key, value, ttl, version)))

    async def delete(self, key: str) -> bool:
        """Delete a key; tell whether something was there."""
        wanted = key_bytes(self.name, key)
        return await self._do(lambda rows: rows.delete(wanted))

    async def delete_if(self, key: str, version: int) -> bool:
        """Delete a key that is still of a version; tell whether it was."""
        wanted = key_bytes(self.name, key)
        return await self._do(lambda rows: rows.delete_if(wanted, version))

    async def incr(self, key: str, by: int = 1, *, ttl: float | None = None) -> int:
        """Add to a number, which begins at 0, and return it; `ttl` counts from its first writing."""
        wanted = key_bytes(self.name, key)
        return await self._do(lambda rows: rows.incr(wanted, by, ttl))

    async def scan(self, prefix: str) -> AsyncIterator[tuple[str, Stored]]:
        """Yield what is stored under keys with a prefix, each once, in no order."""
        wanted = key_bytes(self.name, prefix)
        after: bytes | None = None
        while True:
            found, after = await self._far(
                lambda connection, after=after: page(connection, wanted, after, self._time.now())
            )
            for one in found:
                yield one
            if after is None:
                return

    async def batch(self, changes: Sequence[Change]) -> list[int] | None:
        """Make all changes or none; return the versions (0 for a deletion), or None when a condition does not hold."""
        listed = list(changes)
        return await self._do(lambda rows: rows.batch(listed))

    async def now(self) -> float:
        """Return seconds since 1970, which never go back; the file tells of them when it is opened."""
        if self._opened is None:
            await self._open()
        return self._time.now()

    async def _do(self, work: Callable[[Rows], T]) -> T:
        opened = self._opened or await self._open()
        return await opened.writer.do(work)

    async def _far(self, read: Callable[[sqlite3.Connection], T]) -> T:
        opened = self._opened or await self._open()
        try:
            return await asyncio.get_running_loop().run_in_executor(opened.pool, read, opened.far)
        except sqlite3.Error as error:
            raise fault(self.name, self.path, error) from error

    async def _open(self) -> _Opened:
        """Return the open file; those who ask at once wait for the same opening, which nobody's leaving ends."""
        if self._closed:
            raise faulty(self.name, self.path, "StoreUnavailable", "is closed")
        if self._opened is not None:
            return self._opened
        if self._opening is None:
            self._opening = asyncio.create_task(self._begin())
            self._opening.add_done_callback(self._began)
        return await asyncio.shield(self._opening)

    async def _begin(self) -> _Opened:
        kind, near, far, write = await asyncio.get_running_loop().run_in_executor(None, self._connect)
        if kind in AWAY:
            self._signals.event("store_on_network", store=self.name, path=str(self.path), file_system=kind)
        rows = Rows(self.name, write, self._time, self._max_value)
        writer = Writer(self.name, self.path, write, rows, busy=self._busy, reap=self._reap)
        self._opened = _Opened(writer, near, far, ThreadPoolExecutor(1, f"weft-read-{self.name}"))
        return self._opened

    def _began(self, task: asyncio.Task[_Opened]) -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()  # whoever waited was told

    def _connect(self) -> tuple[str | None, sqlite3.Connection, sqlite3.Connection, sqlite3.Connection]:
        write = prepare(self.name, self.path, synchronous=self._synchronous, max_bytes=self._max_bytes)
        try:
            near, far = connect(self.path, wait=0.0), connect(self.path, wait=self._busy)
            (clock,) = near.execute("SELECT clock FROM meta").fetchone()
            self._time.seen(clock)
        except sqlite3.Error as error:
            write.close()
            raise fault(self.name, self.path, error) from error
        return file_system(self.path), near, far, write


def _let_go(opened: _Opened) -> None:
    opened.pool.shutdown()
    opened.near.close()
    opened.far.close()
    opened.writer.end()

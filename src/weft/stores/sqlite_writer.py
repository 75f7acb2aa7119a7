"""The writer of a SQLite store: a thread that commits all that waits at once, since a commit costs a disk's turn."""

from __future__ import annotations

import asyncio
import queue
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from weft.errors import StoreError
from weft.stores.sqlite_file import fault, faulty, is_busy
from weft.stores.sqlite_rows import Rows

T = TypeVar("T")

GROUP: Final = 512
"""How many operations go into one commit."""
PENDING: Final = 20_000
"""How many may wait; a disk that stands still must not fill the memory."""
REAPED: Final = 500
"""How many expired rows go at once, so that nobody waits long for it."""
SOON: Final = 0.05


class _Job:
    """Something to do in a transaction; it waits for other processes until a moment."""

    __slots__ = ("future", "until", "work")

    def __init__(self, work: Callable[[Rows], Any], future: asyncio.Future[Any], until: float) -> None:
        self.work = work
        self.future = future
        self.until = until


class Writer:
    """Takes operations from one event loop; each is told its outcome when that is on the disk."""

    def __init__(self, store: str, path: Path, connection: sqlite3.Connection, rows: Rows, *, busy: float, reap: float):
        self._store = store
        self._path = path
        self._connection = connection
        self._rows = rows
        self._busy = busy
        self._reap = reap
        self._reap_at = time.monotonic()
        self._file = _identity(path)
        self._gone = False
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name=f"weft-store-{store}", daemon=True)
        self._thread.start()

    async def do(self, work: Callable[[Rows], T]) -> T:
        """Do something in a transaction; return when it has been committed."""
        if self._ended:
            raise faulty(self._store, self._path, "StoreUnavailable", "is closed")
        if self._jobs.qsize() >= PENDING:
            raise faulty(self._store, self._path, "StoreBusy", f"{PENDING} operations are waiting")
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(_Job(work, future, time.monotonic() + self._busy))
        return await future

    def end(self) -> None:
        """Finish what was asked for and let the file go; it blocks."""
        if not self._ended:
            self._ended = True
            self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        going_on = True
        while going_on:
            group, going_on = self._take()
            if group:
                self._do_all(group)
            if time.monotonic() >= self._reap_at:
                # SQLite would go on writing to a file that has no name any more.
                self._gone = _identity(self._path) != self._file
                self._reap_some()
        self._connection.close()

    def _take(self) -> tuple[list[_Job], bool]:
        """Wait for operations; return those that are there, and whether there may be more."""
        group: list[_Job] = []
        try:
            job = self._jobs.get(timeout=max(self._reap_at - time.monotonic(), 0.0))
            while job is not None:
                group.append(job)
                if len(group) >= GROUP:
                    return group, True
                job = self._jobs.get_nowait()
        except queue.Empty:
            return group, True
        return group, False

    def _do_all(self, group: list[_Job]) -> None:
        if self._gone:
            told = "the file was moved or deleted while weft used it; weft must be started again"
            self._answer([(job, faulty(self._store, self._path, "StoreUnavailable", told)) for job in group])
            return
        try:
            group = self._begin(group)
        except sqlite3.Error as error:
            self._answer([(job, fault(self._store, self._path, error)) for job in group])
            return
        if not group:
            return
        try:
            answers = [(job, _outcome(job, self._rows)) for job in group if not job.future.cancelled()]
            self._rows.commit()
        except Exception as error:
            self._undo()
            if len(group) > 1:
                # Whatever one of them did, the others had no part in it.
                for job in group:
                    self._do_all([job])
                return
            answers = [(group[0], self._failure(error))]
        self._answer(answers)

    def _begin(self, group: list[_Job]) -> list[_Job]:
        """Begin a transaction; return those that still wait for it after other processes made way."""
        while group:
            try:
                self._rows.begin()
                return group
            except sqlite3.Error as error:
                self._undo()
                if not is_busy(error):
                    raise
            now = time.monotonic()
            late = [job for job in group if job.until <= now]
            told = f"another process has been writing for {self._busy:g} s"
            self._answer([(job, faulty(self._store, self._path, "StoreBusy", told)) for job in late])
            group = [job for job in group if job.until > now and not job.future.cancelled()]
            if group:
                time.sleep(random.uniform(0.0005, 0.005))
        return group

    def _undo(self) -> None:
        try:
            self._rows.roll_back()
        except sqlite3.Error:
            # The connection is in no state to say more; the next operation finds out.
            return

    def _failure(self, error: Exception) -> Exception:
        if not isinstance(error, sqlite3.Error):
            return error
        # A commit that the disk had an error with may be found whole when the file is opened again.
        unsure = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_IOERR
        return fault(self._store, self._path, error, sent=unsure)

    def _answer(self, answers: list[tuple[_Job, Any]]) -> None:
        if not answers:
            return
        try:
            self._loop.call_soon_threadsafe(_resolve, answers)
        except RuntimeError:
            # The loop was closed: nobody waits any more.
            return

    def _reap_some(self) -> None:
        """Delete some of what has expired, when nobody is in the way; what goes wrong here shows elsewhere."""
        self._reap_at = time.monotonic() + self._reap
        try:
            if not self._rows.any_expired():
                return
            self._rows.begin()
            if self._rows.reap(REAPED) == REAPED:
                self._reap_at = time.monotonic() + SOON
            self._rows.commit()
        except sqlite3.Error:
            self._undo()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        told = path.stat()
    except OSError:
        return None
    return told.st_dev, told.st_ino


def _outcome(job: _Job, rows: Rows) -> Any:
    """Return what an operation gave, or its refusal; a refusal has changed nothing."""
    try:
        return job.work(rows)
    except StoreError as error:
        return error


def _resolve(answers: list[tuple[_Job, Any]]) -> None:
    for job, answer in answers:
        if not job.future.done():
            if isinstance(answer, Exception):
                job.future.set_exception(answer)
            else:
                job.future.set_result(answer)

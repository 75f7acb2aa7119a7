"""The audit log: who called what, whether they were let, and how it went; values are never in it, only their hashes."""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import orjson

from weft.errors import InfrastructureError, InputError
from weft.expr.jcs import canonical
from weft.telemetry.auditchain import START, Checkpoint, Line, line_of, mac_of, written
from weft.telemetry.auditrecords import Entry, Scribe
from weft.telemetry.logs import Episodes, Log

if sys.platform != "win32":
    import fcntl

WhenFull = Literal["block", "drop"]
MOST_TAIL = 256 << 10
ROTATE = 64 << 20
PAUSE = 0.05


class AuditLog:
    """A file that is only added to, each record chained to the one before.

    A record is with the operating system when `write` returns: a killed process loses none but the one that it was
    writing. It is on the disk with the next `flush`, and an event of security before `record` returns.
    """

    def __init__(
        self,
        path: Path,
        key: bytes,
        *,
        when_full: WhenFull = "block",
        patience: float = 5.0,
        rotate: int = ROTATE,
        redact: Callable[[str], str] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Open a log, mended where a crash has torn it.

        Raises:
            InputError: another process has it, it cannot be written, or its end was changed.
        """
        if len(key) < 16:
            raise InputError("the key of the audit log is too short", code="WeakKey", hint="16 bytes or more")
        self.path, self.dropped = path, 0
        self._key, self._when_full, self._patience, self._rotate = key, when_full, patience, rotate
        self._now = now
        self._mac, self._arguments_mac = mac_of(key), mac_of(hmac.digest(key, b"arguments", "sha256"))
        self._scribe = Scribe(redact)
        self._second, self._date = -1.0, ""
        self._told_of = Episodes(Log("audit"))
        self._untold, self._failure = 0, OSError()
        self._number, self._hash, self._size = -1, START, 0
        self._after: str | None = None
        self._synced, self._syncing = -1, asyncio.Lock()
        self._file = self._opened(path)
        try:
            self._resume()
        except BaseException:
            os.close(self._file)
            raise

    def fingerprint(self, arguments: Any) -> str:
        """Return what stands for arguments: equal ones have the same, and nobody without the key can guess at them."""
        try:
            data = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)
        except orjson.JSONEncodeError:
            data = canonical(arguments)
        mac = self._arguments_mac.copy()
        mac.update(data)
        return mac.hexdigest()

    async def record(self, entry: Entry) -> None:
        """Add a record; an event of security, and whatever was denied, is on the disk when this returns.

        Raises:
            InfrastructureError: it cannot be written, and may not be dropped (AuditUnavailable).
        """
        if not self.add(entry) and not await self._insisted(entry):
            return
        if entry.secure:
            await self.flush()

    def add(self, entry: Entry) -> bool:
        """Add a record now and tell whether that went well; it is on the disk with the next `flush`."""
        try:
            self._append(self._scribe.told(entry))
        except OSError as error:
            self._failure = error
            return False
        return True

    async def _insisted(self, entry: Entry) -> bool:
        """Try until a record is added; tell whether it was, or was dropped as it may be."""
        if self._when_full == "drop" and not entry.secure:
            self.dropped += 1
            self._untold += 1
            return False
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline:
            await asyncio.sleep(PAUSE)
            if self.add(entry):
                return True
        raise self._unavailable(self._failure) from self._failure

    async def flush(self) -> None:
        """Bring to the disk what was written.

        Raises:
            InfrastructureError: that fails (AuditUnavailable).
        """
        wanted = self._number
        async with self._syncing:
            if self._synced >= wanted:
                return  # Whoever was first has brought this record along.
            reached = self._number
            try:
                await asyncio.to_thread(_sync, os.dup(self._file))
            except OSError as error:
                raise self._unavailable(error) from error
            self._synced = reached

    async def keep(
        self, *, flush_every: float = 1.0, checkpoint_every: float = 300.0, export: Callable[[Checkpoint], object]
    ) -> None:
        """Flush and give out checkpoints from time to time, until it is cancelled; what fails is logged."""
        last = time.monotonic()
        while True:
            await asyncio.sleep(flush_every)
            try:
                await self.flush()
                self._told_of.over("flush", "the audit log is on the disk again")
            except InfrastructureError as error:  # The next record that must not be lost says so to its caller.
                self._told_of.trouble("flush", error.message, file=str(self.path))
            if self._untold:
                self._told_of.trouble("dropped", "records are dropped from the audit log", file=str(self.path))
            if time.monotonic() - last >= checkpoint_every:
                last = time.monotonic()
                await self._give_out(export)

    async def _give_out(self, export: Callable[[Checkpoint], object]) -> None:
        try:
            await asyncio.to_thread(export, self.checkpoint())
            self._told_of.over("checkpoint", "checkpoints of the audit log are kept again")
        except OSError as error:
            reason = error.strerror or str(error)
            self._told_of.trouble("checkpoint", "a checkpoint of the audit log cannot be kept", reason=reason)

    def checkpoint(self) -> Checkpoint:
        """Return what somebody else should keep, to be able to tell that the end was cut off."""
        return Checkpoint.of(self._number, self._hash, self._time(), self._key)

    def close(self) -> None:
        """Bring all to the disk and let the file go."""
        with suppress(OSError):
            os.fsync(self._file)
        # Nobody who comes late may write to what gets this number next.
        file, self._file = self._file, -1
        os.close(file)

    # Writing.

    def _append(self, told: str) -> None:
        if self._size >= self._rotate:
            self._turn_over()
        if self._size == 0:
            self._write_about("begin", previous=self._hash, after=self._after)
        if not self._untold:
            self._write(told)
            return
        self._write(f'{told},"dropped":{self._untold}')
        self._told_of.over("dropped", "the audit log is written again", dropped=self._untold)
        self._untold = 0

    def _write_about(self, kind: str, **facts: object) -> None:
        """Write a record about the log itself, with the facts that there are."""
        given = {name: fact for name, fact in facts.items() if fact is not None}
        self._write(written({"kind": kind, **given})[1:-1])

    def _write(self, told: str) -> None:
        """Write one record, whole or not at all; only then is it a part of the chain."""
        body = f'{{"n":{self._number + 1},"time":"{self._time()}",{told}}}'
        line, made = line_of(body, self._hash, self._mac)
        written = 0
        try:
            written = os.write(self._file, line)
            if written < len(line):
                raise OSError(28, "no space left for a whole record")
        except OSError:
            if written:
                os.ftruncate(self._file, self._size)
            raise
        self._number, self._hash, self._size = self._number + 1, made, self._size + len(line)

    def _turn_over(self) -> None:
        """Put the full file aside and go on in a new one, which says what it follows."""
        os.fsync(self._file)
        aside = self.path.with_name(f"{self.path.name}.{self._number:012d}")
        self.path.rename(aside)
        old = self._file
        try:
            self._file = self._opened(self.path)
        except InputError as error:
            aside.rename(self.path)
            raise OSError(28, error.message) from error
        os.close(old)
        self._size, self._after, self._synced = 0, aside.name, self._number

    def _unavailable(self, error: OSError) -> InfrastructureError:
        reason = (error.strerror or str(error)).lower()
        return InfrastructureError(f"the audit log cannot be written: {reason}", code="AuditUnavailable")

    def _time(self) -> str:
        second, part = divmod(self._now(), 1)
        if second != self._second:
            self._second, self._date = second, datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._date}.{int(part * 1_000_000):06d}Z"

    # Opening.

    def _opened(self, path: Path) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        try:
            file = os.open(path, flags, 0o600)
        except OSError as error:
            raise InputError(f"cannot open {path}: {(error.strerror or '').lower()}", code="UnwritableFile") from error
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise InputError(f"{path} is not a file", code="UnwritableFile")
            if sys.platform != "win32":
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.fchmod(file, 0o600)
        except OSError as error:
            os.close(file)
            told = f"another process writes to {path}"
            raise InputError(told, code="AuditInUse", hint="give each process a file of its own") from error
        except InputError:
            os.close(file)
            raise
        return file

    def _resume(self) -> None:
        """Go on where the file ends; a line that a crash has torn is taken away, and that is recorded."""
        size = os.fstat(self._file).st_size
        start = max(0, size - MOST_TAIL)
        os.lseek(self._file, start, os.SEEK_SET)
        tail = b""
        while len(tail) < size - start and (more := os.read(self._file, size - start - len(tail))):
            tail += more
        whole, _, torn = tail.rpartition(b"\n")
        self._size = size - len(torn)
        if torn:
            os.ftruncate(self._file, self._size)
        lines = whole.split(b"\n") if whole else []
        if not lines:
            self._write_about("begin", previous=START, torn=len(torn) or None)
            return
        last = self._checked(lines)
        self._number, self._hash = last.number, last.hash
        self._write_about("opened", torn=len(torn) or None)

    def _checked(self, lines: list[bytes]) -> Line:
        last = Line.read(lines[-1])
        before = Line.read(lines[-2]) if len(lines) > 1 else None
        previous = before.hash if before is not None else last.record.get("previous") if last is not None else None
        if last is None or not isinstance(previous, str) or not last.follows(previous, self._key):
            hint = f"see `weft audit verify {self.path}`; put the file aside, or give the key that it was written with"
            raise InputError(f"the end of {self.path} is not as it was written", code="AuditChanged", hint=hint)
        return last


def _sync(file: int) -> None:
    """Bring a file to the disk by a handle of its own, which a change of files does not close."""
    try:
        os.fsync(file)
    finally:
        os.close(file)


def key_of(path: Path, *, create: bool = False) -> bytes:
    """Return the key in a file; `create` makes one when there is none.

    Raises:
        InputError: it cannot be read or made, or others can read it.
    """
    try:
        if create and not path.exists():
            _make_key(path)
        if sys.platform != "win32" and path.stat().st_mode & 0o077:
            raise InputError(f"others may read the key in {path}", code="OpenKey", hint=f"chmod 600 {path}")
        key = path.read_bytes().strip()
    except OSError as error:
        told = f"cannot {'make' if create else 'read'} the key {path}: {(error.strerror or str(error)).lower()}"
        raise InputError(told, code="UnreadableFile") from error
    if len(key) < 16:
        raise InputError(f"the key in {path} is too short", code="WeakKey", hint="16 bytes or more")
    return key


def _make_key(path: Path) -> None:
    """Make a key, whole or not at all, unless another process is first."""
    file, made = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(file, "w") as out:
            out.write(secrets.token_hex(32) + "\n")
            out.flush()
            os.fsync(out.fileno())
        with suppress(FileExistsError):
            path.hardlink_to(made)
    finally:
        Path(made).unlink()


def append_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Add a checkpoint to a file; one on another machine, or at least of another owner, is worth most."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(file, "w") as out:
        out.write(checkpoint.to_line())
        out.flush()
        os.fsync(out.fileno())

"""The audit log: who called what, whether they were let, and how it went; values are never in it, only their hashes."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import orjson

from weft.errors import InfrastructureError, InputError
from weft.registry.jcs import canonical
from weft.telemetry.auditchain import START, Checkpoint, Line, line_of

if sys.platform != "win32":
    import fcntl

Kind = Literal["call", "step", "security"]
WhenFull = Literal["block", "drop"]
MOST_TEXT = 256
MOST_TAIL = 256 << 10
ROTATE = 64 << 20
PAUSE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One call, inner step or event of security; `arguments` is what `AuditLog.fingerprint` gave."""

    kind: Kind = "call"
    principal: str
    tenant: str | None = None
    tool: str
    spec: str | None = None
    decision: Literal["allow", "deny"]
    reason: str | None = None
    arguments: str | None = None
    outcome: str | None = None
    ms: float | None = None
    trace: str | None = None


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
        self._redact, self._now = redact, now
        self._arguments_key = hmac.new(key, b"arguments", hashlib.sha256).digest()
        self._untold = 0
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
        return hmac.new(self._arguments_key, data, hashlib.sha256).hexdigest()

    async def record(self, entry: Entry) -> None:
        """Add a record; an event of security, and whatever was denied, is on the disk when this returns.

        Raises:
            InfrastructureError: it cannot be written, and may not be dropped (AuditUnavailable).
        """
        secure = entry.kind == "security" or entry.decision == "deny"
        told = self._told(entry)
        deadline = time.monotonic() + self._patience
        while True:
            try:
                self._append(told)
                break
            except OSError as error:
                if self._when_full == "drop" and not secure:
                    self.dropped += 1
                    self._untold += 1
                    return
                if time.monotonic() >= deadline:
                    raise self._unavailable(error) from error
            await asyncio.sleep(PAUSE)
        if secure:
            await self.flush()

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
        """Flush and give out checkpoints from time to time, until it is cancelled."""
        last = time.monotonic()
        while True:
            await asyncio.sleep(flush_every)
            with suppress(InfrastructureError):  # The next record that must not be lost says so to its caller.
                await self.flush()
            if time.monotonic() - last >= checkpoint_every:
                last = time.monotonic()
                await asyncio.to_thread(export, self.checkpoint())

    def checkpoint(self) -> Checkpoint:
        """Return what somebody else should keep, to be able to tell that the end was cut off."""
        return Checkpoint.of(self._number, self._hash, self._time(), self._key)

    def close(self) -> None:
        """Bring all to the disk and let the file go."""
        with suppress(OSError):
            os.fsync(self._file)
        os.close(self._file)

    # Writing.

    def _told(self, entry: Entry) -> dict[str, Any]:
        told: dict[str, Any] = {
            "kind": entry.kind,
            "principal": entry.principal,
            "tenant": entry.tenant,
            "tool": entry.tool,
            "spec": entry.spec,
            "decision": entry.decision,
            "reason": entry.reason,
            "arguments": entry.arguments,
            "outcome": entry.outcome,
            "ms": None if entry.ms is None else round(entry.ms, 3),
            "trace": entry.trace,
        }
        return {name: self._text(value) for name, value in told.items() if value is not None}

    def _text(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        text = value if self._redact is None else self._redact(value)
        return text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "..."

    def _append(self, told: dict[str, Any]) -> None:
        if self._size >= self._rotate:
            self._turn_over()
        if self._size == 0:
            self._write({"kind": "begin", "previous": self._hash, **({"after": self._after} if self._after else {})})
        if self._untold:
            told = {**told, "dropped": self._untold}
        self._write(told)
        self._untold = 0

    def _write(self, told: dict[str, Any]) -> None:
        """Write one record, whole or not at all; only then is it a part of the chain."""
        line, made = line_of({"n": self._number + 1, "time": self._time(), **told}, self._hash, self._key)
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
        return datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")

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
            self._write({"kind": "begin", "previous": START, **({"torn": len(torn)} if torn else {})})
            return
        last = self._checked(lines)
        self._number, self._hash = last.number, last.hash
        self._write({"kind": "opened", **({"torn": len(torn)} if torn else {})})

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
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w") as made:
                made.write(secrets.token_hex(32) + "\n")
        if sys.platform != "win32" and path.stat().st_mode & 0o077:
            raise InputError(f"others may read the key in {path}", code="OpenKey", hint=f"chmod 600 {path}")
        key = path.read_bytes().strip()
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {(error.strerror or str(error)).lower()}", code="UnreadableFile"
        ) from error
    if len(key) < 16:
        raise InputError(f"the key in {path} is too short", code="WeakKey", hint="16 bytes or more")
    return key


def append_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Add a checkpoint to a file; one on another machine, or at least of another owner, is worth most."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(file, "w") as out:
        out.write(checkpoint.to_line())
        out.flush()
        os.fsync(out.fileno())

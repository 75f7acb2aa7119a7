"""Where a registry comes from: a file, read only when it is whole, or a service (see httpsource)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time
from typing import Final, Literal, Protocol, TypeAlias

from weft.errors import DocumentInvalid, Problem
from weft.ir.including import included
from weft.ir.read import DOCUMENT_LIMITS, Format

Pause: TypeAlias = Callable[[float], Awaitable[object]]
Stamp: TypeAlias = "tuple[str | int, ...]"
Same: TypeAlias = Literal["same"]
SAME: Final = "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A document as its source gave it; `path` is the file, when it is one, and `stale` says that it is a kept copy."""

    name: str
    data: bytes
    parts: bytes = b""
    """What stands for the files that it includes."""
    path: Path | None = None
    format: Format | None = None
    stale: DocumentInvalid | None = None

    @property
    def hash(self) -> str:
        """The sha256 of the bytes: two documents are the same when this is."""
        return hashlib.sha256(self.data + self.parts).hexdigest()


class Source(Protocol):
    """Gives a document, and tells cheaply that it is still the same."""

    @property
    def name(self) -> str:
        """What problems and logs call it."""
        ...

    @property
    def every(self) -> float:
        """How many seconds to wait before the next look."""
        ...

    async def look(self, *, fully: bool = False) -> Loaded | Same | None:
        """Return the document, SAME when it is what was last returned, None when nothing has happened since.

        `fully` returns the document itself, whatever signs there are that it is the same.

        Raises:
            DocumentInvalid: it cannot be had; its problems say why.
        """
        ...

    async def keep(self, loaded: Loaded) -> None:
        """Take note that a document was good."""
        ...

    def forget(self) -> None:
        """Take the next look as the first: what was last returned never came into service."""
        ...


class FileSource:
    """A file of JSON, YAML or Python; it may be replaced, renamed over, or swapped by way of symbolic links."""

    # A writer that pauses longer than this is taken to have finished.
    SETTLE: Final = 0.1
    TRIES: Final = 20
    # A file that nobody has touched for so long need not be waited for.
    QUIET: Final = 1.0

    def __init__(
        self,
        path: Path,
        *,
        every: float = 0.5,
        fully_every: float = 300.0,
        limit: int = DOCUMENT_LIMITS.bytes,
        pause: Pause = asyncio.sleep,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self.path = path
        self.name = str(path)
        self.every = every
        self._fully_every = fully_every
        self._limit = limit
        self._pause = pause
        self._now = now
        self._fully_at = now()
        self._seen: Stamp | None = None
        self._included = frozenset[Path]()
        self._parts: tuple[Stamp, ...] = ()

    async def look(self, *, fully: bool = False) -> Loaded | Same | None:
        """Return the file when it is not the one seen last, once it is whole."""
        stamp = await asyncio.to_thread(_stamp, self.path)
        same = stamp == self._seen and await asyncio.to_thread(_stamps, self._included) == self._parts
        # Signs can deceive (a clock set back, a copy that keeps the times): now and then the file itself is read.
        if same and not fully and self._now() - self._fully_at < self._fully_every:
            return None
        stamp, data = await self._whole(stamp)
        self._seen, self._fully_at = stamp, self._now()
        if isinstance(data, DocumentInvalid):
            raise data
        self._included = await asyncio.to_thread(included, data, self.path)
        self._parts = await asyncio.to_thread(_stamps, self._included)
        parts = await asyncio.to_thread(self._digest)
        return Loaded(name=self.name, data=data, parts=parts, path=self.path)

    def _digest(self) -> bytes:
        """Return what stands for the files that are included: touching one is no change."""
        if not self._included:
            return b""
        digest = hashlib.sha256()
        for path in sorted(self._included):
            held = FileSource(path, limit=self._limit)._read()
            digest.update(f"{path}:".encode() + (b"" if isinstance(held, DocumentInvalid) else held))
        return digest.digest()

    async def keep(self, loaded: Loaded) -> None:
        """Do nothing: the file is its own copy."""

    def forget(self) -> None:
        """Take the next look as the first."""
        self._seen = None

    async def _whole(self, stamp: Stamp) -> tuple[Stamp, bytes | DocumentInvalid]:
        """Read the file until it was the same before and after; also a missing one, which may be on its way."""
        for _ in range(self.TRIES):
            data = await asyncio.to_thread(self._read)
            if not _quiet(stamp, self.QUIET):
                await self._pause(self.SETTLE)
            before, stamp = stamp, await asyncio.to_thread(_stamp, self.path)
            if before == stamp:
                return stamp, data
        busy = Problem(code="FileBusy", message="the file is being written all the time", file=self.name)
        raise DocumentInvalid([busy])

    def _read(self) -> bytes | DocumentInvalid:
        try:
            found = self.path.stat()
            if not stat.S_ISREG(found.st_mode):
                # Reading a pipe would wait for its writer, perhaps for ever.
                return _unreadable("it is not a regular file", self.name)
            if found.st_size > self._limit:
                return too_large(f"{found.st_size} bytes", self._limit, self.name)
            with self.path.open("rb") as file:
                data = file.read(self._limit + 1)
        except OSError as error:
            return _unreadable(error.strerror or str(error), self.name)
        return data if len(data) <= self._limit else too_large(f"{len(data)} bytes", self._limit, self.name)


def _stamp(path: Path) -> Stamp:
    """Return what changes when a file does, wherever its name leads; of a file that is not there, the reason."""
    try:
        found = path.stat()
        # ctime changes with the permissions too: a file that can no longer be read is worth a word.
        times = (found.st_mtime_ns, found.st_ctime_ns)
        return (os.path.realpath(path), found.st_dev, found.st_ino, found.st_size, *times)
    except OSError as error:
        return (error.errno or 0,)


def _stamps(paths: Iterable[Path]) -> tuple[Stamp, ...]:
    return tuple(_stamp(path) for path in sorted(paths))


def _quiet(stamp: Stamp, seconds: float) -> bool:
    changed = stamp[-1]
    # The time of the last change to the file's entry: unlike that of its content, no program can set it.
    return len(stamp) > 1 and isinstance(changed, int) and time() - changed / 1e9 > seconds


def _unreadable(reason: str, name: str) -> DocumentInvalid:
    message = f"cannot read the file: {reason[:1].lower()}{reason[1:]}"
    problem = Problem(code="UnreadableFile", message=message, file=name, expected="a file that can be read")
    return DocumentInvalid([problem])


def too_large(size: str, limit: int, name: str) -> DocumentInvalid:
    """Return the problem with a document that is over the limit."""
    message, expected = "the document is too large", f"at most {limit} bytes"
    return DocumentInvalid([Problem(code="TooLarge", message=message, file=name, expected=expected, value=size)])

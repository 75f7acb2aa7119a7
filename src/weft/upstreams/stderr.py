"""What a child says on stderr: the last of it kept, a little of it logged, nothing in it that looks like a secret."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

from weft.redaction import redact

Log: TypeAlias = Callable[[str], object]

SHORTEST_SECRET = 8

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[^\S\n\t ]|[\x00-\x08\x0e-\x1f\x7f-\x9f]")


class Stderr:
    """Keeps the last of what a child says and logs some lines of it: a flood costs neither memory nor the log."""

    KEPT = 64 * 1024
    LINE = 4 * 1024
    BURST = 20
    PER_SECOND = 10

    def __init__(self, *, now: Callable[[], float], log: Log | None = None, secrets: Iterable[str] = ()) -> None:
        self._now = now
        self._log = log
        self._secrets = sorted({one for one in secrets if len(one) >= SHORTEST_SECRET}, key=len, reverse=True)
        self._ring = bytearray()
        self._cut = False
        self._line = b""
        self._tokens = float(self.BURST)
        self._refilled = now()
        self._unlogged = 0

    def feed(self, chunk: bytes) -> None:
        """Take what the child has said."""
        self._ring += chunk
        if len(self._ring) > self.KEPT:
            del self._ring[: -self.KEPT]
            self._cut = True
        if self._log is not None:
            self._log_lines(chunk, self._log)

    def tail(self, size: int = 2048) -> str:
        """Return the last of it, redacted."""
        kept = bytes(self._ring)
        if self._cut:
            # The first line may have lost the words by which a secret on it is known.
            kept = kept.partition(b"\n")[2]
        # Redacted before it is cut, for the same reason.
        return self.clean(kept.decode("utf-8", "replace"))[-size:].strip()

    def clean(self, text: str) -> str:
        """Return the text without secrets and without what steers a terminal."""
        return redact(_ESCAPES.sub("", text), self._secrets)

    def _log_lines(self, chunk: bytes, log: Log) -> None:
        *lines, rest = (self._line + chunk).split(b"\n")
        self._line = rest[: self.LINE]
        for at, line in enumerate(lines):
            if not self._admitted():
                self._unlogged += len(lines) - at
                return
            if self._unlogged:
                log(f"({self._unlogged} lines of stderr not logged)")
                self._unlogged = 0
            log(self.clean(line[: self.LINE].decode("utf-8", "replace")))

    def _admitted(self) -> bool:
        now = self._now()
        self._tokens = min(self.BURST, self._tokens + (now - self._refilled) * self.PER_SECOND)
        self._refilled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

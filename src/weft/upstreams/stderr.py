"""What a child says on stderr: the last of it kept, a little of it logged, nothing in it that looks like a secret."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

Log: TypeAlias = Callable[[str], object]

HIDDEN = "[redacted]"
SHORTEST_SECRET = 8

# Every repetition is bounded or ends at a separator: a child chooses this text and must not choose the time it takes.
_NAMED = re.compile(
    r"""(?ix) ( (?: token | secret | passw(?:or)?d | passphrase | api[_-]?key | access[_-]?key | private[_-]?key
              | authorization | credential s? | cookie ) [\w.-]{0,40} ["']? \s{0,4} [=:] \s{0,4}
              (?: (?: bearer | basic ) \s{1,4} )? )
        ( "[^"\n]{0,512}" | '[^'\n]{0,512}' | [^\s,;&"']+ )"""
)
_SCHEME = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")
_SHAPED = re.compile(
    r"""(?x) \b (?: sk-[\w-]{16,} | gh[pousr]_\w{20,} | github_pat_\w{20,} | glpat-[\w-]{16,} | xox[a-z]-[\w-]{10,}
              | A(?:KIA|SIA)[A-Z0-9]{16} | AIza[\w-]{30,} | eyJ[\w-]{8,512}\.[\w-]+\.[\w-]* )"""
)
_USERINFO = re.compile(r"(://)[^\s/@:]*:[^\s/@]+@")
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[^\S\n\t ]|[\x00-\x08\x0e-\x1f\x7f-\x9f]")


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text without what looks like a secret, and without each secret that is known."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    text = _PEM.sub(HIDDEN, text)
    text = _USERINFO.sub(rf"\1{HIDDEN}@", text)
    text = _NAMED.sub(rf"\1{HIDDEN}", text)
    text = _SCHEME.sub(rf"\1 {HIDDEN}", text)
    return _SHAPED.sub(HIDDEN, text)


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

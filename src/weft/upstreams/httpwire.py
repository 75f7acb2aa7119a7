"""One HTTP/1.1 connection: a request out, an answer back, within limits of time and size."""

from __future__ import annotations

import asyncio
import math
import re
import select
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import httptools

from weft.errors import (
    DeadlineExceeded,
    InputError,
    UpstreamDied,
    UpstreamMessageTooLarge,
    UpstreamProtocolError,
    shown,
)

HIGH_WATER = 256 * 1024
"""More than this unread, and the connection stops reading until somebody takes it."""

KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}

FORBIDDEN = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "proxy-authenticate", "proxy-authorization"}
    | {"proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers of the hop, which are the connection's own business."""

TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
UNSAFE = re.compile(r"[^\t\x20-\x7e\x80-\xff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long and how much; seconds and bytes.

    `idle_read` bounds the pause inside a header or a body that has begun. The wait for its first byte, and for the next
    event of a stream, is bounded by the deadline of the request alone: tools may take their time. A stream that lasts
    has none: there, `stream_silence` without a byte, not even a comment, says that the server is no more.
    """

    connect: float = 10.0
    idle_read: float = 30.0
    stream_silence: float = 300.0
    keep_idle: float = 4.0
    header_bytes: int = 32 * 1024
    body_bytes: int = 8 * 1024 * 1024
    connections: int = 32
    queue: int = 64
    notify: float = 10.0


@dataclass(frozen=True, slots=True)
class Target:
    """A URL, taken apart once."""

    secure: bool
    host: str
    port: int
    authority: str
    path: str

    @classmethod
    def parse(cls, url: str) -> Target:
        """Read an http or https URL.

        Raises:
            InputError: it is not one, or has a user name, a fragment or characters that a request line cannot carry.
        """
        try:
            parts = urlsplit(url)
            port, host = parts.port, (parts.hostname or "").encode("idna").decode("ascii")
        except ValueError as error:
            raise InputError(f"not a URL: {shown(url)}: {error}") from None
        if parts.scheme not in ("http", "https") or not host:
            raise InputError(f"not an http or https URL: {shown(url)}")
        if parts.username is not None or parts.password is not None:
            raise InputError("a URL may not carry a user name or a password; give an Authorization header instead")
        if parts.fragment or re.search(r"[^\x21-\x7e]", url):
            raise InputError(f"a URL may have no fragment, space or character beyond ASCII: {shown(url)}")
        secure = parts.scheme == "https"
        shown_host = f"[{host}]" if ":" in host else host
        usual = port is None or port == (443 if secure else 80)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        authority = shown_host if usual else f"{shown_host}:{port}"
        return cls(secure, host, port or (443 if secure else 80), authority, path)


def clean_header(name: str, value: str) -> tuple[str, str]:
    """Return a header that may be sent, its name in lower case.

    Raises:
        InputError: it belongs to the hop, or would break out of its line; the value is not shown, it may be a secret.
    """
    lower = name.lower()
    if not TOKEN.fullmatch(name) or lower in FORBIDDEN:
        raise InputError(f"header {shown(name)} may not be set")
    if UNSAFE.search(value):
        raise InputError(f"the value of header {shown(name)} has a control character, or one beyond Latin-1")
    return lower, value.strip(" \t")


class Connection(asyncio.Protocol):
    """A connection, and the one exchange that it is busy with."""

    def __init__(self, name: str, limits: Limits, *, on_idle_end: Callable[[Connection], None]) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.complete = False
        """The answer is whole."""
        self.framed = True
        """The answer says where it ends; otherwise it ends with the connection, and a cut looks like an end."""
        self.resting = False
        """Set by the reader of a stream: all that came so far is whole, so silence is no fault."""
        self.kept_until = 0.0
        self._name, self._limits = name, limits
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._on_idle_end = on_idle_end
        self._transport = cast(asyncio.Transport, None)
        self._parser = httptools.HttpResponseParser(self)
        self._buffer = bytearray()
        self._busy = self._begun = self._answered = self._dirty = self._paused = self._progress = False
        self._keep_alive = False
        self._overhead = 0
        self._limit: int | None = None
        self._discarded: Callable[[Connection], None] | None = None
        self._failure: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = self._last = 0.0
        self._silence = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._tick_at = math.inf
        self._poll: select.poll | None = None
        self._head_size = 0

    # What the reader of an answer asks.

    def send(self, request: bytes, *, deadline: float, silence: float = math.inf) -> bool:
        """Send a request; False says that the very write failed, so that nothing of it left.

        `silence` bounds the time without a byte also where the server owes none.
        """
        self.status, self.headers, self._head_size = 0, {}, 0
        self._busy, self._begun, self._answered, self.complete = True, False, False, False
        self.framed, self.resting, self._overhead, self._limit = True, False, 0, None
        self._deadline, self._last, self._silence = deadline, self._loop.time(), silence
        self._transport.write(request)
        if self._transport.is_closing():
            return False
        self._tick_by(min(deadline, self._last + min(self._limits.idle_read, silence)))
        return True

    @property
    def coming(self) -> bool:
        """Whether more of the answer may still arrive."""
        return not self.complete and self._failure is None

    async def answered(self) -> None:
        """Wait for status and headers."""
        while not self._answered:
            await self._arrival()

    async def body(self, limit: int) -> bytearray:
        """Return the whole body, never a part of it."""
        declared = self.headers.get(b"content-length", b"")
        self._limit = limit
        if len(self._buffer) > limit or (declared.isdigit() and int(declared) > limit):
            self._too_large(limit)
            raise UpstreamMessageTooLarge(self._name, "its answer", limit=limit)
        self._resume()
        while not self.complete:
            await self._arrival()
        return self._buffer

    async def read(self) -> bytes:
        """Return what has arrived of the body, at least one byte of it; nothing at its end."""
        while not self._buffer:
            if self.complete:
                return b""
            await self._arrival()
        piece = bytes(self._buffer)
        self._buffer.clear()
        self._resume()
        return piece

    async def _arrival(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # What the pool asks.

    def release(self) -> bool:
        """End the exchange; False says that the connection must not be used again."""
        self._discarded = None
        self._resume()
        self._busy, self._buffer = False, bytearray()
        reusable = self.complete and self._keep_alive and not self._dirty and self._failure is None
        return reusable and not self._transport.is_closing() and self._transport.get_write_buffer_size() == 0

    def discard(self, then: Callable[[Connection], None], *, within: float) -> None:
        """Throw the rest of the answer away, then tell; a rest that is late or long costs the connection."""
        self._discarded, self._limit = then, HIGH_WATER
        self._deadline = self._loop.time() + within
        self._tick_by(self._deadline)
        self._resume()

    def alive(self) -> bool:
        """Whether it may still be used: not closed, and not kept for too long."""
        return not self._transport.is_closing() and self._loop.time() < self.kept_until

    def keep_time(self) -> float:
        """Return for how long the server keeps it open, as far as it said so, less a second for the way."""
        told = self.headers.get(b"keep-alive")
        found = re.search(rb"timeout=(\d{1,6})\b", told) if told is not None else None
        return self._limits.keep_idle if found is None else min(self._limits.keep_idle, int(found[1]) - 1)

    def readable(self) -> bool:
        """Whether the socket has something to tell that the loop has not read yet; of a kept one, that is its end."""
        return self._poll is not None and bool(self._poll.poll(0))

    def abort(self) -> None:
        """Close at once; what is in flight is lost."""
        self._transport.abort()

    def fail(self, error: Exception) -> None:
        """End the exchange with an error, unless its answer is whole, and close."""
        self._dirty = True
        if not self.complete and self._failure is None:
            self._failure = error
        self._transport.abort()
        self._wake()

    # What the event loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(sock.fileno(), select.POLLIN)
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            # A peer that vanished without a word, with no byte due from it, is found by nothing else.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in KEEP_ALIVE.items():
                if hasattr(socket, option):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            self.abort()  # Nobody asked: it cannot be the answer to anything.
            return
        self._begun, self._progress, self._last = True, False, self._loop.time()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._broke("it switched protocols, which nobody asked for")
        except httptools.HttpParserError as error:
            self._broke(f"not HTTP/1.1: {error}")
        self._overhead = 0 if self._progress else self._overhead + len(data)
        if self._overhead > self._limits.header_bytes:
            self._too_large(self._limits.header_bytes, "headers")
        self._wake()

    def eof_received(self) -> None:
        if self._answered and not self.framed and not self.complete and self._failure is None:
            self.complete = True
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
        if not self._busy:
            self._on_idle_end(self)
            return
        reason = "it cut its answer short" if self._begun else "it closed the connection before it answered"
        self.fail(UpstreamDied(self._name, f"{reason}{f' ({exc})' if exc else ''}; the request may have been handled"))

    def _tick_by(self, when: float) -> None:
        """Look at the time then, or earlier: a timer that an exchange leaves behind serves the next one too."""
        if when < self._tick_at:
            if self._timer is not None:
                self._timer.cancel()
            self._tick_at, self._timer = when, self._loop.call_at(when, self._tick)

    def _tick(self) -> None:
        self._tick_at, self._timer = math.inf, None
        if not self._busy:
            return
        now, idle = self._loop.time(), self._limits.idle_read
        waiting = self._begun and not self.resting and not self._paused and not self.complete
        if now >= self._deadline:
            self.fail(DeadlineExceeded(f"Upstream '{self._name}' did not answer in time; the request was given up"))
        elif waiting and now - self._last >= idle:
            self.fail(UpstreamDied(self._name, f"no byte for {idle:g} s in the middle of its answer"))
        elif not self._paused and now - self._last >= self._silence:
            self.fail(UpstreamDied(self._name, f"not a byte for {self._silence:g} s on its stream"))
        else:
            pause = min(idle, self._silence)
            last = self._last if now - self._last < pause else now
            self._tick_by(min(self._deadline, last + pause))

    # What the parser tells.

    def on_message_begin(self) -> None:
        if self.complete:
            self._dirty = True
        else:
            self.headers, self._head_size = {}, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._answered:
            return
        lower = name.lower()
        self._head_size += len(name) + len(value) + 4
        self.headers[lower] = self.headers[lower] + b", " + value if lower in self.headers else value

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200 or self.complete:
            return
        headers, self.status, self._progress = self.headers, status, True
        coding = headers.get(b"transfer-encoding", b"chunked").lower()
        content = headers.get(b"content-encoding", b"identity").lower()
        if self._head_size > self._limits.header_bytes:
            self._too_large(self._limits.header_bytes, "headers")
        elif coding != b"chunked":
            self._broke(f"Transfer-Encoding {shown(coding)} is not understood")
        elif status < 300 and content not in (b"identity", b""):
            self._broke(f"Content-Encoding {shown(content)}, though identity was asked for")
        else:
            self._answered = True
        self.framed = b"content-length" in headers or b"transfer-encoding" in headers or status in (204, 304)
        self._keep_alive = self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        self._progress = True
        if self.complete or self._failure is not None:
            return
        self._buffer += data
        if self._limit is not None:
            if len(self._buffer) > self._limit:
                self._too_large(self._limit)
        elif len(self._buffer) > HIGH_WATER and not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self._answered and self._failure is None:
            self.complete = True

    def _broke(self, reason: str) -> None:
        self.fail(UpstreamProtocolError(self._name, reason, status=self.status or None))

    def _too_large(self, limit: int, what: str = "its answer") -> None:
        self.fail(UpstreamMessageTooLarge(self._name, what, limit=limit))

    def _resume(self) -> None:
        if self._paused:
            self._paused, self._last = False, self._loop.time()
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if self._discarded is not None and (self.complete or self._failure is not None):
            then, self._discarded = self._discarded, None
            then(self)


def encode_head(method: str, start: str, headers: dict[str, str]) -> bytes:
    """Return a request up to its length; `start` ends with the host, the headers are `clean_header`s."""
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    return f"{method} {start}accept-encoding: identity\r\n{fields}".encode("latin-1")

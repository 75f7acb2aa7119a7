"""One request on a connection, and the answer to it: the ASGI half of the HTTP server."""

from __future__ import annotations

import asyncio
import http
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.doors.asgi import PROBLEM, Asgi, Message, Scope, error_body, problem_body, speaks_problems, speaks_rpc

if TYPE_CHECKING:
    from weft.doors.http1 import Connection

_log = logging.getLogger("weft.http")

BUFFERED = 65_536
"""How much of a body waits for the application before reading stops."""

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in http.HTTPStatus}
_ALWAYS = b"x-content-type-options: nosniff\r\nx-frame-options: DENY\r\n"
_ERROR = b"cache-control: no-store\r\nconnection: close\r\n"
_NO_BODY = frozenset((204, 304))
_INSIDE = "something is wrong inside weft; its log says more"


def last_answer(status: int, body: bytes, *, more: bytes = b"", kind: bytes = b"application/json") -> bytes:
    """Return a whole answer that is the last one on its connection."""
    head = _STATUS_LINES[status] + _ALWAYS + b"content-type: %b\r\n" % kind + _ERROR + more
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


class Exchange:
    """A request and its answer, as an ASGI application sees them."""

    __slots__ = (
        "_body",
        "_chunked",
        "_connection",
        "_continues",
        "_event",
        "_given",
        "_head",
        "_left",
        "_on_gone",
        "_whole",
        "answered",
        "gone",
        "keep_alive",
        "scope",
        "started",
        "task",
    )

    def __init__(self, connection: Connection, scope: Scope, *, keep_alive: bool, continues: bool) -> None:
        """Make one; `continues` says that the client waits for a word before it sends the body."""
        self.scope = scope
        self.keep_alive = keep_alive
        self.started = self.answered = self.gone = False
        self.task: asyncio.Task[None] | None = None
        self._connection = connection
        self._continues = continues
        self._body = b""
        self._whole = self._given = self._chunked = False
        self._event: asyncio.Event | None = None
        self._on_gone: Callable[[], object] | None = None
        self._head: bytes | None = None
        self._left: int | None = None

    async def run(self, app: Asgi) -> None:
        """Let the application answer, and answer for it when it fails."""
        try:
            await app(self.scope, self.receive, self.send)
            if not self.answered and not self.gone:
                raise RuntimeError("the application left the answer unfinished")
        except asyncio.CancelledError:
            self._instead(503, "ShuttingDown", "the request was ended before it had an answer")
        except Exception as error:
            if self.gone and isinstance(error, OSError):
                return
            _log.exception("cannot answer %s %s", self.scope["method"], self.scope["path"])
            self._instead(500, "InternalError", _INSIDE)
        finally:
            self._on_gone = None
            self._connection.ended(self)

    def _instead(self, status: int, code: str, message: str) -> None:
        """Answer in place of the application; an answer that has begun can only be cut off."""
        if self.gone or self.answered:
            return
        if self.started and self._head is None:
            self._connection.abort()
            return
        more = b"retry-after: 1\r\n" if status == 503 else b""
        self.keep_alive = False
        if speaks_problems(self.scope):
            self._end(last_answer(status, problem_body(status, code, message), more=more, kind=PROBLEM))
        else:
            self._end(last_answer(status, error_body(code, message, rpc=speaks_rpc(self.scope)), more=more))

    def fed(self, part: bytes) -> None:
        """Take a part of the body."""
        self._body = self._body + part if self._body else part
        if len(self._body) > BUFFERED:
            self._connection.pause()
        self._wake()

    def complete(self) -> None:
        """Take note that the body is all there."""
        self._whole = True
        self._wake()

    def disconnect(self) -> None:
        """Tell the application that nobody waits for its answer any more."""
        if not self.answered and not self.gone:
            self.gone = True
            self._wake()
            if self._on_gone is not None:
                self._on_gone()

    def on_gone(self, callback: Callable[[], object]) -> None:
        """Call back if the client goes away before it has its answer; a later callback replaces an earlier one."""
        self._on_gone = callback
        if self.gone:
            callback()

    def _wake(self) -> None:
        if self._event is not None:
            self._event.set()

    async def receive(self) -> Message:
        """Return the next part of the body; after the last one, wait for the client to go or to have its answer."""
        if self._continues:
            self._continues = False
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not self.gone and not self.answered:
            if not self._given and (self._body or self._whole):
                body, self._body = self._body, b""
                self._given = self._whole
                self._connection.resume()
                return {"type": "http.request", "body": body, "more_body": not self._whole}
            self._connection.resume()
            if self._event is None:
                self._event = asyncio.Event()
            self._event.clear()
            await self._event.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take a part of the answer; waits while the client is slow to read.

        Raises:
            ConnectionResetError: the client has gone, and nobody needs more of it.
        """
        if self._connection.writable is not None and not self.gone:
            await self._connection.writable.wait()
        if self.gone:
            raise ConnectionResetError("the client has gone")
        kind = message["type"]
        if kind == "http.response.body" and self.started and not self.answered:
            self._send_body(message.get("body", b""), more=message.get("more_body", False))
        elif kind == "http.response.start" and not self.started:
            self._send_start(message["status"], message.get("headers", ()))
        else:
            raise RuntimeError(f"unexpected ASGI message {kind!r}")

    def _send_start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        lines: list[bytes] = []
        stored = False
        if self._continues:
            # Whether the client sends the body after all is not known, so nothing after this can be understood.
            self.keep_alive = False
        for name, value in headers:
            lines += (name, b": ", value, b"\r\n")
            if name == b"content-length":
                self._left = int(value)
            elif name == b"cache-control":
                stored = True
            elif name == b"connection" and value.lower() == b"close":
                self.keep_alive = False
        parts = [_STATUS_LINES[status], self._connection.date, _ALWAYS, _safe(b"".join(lines), len(headers))]
        if not stored:
            parts.append(b"cache-control: no-store\r\n")
        if self.scope["method"] == "HEAD" or status in _NO_BODY:
            self._left = None
        elif self._left is None:
            self._frame_without_length(parts)
        if not self.keep_alive:
            parts.append(b"connection: close\r\n")
        parts.append(b"\r\n")
        self.started, self._head = True, b"".join(parts)

    def _frame_without_length(self, parts: list[bytes]) -> None:
        if self.scope["http_version"] == "1.1":
            self._chunked = True
            parts.append(b"transfer-encoding: chunked\r\n")
        else:
            self.keep_alive = False

    def _send_body(self, body: bytes, *, more: bool) -> None:
        if self._chunked:
            out = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            out = out if more else out + b"0\r\n\r\n"
        elif self.scope["method"] == "HEAD":
            out = b""
        else:
            out = body
            self._count(len(body), more=more)
        if self._head is not None:
            out, self._head = self._head + out, None
        if more:
            self._connection.write(out)
        else:
            self._end(out)

    def _count(self, size: int, *, more: bool) -> None:
        """Hold the answer to the length that it announced: another would be read as the next answer."""
        if self._left is None:
            return
        self._left -= size
        if self._left < 0 or (self._left and not more):
            raise RuntimeError("the body is not as long as its content-length says")

    def _end(self, out: bytes) -> None:
        self.started = self.answered = True
        self._connection.write(out)
        self._wake()
        self._connection.answered(self)


def _safe(lines: bytes, count: int) -> bytes:
    """Return lines of headers, in which none smuggles a line of its own."""
    if lines.count(b"\n") != count or lines.count(b"\r") != count or b"\0" in lines:
        raise RuntimeError("a header of the answer holds a control character")
    return lines

"""An HTTP/1.1 connection: from bytes to requests, strictly, and with limits on time and size.

llhttp refuses most of what request smuggling is made of; what it lets through (other transfer codings, trailers, bodies
behind an upgrade that is not made) is dealt with here. It is our own because uvicorn has no limits on the time and size
of headers and bodies, loses the body of a request that offers h2c (Java's client does), passes trailers on as headers
and does not tell a pipelined request that its client has gone: nearly every method of it would have to be replaced.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import IntEnum
from typing import TYPE_CHECKING, Any, cast

import httptools

from weft.doors.asgi import GONE, error_body
from weft.doors.exchange import Exchange, last_answer
from weft.doors.requests import About, Refused, about, scope_of, without_upgrade

if TYPE_CHECKING:
    from weft.doors.listener import Listener

PIPELINED = 16
"""How many requests may wait on a connection for the answer to an earlier one."""

LINGER = 1.0
"""Seconds that a client has to read a last answer while it is still sending."""


class Phase(IntEnum):
    """What a connection waits for."""

    NEW = 0
    HEADERS = 1
    BODY = 2
    ANSWER = 3
    IDLE = 4


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, listener: Listener) -> None:
        """Make one for a listener, whose limits it keeps."""
        self.phase = Phase.NEW
        self.since = listener.loop.time()
        self.writable: asyncio.Event | None = None
        self.address = ""
        self.paused_at = 0.0
        self._listener = listener
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._about = About(None, None, "http")
        self._reading = True
        self._running: Exchange | None = None
        self._reads: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._size = 0
        self._last = b""
        self._in_headers = False
        self._continues = self._coded = self._upgrade = False
        self._unsent = 0

    @property
    def date(self) -> bytes:
        """The date header of an answer that is sent now."""
        return self._listener.date

    # The life of the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, if there are not too many."""
        self._transport = cast("asyncio.Transport", transport)
        self._about = about(transport)
        self.address = self._about.client[0] if self._about.client else ""
        problem = self._listener.admit(self)
        if problem is not None:
            self._refuse(last_answer(503, error_body(*problem), more=b"retry-after: 5\r\n"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever works for this client that it has gone."""
        self._listener.forget(self)
        self._sent()
        self._drop()
        if self.writable is not None:
            self.writable.set()

    def pause_writing(self) -> None:
        """Hold whoever answers: the client is slow to read."""
        self.writable = asyncio.Event()
        self.paused_at = self._listener.loop.time()
        self._unsent = self._transport.get_write_buffer_size()
        self._listener.unsent += self._unsent

    def resume_writing(self) -> None:
        """Let whoever answers go on."""
        if self.writable is not None:
            self._sent()
            self.writable.set()
            self.writable = None

    def _sent(self) -> None:
        self._listener.unsent -= self._unsent
        self._unsent = 0

    def write(self, data: bytes) -> None:
        """Send bytes to the client, if it is still there."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def abort(self) -> None:
        """Cut the connection, so that the client cannot take half an answer for a whole one."""
        self._transport.abort()

    def close(self) -> None:
        """Close the connection once what was written is sent."""
        self._transport.close()

    def pause(self) -> None:
        """Stop reading."""
        if self._reading and not self._transport.is_closing():
            self._reading = False
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on, unless requests wait here for their turn."""
        if not self._reading and not self._waiting and not self._transport.is_closing():
            self._reading = True
            self.since = self._listener.loop.time()
            self._transport.resume_reading()

    def late(self, limits: tuple[float, ...], now: float) -> None:
        """Act if the client has kept us waiting for too long."""
        if self.writable is not None:
            if now - self.paused_at > limits[Phase.ANSWER]:
                self.abort()
            return
        if self._parser is None or not self._reading or self.phase is Phase.ANSWER:
            return
        if now - self.since <= limits[self.phase]:
            return
        if self.phase in (Phase.NEW, Phase.IDLE) or (self._reads is not None and self._reads.answered):
            self.close()
            return
        part = "headers" if self.phase is Phase.HEADERS else "body"
        self._listener.timeouts += 1
        self._refuse(last_answer(408, error_body("RequestTimeout", f"the {part} of the request did not come in time")))

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight here."""
        return self._running is None and not self._waiting

    def draining(self) -> None:
        """Make the answer in flight the last one."""
        for exchange in (self._running, *self._waiting):
            if exchange is not None:
                exchange.keep_alive = False

    def _refuse(self, answer: bytes) -> None:
        """Read no more, and end the connection with an answer; those to earlier requests go first."""
        self._parser = None
        running = self._running
        if running is None or (running is self._reads and self.phase is Phase.BODY):
            self._last_words(answer)
            return
        if self._waiting and self._waiting[-1] is self._reads and self.phase is Phase.BODY:
            self._waiting.pop()
        self._last = answer

    def _last_words(self, answer: bytes) -> None:
        if self._running is not None and self._running.started:
            self.abort()
        else:
            self.write(answer)
            self._linger()
        self._drop()

    def _linger(self) -> None:
        """Close, but let the client read the answer first: unread bytes would make the close a reset."""
        self._parser = None
        if self._transport.is_closing():
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()
        self._listener.loop.call_later(LINGER, self._transport.close)

    def _drop(self) -> None:
        self._parser = None
        self._waiting.clear()
        for exchange in (self._running, self._reads):
            if exchange is not None:
                exchange.disconnect()

    # From bytes to requests

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client."""
        if self._parser is None:
            return
        phase = self.phase
        self._size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError as error:
            self._refuse_for(error)
            return
        if self.phase is not phase and self.phase is Phase.BODY:
            self.since = self._listener.loop.time()
        elif self._in_headers and self._size > self._listener.limits.header_bytes:
            refused = self._headers_too_large()
            self._listener.refusals[refused.code] += 1
            self._refuse(refused.answer)

    def _refuse_for(self, error: httptools.HttpParserError) -> None:
        cause = error.__context__
        if isinstance(cause, Refused):
            self._listener.refusals[cause.code] += 1
            self._refuse(cause.answer)
        else:
            self._listener.refusals["MalformedRequest"] += 1
            self._refuse(last_answer(400, error_body("MalformedRequest", f"this is not an HTTP request: {error}")))

    def _decline_upgrade(self, rest: bytes) -> None:
        """Take the request as if it had not offered another protocol, which a server is free to do."""
        if self._parser.get_method() == b"CONNECT":
            self._refuse(last_answer(405, error_body("MethodNotAllowed", "this is not a proxy")))
            return
        again = without_upgrade(self._parser.get_method(), self._url, self._headers)
        self._parser = httptools.HttpRequestParser(self)
        self._size = 0
        self.data_received(again + rest)

    def on_message_begin(self) -> None:
        """Begin a request."""
        self.phase = Phase.HEADERS
        self.since = self._listener.loop.time()
        self._in_headers = True
        self._url = b""
        self._headers = []
        self._continues = self._coded = self._upgrade = False

    def on_url(self, url: bytes) -> None:
        """Take a part of the request's target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; one that comes after the body says nothing here."""
        if not self._in_headers:
            return
        name = name.lower()
        self._headers.append((name, value))
        if name == b"transfer-encoding":
            # llhttp takes `gzip, chunked` too; only the plain coding has one meaning everywhere.
            if value.lower() != b"chunked":
                raise Refused(400, "MalformedRequest", "the only transfer-encoding taken is chunked")
            self._coded = True
        elif name == b"expect":
            self._continues = value.lower() == b"100-continue"

    def on_headers_complete(self) -> None:
        """Let the application begin; it can read the body while it comes."""
        self._in_headers = False
        self.phase = Phase.BODY
        parser = self._parser
        if parser.should_upgrade():
            self._upgrade = True
            return
        version: str = parser.get_http_version()
        if self._coded and version != "1.1":
            raise Refused(400, "MalformedRequest", "HTTP/1.0 has no transfer-encoding")
        if self._size > self._listener.limits.header_bytes:
            self._measure()
        self._size = 0
        exchange = Exchange(
            self,
            scope_of(parser.get_method(), self._url, self._headers, self._about, version=version),
            keep_alive=version == "1.1" and parser.should_keep_alive() and not self._listener.draining,
            continues=self._continues,
        )
        exchange.scope[GONE] = exchange.on_gone
        self._reads = exchange
        if self._running is None:
            self._start(exchange)
        else:
            self._queue(exchange)

    def _measure(self) -> None:
        """Refuse headers that are too large; a large body that came along with them is no reason."""
        size = len(self._url) + sum(len(name) + len(value) + 4 for name, value in self._headers)
        if size > self._listener.limits.header_bytes:
            raise self._headers_too_large()

    def _headers_too_large(self) -> Refused:
        limit = self._listener.limits.header_bytes
        return Refused(431, "HeadersTooLarge", f"the headers of a request may have {limit} bytes")

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if self._reads is not None and not self._reads.answered:
            self._reads.fed(body)

    def on_message_complete(self) -> None:
        """Take note that the request is all there."""
        if self._upgrade or self._reads is None:
            return
        self.phase = Phase.ANSWER
        self._size = 0
        self._reads.complete()
        if self._reads.answered:
            self._rest()

    # One answer after another

    def _start(self, exchange: Exchange) -> None:
        self._running = exchange
        exchange.task = self._listener.start_exchange(exchange)

    def _queue(self, exchange: Exchange) -> None:
        if len(self._waiting) >= PIPELINED:
            raise Refused(400, "TooManyPipelined", f"more than {PIPELINED} requests wait for an answer here")
        self._waiting.append(exchange)
        self.pause()

    def answered(self, exchange: Exchange) -> None:
        """Go on to what comes after an answer."""
        self._running = None
        if not exchange.keep_alive:
            (self._linger if self.phase is Phase.BODY else self.close)()
        elif self._waiting:
            self._start(self._waiting.popleft())
        elif self._last:
            self._last_words(self._last)
        elif self.phase is Phase.ANSWER:
            self._rest()
        self.resume()

    def ended(self, exchange: Exchange) -> None:
        """Take note that the application has done its part."""
        self._listener.exchanges.discard(exchange)

    def _rest(self) -> None:
        self.phase = Phase.IDLE
        self.since = self._listener.loop.time()
        self._reads = None

"""Connections to one origin: kept, counted, queued for, and never trusted to be open still.

A kept connection is looked at before it is used: closed, readable or old, it is dropped, and nothing was sent. A
request is sent again, once, only if it was written and that very write failed, so that no byte of it left. In all other
cases the server may have read it: UpstreamDied with an unknown outcome, and what to do is for the caller to decide.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import ssl
from collections import deque

from weft.errors import DeadlineExceeded, UpstreamDied, UpstreamUnavailable
from weft.upstreams.httpdial import AllowAddress, Dialer
from weft.upstreams.httpwire import Connection, Limits, Target, encode_head


class Response:
    """An answer whose headers are here; it must be closed."""

    __slots__ = ("_connection", "_open", "_pool", "status")

    def __init__(self, connection: Connection, pool: Pool) -> None:
        self.status = connection.status
        self._connection = connection
        self._pool = pool
        self._open = True

    def header(self, name: bytes) -> str:
        """Return a header by its name in lower case, or nothing."""
        return self._connection.headers.get(name, b"").decode("latin-1")

    def is_json(self) -> bool:
        """Whether the body says that it is JSON, in the plainest of ways."""
        return self._connection.headers.get(b"content-type") == b"application/json"

    def headers(self) -> dict[str, str]:
        """Return all headers, by their names in lower case."""
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self._connection.headers.items()}

    @property
    def framed(self) -> bool:
        """Whether a cut of the body can be told from its end."""
        return self._connection.framed

    def rest(self, resting: bool) -> None:
        """Say whether silence is no fault now, since all that came is whole."""
        self._connection.resting = resting

    async def body(self, limit: int) -> bytearray:
        """Return the whole body, or raise."""
        return await self._connection.body(limit)

    async def read(self) -> bytes:
        """Return the next bytes of the body, or nothing at its end."""
        return await self._connection.read()

    def close(self, *, grace: float = 0.0) -> None:
        """Give the connection back if the answer was whole, or gets so within the grace; else close it."""
        if not self._open:
            return
        self._open = False
        if grace and self._connection.coming:
            self._connection.discard(self._pool.give_back, within=grace)
        else:
            self._pool.give_back(self._connection)


class Pool:
    """The connections to one origin."""

    def __init__(
        self,
        name: str,
        target: Target,
        *,
        limits: Limits,
        tls: ssl.SSLContext | None = None,
        allow_address: AllowAddress | None = None,
        proxy: str | None = None,
    ) -> None:
        self._name, self._target, self._limits = name, target, limits
        self._dialer = Dialer(target, tls=tls, allow_address=allow_address, proxy=proxy)
        self._start = self._dialer.start
        self._idle: deque[Connection] = deque()
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._all: set[Connection] = set()
        self._lasting: set[Connection] = set()
        self._permits = limits.connections
        self._sweeper: asyncio.TimerHandle | None = None
        self.closed = False

    @property
    def open_connections(self) -> int:
        """How many connections are open now, in use or kept."""
        return len(self._all)

    def head(self, method: str, headers: dict[str, str]) -> bytes:
        """Return what a request with these headers, which are clean, begins with; it may be used many times."""
        return encode_head(method, self._start, headers)

    async def request(self, head: bytes, body: bytes | None, *, deadline: float) -> Response:
        """Send a request and return its answer once the headers are here.

        One without a deadline (math.inf) is for a stream that lasts: it gets a connection of its own, which takes no
        other's place and is not kept.

        Raises:
            UpstreamUnavailable: nothing was sent.
            UpstreamDied: something was, and no whole answer came back.
            DeadlineExceeded: the deadline passed; `retryable` says whether anything was sent.
        """
        if asyncio.get_running_loop().time() >= deadline:
            raise not_sent(self._name, "before it began")
        data = b"%b\r\n" % head if body is None else b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body)
        connection = await self._sent(data, deadline) if deadline < math.inf else await self._lasts(data)
        try:
            await connection.answered()
        except BaseException:
            self.give_back(connection)
            raise
        return Response(connection, self)

    async def _sent(self, data: bytes, deadline: float) -> Connection:
        """Send a request over a kept connection, or a new one, or once more over a new one if nothing of it left."""
        connection = self._kept() or await self._acquire(deadline)
        if not connection.send(data, deadline=deadline):
            self.give_back(connection)
            connection = await self._acquire(deadline)
            if not connection.send(data, deadline=deadline):
                self.give_back(connection)
                raise self._unsent()
        return connection

    async def _lasts(self, data: bytes) -> Connection:
        """Send a request over a new connection that is nobody else's."""
        connection = await self._connect(math.inf)
        self._lasting.add(connection)
        if not connection.send(data, deadline=math.inf, silence=self._limits.stream_silence):
            self.give_back(connection)
            raise self._unsent()
        return connection

    def _unsent(self) -> UpstreamUnavailable:
        return UpstreamUnavailable(self._name, "it closed the connection before the request was sent")

    def give_back(self, connection: Connection) -> None:
        """Take a connection back after an exchange, to be kept, handed on or closed."""
        if connection in self._lasting:
            self._lasting.discard(connection)
            connection.release()
            connection.abort()
            return
        if not connection.release() or self.closed:
            connection.abort()
            self._freed()
            return
        now = asyncio.get_running_loop().time()
        connection.kept_until = now + connection.keep_time()
        if (waiter := self._next_waiter()) is not None:
            waiter.set_result(connection)
            return
        self._idle.append(connection)
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(self._limits.keep_idle, self._sweep)

    async def close(self) -> None:
        """Close every connection, in use or not."""
        self.closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        while (waiter := self._next_waiter()) is not None:
            waiter.set_exception(UpstreamUnavailable(self._name, "weft closed its connections"))
        ending = [connection.closed for connection in self._all]
        for connection in list(self._all):
            connection.fail(UpstreamDied(self._name, "weft closed the connection"))
        if ending:
            await asyncio.wait(ending, timeout=1.0)

    def _kept(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.alive() and not connection.readable():
                return connection
            connection.abort()
            self._freed()
        return None

    async def _acquire(self, deadline: float) -> Connection:
        """Return a new connection, or when all are in use, the first that comes back."""
        if self.closed:
            raise UpstreamUnavailable(self._name, "weft closed its connections")
        if self._permits > 0:
            self._permits -= 1
        elif (connection := await self._turn(deadline)) is not None:
            return connection
        try:
            return await self._connect(deadline)
        except BaseException:
            self._freed()
            raise

    async def _turn(self, deadline: float) -> Connection | None:
        """Wait in the queue for a connection, or for the permit to open one."""
        if len(self._waiting) >= self._limits.queue:
            reason = f"{self._limits.connections} requests are in flight and {self._limits.queue} wait"
            raise UpstreamUnavailable(self._name, reason, code="UpstreamBusy")
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout_at(deadline):
                return await waiter
        except TimeoutError:
            self._left(waiter)
            raise not_sent(self._name, "waiting for a free connection") from None
        except asyncio.CancelledError:
            self._left(waiter)
            raise

    def _left(self, waiter: asyncio.Future[Connection | None]) -> None:
        """Pass on what a waiter that gave up was handed in the same turn of the loop."""
        with contextlib.suppress(ValueError):
            self._waiting.remove(waiter)
        if waiter.cancelled() or waiter.exception() is not None:
            return
        if (connection := waiter.result()) is not None:
            self.give_back(connection)
        else:
            self._freed()

    def _next_waiter(self) -> asyncio.Future[Connection | None] | None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                return waiter
        return None

    def _freed(self) -> None:
        if (waiter := self._next_waiter()) is not None:
            waiter.set_result(None)
        else:
            self._permits += 1

    def _ended(self, connection: Connection) -> None:
        with contextlib.suppress(ValueError):
            self._idle.remove(connection)
            self._freed()

    def _make(self) -> Connection:
        return Connection(self._name, self._limits, on_idle_end=self._ended)

    def _sweep(self) -> None:
        for connection in [kept for kept in self._idle if not kept.alive()]:
            connection.abort()
            self._ended(connection)
        loop = asyncio.get_running_loop()
        self._sweeper = loop.call_later(self._limits.keep_idle, self._sweep) if self._idle else None

    async def _connect(self, deadline: float) -> Connection:
        now = asyncio.get_running_loop().time()
        until = min(deadline, now + self._limits.connect)
        try:
            async with asyncio.timeout_at(until):
                connection = await self._dialer.open(self._make, until)
        except TimeoutError as error:
            if until >= deadline:
                raise not_sent(self._name, "connecting") from None
            reason = f"no connection to {self._target.authority} within {self._limits.connect:g} s"
            raise UpstreamUnavailable(self._name, reason) from error
        except (OSError, UnicodeError) as error:
            reason = f"no connection to {self._target.authority}: {what_failed(error)}"
            raise UpstreamUnavailable(self._name, reason) from error
        self._all.add(connection)
        connection.closed.add_done_callback(lambda _: self._all.discard(connection))
        if self.closed:
            connection.abort()
            raise UpstreamUnavailable(self._name, "weft closed its connections")
        return connection


def not_sent(name: str, doing: str) -> DeadlineExceeded:
    """Return the error of a deadline that passed before anything was sent."""
    error = DeadlineExceeded(f"Upstream '{name}': the deadline passed {doing}; nothing was sent")
    error.retryable = "yes"
    return error


def what_failed(error: Exception) -> str:
    """Return what kept a connection from opening, in the words of the system rather than of asyncio."""
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.strerror or error}"
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    return str(error)

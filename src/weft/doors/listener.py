"""Listening: sockets, connections within limits, TLS, and an end that lets requests in flight finish."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import signal
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any, TypeVar

from weft.doors.accepting import Acceptor
from weft.doors.asgi import Asgi, Receive, Scope, Send, refuse
from weft.doors.exchange import Exchange
from weft.doors.http1 import Connection
from weft.errors import InputError, said_by

_T = TypeVar("_T")
_log = logging.getLogger("weft.http")
_BACKLOG = 2048
CLOSING = 1.0
"""Seconds that clients get to read their last answers when everything is closed."""

_CANCELLED = 5.0
"""Seconds that cancelled requests get to clean up after themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a listener bears of its clients; seconds and bytes."""

    header_timeout: float = 10.0
    body_timeout: float = 30.0
    idle_timeout: float = 75.0
    write_timeout: float = 30.0
    header_bytes: int = 32_768
    connections: int = 8_192
    connections_per_ip: int = 256
    uncapped: tuple[str, ...] = ("127.0.0.0/8", "::1/128")
    """Networks without a limit per address: this machine, and proxies through which many come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The certificate of a listener, and its key."""

    cert: Path
    key: Path
    client_ca: Path | None = None
    """Certificates of which one must have signed every client's own."""

    def context(self) -> ssl.SSLContext:
        """Return what the listener needs to speak TLS.

        Raises:
            InputError: the files cannot be read, or do not belong together.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        try:
            self.load_into(context)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(str(file) for file in (self.cert, self.key, self.client_ca) if file is not None)
            raise InputError(f"cannot use the certificate and key in {files}: {error}") from error
        return context

    def load_into(self, context: ssl.SSLContext) -> None:
        """Give a context what the files hold now; connections that are made from then on use it."""
        context.load_cert_chain(self.cert, self.key)
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED


class Listener:
    """An ASGI application on sockets."""

    def __init__(
        self,
        app: Asgi,
        *,
        sockets: Sequence[socket.socket],
        tls: Tls | None = None,
        limits: Limits | None = None,
        shared_by: int = 1,
        on_drain: Callable[[], object] | None = None,
    ) -> None:
        """Make one; the sockets are bound, are closed by it, and so many processes accept connections on them.

        `on_drain` is told when the end begins, to end what would not end by itself.
        """
        self.limits = limits or Limits()
        self.sockets = tuple(sockets)
        self.draining = False
        self.date = b""
        self.exchanges: set[Exchange] = set()
        self.connections: set[Connection] = set()
        self.unsent = 0
        """Bytes of answers that clients are slow to read."""
        self.refused_connections = 0
        self.timeouts = 0
        self.refusals: Counter[str] = Counter()
        """Requests that could not be read, by the names of their errors."""
        self._app = app
        self._files = tls
        self._tls = tls.context() if tls is not None else None
        self._shared_by = shared_by
        self._on_drain = on_drain
        self._servers: list[asyncio.AbstractServer | Acceptor] = []
        self._by_address: Counter[str] = Counter()
        self._uncapped = tuple(ipaddress.ip_network(network) for network in self.limits.uncapped)
        self._empty = asyncio.Event()
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first socket."""
        host, port = self.sockets[0].getsockname()[:2]
        return host, port

    async def start(self) -> None:
        """Begin to accept connections."""
        self.loop = asyncio.get_running_loop()
        self._tick()
        handshake = None if self._tls is None else self.limits.header_timeout
        for each in self.sockets:
            each.setblocking(False)
            if self._shared_by > 1:
                self._servers.append(self._acceptor(each, handshake))
                continue
            server = await self.loop.create_server(
                lambda: Connection(self),
                sock=each,
                ssl=self._tls,
                backlog=_BACKLOG,
                ssl_handshake_timeout=handshake,
            )
            self._servers.append(server)

    def renew_certificate(self) -> None:
        """Read the certificate again, for connections from now on.

        Raises:
            InputError: it cannot be used; the old one stays.
        """
        if self._files is not None and self._tls is not None:
            # Tried on another context first: half of a new pair would be of no use to this one.
            self._files.context()
            self._files.load_into(self._tls)

    def _acceptor(self, each: socket.socket, handshake: float | None) -> Acceptor:
        return Acceptor(
            each,
            protocol=lambda: Connection(self),
            having=lambda: len(self.connections),
            tls=self._tls,
            handshake_timeout=handshake,
        )

    def start_exchange(self, exchange: Exchange) -> asyncio.Task[None]:
        """Let the application answer a request."""
        self.exchanges.add(exchange)
        return self.loop.create_task(exchange.run(self._app))

    def admit(self, connection: Connection) -> tuple[str, str] | None:
        """Count a new connection; return the code and the sentence of a refusal when there are too many."""
        self.connections.add(connection)
        self._by_address[connection.address] += 1
        if len(self.connections) > self.limits.connections:
            problem = ("TooManyConnections", f"more than {self.limits.connections} connections are open")
        elif self._over(connection.address):
            problem = ("TooManyConnections", f"more than {self.limits.connections_per_ip} connections from one address")
        else:
            return None
        self.refused_connections += 1
        return problem

    def _over(self, address: str) -> bool:
        if self._by_address[address] <= self.limits.connections_per_ip:
            return False
        try:
            ip = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:  # a unix socket has no address
            return False
        mapped = getattr(ip, "ipv4_mapped", None) or ip
        return not any(mapped in network for network in self._uncapped)

    def forget(self, connection: Connection) -> None:
        """Count a connection no longer."""
        self.connections.discard(connection)
        self._by_address[connection.address] -= 1
        if not self._by_address[connection.address]:
            del self._by_address[connection.address]
        if self.draining and not self.connections:
            self._empty.set()

    def _tick(self) -> None:
        """Look after every connection: one timer for all costs less than one for each request."""
        limits = self.limits
        times = (
            limits.header_timeout,
            limits.header_timeout,
            limits.body_timeout,
            limits.write_timeout,
            limits.idle_timeout,
        )
        now = self.loop.time()
        for connection in tuple(self.connections):
            connection.late(times, now)
        self.date = b"date: %b\r\n" % formatdate(usegmt=True).encode()
        self._sweeper = self.loop.call_later(min(1.0, min(times) / 4), self._tick)

    async def drain(self, seconds: float) -> None:
        """Accept no more, let requests in flight finish for some seconds, then end them and close everything."""
        self.draining = True
        self._app = _shutting_down
        for server in self._servers:
            server.close()
        for each in self.sockets:
            each.close()
        if self._sweeper is None:
            return
        for connection in self.connections:
            connection.draining()
        if self._on_drain is not None:
            self._on_drain()
        tasks = await self._wait(seconds)
        for task in tasks:
            task.cancel()
        if tasks and (stuck := await self._wait(_CANCELLED)):
            _log.error("%d requests do not end although they were cancelled", len(stuck))
        await self._close_connections()
        self._sweeper.cancel()

    async def _wait(self, seconds: float) -> set[asyncio.Task[None]]:
        """Wait for the requests in flight, those too that come in meanwhile; return what is left."""
        until = self.loop.time() + seconds
        while tasks := {task for each in self.exchanges if (task := each.task) is not None and not task.done()}:
            if not (await asyncio.wait(tasks, timeout=max(0.0, until - self.loop.time())))[0]:
                return tasks
        return set()

    async def _close_connections(self) -> None:
        for connection in tuple(self.connections):
            connection.close()
        if self.connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), CLOSING)
        for connection in tuple(self.connections):
            connection.abort()
        await asyncio.sleep(0)


async def _shutting_down(scope: Scope, receive: Receive, send: Send) -> None:
    """Send clients elsewhere, or to a later moment."""
    close = [(b"connection", b"close")]
    await refuse(scope, send, 503, "ShuttingDown", "the gateway is shutting down", retry_after=5, headers=close)


async def serve(
    *listeners: Listener,
    drain: float = 10.0,
    on_started: Callable[[], object] | None = None,
    on_stop: Callable[[], Awaitable[object]] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or the event, then let requests in flight finish for at most `drain` seconds.

    A second signal ends the process at once. `on_stop` runs when the last request has ended.
    """
    stop = stop or asyncio.Event()
    with stopped_by_signals(stop):
        try:
            for listener in listeners:
                await listener.start()
            if on_started is not None:
                on_started()
            await stop.wait()
        finally:
            # The admin listener comes last in the list and is drained with the others: it has nothing that lasts.
            await asyncio.gather(*(listener.drain(drain) for listener in listeners))
            if on_stop is not None:
                await on_stop()


@contextlib.contextmanager
def stopped_by_signals(stop: asyncio.Event) -> Generator[None]:
    """Set the event at SIGTERM and SIGINT; at the second, end the process."""
    loop = asyncio.get_running_loop()

    def stopped(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    handled: list[int] = []
    # Only the main thread may: elsewhere, as in a test, the event is the way to stop.
    with contextlib.suppress(RuntimeError, ValueError, NotImplementedError):
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped, number)
            handled.append(number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address.

    Raises:
        InputError: the address is not ours, or in use.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # Of the two addresses of `localhost`, clients try the older one too.
        family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
        return socket.create_server((str(address[0]), int(address[1])), family=family, backlog=_BACKLOG)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = "the port is taken" if taken else said_by(error)
        hint = "take another, or 0 for a free one, with --port, or --admin-port for operators" if taken else None
        raise InputError(f"cannot listen on {host}:{port}: {why}", code="CannotListen", hint=hint) from error


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """Run to the end, on uvloop where it is installed."""
    try:
        import uvloop  # noqa: PLC0415 - an option: weft[fast]
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)

"""Accepting connections on a socket that several processes share, so that each gets about as many.

A process that accepts all it can, as event loops do, leaves the others with nothing to do while its clients keep their
connections. Here each takes one at a time, and who has more of them waits a little longer before it takes the next.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable

_log = logging.getLogger("weft.http")

STEP = 0.0005
"""Seconds by which each connection that a process has puts off its next one."""

LONGEST = 0.002
EXHAUSTED = 1.0
"""Seconds to wait for a free file descriptor."""

_NO_ROOM = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Acceptor:
    """Takes connections from one shared socket."""

    def __init__(
        self,
        listening: socket.socket,
        *,
        protocol: Callable[[], asyncio.Protocol],
        having: Callable[[], int],
        tls: ssl.SSLContext | None = None,
        handshake_timeout: float | None = None,
    ) -> None:
        """Begin; `having` says how many connections this process has now."""
        self._listening = listening
        self._protocol = protocol
        self._having = having
        self._tls = tls
        self._handshake_timeout = handshake_timeout
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(listening, self._readable)

    def close(self) -> None:
        """Take no more."""
        self._loop.remove_reader(self._listening)
        if self._timer is not None:
            self._timer.cancel()

    def _readable(self) -> None:
        self._loop.remove_reader(self._listening)
        self._timer = self._loop.call_later(min(LONGEST, STEP * self._having()), self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            pass
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            _log.error("cannot accept connections: %s", error)
            self._timer = self._loop.call_later(EXHAUSTED, self._accept)
            return
        else:
            self._open(connection)
        self._loop.add_reader(self._listening, self._readable)

    def _open(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        task = self._loop.create_task(self._opened(connection))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _opened(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._protocol, connection, ssl=self._tls, ssl_handshake_timeout=self._handshake_timeout
            )
        except (OSError, TimeoutError) as error:
            # A handshake that fails is the client's affair, and not news.
            _log.debug("a connection was not opened: %s", error)
            connection.close()

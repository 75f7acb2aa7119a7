"""ASGI applications on a port of this machine, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import uvicorn


@contextmanager
def listening(app: Any, *, port: int = 0) -> Generator[int]:
    """Serve an application, on any port or a given one, and return it."""
    config = uvicorn.Config(app, port=port, log_level="error", ws="none")
    config.timeout_graceful_shutdown = 1
    listener = uvicorn.Server(config)
    sock = config.bind_socket()
    sock.listen()  # Whoever connects before the server is up waits for it.
    thread = threading.Thread(target=listener.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        yield sock.getsockname()[1]
    finally:
        listener.should_exit = True
        thread.join(10)
        sock.close()
        assert not thread.is_alive()

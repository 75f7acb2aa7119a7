"""The yardstick: a bare proxy on uvicorn (uvloop, httptools), orjson and aiohttp that relays to one server, no more.

`python -m bench.gateway.yardstick URL` prints its port and serves.
"""

from __future__ import annotations

import socket
import sys
from importlib import import_module
from typing import Any

import orjson
import uvicorn

RELAYED = (b"mcp-protocol-version", b"mcp-method", b"mcp-name", b"accept", b"content-type")


class Proxy:
    """An ASGI application that reads a message, sends it on, reads the answer and sends that back."""

    def __init__(self, url: str) -> None:
        """Make one for the server at a URL."""
        self._url = url
        self._library: Any = import_module("aiohttp")
        self._client: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Relay one request."""
        if self._client is None:
            self._client = self._library.ClientSession(connector=self._library.TCPConnector(limit=32))
        body = b""
        while True:
            part = await receive()
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        message = orjson.loads(body)
        headers = {name.decode(): value.decode() for name, value in scope["headers"] if name in RELAYED}
        async with self._client.post(self._url, data=orjson.dumps(message), headers=headers) as response:
            status, answer = response.status, orjson.loads(await response.read())
        told = orjson.dumps(answer)
        fields = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(told))]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": told})


def main() -> None:
    """Serve until killed."""
    sock = socket.create_server(("127.0.0.1", 0), backlog=512)
    config = uvicorn.Config(
        Proxy(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=75,
    )
    print(f"port {sock.getsockname()[1]}", flush=True)
    uvicorn.Server(config).run(sockets=[sock])


if __name__ == "__main__":
    main()

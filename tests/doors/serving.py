"""Real listeners on free ports, and clients that send exactly the bytes that a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson

from weft.doors.asgi import Asgi, Receive, Scope, Send, answer, read_body
from weft.doors.listener import Limits, Listener, Tls, bind

PATIENCE = 10.0


@dataclass(frozen=True)
class Answer:
    """An answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Return the body's value."""
        return orjson.loads(self.body)


class Client:
    """One connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.patience = PATIENCE

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)

    def request(self, method: str = "GET", path: str = "/", *, body: bytes | None = None, **headers: str) -> None:
        """Send a well-formed request; underscores in header names become hyphens."""
        told = {"host": "127.0.0.1", **{name.replace("_", "-"): value for name, value in headers.items()}}
        if body is not None:
            told.setdefault("content-length", str(len(body)))
        lines = "".join(f"{name}: {value}\r\n" for name, value in told.items() if value)
        self.send(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + (body or b""))

    async def answer(self) -> Answer:
        """Return the next answer."""
        async with asyncio.timeout(self.patience):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.rstrip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            return Answer(int(first.split()[1]), headers, await self._body(headers))

    async def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") != "chunked":
            return await self.reader.readexactly(int(headers.get("content-length", "0")))
        body = b""
        while size := int(await self.reader.readline(), 16):
            body += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return body

    async def ended(self) -> bool:
        """Wait for the server to close; return whether nothing came before that."""
        async with asyncio.timeout(PATIENCE):
            return await self.reader.read() == b""

    async def close(self) -> None:
        """Go away."""
        self.writer.close()


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with what was asked."""
    body = await read_body(scope, receive, limit=1 << 20)
    await answer(send, 200, f"{scope['method']} {scope['path']} ".encode() + body, kind=b"text/plain")


@asynccontextmanager
async def serving(app: Asgi, *, limits: Limits | None = None, tls: Tls | None = None) -> AsyncGenerator[Listener]:
    """Serve an application on a free port of 127.0.0.1."""
    listener = Listener(app, sockets=[bind("127.0.0.1", 0)], tls=tls, limits=limits)
    await listener.start()
    try:
        yield listener
    finally:
        if not listener.draining:
            await listener.drain(0)


@asynccontextmanager
async def connected(listener: Listener, **more: Any) -> AsyncGenerator[Client]:
    """Connect to a listener."""
    host, port = listener.address
    reader, writer = await asyncio.open_connection(host, port, **more)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


async def asked(listener: Listener, method: str = "GET", path: str = "/", **more: Any) -> Answer:
    """Return the answer to one request on a connection of its own."""
    async with connected(listener) as client:
        client.request(method, path, **more)
        return await client.answer()

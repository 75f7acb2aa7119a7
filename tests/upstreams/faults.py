"""Servers that misbehave on purpose: a scripted HTTP peer, and a proxy that breaks what passes through it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Peer:
    """The server's end of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int
    requests: list[Request]

    async def request(self) -> Request:
        """Read the next request; IncompleteReadError when the client has gone."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        method, path, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append(Request(method, path, headers, body))
        return self.requests[-1]

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def drip(self, data: bytes, *, pause: float) -> None:
        """Send one byte at a time."""
        for byte in data:
            await self.send(bytes([byte]))
            await asyncio.sleep(pause)

    def half_close(self) -> None:
        """Say that nothing more will be sent, and keep listening."""
        self.writer.write_eof()

    def reset(self) -> None:
        """Close so that the client sees a reset."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def gone(self) -> None:
        """Wait until the client has closed its end."""
        while await self.reader.read(65536):
            pass


Script: TypeAlias = Callable[[Peer], Awaitable[object]]


@dataclass
class FaultServer:
    """A server on 127.0.0.1 that plays its script on each connection, then closes it."""

    script: Script
    port: int = 0
    connections: int = 0
    requests: list[Request] = field(default_factory=list[Request])
    playing: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.playing.add(task)
        self.connections += 1
        try:
            await self.script(Peer(reader, writer, self.connections, self.requests))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()
            self.playing.discard(task)


@contextlib.asynccontextmanager
async def serving(script: Script, *, ssl: Any = None) -> AsyncGenerator[FaultServer]:
    """Serve a script; what is still playing at the end is cancelled."""
    faulty = FaultServer(script)
    server = await asyncio.start_server(faulty.serve, "127.0.0.1", 0, ssl=ssl)
    faulty.port = server.sockets[0].getsockname()[1]
    try:
        yield faulty
    finally:
        server.close()
        playing = list(faulty.playing)
        for task in playing:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)


Change: TypeAlias = Callable[[bytes], bytes | None]
"""What becomes of a piece that passes; None cuts the connection."""


@contextlib.asynccontextmanager
async def proxying(port: int, *, answers: Change = bytes) -> AsyncGenerator[FaultServer]:
    """Pass connections on to a port, changing what comes back."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Change) -> None:
        while piece := await reader.read(65536):
            changed = change(piece)
            if changed is None:
                return
            writer.write(changed)
            await writer.drain()

    async def script(peer: Peer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        ways = {
            asyncio.ensure_future(pump(peer.reader, writer, bytes)),
            asyncio.ensure_future(pump(reader, peer.writer, answers)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            writer.transport.abort()

    async with serving(script) as proxy:
        yield proxy


def http(
    body: bytes = b"",
    *,
    status: int = 200,
    kind: str | None = "application/json",
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Return a well-formed answer with a length."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
    lines += [f"Content-Type: {kind}"] if kind is not None else []
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def rpc(request: Request, result: Any = None, *, id_: Any = None, headers: Mapping[str, str] | None = None) -> bytes:
    """Return the JSON answer to a request."""
    return http(result_json(request, result, id_=id_), headers=headers)


def result_json(request: Request, result: Any = None, *, id_: Any = None) -> bytes:
    """Return the response message to a request."""
    number = request.json["id"] if id_ is None else id_
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result if result is not None else {}}).encode()


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAM_END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """Return one chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(data: bytes) -> bytes:
    """Return one event as one chunk."""
    return chunk(b"data: " + data + b"\n\n")

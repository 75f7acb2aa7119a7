"""A modern MCP server that costs next to nothing: `python -m bench.gateway.upstream` prints its port and serves.

The path says what is there: `/mcp/{prefix}/{tools}/{delay}` has so many tools of that prefix, whose calls are answered
after so many milliseconds. With `--stdio TOOLS` the same tools are served on stdin and stdout.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from functools import cache
from typing import Any, cast

import httptools
import orjson

from bench import research
from bench.gateway.messages import MODERN

INFO = {"name": "bench-upstream", "version": "1.0.0"}
META = {"io.modelcontextprotocol/serverInfo": INFO}
SCHEMA = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["query"],
}
SOURCES = {"web_search": research.WEB, "arxiv_search": research.ARXIV, "internal_docs": research.INTERNAL}


def _encoded(result: dict[str, Any]) -> bytes:
    return orjson.dumps({**result, "resultType": "complete", "_meta": META})


def _called(value: Any) -> bytes:
    content = [{"type": "text", "text": orjson.dumps(value).decode()}]
    return _encoded({"content": content, "structuredContent": value, "isError": False})


ANSWER = _called({"title": "Bees in the city", "url": "https://example.org/bees", "score": 0.87})
ROWS = {tool: _called(rows) for tool, rows in SOURCES.items()}
DISCOVERED = _encoded({"supportedVersions": [MODERN], "capabilities": {"tools": {}}})


@cache
def tool_names(prefix: str, count: int) -> list[str]:
    """Return the names of so many tools; a source of the research pipeline is a tool by itself."""
    return [prefix] if prefix in SOURCES else [f"{prefix}_{number}" for number in range(count)]


@cache
def _listed(prefix: str, count: int) -> bytes:
    tools = [
        {"name": name, "description": f"Finds things, as {name}.", "inputSchema": SCHEMA}
        for name in tool_names(prefix, count)
    ]
    return _encoded({"tools": tools, "ttlMs": 0, "cacheScope": "private"})


@cache
def _place(url: bytes) -> tuple[str, int, float]:
    prefix, count, delay = url.decode().split("/")[2:5]
    return prefix, int(count), int(delay) / 1000


def respond(message: dict[str, Any], prefix: str, count: int) -> bytes | None:
    """Return the response to a message, and nothing to a notification."""
    method, id_ = message.get("method"), message.get("id")
    if id_ is None:
        return None
    if method == "tools/call":
        result = ROWS.get(message["params"]["name"], ANSWER)
    elif method == "tools/list":
        result = _listed(prefix, count)
    elif method == "server/discover":
        result = DISCOVERED
    else:
        return orjson.dumps({"jsonrpc": "2.0", "id": id_, "error": {"code": -32601, "message": "Method not found"}})
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (orjson.dumps(id_), result)


class Connection(asyncio.Protocol):
    """One client's connection; it sends its next request after the answer to the last."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        self._transport = cast(asyncio.Transport, transport)
        self._parser: Any = httptools.HttpRequestParser(self)
        self._loop = asyncio.get_running_loop()
        self._url = b""
        self._body = b""

    def data_received(self, data: bytes) -> None:
        """Read."""
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        """Take the path."""
        self._url = url

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._body += body

    def on_message_complete(self) -> None:
        """Answer, now or after the delay."""
        body, self._body = self._body, b""
        if not body or not self._url.startswith(b"/mcp/"):
            self._transport.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            return
        prefix, count, delay = _place(self._url)
        message = orjson.loads(body)
        answer = respond(message, prefix, count)
        if delay and message.get("method") == "tools/call":
            self._loop.call_later(delay, self._answer, answer)
        else:
            self._answer(answer)

    def _answer(self, answer: bytes | None) -> None:
        if answer is None:
            self._transport.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
        else:
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(answer)
            self._transport.write(head + answer)


async def _serve() -> None:
    sock = socket.create_server(("127.0.0.1", 0), backlog=512)
    server = await asyncio.get_running_loop().create_server(Connection, sock=sock)
    print(f"port {sock.getsockname()[1]}", flush=True)
    await server.serve_forever()


def _serve_stdio(count: int) -> None:
    for line in sys.stdin.buffer:
        answer = respond(orjson.loads(line), "tool", count)
        if answer is not None:
            sys.stdout.buffer.write(answer + b"\n")
            sys.stdout.buffer.flush()


def main() -> None:
    """Serve until killed."""
    if sys.argv[1:2] == ["--stdio"]:
        _serve_stdio(int(sys.argv[2]))
        return
    import uvloop  # noqa: PLC0415 - over stdio it would only slow the start

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve())


if __name__ == "__main__":
    main()

"""The requests of the benchmarks, as bytes that are made once."""

from __future__ import annotations

from typing import Any

import orjson

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
ARGUMENTS = {"query": "bees in the city", "limit": 5}
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1.0.0"},
}
_INFO = {"name": "bench", "version": "1.0.0"}


def post(path: str, message: dict[str, Any], headers: dict[str, str]) -> bytes:
    """Return a message as the HTTP request that carries it."""
    body = orjson.dumps(message)
    fields = {
        "host": "127.0.0.1",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "content-length": str(len(body)),
        **headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def modern_call(path: str, tool: str, id_: int) -> bytes:
    """Return a call of a tool as a client of the modern era sends it."""
    params = {"name": tool, "arguments": ARGUMENTS, "_meta": _META}
    message = {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}
    return post(path, message, {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": tool})


def legacy_call(path: str, tool: str, id_: int, session: str) -> bytes:
    """Return a call of a tool in a session of the legacy era."""
    params = {"name": tool, "arguments": ARGUMENTS}
    message = {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}
    return post(path, message, {"mcp-protocol-version": LEGACY, "mcp-session-id": session})


def initialize(path: str) -> bytes:
    """Return the request that begins a session of the legacy era."""
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _INFO}
    return post(path, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, {})


def initialized(path: str, session: str) -> bytes:
    """Return the notification that ends the handshake of a session."""
    headers = {"mcp-protocol-version": LEGACY, "mcp-session-id": session}
    return post(path, {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)

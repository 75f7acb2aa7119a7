"""ASGI, as far as this door needs it: the types, and how a body is read and a plain response is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias

import orjson

from weft.doors.mcp.faults import TooMuch

Scope: TypeAlias = Mapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

JSON = (b"content-type", b"application/json")


class Gone(Exception):
    """The client went away before it had said what it wants."""


async def read_body(receive: Receive, *, limit: int, announced: bytes | None) -> bytes:
    """Return the whole body, and never hold more of it than the limit.

    Raises:
        TooMuch: it is larger than the limit, which is noticed before it has all come.
        Gone: the client went away.
    """
    if announced is not None and announced.isdigit() and int(announced[:20]) > limit:
        raise _too_large(limit)
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Gone
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        body = await _rest_of(body, receive, limit)
    if len(body) > limit:
        raise _too_large(limit)
    return body


async def respond(send: Send, status: int, body: bytes = b"", headers: Headers = ()) -> None:
    """Send a whole response."""
    told = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": body})


async def respond_json(send: Send, status: int, value: Any, headers: Headers = ()) -> None:
    """Send a value as JSON."""
    await respond(send, status, orjson.dumps(value), (JSON, *headers))


async def _rest_of(start: bytes, receive: Receive, limit: int) -> bytes:
    body = bytearray(start)
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        body += message.get("body", b"")
        if len(body) > limit:
            raise _too_large(limit)
        more = message.get("more_body", False)
    return bytes(body)


def _too_large(limit: int) -> TooMuch:
    return TooMuch("BodyTooLarge", limit, f"the body is larger than {limit} bytes", status=413)

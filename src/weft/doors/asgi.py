"""The shape of an ASGI application, and the small answers that every door gives."""

from __future__ import annotations

import http
import json
import math
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeAlias

import orjson

from weft.errors import InputError, LimitExceeded

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

PRINCIPAL = "weft.principal"
"""Key of a scope's `state`: who asks, put there by whoever has made sure of it."""

AGAIN = "weft.again"
"""Key beside it: makes sure again, for a client that stays."""

GONE = "weft.on_gone"
"""Key of a scope: call it with a callback that is to run when the client goes away before it has its answer."""

CERTIFICATE = "weft.certificate"
"""Key of a scope: the SHA-256, in hex, of the certificate of a client that proved itself to TLS; else not there."""

COMMON_NAME = "weft.certificate.name"
"""Key of a scope beside that: the common name of the certificate's subject, None when there is not exactly one."""

PROBLEM = b"application/problem+json"

_NO_STORE = (b"cache-control", b"no-store")


class ClientGone(ConnectionError):
    """The client went away while its request was read: there is nobody to answer."""


class BadRequest(InputError):
    """A request that cannot be taken; `status` is what HTTP calls the reason."""

    def __init__(self, status: int, code: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, code=code, hint=hint)
        self.status = status


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return the value of a request's header, the first when there are several."""
    return next((value for key, value in scope["headers"] if key == name), None)


async def read_body(scope: Scope, receive: Receive, *, limit: int) -> bytes:
    """Return the whole body of a request.

    Raises:
        BadRequest: it is larger than the limit; what was announced too large is not read at all.
        ClientGone: the client went away.
    """
    announced = header(scope, b"content-length")
    if announced is not None and announced.isdigit() and int(announced[:20]) > limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(limit: int) -> BadRequest:
    return BadRequest(413, "BodyTooLarge", f"the body is larger than {limit} bytes", hint="send less, or a reference")


async def respond(send: Send, status: int, body: bytes = b"", *, headers: Headers = ()) -> None:
    """Send a whole answer, with these headers and its length."""
    told = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": body})


async def answer(
    send: Send, status: int, body: bytes, *, kind: bytes = b"application/json", headers: Headers | None = None
) -> None:
    """Send a whole answer of a kind; nobody may keep a copy of it."""
    await respond(send, status, body, headers=[(b"content-type", kind), _NO_STORE, *(headers or ())])


async def answer_json(send: Send, status: int, value: object, *, headers: Headers | None = None) -> None:
    """Send a JSON value as the whole answer."""
    await answer(send, status, orjson.dumps(value, default=str), headers=headers)


def error_body(code: str, message: str, *, hint: str | None = None, rpc: bool = False, **more: Any) -> bytes:
    """Return an error as JSON; to an MCP client (`rpc`) as the error of a request whose id is not known."""
    told: dict[str, Any] = {"code": code, "message": message, **({"hint": hint} if hint else {}), **more}
    if rpc:
        error = {"code": -32000, "message": message if hint is None else f"{message}; {hint}", "data": told}
        return orjson.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    return orjson.dumps({"error": told})


def problem_body(status: int, code: str, message: str, *, hint: str | None = None, **more: Any) -> bytes:
    """Return an error as RFC 9457 has it; `code` says which it is."""
    told = {"type": "about:blank", "title": http.HTTPStatus(status).phrase, "status": status, "detail": message}
    return any_json({**told, "code": code, **({"hint": hint} if hint else {}), **more})


def any_json(value: object) -> bytes:
    """Return a value as JSON; also one that orjson does not take, such as a large number or half a letter."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":"), default=str).encode()


def speaks_problems(scope: Scope) -> bool:
    """Tell whether who asks for this path is told errors as problems."""
    path: str = scope["path"]
    return path.startswith("/api/")


def speaks_rpc(scope: Scope) -> bool:
    """Tell whether who asks for this path is an MCP client."""
    path: str = scope["path"]
    return path.startswith("/mcp") and not path.endswith("/tools/call")


async def refuse(
    scope: Scope,
    send: Send,
    status: int,
    code: str,
    message: str,
    *,
    hint: str | None = None,
    retry_after: float | None = None,
    headers: Headers | None = None,
) -> None:
    """Send an error with its HTTP status; `retry_after` is in seconds."""
    more = {} if retry_after is None else {"retryAfterMs": round(retry_after * 1000)}
    extra: Headers = [] if retry_after is None else [retry_after_header(retry_after)]
    if speaks_problems(scope):
        body, kind = problem_body(status, code, message, hint=hint, **more), PROBLEM
    else:
        body, kind = error_body(code, message, hint=hint, rpc=speaks_rpc(scope), **more), b"application/json"
    await answer(send, status, body, kind=kind, headers=[*extra, *(headers or ())])


async def refuse_limit(scope: Scope, send: Send, status: int, error: LimitExceeded) -> None:
    """Send the error of a limit that this request would exceed."""
    await refuse(scope, send, status, error.code, error.message, retry_after=error.retry_after)


def retry_after_header(seconds: float) -> tuple[bytes, bytes]:
    """Return the header that says after how many whole seconds to try again."""
    return b"retry-after", b"%d" % max(1, math.ceil(seconds))

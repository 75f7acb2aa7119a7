"""Errors as clients see them: one table from class to JSON-RPC code and HTTP status, for both eras."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from weft.doors.asgi import BadRequest, retry_after_header
from weft.errors import (
    InfrastructureError,
    InputError,
    LimitExceeded,
    NotFound,
    UpstreamRefused,
    WeftError,
)
from weft.gateway.quotas import QuotaExceeded

Era = Literal["modern", "legacy"]
log = logging.getLogger("weft.doors.mcp")

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
TOO_OFTEN = -32000
"""What other limits of HTTP requests say as well, before a door has read the message."""
CANCELLED = -32800
"""What the reference implementation says to a legacy client whose request was cancelled."""

CODES: Mapping[type[Exception], int] = {
    InputError: INVALID_PARAMS,
    NotFound: INVALID_PARAMS,
    LimitExceeded: INTERNAL_ERROR,
    QuotaExceeded: TOO_OFTEN,
    InfrastructureError: INTERNAL_ERROR,
    WeftError: INTERNAL_ERROR,
}
"""The code of each class of error; a class that is not here has that of the class that it is made of."""

STATUS: Mapping[type[Exception], int] = {LimitExceeded: 503, QuotaExceeded: 429}
"""The errors whose HTTP status says more than the JSON-RPC code, in both eras: load balancers read it."""

MODERN_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""The status of each code in the modern era. A legacy client takes 404 for the end of its session, so it gets 200."""

NOUNS = {"tools/call": "tool", "prompts/get": "prompt", "resources/read": "resource"}


class Refusal(InputError):
    """What a client sent is not a message that this door can take; it never came to the gateway."""

    code = "Refused"

    def __init__(
        self,
        message: str,
        *,
        rpc: int = INVALID_REQUEST,
        status: int = 400,
        data: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.rpc = rpc
        self.status = status
        self.data = data
        self.headers = headers or {}


class TooMuch(Refusal):
    """A message is over a limit, whose name is the error's code."""

    def __init__(self, name: str, limit: int, message: str, *, rpc: int = INVALID_REQUEST, status: int = 400) -> None:
        super().__init__(message, rpc=rpc, status=status, data={"code": name, "limit": limit})
        self.code = name


@dataclass(frozen=True, slots=True)
class Fault:
    """An error, as it goes over the wire."""

    status: int
    error: dict[str, Any]
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def message(self, id_: str | int | None) -> dict[str, Any]:
        """Return the response to a request."""
        return {"jsonrpc": "2.0", "id": id_, "error": self.error}


def fault(error: Exception, *, method: str = "", era: Era = "modern") -> Fault:
    """Return what a client is told of an error; of one that nobody foresaw, only a reference to the log."""
    if isinstance(error, Refusal):
        headers = tuple((name.lower().encode(), value.encode()) for name, value in error.headers.items())
        return Fault(error.status, _told(error.rpc, error.message, error.data), headers)
    if isinstance(error, BadRequest):
        return Fault(error.status, _told(INVALID_REQUEST, error.message, error.to_json()))
    if isinstance(error, UpstreamRefused):
        return _passed_on(error, method, era)
    if not isinstance(error, WeftError):
        return _unforeseen(error, method)
    code = _first(CODES, error, INTERNAL_ERROR)
    data: dict[str, Any] | None = error.to_json()
    message = error.message
    if isinstance(error, NotFound):
        # The same words whether it does not exist or is not for this caller: the answer must not tell which.
        message = f"Unknown {NOUNS[method]}: {error.name}" if method in NOUNS else error.message
        data = {"uri": error.name} if method == "resources/read" else _hint(error)
        code = RESOURCE_NOT_FOUND if era == "legacy" and method.startswith("resources/") else code
    status = _first(STATUS, error, MODERN_STATUS.get(code, 200) if era == "modern" else 200)
    wait = (retry_after_header(error.retry_after or 1),) if status in (429, 503) else ()
    return Fault(status, _told(code, message, data), wait)


def cancelled() -> Fault:
    """Return what a legacy client hears of a request that it has cancelled itself."""
    return Fault(200, _told(CANCELLED, "Request cancelled", None))


def _passed_on(error: UpstreamRefused, method: str, era: Era) -> Fault:
    code: object = error.rpc_code
    # What came is passed on as it is, but a client must be able to read it as an error.
    number = code if isinstance(code, int) and not isinstance(code, bool) else INTERNAL_ERROR
    if method == "resources/read" and number == RESOURCE_NOT_FOUND and era == "modern":
        # The modern era has no code of its own for this, and a server of the other era still says it.
        number = INVALID_PARAMS
    message = error.rpc_message if isinstance(error.rpc_message, str) else error.message
    status = MODERN_STATUS.get(number, 200) if era == "modern" else 200
    return Fault(status, _told(number, message, error.rpc_data))


def _unforeseen(error: Exception, method: str) -> Fault:
    reference = secrets.token_hex(6)
    log.error("internal error %s in %s", reference, method or "a request", exc_info=error)
    return Fault(500, _told(INTERNAL_ERROR, f"internal error, reference {reference}", {"reference": reference}))


def _first(table: Mapping[type[Exception], int], error: Exception, default: int) -> int:
    return next((table[kind] for kind in type(error).__mro__ if kind in table), default)


def _hint(error: WeftError) -> dict[str, Any] | None:
    return None if error.hint is None else {"hint": error.hint}


def _told(code: int, message: str, data: Any) -> dict[str, Any]:
    return {"code": code, "message": message} if data is None else {"code": code, "message": message, "data": data}

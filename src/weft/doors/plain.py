"""`POST /mcp/tools/call`: a tool for people with curl, without JSON-RPC.

In: `{"tool": "research", "arguments": {"topic": "bees"}}` (`name` is taken for `tool`). Out, with status 200 when the
tool ran, also when it said no:

    {"result": the value, "content": [...], "isError": false, "warnings": [...], "traceId": "..."}
    {"result": null, "content": [...], "isError": true, "error": {"code", "message", ...}, "traceId": "..."}

What else the MCP result has in its `_meta`, such as `"cache": "hit"`, is `_meta` here too.

Other statuses say that no tool ran: 400 or 413 or 415 for the request, 404 for a tool that is not there, 429 for one
that was called too often, 503 for what the gateway cannot do now; the body is `{"error": {"code", "message", "hint"}}`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from weft.doors.asgi import (
    GONE,
    PRINCIPAL,
    BadRequest,
    ClientGone,
    Headers,
    Receive,
    Scope,
    Send,
    answer_json,
    header,
    read_body,
    retry_after_header,
)
from weft.errors import (
    DocumentInvalid,
    InfrastructureError,
    InputError,
    NotFound,
    ToolFailed,
    UpstreamRefused,
    WeftError,
    nearest,
    shown,
)
from weft.gateway.callers import Nobody
from weft.gateway.quotas import QuotaExceeded
from weft.gateway.results import ERROR, TRACE, WARNINGS
from weft.ir.read import CALL_LIMITS, DocumentLimits, read
from weft.ports import ANONYMOUS, Caller, is_object
from weft.upstreams.results import WRAPPED, value_of

LIMITS = frozenset({"BodyTooLarge", "MaxDepth", "TooManyNodes"})
"""The errors of requests that are over a limit."""

_KNOWN = ("tool", "name", "arguments", "_meta")
_SUFFIX = "/tools/call"
_TOLD_OTHERWISE = frozenset({WARNINGS, TRACE, ERROR, WRAPPED})


class Calls(Protocol):
    """What a plain call needs of the gateway."""

    async def handle(self, view: str | None, method: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """Do what a client asks for."""
        ...


class PlainDoor:
    """An ASGI application for `/mcp/tools/call` and `/mcp/{view}/tools/call`; `exceeded` counts the limits met."""

    def __init__(self, gateway: Calls, *, limits: DocumentLimits = CALL_LIMITS) -> None:
        self._gateway = gateway
        self._limits = limits
        self.exceeded: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers: Headers = []
        try:
            status, told = 200, await self._answer(scope, receive)
        except ClientGone:
            return
        except WeftError as error:
            self.exceeded.update(LIMITS & {error.code})
            status, told = _status(error), {"error": error.to_json()}
            headers += [(b"allow", b"POST")] if status == 405 else []
            headers += [] if error.retry_after is None else [retry_after_header(error.retry_after)]
        await answer_json(send, status, told, headers=headers)

    async def _answer(self, scope: Scope, receive: Receive) -> dict[str, Any]:
        _check_request(scope)
        asked = _parse(await read_body(scope, receive, limit=self._limits.bytes), self._limits)
        tool, params = _params(asked)
        caller = Nobody(principal=scope["state"].get(PRINCIPAL, ANONYMOUS), meta=trace_context(scope))
        if (on_gone := scope.get(GONE)) is not None and (task := asyncio.current_task()) is not None:
            on_gone(task.cancel)
        result = await self._gateway.handle(_view(scope["path"]), "tools/call", params, caller)
        return _told(result, tool)


def _view(path: str) -> str | None:
    """Return the view that a path names: `/mcp/{view}/tools/call`."""
    return path.rstrip("/").removesuffix(_SUFFIX).removeprefix("/mcp").strip("/") or None


def _check_request(scope: Scope) -> None:
    if scope["method"] != "POST":
        raise BadRequest(405, "MethodNotAllowed", "a tool is called with POST")
    check_json(scope)


def check_json(scope: Scope) -> None:
    """Make sure that the body of a request is said to be JSON.

    Raises:
        BadRequest: it is not.
    """
    kind = (header(scope, b"content-type") or b"").decode("latin-1")
    media, _, parameters = kind.partition(";")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    if media.strip().lower() != "application/json" or charset not in ("", "utf-8", "utf8"):
        hint = "curl: -H 'content-type: application/json'"
        raise BadRequest(415, "UnsupportedMediaType", f"the body must be JSON in UTF-8, not {shown(kind)}", hint=hint)
    if (coding := header(scope, b"content-encoding")) not in (None, b"identity"):
        raise BadRequest(415, "UnsupportedMediaType", f"a body in {shown(coding)} is not taken", hint="send it plain")


def _parse(body: bytes, limits: DocumentLimits) -> dict[str, Any]:
    try:
        value: object = read(body, name="body", format="json", limits=limits, whole_document=False).value
    except DocumentInvalid as error:
        # The first problem names the limit, or what is wrong; a body that cannot be read has no other.
        raise BadRequest(400, error.problems[0].code, error.message) from None
    if not is_object(value):
        raise BadRequest(400, "InvalidRequest", 'the body must be an object: {"tool": "name", "arguments": {..}}')
    return value


def _params(asked: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    for key in asked:
        if key not in _KNOWN:
            close = nearest(key, _KNOWN)
            hint = f"did you mean {close!r}?" if close else "there are tool and arguments"
            raise BadRequest(400, "InvalidRequest", f"unknown key {shown(key)}", hint=hint)
    tool = asked.get("tool", asked.get("name"))
    if not isinstance(tool, str) or not tool or ("tool" in asked and "name" in asked):
        raise BadRequest(400, "InvalidRequest", 'say which tool, once: {"tool": "name", "arguments": {..}}')
    given: object = asked.get("arguments")
    arguments: object = {} if given is None else given
    if not is_object(arguments):
        raise BadRequest(400, "InvalidRequest", f"arguments must be an object, not {shown(arguments)}")
    meta = asked.get("_meta")
    return tool, {"name": tool, "arguments": arguments, **({"_meta": meta} if is_object(meta) else {})}


def trace_context(scope: Scope) -> dict[str, Any]:
    """Return the caller's trace, which HTTP carries in a header and MCP in `_meta`."""
    found = {name: header(scope, name.encode()) for name in ("traceparent", "tracestate", "baggage")}
    return {name: value.decode("latin-1") for name, value in found.items() if value is not None}


def _told(result: dict[str, Any], tool: str) -> dict[str, Any]:
    found: object = result.get("_meta")
    meta = found if is_object(found) else {}
    told: dict[str, Any] = {
        "result": None,
        "content": result.get("content", []),
        "isError": False,
        "warnings": meta.get(WARNINGS, []),
        "traceId": meta.get(TRACE),
    }
    if others := {key: value for key, value in meta.items() if key not in _TOLD_OTHERWISE}:
        told["_meta"] = others
    try:
        told["result"] = value_of(result, tool=tool)
    except ToolFailed as error:
        told["isError"] = True
        told["error"] = meta.get(ERROR) or error.to_json()
    return told


def _status(error: WeftError) -> int:
    if isinstance(error, BadRequest):
        return error.status
    for kind, status in _STATUS.items():
        if isinstance(error, kind):
            return status
    return 500


_STATUS: dict[type[WeftError], int] = {
    NotFound: 404,
    InputError: 400,
    UpstreamRefused: 502,
    QuotaExceeded: 429,
    InfrastructureError: 503,
}
"""From the particular to the general: the first that fits counts."""

"""MCP over HTTP: one ASGI application for both eras, at /mcp and at /mcp/{view}."""

from __future__ import annotations

from collections import Counter
from typing import Any

from weft.doors.asgi import AGAIN, PRINCIPAL, BadRequest, Receive, Scope, Send, answer_json, read_body
from weft.doors.mcp.faults import INVALID_PARAMS, Refusal, TooMuch, fault
from weft.doors.mcp.headers import Fields
from weft.doors.mcp.legacy import Legacy
from weft.doors.mcp.legacy_http import LegacySessions
from weft.doors.mcp.listening import Listeners
from weft.doors.mcp.messages import MessageLimits, id_of, kind_of, parse
from weft.doors.mcp.methods import LEGACY
from weft.doors.mcp.modern import is_modern
from weft.doors.mcp.modern_http import ModernPosts
from weft.doors.mcp.peers import Peers
from weft.doors.mcp.serves import Serves
from weft.doors.mcp.sessions import Sessions
from weft.doors.mcp.visits import Visit
from weft.errors import nearest
from weft.ports import ANONYMOUS, is_object

TRACE_PARENT = b"traceparent"
TRACE_CONTEXT = (TRACE_PARENT, b"tracestate", b"baggage")


class McpDoor:
    """The door for MCP clients that come over HTTP.

    `key` signs session ids and must be the same in all workers; who a client is stands in the scope's `state`.
    `exceeded` counts the limits that messages were over.
    """

    def __init__(
        self,
        gateway: Serves,
        *,
        key: bytes | None = None,
        peers: Peers | None = None,
        path: str = "/mcp",
        limits: MessageLimits | None = None,
        ttl_ms: int = 0,
    ) -> None:
        self._gateway = gateway
        self._path = path
        self._limits = limits or MessageLimits()
        self.exceeded: Counter[str] = Counter()
        self._listeners = Listeners(gateway)
        sessions = Sessions(key=key)
        legacy = Legacy(gateway, sessions, peers=peers)
        self._legacy = LegacySessions(gateway, self._listeners, sessions, legacy)
        self._modern = ModernPosts(gateway, self._listeners, ttl_ms=ttl_ms)

    def close(self) -> None:
        """End the streams of all that listen, in good order; requests go on to their end."""
        self._listeners.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        message: dict[str, Any] | None = None
        try:
            visit = self._visit(scope, receive, send)
            if scope["method"] == "POST":
                message = await self._read(visit, scope)
                await self._post(visit, message)
            else:
                await self._other(visit, scope["method"])
        except ConnectionError:
            return  # The client has gone, while it was read or while it was answered.
        except Exception as error:
            if isinstance(error, TooMuch | BadRequest):
                self.exceeded[error.code] += 1
            told = fault(error)
            await answer_json(send, told.status, told.message(id_of(message)), headers=told.headers)

    async def _read(self, visit: Visit, scope: Scope) -> dict[str, Any]:
        fields = visit.fields
        fields.check_content()
        if not fields.accepts()[0]:
            wanted = "Accept must have application/json, and text/event-stream to be told anything before the result"
            raise Refusal(wanted, status=406)
        return parse(await read_body(scope, visit.receive, limit=self._limits.body), self._limits)

    async def _post(self, visit: Visit, message: dict[str, Any]) -> None:
        kind = kind_of(message)
        if kind == "request" and visit.fields.get(TRACE_PARENT) is not None:
            _in_trace(message, visit.fields)
        if (visit.version is not None and visit.version not in LEGACY) or is_modern(message):
            await self._modern.post(visit, message, kind)
        else:
            await self._legacy.post(visit, message, kind)

    async def _other(self, visit: Visit, method: str) -> None:
        if method == "GET":
            await self._legacy.get(visit)
        elif method == "DELETE":
            await self._legacy.delete(visit)
        else:
            raise Refusal(f"{method} is not served here", status=405, headers={"Allow": "POST, GET, DELETE"})

    def _visit(self, scope: Scope, receive: Receive, send: Send) -> Visit:
        view = scope["path"][len(self._path) :].strip("/") or None
        if view is not None and view not in self._gateway.views():
            raise self._no_view(view)
        state: dict[str, Any] = scope.get("state") or {}
        fields = Fields(scope["headers"])
        principal = state.get(PRINCIPAL, ANONYMOUS)
        return Visit(view, principal, fields, fields.version(), receive, send, state.get(AGAIN))

    def _no_view(self, view: str) -> Refusal:
        known = sorted(self._gateway.views())
        close = nearest(view, known)
        meant = f"did you mean {close!r}? " if close else ""
        # To a legacy client 404 means that its session is gone, and it is when its view is.
        says = f"there is no view {view[:80]!r}: {meant}known views: {', '.join(known) or 'none'}"
        return Refusal(says, rpc=INVALID_PARAMS, status=404)


def _in_trace(message: dict[str, Any], fields: Fields) -> None:
    """Put the trace of the HTTP request into `_meta`, where MCP has it, unless the message is of a trace already."""
    params: dict[str, Any] = message.get("params") or {}
    meta: object = params.get("_meta")
    if meta is not None and (not is_object(meta) or "traceparent" in meta):
        return
    told = {name.decode(): text for name in TRACE_CONTEXT if (text := fields.text(name)) is not None}
    message["params"] = {**params, "_meta": {**(meta or {}), **told}}

"""What stands before every door: is the request meant for us, is it a page that may ask, is there room for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.doors.asgi import Asgi, Headers, Message, Receive, Scope, Send, refuse, refuse_limit
from weft.doors.load import ANONYMOUS, Load
from weft.doors.sites import Site
from weft.errors import LimitExceeded, shown

_EXPOSED = b"mcp-session-id, mcp-protocol-version, www-authenticate, retry-after"
_SENT = frozenset(
    (b"accept", b"authorization", b"content-type", b"last-event-id", b"traceparent", b"tracestate", b"baggage")
)
_METHODS = b"GET, POST, DELETE, OPTIONS"


class Guard:
    """An ASGI application around all that a listener offers.

    `routes` are exact paths; `prefixes` are folders (`/mcp/`), the longest of which that fits gets the request.
    Counters are for telemetry to read.
    """

    def __init__(
        self,
        routes: Mapping[str, Asgi],
        *,
        site: Site,
        prefixes: Mapping[str, Asgi] | None = None,
        load: Load | None = None,
        unlimited: frozenset[str] = frozenset(("/healthz", "/readyz", "/metrics")),
        identify: Callable[[Scope], str] | None = None,
    ) -> None:
        """Make one; `identify` says whose request it is, for the limits of one principal."""
        self.load = load
        self.bad_hosts = 0
        self.bad_origins = 0
        self._site = site
        self._unlimited = unlimited
        self._identify = identify
        self._routes = dict(routes)
        self._prefixes = sorted((prefixes or {}).items(), key=lambda item: -len(item[0]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to its door, or refuse it."""
        host, origin, size = _told(scope["headers"])
        if not self._site.has_host(host, address=(scope["server"] or (None,))[0]):
            await self._misdirected(scope, send, host)
            return
        if origin is not None:
            if not self._site.has_origin(origin, scheme=scope["scheme"], host=host):
                await self._foreign(scope, send, origin)
                return
            if self._site.shares_with(origin):
                if scope["method"] == "OPTIONS":
                    await _preflight(scope, send, origin)
                    return
                send = _sharing(send, origin)
        path: str = scope["path"]
        app = self._routes.get(path) or self._find(path)
        if app is None:
            await self._nowhere(scope, send)
        elif self.load is None or path in self._unlimited:
            await app(scope, receive, send)
        else:
            await self._within(self.load, size, app, (scope, receive, send))

    async def _within(self, load: Load, size: int | None, app: Asgi, request: tuple[Scope, Receive, Send]) -> None:
        scope, _, send = request
        principal = ANONYMOUS if self._identify is None else self._identify(scope)
        try:
            taken = load.take(principal, size)
        except LimitExceeded as error:
            await refuse_limit(scope, send, 503 if error.code == "Overloaded" else 429, error)
            return
        try:
            await app(*request)
        finally:
            load.give(principal, taken)

    def _find(self, path: str) -> Asgi | None:
        """Return what is at a path that is not written as in the table."""
        if path.endswith("/") and (exact := self._routes.get(path.rstrip("/"))) is not None:
            return exact
        return next((app for prefix, app in self._prefixes if path.startswith(prefix)), None)

    async def _misdirected(self, scope: Scope, send: Send, host: bytes) -> None:
        if not host:
            await refuse(scope, send, 400, "MalformedRequest", "a request has one Host header, and one Origin at most")
            return
        self.bad_hosts += 1
        name = shown(host.decode("latin-1"))
        hint = "use the name that it is configured for, or add this one to listen.allowedHosts"
        await refuse(scope, send, 421, "UnknownHost", f"this gateway is not {name}", hint=hint)

    async def _foreign(self, scope: Scope, send: Send, origin: bytes) -> None:
        self.bad_origins += 1
        name = shown(origin.decode("latin-1"))
        hint = "add it to listen.allowedOrigins if its pages may call tools"
        await refuse(scope, send, 403, "ForbiddenOrigin", f"pages of {name} may not ask here", hint=hint)

    async def _nowhere(self, scope: Scope, send: Send) -> None:
        there = sorted({*self._routes, *(f"{prefix}..." for prefix, _ in self._prefixes)})
        hint = "there is " + ", ".join(there)
        await refuse(scope, send, 404, "NotFound", f"nothing is at {shown(scope['path'])}", hint=hint)


def _told(headers: Headers) -> tuple[bytes, bytes | None, int | None]:
    """Return host, origin and the announced size of the body (None: not announced); no host when one comes twice."""
    host = b""
    origin: bytes | None = None
    size: int | None = 0
    for name, value in headers:
        if name == b"host":
            if host:
                return b"", None, 0
            host = value
        elif name == b"content-length":
            size = int(value)
        elif name == b"origin":
            if origin is not None:
                return b"", None, 0
            origin = value
        elif name == b"transfer-encoding":
            size = None
    return host, origin, size


def _shared(origin: bytes) -> Headers:
    # Never with credentials: a page proves who it is with a token of its own, not with what the browser adds.
    return [(b"access-control-allow-origin", origin), (b"vary", b"origin")]


async def _preflight(scope: Scope, send: Send, origin: bytes) -> None:
    """Tell a browser what pages of an allowed origin may send."""
    asked = next((value for name, value in scope["headers"] if name == b"access-control-request-headers"), b"")
    names = [name.strip().lower() for name in asked.split(b",")]
    allowed = [
        name for name in names if name in _SENT or (name.startswith(b"mcp-") and name.replace(b"-", b"").isalnum())
    ]
    headers = [
        *_shared(origin),
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", b", ".join(allowed)),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body"})


def _sharing(send: Send, origin: bytes) -> Send:
    extra = [*_shared(origin), (b"access-control-expose-headers", _EXPOSED)]

    async def sharing(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *extra]}
        await send(message)

    return sharing

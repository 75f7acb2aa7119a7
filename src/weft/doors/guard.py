"""What stands before every door: is the request meant for us, may this page ask, who is it, is there room for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from weft.doors.asgi import CERTIFICATE, Asgi, Headers, Message, Receive, Scope, Send, refuse, refuse_limit
from weft.doors.identified import identify, refuse_caller
from weft.doors.load import Load
from weft.doors.sites import Site
from weft.errors import LimitExceeded, shown
from weft.gateway.challenges import WELL_KNOWN
from weft.gateway.identity import Authenticators, is_identity
from weft.gateway.unproven import BadIdentityHeader, Unauthenticated
from weft.ports import ANONYMOUS

_EXPOSED = b"mcp-session-id, mcp-protocol-version, www-authenticate, retry-after, etag, location"
_SENT = frozenset(
    (
        b"accept",
        b"authorization",
        b"content-type",
        b"if-match",
        b"last-event-id",
        b"traceparent",
        b"tracestate",
        b"baggage",
    )
)
_METHODS = b"GET, POST, PUT, DELETE, OPTIONS"
OPEN = frozenset(("/healthz", "/readyz", "/metrics", WELL_KNOWN, f"{WELL_KNOWN}/"))
# What nearly every request has and says nothing here: looked up once instead of compared with each name below.
_USUAL = frozenset(
    (
        b"accept",
        b"accept-encoding",
        b"connection",
        b"content-type",
        b"mcp-method",
        b"mcp-name",
        b"mcp-protocol-version",
        b"mcp-session-id",
        b"traceparent",
        b"user-agent",
    )
)


class _Place(NamedTuple):
    """What is at a path, and whether that is for everybody, at any time."""

    app: Asgi
    is_open: bool


class Guard:
    """An ASGI application around all that a listener offers.

    `routes` are exact paths; `prefixes` are folders (`/mcp/`), the longest of which that fits gets the request.
    `open_to_all` are those of them for which nobody is asked who it is, or counted. Counters are for telemetry to read.
    """

    def __init__(
        self,
        routes: Mapping[str, Asgi],
        *,
        site: Site,
        prefixes: Mapping[str, Asgi] | None = None,
        load: Load | None = None,
        open_to_all: frozenset[str] = OPEN,
        authenticators: Authenticators | None = None,
        base: str | None = None,
    ) -> None:
        """Make one; without `authenticators` everybody is anonymous. `base` is the origin that clients know us by."""
        self.load = load
        self.bad_hosts = 0
        self.bad_origins = 0
        self._site = site
        self._authenticators = authenticators
        self._base = base
        self._routes = {path: _Place(app, path in open_to_all) for path, app in routes.items()}
        folders = {path: _Place(app, path in open_to_all) for path, app in (prefixes or {}).items()}
        self._prefixes = sorted(folders.items(), key=lambda item: -len(item[0]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to its door, or refuse it."""
        host, origin, size, says_who = _told(scope["headers"])
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
        place = self._routes.get(path) or self._find(path)
        if place is None:
            await self._nowhere(scope, send)
        elif place.is_open:
            await place.app(scope, receive, send)
        else:
            await self._enter(place.app, (scope, receive, send), size=size, says_who=says_who)

    async def _enter(
        self, app: Asgi, request: tuple[Scope, Receive, Send], *, size: int | None, says_who: bool
    ) -> None:
        """Let a request in if it is sure whose it is, and there is room for it."""
        scope, _, send = request
        who, load, principal = self._authenticators, self.load, ANONYMOUS
        try:
            if who is not None:
                principal = await identify(who, scope) if says_who or CERTIFICATE in scope else who.nobody()
            taken = 0 if load is None else load.take(principal.id, size)
        except (Unauthenticated, BadIdentityHeader) as error:
            await refuse_caller(scope, send, error, base=self._base)
            return
        except LimitExceeded as error:
            await refuse_limit(scope, send, 503 if error.code == "Overloaded" else 429, error)
            return
        try:
            await app(*request)
        finally:
            if load is not None:
                load.give(principal.id, taken)

    def _find(self, path: str) -> _Place | None:
        """Return what is at a path that is not written as in the table."""
        if path.endswith("/") and (exact := self._routes.get(path.rstrip("/"))) is not None:
            return exact
        return next((place for prefix, place in self._prefixes if path.startswith(prefix)), None)

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


def _told(headers: Headers) -> tuple[bytes, bytes | None, int | None, bool]:
    """Return host, origin, the announced size of the body (None: not announced), and whether anything says who asks.

    There is no host when host or origin come twice.
    """
    host = b""
    origin: bytes | None = None
    size: int | None = 0
    says_who = False
    for name, value in headers:
        if name in _USUAL:
            continue
        if name == b"host":
            if host:
                return b"", None, 0, False
            host = value
        elif name == b"content-length":
            size = int(value)
        elif name == b"origin":
            if origin is not None:
                return b"", None, 0, False
            origin = value
        elif name == b"transfer-encoding":
            size = None
        elif not says_who:
            says_who = is_identity(name)
    return host, origin, size, says_who


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

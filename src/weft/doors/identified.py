"""Who asks is made sure of before a door opens: whoever does not prove it is told where tokens come from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from urllib.parse import quote, urlsplit

from weft.doors.asgi import (
    AGAIN,
    CERTIFICATE,
    COMMON_NAME,
    PRINCIPAL,
    Receive,
    Scope,
    Send,
    answer_json,
    header,
    refuse,
)
from weft.errors import NotFound
from weft.gateway.challenges import WELL_KNOWN, challenge, metadata
from weft.gateway.identity import Authenticators, parted
from weft.gateway.unproven import BadIdentityHeader, Unauthenticated
from weft.ports import Principal


class ProtectedResource:
    """An ASGI application at `/.well-known/oauth-protected-resource`, and below it for each door (RFC 9728)."""

    def __init__(
        self, authenticators: Authenticators, *, base: str | None = None, doors: Sequence[str] = ("/mcp",)
    ) -> None:
        """Make one; `base` is the origin under which clients know the gateway, else what they call it is taken."""
        self._authenticators = authenticators
        self._base = base
        self._doors = doors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell who makes tokens for a door."""
        if scope["method"] != "GET":
            await refuse(scope, send, 405, "MethodNotAllowed", "this is read with GET", headers=[(b"allow", b"GET")])
            return
        door = scope["path"].removeprefix(WELL_KNOWN).rstrip("/") or self._doors[0]
        if not any(door == one or door.startswith(f"{one}/") for one in self._doors):
            missing = NotFound("Resource", door, self._doors)
            await refuse(scope, send, 404, missing.code, missing.message, hint=missing.hint)
            return
        await answer_json(send, 200, metadata(_resource(self._base, scope, door), self._authenticators.issuers))


async def identify(authenticators: Authenticators, scope: Scope) -> Principal:
    """Return who sends a request, and put that into its scope in place of what it took.

    Raises:
        Unauthenticated: it does not prove that.
        BadIdentityHeader: it says so in a way that it may not.
    """
    peer = (scope["client"] or (None,))[0]
    said, rest = parted(scope["headers"])
    query: bytes = scope["query_string"]
    look = partial(
        authenticators.identify,
        said,
        peer,
        method=scope["method"],
        target=scope["raw_path"] + (b"?" + query if query else b""),
        certificate=scope.get(CERTIFICATE),
        common_name=scope.get(COMMON_NAME),
    )
    known = authenticators.remembered(said, peer) if CERTIFICATE not in scope else None
    principal = await look() if known is None else known
    if principal.method in ("jwt", "key"):
        # Streams last: what proves a caller may not hold as long.
        scope.setdefault("state", {})[AGAIN] = look
    scope["headers"] = rest
    scope.setdefault("state", {})[PRINCIPAL] = principal
    return principal


async def refuse_caller(
    scope: Scope, send: Send, error: Unauthenticated | BadIdentityHeader, *, base: str | None
) -> None:
    """Send the refusal of a caller: 401 with where tokens come from, or 400 for headers that may not be."""
    if isinstance(error, BadIdentityHeader):
        await refuse(scope, send, 400, error.code, error.message, hint=error.hint)
        return
    told = challenge(_resource(base, scope, scope["path"]), given=error.given)
    headers = [(b"www-authenticate", told.encode("latin-1"))]
    await refuse(scope, send, 401, error.code, error.message, hint=error.hint, headers=headers)


def origin_of(url: str) -> str:
    """Return the origin of a URL: all before its path."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _resource(base: str | None, scope: Scope, path: str) -> str:
    """Return a door as clients write it; what they sent is not written back as it came."""
    if base is None:
        host = (header(scope, b"host") or b"localhost").decode("latin-1")
        base = f"{scope['scheme']}://{quote(host, safe='.:[]-')}"
    return base + quote(path, safe="/-._~")

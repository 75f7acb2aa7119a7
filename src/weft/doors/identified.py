"""Who asks is made sure of before a door opens: whoever does not prove it is told where tokens come from."""

from __future__ import annotations

from typing import Any

from weft.doors.asgi import PRINCIPAL, Asgi, Receive, Scope, Send, answer_json, header, refuse
from weft.errors import NotFound
from weft.gateway.challenges import WELL_KNOWN, challenge, metadata
from weft.gateway.identity import Authenticators, without_identity
from weft.gateway.unproven import BadIdentityHeader, Unauthenticated
from weft.ports import Principal

CERTIFICATE = "weft.certificate"
"""Key of a scope: the SHA-256, in hex, of the certificate with which the client proved itself to TLS."""


class Identified:
    """An ASGI application around a door: identifies, and hides from all behind it what that took."""

    def __init__(self, app: Asgi, authenticators: Authenticators, *, base: str | None = None) -> None:
        """Make one; `base` is the URL under which clients know the gateway, else what they call it is taken."""
        self._app = app
        self._authenticators = authenticators
        self._base = base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or refuse it."""
        try:
            principal = await identify(self._authenticators, scope)
        except Unauthenticated as error:
            told = challenge(_base(self._base, scope) + scope["path"], given=error.given)
            headers = [(b"www-authenticate", told.encode("latin-1", "replace"))]
            await refuse(scope, send, 401, error.code, error.message, hint=error.hint, headers=headers)
        except BadIdentityHeader as error:
            await refuse(scope, send, 400, error.code, error.message, hint=error.hint)
        else:
            state: dict[str, Any] = scope.get("state") or {}
            state = {**state, PRINCIPAL: principal}
            inside: Scope = {**scope, "headers": without_identity(scope["headers"]), "state": state}
            await self._app(inside, receive, send)


class ProtectedResource:
    """An ASGI application at `/.well-known/oauth-protected-resource`, and below it for each door (RFC 9728)."""

    def __init__(self, authenticators: Authenticators, *, base: str | None = None, path: str = "/mcp") -> None:
        self._authenticators = authenticators
        self._base = base
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell who makes tokens for a door."""
        if scope["method"] != "GET":
            await refuse(scope, send, 405, "MethodNotAllowed", "this is read with GET", headers=[(b"allow", b"GET")])
            return
        door = scope["path"].removeprefix(WELL_KNOWN).rstrip("/") or self._path
        if door != self._path and not door.startswith(f"{self._path}/"):
            missing = NotFound("Resource", door, [self._path])
            await refuse(scope, send, 404, missing.code, missing.message, hint=missing.hint)
            return
        await answer_json(send, 200, metadata(_base(self._base, scope) + door, self._authenticators.issuers))


async def identify(authenticators: Authenticators, scope: Scope) -> Principal:
    """Return who sends a request.

    Raises:
        Unauthenticated: it does not prove that.
        BadIdentityHeader: it says so in a way that it may not.
    """
    query: bytes = scope["query_string"]
    return await authenticators.identify(
        scope["headers"],
        (scope["client"] or (None,))[0],
        method=scope["method"],
        target=scope["raw_path"] + (b"?" + query if query else b""),
        certificate=scope.get(CERTIFICATE),
    )


def _base(base: str | None, scope: Scope) -> str:
    if base is not None:
        return base.rstrip("/")
    host = (header(scope, b"host") or b"localhost").decode("latin-1").replace('"', "")
    return f"{scope['scheme']}://{host}"

"""OAuth client credentials (RFC 6749, 4.4): weft's own token for an upstream, fetched, kept and renewed."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import quote_plus, urlencode

import orjson

from weft.errors import InfrastructureError, UpstreamAuth, shown
from weft.ports import is_object
from weft.upstreams.httpdial import AllowAddress
from weft.upstreams.httpfetch import Fetched, exchange

EARLY = 30.0
"""A token is renewed this many seconds before it ends, or after three quarters of a life that is shorter."""

UNSAID = 300.0
"""For how long a token is kept whose end the server does not tell."""

AGAIN = 1.0
"""After a failure, the endpoint is left alone for so long: a wrong secret must not become a flood."""

LIMIT = 64 * 1024
TAKES = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """What weft shows at a token endpoint; `audience` and `resource` are for servers that want to know what for."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: tuple[str, ...] = ()
    audience: str | None = None
    resource: str | None = None
    method: Literal["basic", "post"] = "basic"
    inside: tuple[str, ...] | None = None
    """Networks that are not public, and in which the endpoint may be all the same; None: it may be anywhere."""


@dataclass(frozen=True, slots=True)
class Token:
    """An access token as a header, and until when it may be used without asking again."""

    headers: Mapping[str, str] = field(repr=False)
    fresh_until: float
    ends: float


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no token; `later` says that asking again may help."""

    reason: str
    at: float
    later: bool = False


class TokenSource:
    """The token of one upstream: fetched when first needed, by one request for all who wait, and before it ends."""

    def __init__(
        self,
        credentials: ClientCredentials,
        *,
        server: str,
        tls: ssl.SSLContext | None = None,
        allow_address: AllowAddress | None = None,
        proxy: str | None = None,
        takes: float = TAKES,
    ) -> None:
        """Make a source; `takes` bounds one question to the token endpoint, whoever waits for it."""
        self._credentials, self._server = credentials, server
        self._tls, self._allow_address, self._proxy, self._takes = tls, allow_address, proxy, takes
        self._token: Token | None = None
        self._fetching: asyncio.Task[Token | Refusal] | None = None
        self._refusal: Refusal | None = None

    def now(self) -> Mapping[str, str] | None:
        """Return the header of the token that is here and fresh, if there is one."""
        token = self._token
        return token.headers if token is not None and _time() < token.fresh_until else None

    async def headers(self) -> Mapping[str, str]:
        """Return the header of a fresh token.

        Raises:
            UpstreamAuth: there is none; `retryable` says whether asking later may help. Nothing went to the upstream.
        """
        return self.now() or await self._renewed()

    async def instead_of(self, refused: Mapping[str, str]) -> Mapping[str, str]:
        """Return the header of another token than the one that the upstream refused; see `headers`."""
        if self._token is not None and self._token.headers["authorization"] == refused.get("authorization"):
            self._token = None
        return await self.headers()

    async def close(self) -> None:
        """Give up a question that is on its way."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])

    async def _renewed(self) -> Mapping[str, str]:
        found = self._refusal
        if found is None or _time() >= found.at + AGAIN:
            if self._fetching is None:
                self._fetching = asyncio.get_running_loop().create_task(self._fetch())
                self._fetching.add_done_callback(self._fetched)
            fetching = self._fetching
            # Waited for, not awaited: who gives up does not take the token from the others.
            await asyncio.wait([fetching])
            found = Refusal("weft gave it up", _time(), later=True) if fetching.cancelled() else fetching.result()
        if isinstance(found, Token):
            return found.headers
        if self._token is not None and _time() < self._token.ends:
            # It was to be renewed before its end, which is not yet: a short outage of the endpoint harms no call.
            return self._token.headers
        error = UpstreamAuth(self._server, f"no token from {self._credentials.token_url}: {found.reason}")
        # Nothing went to the upstream itself, so the call may be made again whatever it does.
        error.retryable = "yes" if found.later else "no"
        raise error

    def _fetched(self, task: asyncio.Task[Token | Refusal]) -> None:
        self._fetching = None
        if task.cancelled() or task.exception() is not None:
            return
        found = task.result()
        if isinstance(found, Token):
            self._token, self._refusal = found, None
        else:
            self._refusal = found

    async def _fetch(self) -> Token | Refusal:
        began = _time()
        headers, form = self._question()
        try:
            found = await exchange(
                "POST",
                self._credentials.token_url,
                headers=headers,
                body=urlencode(form).encode(),
                deadline=began + self._takes,
                limit=LIMIT,
                tls=self._tls,
                allow_address=self._allow_address,
                proxy=self._proxy,
            )
        except InfrastructureError as error:
            return Refusal(f"no answer: {error.message}", _time(), later=True)
        return self._token_of(found, began)

    def _question(self) -> tuple[dict[str, str], dict[str, str]]:
        given = self._credentials
        wanted = {"scope": " ".join(given.scopes), "audience": given.audience, "resource": given.resource}
        form = {"grant_type": "client_credentials", **{name: value for name, value in wanted.items() if value}}
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        if given.method == "post":
            return headers, {**form, "client_id": given.client_id, "client_secret": given.client_secret}
        # Each part is encoded by itself (RFC 6749, 2.3.1): an id may have a colon in it.
        pair = f"{quote_plus(given.client_id)}:{quote_plus(given.client_secret)}"
        return {**headers, "authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}, form

    def _token_of(self, found: Fetched, began: float) -> Token | Refusal:
        told: object = None
        with contextlib.suppress(orjson.JSONDecodeError):
            told = orjson.loads(found.body)
        answer = told if is_object(told) else {}
        if found.status != 200:
            said = [self._shown(answer[key]) for key in ("error", "error_description") if key in answer]
            later = found.status >= 500 or found.status in (408, 429)
            return Refusal(": ".join([f"status {found.status}", *said]), _time(), later)
        token, kind, life = answer.get("access_token"), answer.get("token_type", "Bearer"), answer.get("expires_in")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token or not token:
            return Refusal("an answer without an access token that a header can carry", _time())
        if not isinstance(kind, str) or kind.lower() != "bearer":
            return Refusal(f"a token of type {self._shown(kind)}, not Bearer", _time())
        lasts = float(life) if isinstance(life, int | float) and not isinstance(life, bool) and life > 0 else UNSAID
        return Token({"authorization": f"Bearer {token}"}, began + max(lasts - EARLY, lasts * 0.75), began + lasts)

    def _shown(self, value: object) -> str:
        """Return what the endpoint wrote; it may have written back what it was shown."""
        secret = self._credentials.client_secret
        return shown(value.replace(secret, "***") if isinstance(value, str) and secret else value)


def _time() -> float:
    return asyncio.get_running_loop().time()

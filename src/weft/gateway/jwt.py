"""Tokens (JWT) of an issuer that weft trusts: signed by its keys, meant for this gateway, and in their time."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jwt
import orjson
from jwt.utils import base64url_decode

from weft.gateway.jwks import ALGORITHMS, KeySet
from weft.gateway.unproven import Unauthenticated
from weft.ports import DEFAULT_TENANT, Principal, is_array, is_object

LEEWAY = 60.0
MOST_BYTES = 8 * 1024
KID = 256
TEXT = 256
MOST_SCOPES = 256
REMEMBERED = 4096
_FAULTS = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError, AttributeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimNames:
    """Which claims say what of the principal."""

    subject: str = "sub"
    agent_name: str = "agent_name"
    agent_version: str = "agent_version"
    tenant: str = "tenant"
    scopes: str = "scope"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """An issuer, and what is made of its tokens."""

    issuer: str
    audience: tuple[str, ...]
    """What this gateway is called in tokens: one of these must be among those that a token is meant for."""

    algorithms: tuple[str, ...] = ALGORITHMS
    leeway: float = LEEWAY
    claims: ClaimNames = field(default_factory=ClaimNames)
    subjects: Mapping[str, tuple[str, str | None]] = field(default_factory=dict[str, tuple[str, str | None]])
    """Which agent a subject is whose tokens name none."""

    tenant: str = DEFAULT_TENANT
    """Whose the subjects are when the token does not say."""


class _Known(NamedTuple):
    """A token that was verified, and with which keys."""

    principal: Principal
    until: float
    key: tuple[str | None, str]
    generation: int


class Tokens:
    """Tells who a token is of; one that was verified is remembered as long as it is valid and its keys are."""

    def __init__(self, trusted: Trusted, keys: KeySet, *, now: Callable[[], float] = time.time) -> None:
        self.trusted = trusted
        self.keys = keys
        self._now = now
        self._known: dict[bytes, _Known] = {}

    async def identify(self, token: str) -> Principal | None:
        """Return whose token it is, or None when another issuer made it.

        Raises:
            Unauthenticated: it does not hold.
        """
        if len(token) > MOST_BYTES:
            raise Unauthenticated("the token is too long")
        name = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        known = self._known.get(name)
        if known is None and _issuer(token) != self.trusted.issuer:
            return None
        kid, algorithm = self._key_named_by(token) if known is None else known.key
        # The key of a token that is remembered is looked for too: it may be gone, or too old to trust.
        key = await self.keys.find(kid, algorithm)
        if key is None:
            raise Unauthenticated("the token names no key of its issuer")
        if known is not None and known.until > self._now() and known.generation == self.keys.generation:
            return known.principal
        claims = self._verified(token, key)
        principal = self._principal(claims)
        until = int(claims["exp"]) + self.trusted.leeway
        if until <= self._now():
            raise Unauthenticated("the token is over")
        self._remember(name, _Known(principal, until, (kid, algorithm), self.keys.generation))
        return principal

    def _key_named_by(self, token: str) -> tuple[str | None, str]:
        """Return the id and algorithm of the key of a token; keys and addresses of keys in it are not looked at."""
        try:
            header = jwt.get_unverified_header(token)
        except _FAULTS as error:
            raise Unauthenticated(f"not a token: {type(error).__name__}") from None
        algorithm: object = header.get("alg")
        kid: object = header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self.trusted.algorithms:
            raise Unauthenticated("the token is signed with an algorithm that is not allowed")
        if kid is not None and (not isinstance(kid, str) or len(kid) > KID):
            raise Unauthenticated("the token's kid is not one")
        return kid, algorithm

    def _verified(self, token: str, key: jwt.PyJWK) -> dict[str, Any]:
        try:
            return jwt.decode(
                token,
                key,
                algorithms=list(self.trusted.algorithms),
                audience=list(self.trusted.audience),
                issuer=self.trusted.issuer,
                leeway=self.trusted.leeway,
                options={"require": ["exp", "iss", "aud"], "enforce_minimum_key_length": True},
            )
        except _FAULTS as error:
            raise Unauthenticated(f"the token does not hold: {type(error).__name__}") from None

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        names = self.trusted.claims
        subject = _text(claims, names.subject) or _text(claims, "client_id")
        if subject is None:
            raise Unauthenticated("the token has no subject")
        name, version = _text(claims, names.agent_name), _text(claims, names.agent_version)
        if name is None:
            name, version = self.trusted.subjects.get(subject, (None, None))
        return Principal(
            subject=subject,
            issuer=self.trusted.issuer,
            tenant=_text(claims, names.tenant) or self.trusted.tenant,
            agent_name=name,
            agent_version=version,
            scopes=_scopes(claims.get(names.scopes)),
            method="jwt",
            strength="proven",
        )

    def _remember(self, name: bytes, known: _Known) -> None:
        self._known[name] = known
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]


def _issuer(token: str) -> object:
    """Return who a token says that it is of, to find the keys to check that with."""
    try:
        claims: object = orjson.loads(base64url_decode(token.split(".")[1]))
    except (ValueError, IndexError):
        raise Unauthenticated("not a token") from None
    return claims.get("iss") if is_object(claims) else None


def _text(claims: Mapping[str, Any], name: str) -> str | None:
    value: object = claims.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > TEXT or not value.isprintable():
        raise Unauthenticated(f"the claim {name} is not a short text")
    return value


def _scopes(value: object) -> frozenset[str]:
    """Read the scopes as a text with spaces between (RFC 8693), or as a list."""
    listed = value.split() if isinstance(value, str) else value if is_array(value) else []
    if len(listed) > MOST_SCOPES or not all(isinstance(one, str) for one in listed):
        raise Unauthenticated("the scopes are not texts")
    return frozenset(listed)

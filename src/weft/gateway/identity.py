"""Who calls: the credentials of a request, each checked by its authenticator, and all of one mind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from weft.gateway.jwt import Tokens
from weft.gateway.keys import PREFIX, ApiKeys
from weft.gateway.proxies import Proxies, Sent, self_asserted
from weft.gateway.unproven import BadIdentityHeader, Unauthenticated
from weft.ports import ANONYMOUS, Principal

Headers = Sequence[tuple[bytes, bytes]]
CREDENTIALS = frozenset((b"authorization", b"x-api-key"))
FORWARDED = (b"x-forwarded-", b"forwarded", b"x-real-ip")
IDENTITY = (b"x-agent-", b"x-caller-agent", b"x-forwarded-client-cert")


@dataclass(slots=True)
class _Told:
    """What the headers of a request say of its caller."""

    credentials: dict[bytes, str] = field(default_factory=dict[bytes, str])
    identity: dict[str, str] = field(default_factory=dict[str, str])
    odd: str | None = None
    """An identity header that cannot be read: there twice, with underscores, or not in ASCII."""


class Authenticators:
    """Everything that can tell who calls.

    `self_asserted` believes X-Agent-Name and X-Agent-Version of everybody, with strength `none`; `anonymous` lets in
    those who say nothing. Counters are for telemetry to read: refusals by reason, and headers that did not count.
    """

    def __init__(
        self,
        *,
        tokens: Iterable[Tokens] = (),
        keys: ApiKeys | None = None,
        proxies: Proxies | None = None,
        self_asserted: bool = True,
        anonymous: bool = True,
        reject_untrusted: bool = True,
    ) -> None:
        self.refused = Counter[str]()
        self.stripped = 0
        self._tokens = tuple(tokens)
        self._keys = keys
        self._proxies = proxies
        self._self_asserted = self_asserted
        self._anonymous = anonymous
        self._reject_untrusted = reject_untrusted

    @property
    def issuers(self) -> tuple[str, ...]:
        """Who makes the tokens that are taken."""
        return tuple(one.trusted.issuer for one in self._tokens)

    async def start(self) -> None:
        """Get the keys of all issuers, as far as they can be had."""
        for one in self._tokens:
            await one.keys.start()

    async def close(self) -> None:
        """Look for keys no more."""
        for one in self._tokens:
            await one.keys.close()

    async def identify(
        self,
        headers: Headers,
        peer: str | None,
        *,
        method: str = "POST",
        target: bytes = b"/mcp",
        certificate: str | None = None,
    ) -> Principal:
        """Return who sends a request; `peer` is the address at the other end of its socket, None for a unix socket.

        Raises:
            Unauthenticated: a credential does not hold, two disagree, or there must be one (401).
            BadIdentityHeader: headers say who calls that may not, or not like this (400).
        """
        try:
            told = _told(headers)
            asserted = self._asserted(told, Sent(peer, method, target, certificate))
            proven = [await self._proven(text, asserted) for text in self._credentials(told)]
        except Unauthenticated as error:
            self.refused[error.reason] += 1
            raise
        except BadIdentityHeader as error:
            self.refused[error.code] += 1
            raise
        return self._one_of(proven, asserted)

    def _asserted(self, told: _Told, sent: Sent) -> Principal | None:
        """Return who the identity headers say calls, as far as they count here."""
        is_proxy = self._proxies is not None and self._proxies.has(sent.peer)
        if told.odd is not None and (is_proxy or self._self_asserted or self._reject_untrusted):
            raise BadIdentityHeader(told.odd, hint="send each identity header once, as X-Agent-Name is written")
        if not told.identity and told.odd is None:
            return None
        if self._proxies is not None and is_proxy:
            return self._proxies.principal(told.identity, sent)
        if self._self_asserted:
            return self_asserted(told.identity)
        self.stripped += len(told.identity) + (told.odd is not None)
        if self._reject_untrusted:
            name = next(iter(told.identity))
            raise BadIdentityHeader(f"{name} is not taken from this address", hint="prove who you are with a token")
        return None

    def _credentials(self, told: _Told) -> list[str]:
        """Return the credentials that something here can check; where nothing can, they are not looked at."""
        if not self._tokens and self._keys is None:
            return []
        found = list[str]()
        for name, text in told.credentials.items():
            scheme, _, rest = text.partition(" ")
            if name == b"x-api-key":
                found.append(text)
            elif scheme.lower() == "bearer" and rest.strip():
                found.append(rest.strip())
            else:
                raise Unauthenticated("Authorization is not a bearer token")
        return found

    async def _proven(self, text: str, asserted: Principal | None) -> Principal:
        if self._keys is not None and text.startswith(PREFIX):
            return self._keys.identify(text, version=None if asserted is None else asserted.agent_version)
        for issuer in self._tokens:
            if (principal := await issuer.identify(text)) is not None:
                return principal
        raise Unauthenticated("nobody here knows this credential")

    def _one_of(self, proven: Sequence[Principal], asserted: Principal | None) -> Principal:
        """Return the one principal that all credentials mean."""
        first = proven[0] if proven else asserted
        if first is None:
            if self._anonymous:
                return ANONYMOUS
            raise self._conflict("there is no credential", given=False)
        if any(_meant(one) != _meant(first) for one in proven):
            raise self._conflict("two credentials disagree")
        if asserted is not None and not _agrees(asserted, first):
            raise self._conflict("headers and credential disagree")
        return first

    def _conflict(self, reason: str, *, given: bool = True) -> Unauthenticated:
        self.refused[reason] += 1
        return Unauthenticated(reason, given=given)


def without_identity(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Return the headers that other code may see: neither credentials nor what says who calls or from where."""
    return [(name, value) for name, value in headers if not _is_identity(_dashed(name))]


def _told(headers: Headers) -> _Told:
    told = _Told()
    for raw, value in headers:
        name = raw.lower()
        if name in CREDENTIALS:
            if name in told.credentials:
                raise Unauthenticated(f"two {name.decode()} headers")
            told.credentials[name] = value.decode("latin-1").strip()
        elif (dashed := _dashed(name)).startswith(IDENTITY):
            _note(told, name.decode("latin-1"), value, is_odd=dashed != name)
    return told


def _note(told: _Told, name: str, value: bytes, *, is_odd: bool) -> None:
    if is_odd or name in told.identity or not value.isascii():
        told.odd = f"the header {name!r} is not one that can be read"
    else:
        told.identity[name] = value.decode("ascii")


def _dashed(name: bytes) -> bytes:
    """Return a name as servers that do not tell `_` from `-` would read it."""
    return name.lower().replace(b"_", b"-")


def _is_identity(name: bytes) -> bool:
    return name in CREDENTIALS or name.startswith((*IDENTITY, *FORWARDED))


def _meant(principal: Principal) -> tuple[object, ...]:
    return (principal.tenant, principal.agent_name, principal.agent_version, principal.scopes)


def _agrees(asserted: Principal, proven: Principal) -> bool:
    """Tell whether headers, which may leave the version open, name the agent of a credential."""
    same_version = asserted.agent_version is None or asserted.agent_version == proven.agent_version
    return asserted.agent_name == proven.agent_name and same_version

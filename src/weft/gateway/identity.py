"""Who calls: the credentials of a request, each checked by its authenticator, and all of one mind."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from weft.gateway.keys import PREFIX, ApiKeys
from weft.gateway.proxies import AgentAt, Proxies, Sent, nobody_at, self_asserted
from weft.gateway.unproven import BadIdentityHeader, Unauthenticated
from weft.ports import ANONYMOUS, Principal

if TYPE_CHECKING:
    from weft.gateway.jwt import Tokens

Headers = Sequence[tuple[bytes, bytes]]
Said = tuple[tuple[bytes, bytes], ...]
"""The headers of a request that say who calls."""
CREDENTIALS = frozenset((b"authorization", b"x-api-key"))
FORWARDED = (b"x-forwarded-", b"forwarded", b"x-real-ip")
IDENTITY = (b"x-agent-", b"x-caller-agent", b"x-forwarded-client-cert")
_HIDDEN = (*CREDENTIALS, *IDENTITY, *FORWARDED)
_INITIALS = frozenset((b"a", b"A", b"f", b"F", b"x", b"X"))
"""What all of them begin with: most headers are done with a look at that."""
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_log = logging.getLogger("weft.identity")
REMEMBERED = 10_000
MOMENT = 0.4
"""For how many seconds a credential counts without another look; with the look at the file of keys, less than one."""


@dataclass(slots=True)
class _Told:
    """What the headers of a request say of its caller."""

    credentials: dict[bytes, str] = field(default_factory=dict[bytes, str])
    identity: dict[str, str] = field(default_factory=dict[str, str])
    odd: str | None = None
    """An identity header that cannot be read: there twice, with underscores, or not in ASCII."""


class Authenticators:
    """Everything that can tell who calls.

    `certificates` says which agent holds a client certificate, by its SHA-256 in hex or by the common name of its
    subject; `agent_at` which one has its card at a URL. `self_asserted` believes X-Agent-* and X-Caller-Agent of
    everybody, with strength `none`; `anonymous` lets in those who say nothing. Counters are for telemetry to read:
    refusals by reason, and headers that did not count.
    """

    def __init__(
        self,
        *,
        tokens: Iterable[Tokens] = (),
        keys: ApiKeys | None = None,
        proxies: Proxies | None = None,
        certificates: Mapping[str, tuple[str, str | None]] | None = None,
        agent_at: AgentAt = nobody_at,
        self_asserted: bool = True,
        anonymous: bool = True,
        reject_untrusted: bool = True,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self.refused = Counter[str]()
        self.bad_headers = 0
        self.on_refused: Callable[[str], object] = _nobody
        """Told why somebody was refused."""
        self.stripped = 0
        self._tokens = tuple(tokens)
        self._keys = keys
        self._proxies = proxies
        holders = {name: _holder(name, *agent) for name, agent in (certificates or {}).items()}
        # Apart, so that nobody becomes the holder of a certificate by being called like its hash.
        self._by_hash = {name: one for name, one in holders.items() if _FINGERPRINT.fullmatch(name)}
        self._by_name = {name: one for name, one in holders.items() if name not in self._by_hash}
        self._agent_at = agent_at
        self._self_asserted = self_asserted
        self._anonymous = anonymous
        self._reject_untrusted = reject_untrusted
        self._now = now
        self._known: dict[Said, tuple[Principal, float]] = {}

    @property
    def admits_anonymous(self) -> bool:
        """Whether callers without a credential are let in."""
        return self._anonymous

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

    def counted(self) -> dict[str, int]:
        """Return how many requests were refused, by the codes of their errors, and how many headers did not count."""
        return {
            Unauthenticated.code: sum(self.refused.values()) - self.bad_headers,
            BadIdentityHeader.code: self.bad_headers,
            "IdentityHeaderStripped": self.stripped,
        }

    def nobody(self) -> Principal:
        """Return who sends a request that says nothing of its caller.

        Raises:
            Unauthenticated: there must be a credential (401).
        """
        if self._anonymous:
            return ANONYMOUS
        raise self._refusal(Unauthenticated("there is no credential", given=False))

    async def identify(
        self,
        headers: Headers,
        peer: str | None,
        *,
        method: str = "POST",
        target: bytes = b"/mcp",
        certificate: str | None = None,
        common_name: str | None = None,
    ) -> Principal:
        """Return who sends a request; `peer` is the address at the other end of its socket, None for a unix socket.

        What was found is remembered for a moment, but for what proxies say, which they sign for each request.

        Raises:
            Unauthenticated: a credential does not hold, two disagree, or there must be one (401).
            BadIdentityHeader: headers say who calls that may not, or not like this (400).
        """
        said, _ = parted(headers)
        if certificate is None and (known := self.remembered(said, peer)) is not None:
            return known
        try:
            told = _told(headers)
            asserted = self._asserted(told, Sent(peer, method, target, certificate))
            held = self._held(certificate, common_name)
            proven = await self._proofs(told, held, asserted) if told.credentials else ()
            found = _one_of(proven, held, asserted)
        except Unauthenticated as error:
            raise self._refusal(error) from None
        except BadIdentityHeader as error:
            self.bad_headers += 1
            self.refused[error.code] += 1
            self.on_refused(error.message)
            raise
        principal = found or self.nobody()
        if certificate is None and not self._is_proxy(peer):
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[said] = principal, self._now() + MOMENT
        return principal

    def remembered(self, said: Said, peer: str | None) -> Principal | None:
        """Return who has said the same a moment ago, in headers that `is_identity`; never of what a proxy says."""
        known = self._known.get(said)
        return known[0] if known is not None and self._now() < known[1] and not self._is_proxy(peer) else None

    def _is_proxy(self, peer: str | None) -> bool:
        return self._proxies is not None and self._proxies.has(peer)

    def _refusal(self, error: Unauthenticated) -> Unauthenticated:
        """Count a refusal; the first for a reason is told, since the client is not told any."""
        self.refused[error.reason] += 1
        tell = _log.info if self.refused[error.reason] == 1 else _log.debug
        tell("a caller is refused: %s", error.reason)
        self.on_refused(error.reason)
        return error

    def _held(self, certificate: str | None, common_name: str | None) -> Principal | None:
        """Return whose certificate it is; one that is listed itself is not looked for by its name."""
        if certificate is None:
            return None
        return self._by_hash.get(certificate) or self._by_name.get(common_name or "")

    def _asserted(self, told: _Told, sent: Sent) -> Principal | None:
        """Return who the identity headers say calls, as far as they count here."""
        is_proxy = self._is_proxy(sent.peer)
        if told.odd is not None and (is_proxy or self._self_asserted or self._reject_untrusted):
            raise BadIdentityHeader(told.odd, hint="send each identity header once, as X-Agent-Name is written")
        if not told.identity and told.odd is None:
            return None
        if self._proxies is not None and is_proxy:
            return self._proxies.principal(told.identity, sent, agent_at=self._agent_at)
        if self._self_asserted:
            return self_asserted(told.identity, agent_at=self._agent_at)
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

    async def _proofs(self, told: _Told, *said: Principal | None) -> list[Principal]:
        """Return whose the credentials are; a key of several versions is for the one that is said."""
        version = next((one.agent_version for one in said if one is not None and one.agent_version), None)
        return [await self._proven(text, version) for text in self._credentials(told)]

    async def _proven(self, text: str, version: str | None) -> Principal:
        if self._keys is not None and text.startswith(PREFIX):
            return self._keys.identify(text, version=version)
        for issuer in self._tokens:
            if (principal := await issuer.identify(text)) is not None:
                return principal
        raise Unauthenticated("nobody here knows this credential")


def _nobody(reason: str) -> None:
    """Tell nobody."""


def is_identity(name: bytes) -> bool:
    """Tell whether a header is a credential, or says who calls or from where, however it is spelt."""
    return name[:1] in _INITIALS and _dashed(name).startswith(_HIDDEN)


def parted(headers: Headers) -> tuple[Said, list[tuple[bytes, bytes]]]:
    """Return the headers that say who calls, or prove it, and those that other code may see."""
    said: list[tuple[bytes, bytes]] = []
    rest: list[tuple[bytes, bytes]] = []
    for pair in headers:
        (said if is_identity(pair[0]) else rest).append(pair)
    return tuple(said), rest


def _told(headers: Headers) -> _Told:
    told = _Told()
    for raw, value in headers:
        if raw[:1] not in _INITIALS:
            continue
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


def _holder(name: str, agent: str, version: str | None) -> Principal:
    return Principal(subject=name, agent_name=agent, agent_version=version, method="certificate", strength="proven")


def _one_of(proven: Sequence[Principal], held: Principal | None, asserted: Principal | None) -> Principal | None:
    """Return the one principal that all credentials mean, or None when there are none."""
    first = proven[0] if proven else held or asserted
    if first is None or first is asserted:
        return first
    if any(_meant(one) != _meant(first) for one in proven):
        raise Unauthenticated("two credentials disagree")
    if held is not None and not _agrees(held, first):
        raise Unauthenticated("certificate and credential disagree")
    if asserted is not None and not _agrees(asserted, first):
        raise Unauthenticated("headers and credential disagree")
    return first


def _meant(principal: Principal) -> tuple[object, ...]:
    # Credentials of one agent may be made out to it under several names; where there is no agent, the name is all.
    who = (principal.issuer, principal.subject) if principal.agent_name is None else ()
    return (principal.tenant, principal.agent_name, principal.agent_version, principal.scopes, who)


def _agrees(said: Principal, proven: Principal) -> bool:
    """Tell whether headers or a certificate, which may leave the version open, name the agent of a credential."""
    same_version = said.agent_version is None or said.agent_version == proven.agent_version
    return said.agent_name == proven.agent_name and same_version

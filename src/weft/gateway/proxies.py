"""The trusted-proxy rule (A5): headers that say who calls count only from a proxy that is known and proves itself."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from weft.errors import shown
from weft.gateway.unproven import BadIdentityHeader, Unauthenticated
from weft.ports import DEFAULT_TENANT, Method, Principal
from weft.upstreams.egress import Network

NAME, VERSION = "x-agent-name", "x-agent-version"
CARD = "x-caller-agent"
TIMESTAMP, SIGNATURE = "x-agent-timestamp", "x-agent-signature"
WINDOW = 60.0
MOST_CARD = 2048
REMEMBERED = 1024
_NAME = re.compile(r"[!-+\--{}~]([ -+\--{}~]{0,126}[!-+\--{}~])?")
"""Printable ASCII without the comma, which joins two headers, and the bar, which parts what is signed."""
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]{0,63}")
_CARD = re.compile(r"https?://[!-+\--{}~]+")

AgentAt: TypeAlias = Callable[[str], tuple[str, str] | None]
"""Which registered agent, by name and version, has its card at a URL."""


def nobody_at(card: str) -> None:
    """Know no card: what there is without a registry."""


class Sent(NamedTuple):
    """What a request is, as far as a proof covers it: its method and its target (path and query, as sent)."""

    peer: str | None
    """The address at the other end of the socket, None when that is a unix socket."""

    method: str = "POST"
    target: bytes = b"/mcp"
    certificate: str | None = None
    """The SHA-256 of the peer's certificate in hex, when TLS has verified one."""

    def digest(self) -> str:
        """Return the request's hash, which is part of what a proxy signs."""
        return hashlib.sha256(self.method.encode() + b" " + self.target).hexdigest()


def signed(secret: bytes, *, name: str, version: str, timestamp: str, request: str, card: str = "") -> str:
    """Return the signature that a proxy sends: HMAC-SHA256 over `name|version|timestamp|request-hash`, in hex.

    With X-Caller-Agent, `|` and its value stand behind that.
    """
    parts = (name, version, timestamp, request, *((card,) if card else ()))
    return hmac.new(secret, "|".join(parts).encode(), "sha256").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxies:
    """The proxies that may say who calls: where they are, and how they prove that it is they."""

    networks: tuple[Network, ...] = ()
    unix: bool = False
    """Whether whoever comes over a unix socket is one of them."""

    secrets: tuple[bytes, ...] = ()
    """What they sign with; two while one is being replaced."""

    certificates: frozenset[str] = frozenset()
    window: float = WINDOW
    tenant: str = DEFAULT_TENANT
    now: Callable[[], float] = time.time

    def has(self, peer: str | None) -> bool:
        """Tell whether the other end of a socket is where a proxy is; what headers say of it does not count."""
        if peer is None:
            return self.unix
        try:
            address = ipaddress.ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address.version == network.version and address in network for network in self.networks)

    def principal(self, headers: Mapping[str, str], sent: Sent, *, agent_at: AgentAt = nobody_at) -> Principal | None:
        """Return whom a proxy vouches for; None when it names nobody.

        Raises:
            Unauthenticated: it does not prove that it is the proxy, or its headers name two agents.
            BadIdentityHeader: what it sends is no name, version or URL.
        """
        if not self._proves(headers, sent):
            raise Unauthenticated("a trusted address sends identity headers without proof")
        said = _said(headers, agent_at)
        return None if said is None else _asserted("proxy", self.tenant, *said)

    def _proves(self, headers: Mapping[str, str], sent: Sent) -> bool:
        if sent.certificate is not None and sent.certificate in self.certificates:
            return True
        timestamp, given = headers.get(TIMESTAMP, ""), headers.get(SIGNATURE, "")
        if not re.fullmatch(r"[0-9]{1,12}", timestamp) or abs(self.now() - int(timestamp)) > self.window:
            return False
        told = {"name": headers.get(NAME, ""), "version": headers.get(VERSION, ""), "card": headers.get(CARD, "")}
        request = sent.digest()
        made = (signed(secret, **told, timestamp=timestamp, request=request) for secret in self.secrets)
        return any(hmac.compare_digest(one.encode(), given.lower().encode()) for one in made)


def self_asserted(
    headers: Mapping[str, str], *, tenant: str = DEFAULT_TENANT, agent_at: AgentAt = nobody_at
) -> Principal | None:
    """Return who a caller says it is, where that is believed: on this machine.

    Raises:
        Unauthenticated: its headers name two agents.
        BadIdentityHeader: what it sends is no name, version or URL.
    """
    said = _said(headers, agent_at)
    return None if said is None else _asserted("header", tenant, *said)


def _said(headers: Mapping[str, str], agent_at: AgentAt) -> tuple[str, str | None, str | None] | None:
    """Return the subject, and the name and version of the agent, that headers say; None when they name nobody."""
    name, version = agent_of(headers)
    if (card := card_of(headers)) is None:
        return None if name is None else (name, name, version)
    found = agent_at(card)
    if name is not None and (found is None or name != found[0] or version not in (None, found[1])):
        raise Unauthenticated("X-Caller-Agent and X-Agent-Name name different agents")
    # Whose card it is nobody here knows: a caller that is not an agent of the registry.
    return (card, None, None) if found is None else (found[0], *found)


# Making one costs more than all the rest of a request's headers, and the same few agents call again and again.
@lru_cache(maxsize=REMEMBERED)
def _asserted(method: Method, tenant: str, subject: str, name: str | None, version: str | None) -> Principal:
    return Principal(
        subject=subject,
        tenant=tenant,
        agent_name=name,
        agent_version=version,
        method=method,
        strength="asserted" if method == "proxy" else "none",
    )


def agent_of(headers: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return the agent's name and version that headers say."""
    name, version = headers.get(NAME), headers.get(VERSION)
    if name is not None and not _NAME.fullmatch(name):
        raise _bad(NAME, name, "one name of at most 128 printable characters, without ',' and '|'")
    if version is not None and not _VERSION.fullmatch(version):
        raise _bad(VERSION, version, "one version such as 1.2.0")
    if name is None and version is not None:
        raise _bad(VERSION, version, "X-Agent-Name beside it")
    return name, version


def card_of(headers: Mapping[str, str]) -> str | None:
    """Return the URL of the calling agent's card that headers say."""
    card = headers.get(CARD)
    if card is None:
        return None
    if len(card) > MOST_CARD or not _CARD.fullmatch(card) or not _is_address(card):
        raise _bad(CARD, card, "the http(s) URL of one agent's card, without a user, ',' and '|'")
    return card


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return bool(parts.hostname) and parts.username is None and parts.password is None


def _bad(header: str, value: str, expected: str) -> BadIdentityHeader:
    return BadIdentityHeader(f"{header} is {shown(value)}", hint=f"expected {expected}")

"""The trusted-proxy rule (A5): headers that say who calls count only from a proxy that is known and proves itself."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from weft.errors import shown
from weft.gateway.unproven import BadIdentityHeader, Unauthenticated
from weft.ports import DEFAULT_TENANT, Principal
from weft.upstreams.egress import Network

NAME, VERSION = "x-agent-name", "x-agent-version"
TIMESTAMP, SIGNATURE = "x-agent-timestamp", "x-agent-signature"
WINDOW = 60.0
_NAME = re.compile(r"[!-+\--{}~]([ -+\--{}~]{0,126}[!-+\--{}~])?")
"""Printable ASCII without the comma, which joins two headers, and the bar, which parts what is signed."""
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]{0,63}")


@dataclass(frozen=True, slots=True)
class Sent:
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


def signed(secret: bytes, *, name: str, version: str, timestamp: str, request: str) -> str:
    """Return the signature that a proxy sends: HMAC-SHA256 over `name|version|timestamp|request-hash`, in hex."""
    return hmac.new(secret, "|".join((name, version, timestamp, request)).encode(), "sha256").hexdigest()


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

    def principal(self, headers: Mapping[str, str], sent: Sent) -> Principal | None:
        """Return whom a proxy vouches for; None when it names nobody.

        Raises:
            Unauthenticated: it does not prove that it is the proxy.
            BadIdentityHeader: what it sends is no name or version.
        """
        if not self._proves(headers, sent):
            raise Unauthenticated("a trusted address sends identity headers without proof")
        name, version = agent_of(headers)
        if name is None:
            return None
        return Principal(
            subject=name,
            tenant=self.tenant,
            agent_name=name,
            agent_version=version,
            method="proxy",
            strength="asserted",
        )

    def _proves(self, headers: Mapping[str, str], sent: Sent) -> bool:
        if sent.certificate is not None and sent.certificate in self.certificates:
            return True
        timestamp, given = headers.get(TIMESTAMP, ""), headers.get(SIGNATURE, "")
        if not re.fullmatch(r"[0-9]{1,12}", timestamp) or abs(self.now() - int(timestamp)) > self.window:
            return False
        told = {"name": headers.get(NAME, ""), "version": headers.get(VERSION, "")}
        request = sent.digest()
        made = (signed(secret, **told, timestamp=timestamp, request=request) for secret in self.secrets)
        return any(hmac.compare_digest(one.encode(), given.lower().encode()) for one in made)


def self_asserted(headers: Mapping[str, str], *, tenant: str = DEFAULT_TENANT) -> Principal | None:
    """Return who a caller says it is, where that is believed: on this machine.

    Raises:
        BadIdentityHeader: what it sends is no name or version.
    """
    name, version = agent_of(headers)
    if name is None:
        return None
    return Principal(subject=name, tenant=tenant, agent_name=name, agent_version=version, method="header")


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


def _bad(header: str, value: str, expected: str) -> BadIdentityHeader:
    return BadIdentityHeader(f"{header} is {shown(value)}", hint=f"expected {expected}")

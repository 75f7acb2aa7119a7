"""From the section about callers to what tells who they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.config.identity import Identity, Jwt, TrustedProxies
from weft.config.sections import Egress
from weft.gateway.identity import Authenticators
from weft.gateway.keys import ApiKeys, KeyFile
from weft.gateway.proxies import AgentAt, Proxies, nobody_at
from weft.upstreams.egress import network

if TYPE_CHECKING:
    from weft.gateway.jwt import Tokens

UNIX = "unix"


def authenticators_of(
    identity: Identity, *, loopback: bool, egress: Egress | None = None, agent_at: AgentAt = nobody_at
) -> Authenticators:
    """Return what tells who calls; `loopback` says that only this machine reaches the gateway.

    `agent_at` says which registered agent has its card at a URL.

    Raises:
        InputError: the file of keys cannot be used.
    """
    return Authenticators(
        tokens=_tokens(identity.jwt, egress or Egress()),
        keys=None if identity.key_file is None else ApiKeys(KeyFile(identity.key_file)),
        proxies=None if identity.proxies is None else _proxies(identity.proxies),
        certificates={holder: agent_of(agent) for holder, agent in identity.certificates.items()},
        agent_at=agent_at,
        self_asserted=identity.believes_headers(loopback=loopback),
        anonymous=identity.admits_anonymous(loopback=loopback),
        reject_untrusted=identity.on_untrusted_identity_header == "reject",
    )


def _tokens(given: Sequence[Jwt], egress: Egress) -> list[Tokens]:
    if not given:
        return []
    from weft.app.issuers import tokens_of  # noqa: PLC0415 - nine megabytes of cryptography that others need not carry

    return [tokens_of(one, egress) for one in given]


def agent_of(text: str) -> tuple[str, str | None]:
    """Return the name and the version of an agent, of which the version may be missing."""
    name, _, version = text.partition("@")
    return name, version or None


def _proxies(given: TrustedProxies) -> Proxies:
    return Proxies(
        networks=tuple(network(one) for one in given.trusted if one != UNIX),
        unix=UNIX in given.trusted,
        secrets=tuple(one.encode() for one in given.secrets),
        certificates=frozenset(given.certificates),
        window=given.window,
        tenant=given.tenant,
    )

"""From the section about callers to what tells who they are."""

from __future__ import annotations

from functools import partial

from weft.app.registries import address_rule
from weft.config.identity import Claims, Identity, Jwt, TrustedProxies
from weft.config.sections import Egress
from weft.gateway.identity import Authenticators
from weft.gateway.jwks import KeySet
from weft.gateway.jwt import ClaimNames, Tokens, Trusted
from weft.gateway.keys import ApiKeys, KeyFile
from weft.gateway.proxies import AgentAt, Proxies, nobody_at
from weft.upstreams.egress import network
from weft.upstreams.httpfetch import fetch

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
        tokens=[_tokens(one, egress or Egress()) for one in identity.jwt],
        keys=None if identity.key_file is None else ApiKeys(KeyFile(identity.key_file)),
        proxies=None if identity.proxies is None else _proxies(identity.proxies),
        certificates={holder: _agent(agent) for holder, agent in identity.certificates.items()},
        agent_at=agent_at,
        self_asserted=identity.believes_headers(loopback=loopback),
        anonymous=identity.admits_anonymous(loopback=loopback),
        reject_untrusted=identity.on_untrusted_identity_header == "reject",
    )


def _tokens(given: Jwt, egress: Egress) -> Tokens:
    trusted = Trusted(
        issuer=given.issuer,
        audience=given.audience,
        algorithms=given.algorithms,
        leeway=given.leeway,
        claims=_claims(given.claims),
        subjects={subject: _agent(agent) for subject, agent in given.subjects.items()},
        tenant=given.tenant,
    )
    if given.path is not None:
        return Tokens(trusted, KeySet.of_file(given.path, algorithms=given.algorithms))
    getting = partial(fetch, allow_address=address_rule(given.jwks, egress.allow), proxy=egress.proxy)
    keys = KeySet.of_url(given.jwks, algorithms=given.algorithms, max_stale=given.max_stale, fetch=getting)
    return Tokens(trusted, keys)


def _claims(given: Claims) -> ClaimNames:
    # Not by model_dump: that writes references back, and this needs what they stand for.
    return ClaimNames(
        subject=given.subject,
        agent_name=given.agent_name,
        agent_version=given.agent_version,
        tenant=given.tenant,
        scopes=given.scopes,
    )


def _agent(text: str) -> tuple[str, str | None]:
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

"""Issuers of tokens, as weft.yaml trusts them; loaded only where there is one."""

from __future__ import annotations

from functools import partial

from weft.app.identities import agent_of
from weft.app.registries import address_rule
from weft.config.identity import Claims, Jwt
from weft.config.sections import Egress
from weft.gateway.jwks import KeySet
from weft.gateway.jwt import ClaimNames, Tokens, Trusted
from weft.upstreams.httpfetch import fetch


def tokens_of(given: Jwt, egress: Egress) -> Tokens:
    """Return what verifies the tokens of an issuer."""
    trusted = Trusted(
        issuer=given.issuer,
        audience=given.audience,
        algorithms=given.algorithms,
        leeway=given.leeway,
        claims=_claims(given.claims),
        subjects={subject: agent_of(agent) for subject, agent in given.subjects.items()},
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

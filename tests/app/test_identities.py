"""What checks callers is made of what weft.yaml says."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.issuing import AUDIENCE, ISSUER, Issuer
from tests.upstreams.listening import listening
from weft.app.access import policy_of, quotas_of, rules_of
from weft.app.identities import authenticators_of
from weft.config.identity import Identity, PolicyRule, QuotaRule
from weft.config.secrets import Secret
from weft.config.sections import Egress, RuntimeChecks
from weft.errors import InputError, LimitExceeded
from weft.gateway.keys import KeyFile, make_key
from weft.gateway.policy import ToolFacts
from weft.gateway.proxies import Sent, signed
from weft.gateway.unproven import BadIdentityHeader, Unauthenticated
from weft.ports import ANONYMOUS

ELSEWHERE = "203.0.113.9"


def identity(folder: Path, **given: Any) -> Identity:
    return Identity.model_validate(given, context=folder)


async def test_tokens_are_checked_with_the_keys_of_a_url_and_the_claims_that_are_written(tmp_path: Path):
    issuer = Issuer()
    with listening(issuer) as port:
        jwt: dict[str, Any] = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": f"http://127.0.0.1:{port}/"}
        jwt |= {"claims": {"scopes": Secret("perms", "${env:CLAIM}")}, "subjects": {"carol": "writer@1.0.0"}}
        who = authenticators_of(identity(tmp_path, jwt=[jwt]), loopback=False, egress=Egress())
        token = issuer.token(sub="carol", agent_name=None, perms=["a"], tenant="red")
        found = await who.identify([(b"authorization", f"Bearer {token}".encode())], ELSEWHERE)
        await who.close()
    assert (found.agent, found.scopes, found.tenant) == ("writer@1.0.0", {"a"}, "red")
    assert who.issuers == (ISSUER,)


async def test_keys_of_a_private_network_are_not_fetched_unless_that_is_allowed(tmp_path: Path):
    jwt = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": "https://169.254.169.254/keys"}
    who = authenticators_of(identity(tmp_path, jwt=[jwt]), loopback=False)
    with pytest.raises(Unauthenticated):
        await who.identify([(b"authorization", f"Bearer {Issuer().token()}".encode())], ELSEWHERE)
    await who.close()


async def test_a_file_of_keys_and_proxies_are_taken_as_written(tmp_path: Path):
    key, text = make_key(agent="bot")
    KeyFile(tmp_path / "keys.json").add(key)
    secret = "s" * 40
    proxies = {"trusted": ["10.0.0.0/8", "unix"], "secrets": [secret], "tenant": "edge"}
    who = authenticators_of(identity(tmp_path, keyFile="keys.json", proxies=proxies), loopback=False)
    assert (await who.identify([(b"x-api-key", text.encode())], ELSEWHERE)).agent_name == "bot"
    told = {"name": "a", "version": "1.0.0", "timestamp": str(int(time.time()))}
    signature = signed(secret.encode(), **told, request=Sent(None).digest())
    names = ("x-agent-name", "x-agent-version", "x-agent-timestamp", "x-agent-signature")
    headers = [(name.encode(), one.encode()) for name, one in zip(names, (*told.values(), signature), strict=True)]
    for peer in ("10.2.3.4", None):
        found = await who.identify(headers, peer)
        assert (found.agent, found.tenant, found.strength) == ("a@1.0.0", "edge", "asserted")
    with pytest.raises(Unauthenticated):
        await who.identify([], ELSEWHERE)
    with pytest.raises(BadIdentityHeader):
        await who.identify([(b"x-agent-name", b"a")], ELSEWHERE)


@pytest.mark.req("REG-38")
async def test_certificates_and_cards_are_taken_as_written(tmp_path: Path):
    pinned = ":".join(["AB"] * 32)
    given = identity(tmp_path, certificates={"research": "research-agent@1.2.0", pinned: "writer"})
    who = authenticators_of(given, loopback=True, agent_at={"https://a.example/card": ("b", "1.0.0")}.get)
    by_name = await who.identify([], ELSEWHERE, certificate="cd" * 32, common_name="research")
    by_hash = await who.identify([], ELSEWHERE, certificate="ab" * 32, common_name="other")
    by_card = await who.identify([(b"x-caller-agent", b"https://a.example/card")], ELSEWHERE)
    assert [one.agent for one in (by_name, by_hash, by_card)] == ["research-agent@1.2.0", "writer", "b@1.0.0"]
    assert [one.strength for one in (by_name, by_hash, by_card)] == ["proven", "proven", "none"]


def test_a_file_of_keys_that_cannot_be_used_is_told_at_the_start(tmp_path: Path):
    (tmp_path / "keys.json").write_text("[]")
    with pytest.raises(InputError, match=r"keys\.json"):
        authenticators_of(identity(tmp_path, keyFile="keys.json"), loopback=True)


def test_rules_and_quotas_are_taken_as_written():
    rules = [
        PolicyRule(name="in", effect="allow", when="principal.subject == '${x}' || tool.name == 'a'", tools=("a", "b")),
        PolicyRule.model_validate({"name": "own", "tools": ["b"], "callerMustAlsoHave": True}),
    ]
    policy = policy_of(rules)
    assert policy.judge(ANONYMOUS, ToolFacts("a")).rule == "in"
    assert not policy.judge(ANONYMOUS, ToolFacts("b")).allowed
    assert policy.needs_own_right(ANONYMOUS, ToolFacts("b")) == "own"
    quotas = quotas_of([QuotaRule.model_validate({"name": "q", "calls": 1, "per": "1m", "by": "tool"})])
    quotas.take(ANONYMOUS, ToolFacts("a"))
    with pytest.raises(LimitExceeded):
        quotas.take(ANONYMOUS, ToolFacts("a"))


@pytest.mark.req("REG-32")
def test_where_others_reach_it_unknown_callers_are_denied_unless_written():
    silent, written = RuntimeChecks(), RuntimeChecks.model_validate({"unknownCaller": "allow"})
    assert rules_of(silent, loopback=True).unknown_caller == "allow"
    assert rules_of(silent, loopback=False).unknown_caller == "deny"
    assert rules_of(written, loopback=False).unknown_caller == "allow"
    assert rules_of(silent, loopback=False).undeclared_dependency == "warn"

"""The sections about callers: what is wrong in them is told with its place, and secrets are not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from weft.config import Config
from weft.config.identity import Identity
from weft.errors import Problem
from weft.ir.normalise import problem_of

SECRET = "s3cret-" * 6
MUTUAL = "listen: {tls: {cert: ca.pem, key: ca.pem, clientCa: ca.pem}}"
FINGERPRINT = "0123456789abcdef" * 4
JWT = "issuer: https://i.example, audience: https://g.example/mcp"


def made(text: str, folder: Path | None = None) -> Config:
    return Config.model_validate(yaml.safe_load(text), context=folder)


def refused(text: str, folder: Path | None = None) -> list[Problem]:
    value: Mapping[str, Any] = yaml.safe_load(text)
    with pytest.raises(ValidationError) as caught:
        Config.model_validate(value, context=folder)
    return [problem_of(one, value) for one in caught.value.errors(include_url=False)]


def test_without_a_word_the_seeds_open_defaults_hold_on_this_machine_only():
    identity = Identity()
    assert not identity.authenticates
    assert identity.believes_headers(loopback=True)
    assert identity.admits_anonymous(loopback=True)
    assert not identity.believes_headers(loopback=False)


def test_with_an_authenticator_nobody_from_elsewhere_is_anonymous(tmp_path: Path):
    identity = made("identity: {keyFile: keys.json}", tmp_path).identity
    assert identity.key_file == tmp_path / "keys.json"
    assert identity.authenticates
    assert not identity.admits_anonymous(loopback=False)
    assert identity.admits_anonymous(loopback=True)
    assert made("identity: {keyFile: k, anonymous: allow}").identity.admits_anonymous(loopback=False)
    assert not made("identity: {anonymous: deny}").identity.admits_anonymous(loopback=True)


def test_where_a_proxy_says_who_calls_nobody_else_is_believed():
    proxied = made(f"identity: {{proxies: {{trusted: [127.0.0.1], secrets: [{SECRET}]}}}}").identity
    assert not proxied.believes_headers(loopback=True)
    assert made("identity: {allowSelfAsserted: true}").identity.believes_headers(loopback=False)


def test_everything_can_be_written(tmp_path: Path):
    (tmp_path / "jwks.json").write_text("{}")
    found = made(
        """
        identity:
          jwt:
            - issuer: https://i.example
              audience: [https://g.example/mcp, weft]
              jwks: jwks.json
              algorithms: [EdDSA]
              leeway: 5s
              maxStale: 1h
              claims: {agentName: "https://x.example/agent", scopes: permissions}
              subjects: {alice: research-agent@2.1.0, bob: writer}
            - {issuer: https://j.example, audience: weft, jwks: "https://j.example/jwks"}
          proxies: {trusted: [10.0.0.0/8, "::1", unix], certificates: ["AB:CERTIFICATE"], window: 30s}
          onUntrustedIdentityHeader: ignore
        policy:
          - {name: readers, effect: allow, when: "'read' in principal.scopes", tools: ["search*"]}
          - {name: money, tools: [charge], callerMustAlsoHave: true}
        quotas:
          - {name: all, calls: 100, per: 1m, burst: 10, by: caller}
        """.replace("CERTIFICATE", ":".join(["cd"] * 31)),
        tmp_path,
    )
    first, second = found.identity.jwt
    assert (first.path, first.audience, first.leeway) == (tmp_path / "jwks.json", ("https://g.example/mcp", "weft"), 5)
    assert (second.path, second.audience) == (None, ("weft",))
    assert found.identity.proxies is not None
    assert found.identity.proxies.certificates == ("ab" + "cd" * 31,)
    assert [rule.caller_must_also_have for rule in found.policy] == [False, True]
    assert (found.quotas[0].calls, found.quotas[0].per) == (100, 60)


@pytest.mark.parametrize(
    ("text", "code", "pointer"),
    [
        ("identity: {jwt: [{audience: a, jwks: 'https://i.example/k'}]}", "MissingKey", "/identity/jwt/0"),
        (f"identity: {{jwt: [{{{JWT}, jwks: 'http://i.example/k'}}]}}", "InsecureUrl", "/identity/jwt/0/jwks"),
        (f"identity: {{jwt: [{{{JWT}, jwks: 'https://u:p@i.example/k'}}]}}", "CredentialsInUrl", "/identity/jwt/0"),
        (f"identity: {{jwt: [{{{JWT}, jwks: nowhere.json}}]}}", "UnreadableFile", "/identity/jwt/0/jwks"),
        (f"identity: {{jwt: [{{{JWT}, jwks: 'https://i/k', leeway: 2m}}]}}", "LeewayTooLong", "/identity/jwt/0/leeway"),
        ("identity: {jwt: [{issuer: i, audience: [], jwks: 'https://i/k'}]}", "EmptyList", "/identity/jwt/0/audience"),
        ("identity: {jwt: [{issuer: '', audience: a, jwks: 'https://i/k'}]}", "EmptyText", "/identity/jwt/0/issuer"),
        (f"identity: {{jwt: [{{{JWT}, jwks: 'https://i/k', algorithms: [HS256]}}]}}", None, None),
        (f"identity: {{jwt: [{{{JWT}, jwks: 'https://i/k', algorithms: [none]}}]}}", None, None),
        (
            f"identity: {{jwt: [{{{JWT}, jwks: 'https://i/k', subjects: {{a: b@latest}}}}]}}",
            "InvalidAgent",
            "/identity/jwt/0/subjects/a",
        ),
        (
            f"identity: {{jwt: [{{{JWT}, jwks: 'https://i/k'}}, {{{JWT}, jwks: 'https://i/k'}}]}}",
            "DuplicateName",
            "/identity/jwt/1/issuer",
        ),
        (f"identity: {{proxies: {{secrets: [{SECRET}]}}}}", "MissingKey", "/identity/proxies"),
        ("identity: {proxies: {trusted: [10.0.0.1]}}", "MissingKey", "/identity/proxies"),
        (f"identity: {{proxies: {{trusted: [0.0.0.0/0], secrets: [{SECRET}]}}}}", "InvalidNetwork", None),
        (f"identity: {{proxies: {{trusted: ['::/0'], secrets: [{SECRET}]}}}}", "InvalidNetwork", None),
        (f"identity: {{proxies: {{trusted: [10.1.2.3/8], secrets: [{SECRET}]}}}}", "InvalidNetwork", None),
        (f"identity: {{proxies: {{trusted: [proxy.example], secrets: [{SECRET}]}}}}", "InvalidNetwork", None),
        ("identity: {proxies: {trusted: [10.0.0.1], secrets: [short]}}", "WeakSecret", "/identity/proxies/secrets/0"),
        ("identity: {proxies: {trusted: [10.0.0.1], certificates: [abcd]}}", "InvalidFingerprint", None),
        ("identity: {onUntrustedIdentityHeader: strip}", None, "/identity/onUntrustedIdentityHeader"),
        ("identity: {anonymus: deny}", "UnknownKey", "/identity/anonymus"),
        ("identity: {certificates: {a: agent@1.0.0}}", "MissingKey", "/identity/certificates"),
        (f"{MUTUAL}\nidentity: {{certificates: {{a: agent@latest}}}}", "InvalidAgent", "/identity/certificates/a"),
        (f"{MUTUAL}\nidentity: {{certificates: {{a: 1}}}}", "WrongType", "/identity/certificates/a"),
        (f"{MUTUAL}\nidentity: {{certificates: [a]}}", "WrongType", "/identity/certificates"),
        ("policy: [{effect: allow}]", "MissingKey", "/policy/0"),
        ("policy: [{name: a}]", "ExactlyOne", "/policy/0"),
        ("policy: [{name: a, effect: deny, callerMustAlsoHave: true}]", "ExactlyOne", "/policy/0"),
        ("policy: [{name: a, effect: permit}]", None, "/policy/0/effect"),
        ("policy: [{name: a, effect: deny, when: 'principal.agnet == 1'}]", "CelUnknownName", "/policy/0/when"),
        ("policy: [{name: a, effect: deny, when: 'tool.name =='}]", "CelSyntax", "/policy/0/when"),
        ("policy: [{name: a, effect: deny, tools: ['']}]", "InvalidGlob", "/policy/0/tools/0"),
        ("policy: [{name: a, effect: deny}, {name: a, effect: allow}]", "DuplicateName", "/policy/1/name"),
        ("quotas: [{name: q, calls: 0, per: 1m}]", None, "/quotas/0/calls"),
        ("quotas: [{name: q, calls: 5, per: 60}]", "DurationInvalid", "/quotas/0/per"),
        ("quotas: [{name: q, calls: 5}]", "MissingKey", "/quotas/0"),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, code: str | None, pointer: str | None, tmp_path: Path):
    (tmp_path / "ca.pem").touch()
    problems = refused(text, tmp_path)
    assert len(problems) == 1, problems
    assert code is None or problems[0].code == code
    assert pointer is None or "".join(f"/{one}" for one in problems[0].loc) == pointer
    assert problems[0].expected or problems[0].code in ("CelSyntax", "DurationInvalid")


def test_all_mistakes_are_told_at_once():
    problems = refused("identity: {anonymous: maybe}\npolicy: [{name: a, effect: x}, {effect: allow}]\nquotas: [{}]")
    assert len(problems) >= 5


@pytest.mark.req("REG-38")
def test_a_client_certificate_names_an_agent_by_its_common_name_or_its_hash(tmp_path: Path):
    (tmp_path / "ca.pem").touch()
    colons = ":".join(FINGERPRINT[at : at + 2] for at in range(0, 64, 2)).upper()
    agents = f'{{"Reports ${{x}}": report-agent@1.2.0, "{colons}": writer}}'
    config = made(f"{MUTUAL}\nidentity: {{certificates: {agents}}}", tmp_path)
    assert config.identity.certificates == {"Reports ${x}": "report-agent@1.2.0", FINGERPRINT: "writer"}
    assert config.identity.authenticates
    assert not config.identity.admits_anonymous(loopback=False)
    assert config.shown()["identity"]["certificates"] == config.identity.certificates


def test_a_certificate_that_nobody_is_asked_for_names_nobody(tmp_path: Path):
    (tmp_path / "ca.pem").touch()
    text = "listen: {tls: {cert: ca.pem, key: ca.pem}}\nidentity: {certificates: {a: agent}, anonymous: maybe}"
    told = {one.loc: one for one in refused(text, tmp_path)}
    assert set(told) == {("identity", "certificates"), ("identity", "anonymous")}
    problem = told["identity", "certificates"]
    assert "listen.tls.clientCa" in problem.message
    assert problem.expected == "listen.tls with cert, key and clientCa"
    assert made("identity: {certificates: {}}").identity.certificates == {}


def test_a_certificate_cannot_be_two_agents(tmp_path: Path):
    (tmp_path / "ca.pem").touch()
    names = f"{{{FINGERPRINT}: a, {FINGERPRINT.upper()}: b}}"
    (problem,) = refused(f"{MUTUAL}\nidentity: {{certificates: {names}}}", tmp_path)
    assert (problem.code, problem.loc[-1]) == ("DuplicateName", FINGERPRINT.upper())
    assert problem.expected == "each certificate once"


def test_a_certificate_without_a_name_is_refused(tmp_path: Path):
    (tmp_path / "ca.pem").touch()
    problems = refused(f"{MUTUAL}\nidentity: {{certificates: {{'': a}}}}", tmp_path)
    assert [one.code for one in problems] == ["EmptyText"]


def test_a_secret_that_is_refused_is_not_shown():
    problems = refused("identity: {proxies: {trusted: [10.0.0.1], secrets: [canary-5d41]}}")
    assert "canary" not in "".join(one.message + str(one.value) for one in problems if one.code == "WeakSecret")

"""Who calls: headers, proxies, tokens and keys, which must be of one mind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.gateway.challenges import challenge, metadata, metadata_url
from weft.gateway.identity import Authenticators, parted
from weft.gateway.jwks import KeySet
from weft.gateway.jwt import Tokens, Trusted
from weft.gateway.keys import ApiKeys, KeyFile, make_key
from weft.gateway.proxies import Proxies, Sent, signed
from weft.gateway.unproven import BadIdentityHeader, Unauthenticated
from weft.ports import ANONYMOUS, Principal
from weft.upstreams.egress import network

from .issuing import AUDIENCE, ISSUER, Issuer

SECRET = b"a secret of the proxy, 32 bytes!!"
HERE, PROXY, ELSEWHERE = "127.0.0.1", "10.1.2.3", "203.0.113.9"
PROXIES = Proxies(networks=(network("10.1.0.0/16"),), secrets=(SECRET,), certificates=frozenset({"ab" * 32}))


def sent(*pairs: tuple[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs]


def vouched(
    name: str = "research-agent",
    version: str = "2.1.0",
    *,
    secret: bytes = SECRET,
    at: float | None = None,
    target: bytes = b"/mcp",
) -> list[tuple[bytes, bytes]]:
    """Return the headers of a proxy that proves itself."""
    timestamp = str(int(time.time() if at is None else at))
    request = Sent(None, "POST", target).digest()
    signature = signed(secret, name=name, version=version, timestamp=timestamp, request=request)
    told = [("X-Agent-Name", name), ("X-Agent-Version", version)]
    return sent(*told, ("X-Agent-Timestamp", timestamp), ("X-Agent-Signature", signature))


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def key(tmp_path: Path) -> str:
    made, text = make_key(agent="research-agent", versions=["1.0.0", "2.1.0"], scopes=["read", "write"])
    KeyFile(tmp_path / "keys.json").add(made)
    return text


@pytest.fixture
def open_(issuer: Issuer, tmp_path: Path, key: str) -> Authenticators:
    """All authenticators, on a loopback bind."""
    (tmp_path / "jwks.json").write_bytes(issuer.key_set())
    tokens = Tokens(Trusted(issuer=ISSUER, audience=(AUDIENCE,)), KeySet.of_file(tmp_path / "jwks.json"))
    return Authenticators(tokens=[tokens], keys=ApiKeys(KeyFile(tmp_path / "keys.json")))


@pytest.fixture
def strict(issuer: Issuer, tmp_path: Path, key: str) -> Authenticators:
    """All authenticators, on a bind that others reach."""
    (tmp_path / "jwks.json").write_bytes(issuer.key_set())
    tokens = Tokens(Trusted(issuer=ISSUER, audience=(AUDIENCE,)), KeySet.of_file(tmp_path / "jwks.json"))
    keys = ApiKeys(KeyFile(tmp_path / "keys.json"))
    return Authenticators(tokens=[tokens], keys=keys, proxies=PROXIES, self_asserted=False, anonymous=False)


@pytest.mark.req("REG-34")
async def test_on_this_machine_headers_are_believed_but_weakly():
    told = sent(("X-Agent-Name", "research-agent"), ("X-Agent-Version", "2.1.0"))
    principal = await Authenticators().identify(told, HERE)
    assert (principal.agent, principal.method, principal.strength) == ("research-agent@2.1.0", "header", "none")


async def test_who_says_nothing_is_anonymous():
    assert await Authenticators().identify([], HERE) == ANONYMOUS
    assert ANONYMOUS.id == "anonymous"


@pytest.mark.req("REG-37")
def test_what_a_client_calls_itself_is_a_label_and_changes_nothing_else():
    labelled = ANONYMOUS.labelled({"name": "research-agent\x1b[31m", "version": "2.1.0"})
    assert labelled == ANONYMOUS
    assert labelled.id == "anonymous"
    assert labelled.agent_name is None
    assert labelled.label == "research-agent?[31m 2.1.0"
    assert ANONYMOUS.labelled({"name": 7}) is ANONYMOUS


async def test_where_others_reach_it_nobody_is_anonymous(strict: Authenticators):
    with pytest.raises(Unauthenticated) as caught:
        await strict.identify([], ELSEWHERE)
    assert not caught.value.given


async def test_a_token_and_a_key_are_taken_from_headers(strict: Authenticators, issuer: Issuer, key: str):
    by_token = await strict.identify(sent(("Authorization", f"Bearer {issuer.token()}")), ELSEWHERE)
    by_bearer = await strict.identify(sent(("Authorization", f"bearer {key}")), ELSEWHERE)
    by_header = await strict.identify(sent(("X-API-Key", key)), ELSEWHERE)
    assert [one.method for one in (by_token, by_bearer, by_header)] == ["jwt", "key", "key"]
    assert {one.agent for one in (by_token, by_bearer, by_header)} == {"research-agent@2.1.0"}
    assert by_bearer.id == by_header.id != by_token.id


async def test_a_key_in_the_url_is_no_credential(strict: Authenticators, key: str):
    with pytest.raises(Unauthenticated):
        await strict.identify([], ELSEWHERE, target=f"/mcp?api_key={key}".encode())


async def test_credentials_that_agree_are_taken_and_those_that_do_not_are_refused(
    strict: Authenticators, issuer: Issuer, key: str
):
    def both(token: str) -> list[tuple[bytes, bytes]]:
        return sent(("Authorization", f"Bearer {token}"), ("X-API-Key", key))

    assert (await strict.identify(both(issuer.token()), ELSEWHERE)).method == "jwt"
    changes: list[dict[str, Any]] = [{"agent_name": "other"}, {"agent_version": "9.0.0"}, {"tenant": "red"}]
    changes.append({"scope": "admin"})
    for changed in changes:
        with pytest.raises(Unauthenticated):
            await strict.identify(both(issuer.token(**changed)), ELSEWHERE)
    with pytest.raises(Unauthenticated):
        await strict.identify(both("not-a-token"), ELSEWHERE)


@pytest.mark.parametrize("name", ["Authorization", "X-API-Key"])
async def test_the_same_credential_header_twice_is_refused(strict: Authenticators, issuer: Issuer, key: str, name: str):
    one = f"Bearer {issuer.token()}" if name == "Authorization" else key
    with pytest.raises(Unauthenticated):
        await strict.identify(sent((name, one), (name, one)), ELSEWHERE)


@pytest.mark.parametrize("value", ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer a b", "token", "Bearer \xff", "\x00"])
async def test_an_authorization_that_is_no_token_is_refused(strict: Authenticators, value: str):
    with pytest.raises(Unauthenticated):
        await strict.identify(sent(("Authorization", value)), ELSEWHERE)


async def test_every_refusal_reads_the_same(strict: Authenticators, issuer: Issuer, key: str):
    tries = [
        [("Authorization", f"Bearer {issuer.token(exp=1)}")],
        [("Authorization", f"Bearer {issuer.token(aud='other')}")],
        [("Authorization", f"Bearer {issuer.token(iss='other')}")],
        [("Authorization", f"Bearer {Issuer().token()}")],
        [("Authorization", "Bearer " + "x" * 20_000)],
        [("X-API-Key", key[:-1] + "#")],
        [("X-API-Key", "weft_aaaaaaaaaa_" + "A" * 43)],
    ]
    told = set[str]()
    for headers in tries:
        with pytest.raises(Unauthenticated) as caught:
            await strict.identify(sent(*headers), ELSEWHERE)
        told.add(repr(caught.value.to_json()))
    assert len(told) == 1
    assert sum(strict.refused.values()) == len(tries)


async def test_the_log_says_once_why_callers_are_refused(strict: Authenticators, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", logger="weft.identity")
    for _ in range(3):
        with pytest.raises(Unauthenticated):
            strict.nobody()
        with pytest.raises(Unauthenticated):
            await strict.identify(sent(("Authorization", "Basic YTpi")), ELSEWHERE)
        with pytest.raises(BadIdentityHeader):
            await strict.identify(sent(("X-Agent-Name", "admin")), ELSEWHERE)
    assert caplog.text.count("there is no credential") == 1
    assert caplog.text.count("not a bearer token") == 1
    assert strict.counted() == {"Unauthenticated": 6, "BadIdentityHeader": 3, "IdentityHeaderStripped": 3}


async def test_a_key_is_for_the_version_of_the_certificate_beside_it(tmp_path: Path, key: str):
    listed = {"old": ("research-agent", "1.0.0"), "none": ("research-agent", "9.0.0"), "any": ("research-agent", None)}
    who = Authenticators(keys=ApiKeys(KeyFile(tmp_path / "keys.json")), certificates=listed)

    async def found(name: str) -> str | None:
        return (await who.identify(sent(("X-API-Key", key)), HERE, certificate="ab" * 32, common_name=name)).agent

    assert [await found("old"), await found("any")] == ["research-agent@1.0.0", "research-agent@2.1.0"]
    with pytest.raises(Unauthenticated):
        await found("none")


async def test_without_an_authenticator_credentials_are_not_looked_at():
    assert await Authenticators().identify(sent(("Authorization", "Basic YTpi")), HERE) == ANONYMOUS


async def test_headers_and_a_token_that_disagree_are_refused(open_: Authenticators, issuer: Issuer):
    token = ("Authorization", f"Bearer {issuer.token()}")
    agreed = await open_.identify(sent(token, ("X-Agent-Name", "research-agent")), HERE)
    assert (agreed.method, agreed.agent) == ("jwt", "research-agent@2.1.0")
    for headers in ([("X-Agent-Name", "admin")], [("X-Agent-Name", "research-agent"), ("X-Agent-Version", "1.0.0")]):
        with pytest.raises(Unauthenticated):
            await open_.identify(sent(token, *headers), HERE)


async def test_headers_never_give_an_agent_to_a_token_without_one(open_: Authenticators, issuer: Issuer):
    token = ("Authorization", f"Bearer {issuer.token(agent_name=None)}")
    assert (await open_.identify(sent(token), HERE)).agent is None
    with pytest.raises(Unauthenticated):
        await open_.identify(sent(token, ("X-Agent-Name", "research-agent")), HERE)


async def test_a_proxy_that_proves_itself_says_who_calls(strict: Authenticators):
    principal = await strict.identify(vouched(), PROXY)
    assert (principal.agent, principal.method, principal.strength) == ("research-agent@2.1.0", "proxy", "asserted")
    assert (await strict.identify(vouched(), f"::ffff:{PROXY}")).agent == "research-agent@2.1.0"


async def test_a_proxy_may_prove_itself_by_its_certificate(strict: Authenticators):
    told = sent(("X-Agent-Name", "research-agent"))
    assert (await strict.identify(told, PROXY, certificate="ab" * 32)).agent == "research-agent"
    with pytest.raises(Unauthenticated):
        await strict.identify(told, PROXY, certificate="cd" * 32)
    with pytest.raises(BadIdentityHeader):
        await strict.identify(told, ELSEWHERE, certificate="ab" * 32)


async def test_a_proxy_that_names_nobody_means_nobody(strict: Authenticators):
    await strict.identify(vouched(), PROXY)
    with pytest.raises(Unauthenticated):
        await strict.identify([], PROXY)


# Made when the test runs, so that only what each is about is wrong, and not its time as well.
@pytest.mark.parametrize(
    "headers",
    [
        lambda: sent(("X-Agent-Name", "research-agent")),
        lambda: vouched(secret=b"another secret"),
        lambda: vouched(at=time.time() - 120),
        lambda: vouched(at=time.time() + 120),
        lambda: vouched(target=b"/mcp/admin"),
        lambda: vouched()[:3],
        lambda: [*vouched()[:1], (b"x-agent-version", b"9.9.9"), *vouched()[2:]],
        lambda: sent(("X-Agent-Name", "a"), ("X-Agent-Timestamp", "1e9"), ("X-Agent-Signature", "")),
    ],
)
async def test_a_proxy_without_proof_is_refused(
    strict: Authenticators, headers: Callable[[], list[tuple[bytes, bytes]]]
):
    with pytest.raises(Unauthenticated):
        await strict.identify(headers(), PROXY)


async def test_a_proof_does_not_help_who_is_not_where_the_proxy_is(strict: Authenticators):
    for extra in ([], sent(("X-Forwarded-For", PROXY)), sent(("Forwarded", f"for={PROXY}"))):
        with pytest.raises(BadIdentityHeader):
            await strict.identify([*vouched(), *extra], ELSEWHERE)
    assert strict.stripped > 0


async def test_a_proxy_and_a_token_that_disagree_are_refused(strict: Authenticators, issuer: Issuer):
    token = sent(("Authorization", f"Bearer {issuer.token()}"))
    assert (await strict.identify([*vouched(), *token], PROXY)).method == "jwt"
    with pytest.raises(Unauthenticated):
        await strict.identify([*vouched("other"), *token], PROXY)


async def test_two_secrets_count_while_one_is_replaced():
    both = Proxies(networks=(network("10.1.0.0/16"),), secrets=(b"new" * 11, SECRET))
    found = await Authenticators(proxies=both, self_asserted=False).identify(vouched(), PROXY)
    assert found.agent_name == "research-agent"


async def test_over_a_unix_socket_only_a_trusted_one_counts():
    over = Proxies(unix=True, secrets=(SECRET,))
    assert (await Authenticators(proxies=over, self_asserted=False).identify(vouched(), None)).method == "proxy"
    with pytest.raises(BadIdentityHeader):
        await Authenticators(proxies=PROXIES, self_asserted=False).identify(vouched(), None)


async def test_headers_of_strangers_are_refused_or_left_out_as_configured(strict: Authenticators):
    told = sent(("X-Agent-Name", "admin"))
    with pytest.raises(BadIdentityHeader) as caught:
        await strict.identify(told, ELSEWHERE)
    assert "x-agent-name" in caught.value.message
    ignoring = Authenticators(proxies=PROXIES, self_asserted=False, reject_untrusted=False)
    assert await ignoring.identify(told, ELSEWHERE) == ANONYMOUS
    assert await ignoring.identify([(b"x_agent_name", b"admin")], ELSEWHERE) == ANONYMOUS
    assert ignoring.stripped == 2


@pytest.mark.parametrize(
    "headers",
    [
        [(b"x-agent-name", b"a"), (b"x-agent-name", b"b")],
        [(b"X-Agent-Name", b"a"), (b"x-agent-name", b"a")],
        [(b"x_agent_name", b"a")],
        [(b"x-agent_name", b"a")],
        [(b"x-agent-name", b"a"), (b"x_agent_name", b"b")],
        [(b"x-agent-name", b"a, b")],
        [(b"x-agent-name", b"a|2.0.0")],
        [(b"x-agent-name", b"a\x00")],
        [(b"x-agent-name", b"a\r\nx-agent-version: 2")],
        [(b"x-agent-name", b"\xc3\xa4gent")],
        [(b"x-agent-name", b"")],
        [(b"x-agent-name", b"n" * 200)],
        [(b"x-agent-version", b"1.0.0")],
        [(b"x-agent-name", b"a"), (b"x-agent-version", b"1.0.0, 2.0.0")],
    ],
)
@pytest.mark.parametrize("peer", [HERE, PROXY])
async def test_identity_headers_that_can_be_read_in_two_ways_are_refused(headers: list[tuple[bytes, bytes]], peer: str):
    proxies = Proxies(networks=(network("10.1.0.0/16"),), certificates=frozenset({"ab" * 32}))
    who = Authenticators(proxies=proxies)
    with pytest.raises(BadIdentityHeader):
        await who.identify(headers, peer, certificate="ab" * 32)


async def test_mixed_case_is_the_same_header():
    found = await Authenticators().identify([(b"X-AGENT-Name", b"a")], HERE)
    assert found.agent_name == "a"


def test_nobody_else_sees_credentials_or_identity_headers():
    kept = [(b"host", b"x"), (b"content-type", b"application/json"), (b"x-request-id", b"1")]
    secret = ["authorization", "x-api-key", "x-agent-name", "X_Agent_Name", "x-caller-agent", "x-forwarded-for"]
    secret += ["x-forwarded-client-cert", "forwarded", "x-agent-signature", "X-Real-IP"]
    assert parted([*kept, *((name.encode(), b"v") for name in secret)])[1] == kept


_CREDENTIALS = ("authorization", "Authorization", "x-api-key", "x-forwarded-client-cert", "x-forwarded-for", "host")
_ASSERTED = ("x-agent-name", "X_Agent-Name", "x-agent-version", "x-agent-signature", "x-agent-timestamp")
_names = st.sampled_from((*_CREDENTIALS, *_ASSERTED, "x-caller-agent"))
_values = st.binary(max_size=40) | st.sampled_from(
    [b"Bearer ", b"Bearer e30.e30.e30", b"weft_aaaaaaaaaa_" + b"A" * 43, b"research-agent", b"2.1.0", b"https://a/b"]
)
_keys_of_nobody = st.lists(st.tuples(_names.map(str.encode), _values), max_size=6)


@given(headers=_keys_of_nobody, peer=st.sampled_from([HERE, PROXY, ELSEWHERE, None, "", "not an address"]))
def test_nobody_becomes_somebody_by_making_headers_up(headers: list[tuple[bytes, bytes]], peer: str | None):
    tokens = Tokens(Trusted(issuer=ISSUER, audience=(AUDIENCE,)), KeySet(_away))
    keys = ApiKeys(KeyFile(Path("/nonexistent/keys.json")))
    who = Authenticators(
        tokens=[tokens],
        keys=keys,
        proxies=PROXIES,
        certificates={"research": ("research-agent", None)},
        agent_at=lambda card: ("research-agent", "2.1.0"),
        self_asserted=False,
        reject_untrusted=False,
    )
    try:
        found = asyncio.run(who.identify(headers, peer, common_name="research"))
    except (Unauthenticated, BadIdentityHeader):
        return
    assert found == ANONYMOUS


async def _away() -> bytes:
    raise OSError("away")


_parts: Any = st.text(max_size=8)


@given(one=st.tuples(_parts, _parts, _parts, _parts), other=st.tuples(_parts, _parts, _parts, _parts))
def test_two_principals_never_share_an_id(one: tuple[str, ...], other: tuple[str, ...]):
    def made(parts: tuple[str, ...]) -> Principal:
        clean = [part.encode("utf-8", "replace").decode() for part in parts]
        return Principal(
            method="jwt", tenant=clean[0], subject=clean[1], agent_name=clean[2] or None, agent_version=clean[3] or None
        )

    assert (made(one).id == made(other).id) == (made(one) == made(other))


def test_a_client_that_must_prove_itself_is_told_where_tokens_come_from():
    url = metadata_url(AUDIENCE)
    assert url == "https://gateway.example/.well-known/oauth-protected-resource/mcp"
    assert challenge(AUDIENCE, given=False) == f'Bearer resource_metadata="{url}"'
    assert challenge(AUDIENCE, given=True) == f'Bearer error="invalid_token", resource_metadata="{url}"'
    assert metadata(AUDIENCE, [ISSUER], scopes=["write", "read"]) == {
        "resource": AUDIENCE,
        "authorization_servers": [ISSUER],
        "bearer_methods_supported": ["header"],
        "resource_name": "weft",
        "scopes_supported": ["read", "write"],
    }

"""Tokens: signed by a configured key, meant for this gateway, in their time; and keys that outlive their server."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm

from tests.upstreams.listening import listening
from weft.errors import InputError
from weft.gateway.jwks import KeySet, keys_of
from weft.gateway.jwt import ClaimNames, Tokens, Trusted
from weft.gateway.unproven import Unauthenticated

from .issuing import AUDIENCE, ISSUER, Issuer, claims_with

TRUSTED = Trusted(issuer=ISSUER, audience=(AUDIENCE,))


class Time:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


class Turn:
    """Serves the key set of the issuer whose turn it is."""

    issuer: Issuer

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self.issuer(scope, receive, send)


@pytest.fixture(scope="module")
def turn() -> Iterator[tuple[Turn, str]]:
    made = Turn()
    with listening(made) as port:
        yield made, f"http://127.0.0.1:{port}/jwks"


@pytest.fixture
def served(issuer: Issuer, turn: tuple[Turn, str]) -> str:
    turn[0].issuer = issuer
    return turn[1]


@pytest.fixture
async def tokens(issuer: Issuer, tmp_path: Path) -> AsyncIterator[Tokens]:
    issuer.add_all()
    path = tmp_path / "jwks.json"
    path.write_bytes(issuer.key_set())
    made = Tokens(TRUSTED, KeySet.of_file(path))
    yield made
    await made.keys.close()


def unsigned(header: dict[str, Any], claims: dict[str, Any], signature: str = "") -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in (header, claims))
    return ".".join((*parts, signature))


@pytest.mark.req("REG-35")
@pytest.mark.parametrize("kid", ["ec-1", "rsa-1", "ed-1"])
async def test_a_token_says_who_its_agent_is(tokens: Tokens, issuer: Issuer, kid: str):
    principal = await tokens.identify(issuer.token(kid, tenant="blue"))
    assert principal is not None
    assert (principal.subject, principal.agent, principal.tenant) == ("alice", "research-agent@2.1.0", "blue")
    assert principal.scopes == {"read", "write"}
    assert (principal.method, principal.strength) == ("jwt", "proven")


async def test_an_audience_among_several_is_enough(tokens: Tokens, issuer: Issuer):
    assert await tokens.identify(issuer.token(aud=["https://other.example", AUDIENCE])) is not None


async def test_a_minute_before_and_after_its_time_a_token_still_holds(tokens: Tokens, issuer: Issuer):
    now = int(time.time())
    assert await tokens.identify(issuer.token(exp=now - 50)) is not None
    assert await tokens.identify(issuer.token(nbf=now + 50)) is not None


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": int(time.time()) - 70},
        {"exp": None},
        {"exp": "soon"},
        {"nbf": int(time.time()) + 3600},
        {"aud": "https://other.example"},
        {"aud": None},
        {"aud": []},
        {"aud": AUDIENCE + "/"},
        {"aud": {"x": AUDIENCE}},
        {"sub": None},
        {"agent_name": "a\x00b"},
        {"scope": ["read", 1]},
    ],
)
async def test_a_token_whose_claims_do_not_hold_is_refused(tokens: Tokens, issuer: Issuer, changed: dict[str, Any]):
    with pytest.raises(Unauthenticated):
        await tokens.identify(issuer.token(**changed))


@pytest.mark.parametrize("iss", [ISSUER + "/", "HTTPS://issuer.example", "", None])
async def test_a_token_of_another_issuer_is_not_ours(tokens: Tokens, issuer: Issuer, iss: str | None):
    assert await tokens.identify(issuer.token(iss=iss)) is None


async def test_the_public_key_is_no_secret_to_sign_with(tokens: Tokens, issuer: Issuer):
    public = issuer.private["rsa-1"][0].public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    head = unsigned({"alg": "HS256", "kid": "rsa-1"}, claims_with()).rstrip(".")
    mac = base64.urlsafe_b64encode(hmac.new(pem, head.encode(), hashlib.sha256).digest()).decode().rstrip("=")
    with pytest.raises(Unauthenticated):
        await tokens.identify(f"{head}.{mac}")


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", None, 7, "HS256", "RS512", ["ES256"]])
async def test_no_algorithm_but_those_allowed_is_taken(tokens: Tokens, algorithm: Any):
    with pytest.raises(Unauthenticated):
        await tokens.identify(unsigned({"alg": algorithm, "kid": "ec-1"}, claims_with()))


async def test_an_algorithm_that_is_not_configured_is_refused(issuer: Issuer, tmp_path: Path):
    issuer.add_all()
    (tmp_path / "jwks.json").write_bytes(issuer.key_set())
    trusted = Trusted(issuer=ISSUER, audience=(AUDIENCE,), algorithms=("EdDSA",))
    tokens = Tokens(trusted, KeySet.of_file(tmp_path / "jwks.json", algorithms=("EdDSA",)))
    assert await tokens.identify(issuer.token("ed-1")) is not None
    with pytest.raises(Unauthenticated):
        await tokens.identify(issuer.token("rsa-1"))


@pytest.mark.parametrize("kid", ["nobody", "../../../../etc/passwd", "ec-1\x00", 7, ["ec-1"], {}, "k" * 1000])
async def test_a_kid_is_only_looked_up_among_the_configured_keys(tokens: Tokens, issuer: Issuer, kid: Any):
    good = issuer.token()
    _, claims, signature = good.split(".")
    head = unsigned({"alg": "ES256", "kid": kid}, {}).split(".")[0]
    with pytest.raises(Unauthenticated):
        await tokens.identify(".".join((head, claims, signature)))


async def test_keys_that_a_token_brings_along_are_not_looked_at(tokens: Tokens, issuer: Issuer, turn: tuple[Turn, str]):
    evil = turn[0].issuer = Issuer()
    own = json.loads(evil.key_set())["keys"][0]
    url = turn[1]
    for headers in ({"jku": url}, {"x5u": url}, {"jwk": own}, {"jku": url, "jwk": own, "kid": "new"}):
        with pytest.raises(Unauthenticated):
            await tokens.identify(evil.token(headers=headers))
    assert await tokens.identify(issuer.token(headers={"jku": url, "jwk": own})) is not None
    assert evil.asked == 0


async def test_a_token_signed_by_another_key_of_the_same_id_is_refused(tokens: Tokens):
    with pytest.raises(Unauthenticated):
        await tokens.identify(Issuer().token())


async def test_a_token_that_was_changed_is_refused_also_after_it_was_known(tokens: Tokens, issuer: Issuer):
    good = issuer.token()
    assert await tokens.identify(good) is not None
    head, _, signature = good.split(".")
    claims = unsigned({}, claims_with(agent_name="admin-agent")).split(".")[1]
    with pytest.raises(Unauthenticated):
        await tokens.identify(f"{head}.{claims}.{signature}")


async def test_a_token_of_20_kilobytes_is_refused(tokens: Tokens, issuer: Issuer):
    with pytest.raises(Unauthenticated):
        await tokens.identify(issuer.token(padding="x" * 20_000))


@given(text=st.text(max_size=200) | st.from_regex(r"[A-Za-z0-9_-]{0,80}\.[A-Za-z0-9_-]{0,80}\.[A-Za-z0-9_-]{0,80}"))
def test_whatever_stands_for_a_token_is_refused_and_breaks_nothing(text: str):
    async def ask() -> None:
        keys = KeySet(_no_keys)
        with contextlib.suppress(Unauthenticated):
            assert await Tokens(TRUSTED, keys).identify(text) is None

    asyncio.run(ask())


async def _no_keys() -> bytes:
    raise OSError("away")


async def test_claims_deeper_than_any_reader_goes_are_refused(tokens: Tokens):
    deep = base64.urlsafe_b64encode(b'{"iss":' + b"[" * 5000 + b"]" * 5000 + b"}").decode().rstrip("=")
    with pytest.raises(Unauthenticated):
        await tokens.identify(f"e30.{deep}.AA")


async def test_the_claims_that_say_who_calls_are_configured(issuer: Issuer, tmp_path: Path):
    (tmp_path / "jwks.json").write_bytes(issuer.key_set())
    names = ClaimNames(agent_name="https://x.example/agent", scopes="permissions", tenant="org", subject="client_id")
    trusted = Trusted(issuer=ISSUER, audience=(AUDIENCE,), claims=names, subjects={"c-7": ("bot", "1.0.0")})
    tokens = Tokens(trusted, KeySet.of_file(tmp_path / "jwks.json"))
    told: dict[str, Any] = {"https://x.example/agent": "own", "permissions": ["a"], "org": "red", "client_id": "c-1"}
    named = await tokens.identify(issuer.token(**told))
    assert named is not None
    assert (named.subject, named.agent, named.tenant, named.scopes) == ("c-1", "own@2.1.0", "red", {"a"})
    mapped = await tokens.identify(issuer.token(client_id="c-7"))
    assert mapped is not None
    assert mapped.agent == "bot@1.0.0"


async def test_two_subjects_of_two_issuers_are_two_principals(issuer: Issuer, tmp_path: Path):
    (tmp_path / "jwks.json").write_bytes(issuer.key_set())
    other = Trusted(issuer="https://other.example", audience=(AUDIENCE,))
    keys = KeySet.of_file(tmp_path / "jwks.json")
    one = await Tokens(TRUSTED, keys).identify(issuer.token())
    two = await Tokens(other, keys).identify(issuer.token(iss="https://other.example"))
    assert one is not None
    assert two is not None
    assert one.id != two.id


async def test_keys_come_from_a_url_once(issuer: Issuer, served: str):
    tokens = Tokens(TRUSTED, KeySet.of_url(served))
    for sub in ("alice", "bob", "carol"):
        assert await tokens.identify(issuer.token(sub=sub)) is not None
    assert issuer.asked == 1


async def test_a_new_key_is_looked_for_once_each_half_minute(issuer: Issuer, served: str):
    tokens = Tokens(TRUSTED, KeySet.of_url(served))
    clock = tokens.keys._now = Time()  # pyright: ignore[reportPrivateUsage]
    assert await tokens.identify(issuer.token()) is not None
    issuer.add("ec-2", ec.generate_private_key(ec.SECP256R1()), "ES256")
    with pytest.raises(Unauthenticated):
        await tokens.identify(issuer.token("ec-2"))
    assert issuer.asked == 1
    clock.at += 31
    assert await tokens.identify(issuer.token("ec-2")) is not None
    stranger = Issuer()
    stranger.add("ec-3", ec.generate_private_key(ec.SECP256R1()), "ES256")
    for _ in range(20):
        with pytest.raises(Unauthenticated):
            await tokens.identify(stranger.token("ec-3"))
    assert issuer.asked == 2


async def test_many_tokens_of_a_new_key_ask_once_together(issuer: Issuer, served: str):
    tokens = Tokens(TRUSTED, KeySet.of_url(served))
    found = await asyncio.gather(*(tokens.identify(issuer.token(sub=f"s{n}")) for n in range(30)))
    assert None not in found
    assert issuer.asked == 1


async def test_old_keys_are_used_while_their_server_is_down_but_not_for_ever(issuer: Issuer, served: str):
    tokens = Tokens(TRUSTED, KeySet.of_url(served, max_stale=3600))
    clock = tokens.keys._now = Time()  # pyright: ignore[reportPrivateUsage]
    good = issuer.token()
    assert await tokens.identify(good) is not None
    issuer.status = 503
    clock.at += 3000
    assert await tokens.identify(good) is not None
    assert await tokens.identify(issuer.token(sub="bob")) is not None
    await tokens.keys.close()
    clock.at += 700
    with pytest.raises(Unauthenticated):
        await tokens.identify(good)
    assert "503" in (tokens.keys.problem or "")
    issuer.status = 200
    clock.at += 31
    assert await tokens.identify(good) is not None


async def test_without_any_keys_nobody_is_let_in(issuer: Issuer):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    tokens = Tokens(TRUSTED, KeySet.of_url(f"http://127.0.0.1:{port}/jwks"))
    with pytest.raises(Unauthenticated):
        await tokens.identify(issuer.token())


async def test_a_key_that_is_withdrawn_takes_its_tokens_along(issuer: Issuer, served: str):
    tokens = Tokens(TRUSTED, KeySet.of_url(served))
    clock = tokens.keys._now = Time()  # pyright: ignore[reportPrivateUsage]
    good = issuer.token()
    assert await tokens.identify(good) is not None
    issuer.private.clear()
    issuer.add("ec-2", ec.generate_private_key(ec.SECP256R1()), "ES256")
    clock.at += 301
    await tokens.keys.start()
    with pytest.raises(Unauthenticated):
        await tokens.identify(good)


async def test_a_key_that_is_replaced_under_its_id_takes_its_tokens_along(issuer: Issuer, served: str):
    tokens = Tokens(TRUSTED, KeySet.of_url(served))
    clock = tokens.keys._now = Time()  # pyright: ignore[reportPrivateUsage]
    good = issuer.token()
    assert await tokens.identify(good) is not None
    issuer.add("ec-1", ec.generate_private_key(ec.SECP256R1()), "ES256")
    clock.at += 31
    await tokens.keys.start()
    with pytest.raises(Unauthenticated):
        await tokens.identify(good)
    assert await tokens.identify(issuer.token()) is not None


async def test_a_token_that_is_remembered_ends_in_its_time(issuer: Issuer, tmp_path: Path):
    (tmp_path / "jwks.json").write_bytes(issuer.key_set())
    late = [time.time()]
    tokens = Tokens(TRUSTED, KeySet.of_file(tmp_path / "jwks.json"), now=lambda: late[0])
    good = issuer.token()
    assert await tokens.identify(good) is not None
    late[0] += 350
    assert await tokens.identify(good) is not None
    late[0] += 15
    with pytest.raises(Unauthenticated):
        await tokens.identify(good)


def test_a_key_set_keeps_only_public_keys_that_may_verify():
    weak = json.loads(RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, 1024).public_key()))
    own = json.loads(Issuer().key_set())["keys"][0]
    listed = [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"},
        {**own, "kid": "enc", "use": "enc"},
        {**own, "kid": "sign", "key_ops": ["sign"]},
        {**own, "kid": "broken", "x": "AA"},
        {**own, "kid": 7},
        {**weak, "kid": "weak"},
        "nothing",
        own,
    ]
    assert list(keys_of(json.dumps({"keys": listed}).encode())) == [("ec-1", "ES256")]


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"keys": []}', b'{"keys": {}}', b'{"keys": [{"kty": "oct"}]}'])
def test_what_is_no_key_set_is_told(data: bytes):
    with pytest.raises(InputError) as caught:
        keys_of(data)
    assert caught.value.code == "InvalidKeySet"

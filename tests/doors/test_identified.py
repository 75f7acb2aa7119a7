"""Who asks, as a client meets it: 401 with where tokens come from, and sessions that are one principal's alone."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from jwt.utils import base64url_encode

from tests.doors.mcp.fakes import EVENTS, HELLO, META, FakeGateway
from tests.doors.serving import Answer, Client, asked, connected, serving
from tests.gateway.issuing import AUDIENCE, ISSUER, Issuer, claims_with
from weft.app.identities import authenticators_of
from weft.config.identity import Identity
from weft.doors.asgi import PRINCIPAL, Receive, Scope, Send, answer_json
from weft.doors.fronts import public_front
from weft.doors.guard import Guard
from weft.doors.listener import Listener
from weft.doors.mcp import McpDoor
from weft.doors.sites import Site
from weft.gateway.challenges import WELL_KNOWN
from weft.gateway.identity import Authenticators
from weft.gateway.proxies import Sent, signed
from weft.ports import ANONYMOUS, Principal

BASE = "https://gateway.example"
METADATA = f"{BASE}{WELL_KNOWN}/mcp"
TELL = "/mcp/tools/call"
SECRET = "s" * 40
PROXY = {"trusted": ["127.0.0.0/8"], "secrets": [SECRET]}


class Well:
    """Health, which these tests do not ask for."""

    def report(self) -> dict[str, Any]:
        return {"ready": True}


async def tell(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with what a door sees of the caller."""
    principal: Principal = scope["state"].get(PRINCIPAL, ANONYMOUS)
    names = sorted(name.decode() for name, _ in scope["headers"])
    told = {**principal.to_json(), "id": principal.id, "headers": names}
    await answer_json(send, 200, told)


def guarded(authenticators: Authenticators, *, public_url: str | None = f"{BASE}/some/path") -> Guard:
    """The front of a gateway, whose door for plain calls tells what it sees of the caller."""
    door = McpDoor(FakeGateway())
    return public_front(door, tell, health=Well(), site=Site(), authenticators=authenticators, public_url=public_url)


def signed_headers(name: str, version: str, *, card: str = "") -> dict[str, str]:
    """Return the headers of a proxy that proves itself, for a request to the door that tells."""
    timestamp = str(int(time.time()))
    request = Sent(None, "POST", TELL.encode()).digest()
    told = {"name": name, "version": version, "timestamp": timestamp, "card": card}
    signature = signed(SECRET.encode(), request=request, **told)
    headers = {"x-agent-name": name, "x-agent-version": version, "x-caller-agent": card}
    return {**headers, "x-agent-timestamp": timestamp, "x-agent-signature": signature}


def configured(folder: Path, **given: Any) -> Authenticators:
    """Return what tells who calls on a bind that others reach."""
    return authenticators_of(Identity.model_validate(given, context=folder), loopback=False)


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
async def listener(issuer: Issuer, tmp_path: Path) -> AsyncIterator[Listener]:
    """A listener that takes the tokens of an issuer, and nobody without one."""
    (tmp_path / "jwks.json").write_bytes(issuer.key_set())
    authenticators = configured(tmp_path, jwt=[{"issuer": ISSUER, "audience": AUDIENCE, "jwks": "jwks.json"}])
    await authenticators.start()
    async with serving(guarded(authenticators)) as made:
        yield made
    await authenticators.close()


async def call(listener: Listener, message: dict[str, Any], **headers: str) -> Answer:
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, **message})
    told = {"content_type": "application/json", "accept": EVENTS, **headers}
    return await asked(listener, "POST", "/mcp", body=body, **told)


async def test_who_proves_nothing_is_told_where_tokens_come_from(listener: Listener):
    got = await call(listener, {"method": "initialize", "params": HELLO})
    assert got.status == 401
    assert got.headers["www-authenticate"] == f'Bearer resource_metadata="{METADATA}"'
    told = await asked(listener, "GET", METADATA.removeprefix(BASE))
    assert told.json["resource"] == AUDIENCE
    assert told.json["authorization_servers"] == [ISSUER]
    assert (await asked(listener, "GET", WELL_KNOWN)).json["resource"] == AUDIENCE
    assert (await asked(listener, "GET", f"{WELL_KNOWN}/mcp/team")).json["resource"] == f"{AUDIENCE}/team"
    assert (await asked(listener, "GET", f"{WELL_KNOWN}/other")).status == 404
    assert (await asked(listener, "POST", WELL_KNOWN, body=b"")).status == 405


async def test_without_a_public_url_clients_are_sent_where_they_came_from():
    async with serving(guarded(Authenticators(anonymous=False), public_url=None)) as listener:
        got = await asked(listener, "POST", "/mcp", body=b"", host=f"localhost:{listener.address[1]}")
        told = f'Bearer resource_metadata="http://localhost:{listener.address[1]}{WELL_KNOWN}/mcp"'
        assert got.headers["www-authenticate"] == told


@pytest.mark.parametrize("path", ["/mcp/%22,%20x=%22", "/mcp/a%0d%0aset-cookie:%20a=b", "/mcp/%c3%a4%e2%82%ac"])
async def test_a_path_cannot_write_into_the_challenge(listener: Listener, path: str):
    got = await asked(listener, "POST", path, body=b"")
    assert got.status == 401
    assert "set-cookie" not in got.headers
    resource = got.headers["www-authenticate"].removeprefix('Bearer resource_metadata="').removesuffix('"')
    assert resource.startswith(METADATA)
    assert not set(resource) & set('", \\')


def changed(token: str, **head: Any) -> str:
    """Return a token with another head, and so with a signature that does not hold, or none."""
    _, claims, signature = token.split(".")
    made = base64url_encode(json.dumps({"alg": "ES256", "kid": "ec-1", **head}).encode()).decode()
    return f"{made}.{claims}.{'' if head.get('alg') == 'none' else signature}"


async def test_every_token_that_does_not_hold_gets_the_same_answer(listener: Listener, issuer: Issuer):
    later = int(time.time()) + 3600
    other = Issuer()
    tokens = [
        issuer.token(exp=1),
        issuer.token(aud="x"),
        issuer.token(iss="x"),
        issuer.token(nbf=later, exp=later + 60),
        other.token(),
        other.token(headers={"jku": "http://127.0.0.1:1/keys", "jwk": json.loads(other.key_set())["keys"][0]}),
        changed(issuer.token(), alg="none"),
        changed(issuer.token(), alg="HS256"),
        changed(issuer.token(), kid="nobody"),
        changed(issuer.token(), kid="../../../../etc/passwd"),
        issuer.token(padding="x" * 15_000),
        "x",
        "e30.e30.",
    ]
    answers = set[tuple[int, str, bytes]]()
    for token in tokens:
        got = await call(listener, {"method": "initialize", "params": HELLO}, authorization=f"Bearer {token}")
        answers.add((got.status, got.headers["www-authenticate"], got.body))
    ((status, challenge, body),) = answers
    assert status == 401
    assert challenge == f'Bearer error="invalid_token", resource_metadata="{METADATA}"'
    assert claims_with()["sub"] not in body.decode()


@pytest.mark.parametrize("path", ["/mcp", "/mcp/research", TELL, f"/mcp/research{TELL[4:]}"])
async def test_two_tokens_are_none_at_every_door(listener: Listener, issuer: Issuer, path: str):
    line = f"Authorization: Bearer {issuer.token()}\r\n"
    async with connected(listener) as client:
        client.send(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n{line}{line}\r\n".encode())
        assert (await client.answer()).status == 401


async def test_a_door_sees_the_principal_and_none_of_the_credentials(listener: Listener, issuer: Issuer):
    token = f"Bearer {issuer.token()}"
    got = await asked(listener, "POST", TELL, body=b"", authorization=token, x_forwarded_for="10.0.0.1", x_other="1")
    assert (got.json["agentName"], got.json["strength"]) == ("research-agent", "proven")
    assert got.json["id"].startswith("jwt:")
    assert "x-other" in got.json["headers"]
    assert not {"authorization", "x-forwarded-for"} & set(got.json["headers"])


async def test_identity_headers_of_a_stranger_are_a_bad_request(listener: Listener):
    got = await asked(listener, "POST", TELL, body=b"", x_agent_name="admin")
    assert (got.status, got.json["error"]["code"]) == (400, "BadIdentityHeader")


@pytest.mark.parametrize("kind", ["modern", "legacy"])
async def test_the_principal_goes_along_with_the_call_in_both_eras(tmp_path: Path, issuer: Issuer, kind: str):
    (tmp_path / "jwks.json").write_bytes(issuer.key_set())
    authenticators = configured(tmp_path, jwt=[{"issuer": ISSUER, "audience": AUDIENCE, "jwks": "jwks.json"}])
    gateway = FakeGateway()
    front = public_front(McpDoor(gateway), tell, health=Well(), site=Site(), authenticators=authenticators)
    token = f"Bearer {issuer.token(tenant='blue')}"
    headers = {"authorization": token}
    async with serving(front) as listener:
        if kind == "legacy":
            begun = await call(listener, {"method": "initialize", "params": HELLO}, **headers)
            headers["mcp_session_id"] = begun.headers["mcp-session-id"]
            params: dict[str, Any] = {}
        else:
            headers |= {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/list"}
            params = {"_meta": META}
        assert (await call(listener, {"method": "tools/list", "params": params}, **headers)).status == 200
    principal = gateway.seen[-1].principal
    assert (principal.agent, principal.tenant, principal.method) == ("research-agent@2.1.0", "blue", "jwt")
    assert principal.label == "tests 1"


async def test_a_session_is_its_principals_alone_and_opens_nothing_by_itself(listener: Listener, issuer: Issuer):
    tokens = [("alice", "1"), ("alice", "2"), ("bob", "3")]
    alice, again, bob = (f"Bearer {issuer.token(sub=sub, jti=jti)}" for sub, jti in tokens)
    begun = await call(listener, {"method": "initialize", "params": HELLO}, authorization=alice)
    session = begun.headers["mcp-session-id"]
    ask = {"method": "tools/list"}
    assert (await call(listener, ask, authorization=alice, mcp_session_id=session)).status == 200
    assert (await call(listener, ask, authorization=again, mcp_session_id=session)).status == 200
    told = {"accept": EVENTS, "mcp_session_id": session}
    for headers, status in (({"authorization": bob}, 404), ({}, 401)):
        assert (await call(listener, ask, mcp_session_id=session, **headers)).status == status
        for method in ("GET", "DELETE"):
            assert (await asked(listener, method, "/mcp", **told, **headers)).status == status
    assert (await call(listener, ask, authorization=alice, mcp_session_id=session)).status == 200
    assert (await asked(listener, "DELETE", "/mcp", **told, authorization=alice)).status == 204


async def test_a_token_that_ended_ends_its_session_too(listener: Listener, issuer: Issuer):
    alice = f"Bearer {issuer.token()}"
    begun = await call(listener, {"method": "initialize", "params": HELLO}, authorization=alice)
    session = begun.headers["mcp-session-id"]
    over = f"Bearer {issuer.token(exp=1)}"
    assert (await call(listener, {"method": "tools/list"}, authorization=over, mcp_session_id=session)).status == 401


@pytest.mark.req("REG-34")
async def test_on_this_machine_a_header_is_enough():
    async with serving(guarded(authenticators_of(Identity(), loopback=True))) as listener:
        named = await asked(listener, "POST", TELL, body=b"", x_agent_name="research-agent", x_agent_version="2.1.0")
        assert (named.json["agentName"], named.json["method"], named.json["strength"]) == (
            "research-agent",
            "header",
            "none",
        )
        assert (await asked(listener, "POST", TELL, body=b"")).json["id"] == "anonymous"


async def test_headers_of_a_stranger_that_are_ignored_make_it_nobody(tmp_path: Path):
    authenticators = configured(tmp_path, proxies=PROXY | {"trusted": ["10.0.0.0/8"]}, anonymous="allow")
    ignoring = configured(
        tmp_path,
        proxies=PROXY | {"trusted": ["10.0.0.0/8"]},
        anonymous="allow",
        onUntrustedIdentityHeader="ignore",
    )
    claimed = {**signed_headers("admin", "1.0.0"), "x-forwarded-for": "10.0.0.1"}
    async with serving(guarded(authenticators)) as listener:
        assert (await asked(listener, "POST", TELL, body=b"", **claimed)).status == 400
    async with serving(guarded(ignoring)) as listener:
        got = await asked(listener, "POST", TELL, body=b"", **claimed)
    assert got.json["id"] == "anonymous"
    assert not [name for name in got.json["headers"] if name.startswith("x-")]
    assert authenticators.counted() == {"Unauthenticated": 0, "BadIdentityHeader": 1, "IdentityHeaderStripped": 4}
    assert ignoring.counted() == {"Unauthenticated": 0, "BadIdentityHeader": 0, "IdentityHeaderStripped": 4}


async def test_a_trusted_address_must_prove_that_it_is_the_proxy(tmp_path: Path):
    authenticators = configured(tmp_path, proxies=PROXY)
    async with serving(guarded(authenticators)) as listener:
        bare = await asked(listener, "POST", TELL, body=b"", x_agent_name="a")
        assert (bare.status, "www-authenticate" in bare.headers) == (401, True)
        proven = await asked(listener, "POST", TELL, body=b"", **signed_headers("a", "1.0.0"))
        assert (proven.json["agentName"], proven.json["strength"]) == ("a", "asserted")
        elsewhere = await asked(listener, "POST", f"{TELL}?x=1", body=b"", **signed_headers("a", "1.0.0"))
        assert elsewhere.status == 401
        assert (await asked(listener, "POST", TELL, body=b"")).status == 401, "not who it was before"
    assert authenticators.counted()["Unauthenticated"] == 3


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
async def test_an_ipv4_proxy_on_an_ipv6_socket_is_the_same_proxy(tmp_path: Path):
    sock = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    listener = Listener(guarded(configured(tmp_path, proxies=PROXY)), sockets=[sock])
    await listener.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.address[1])
        client = Client(reader, writer)
        client.request("POST", TELL, body=b"", **signed_headers("a", "1.0.0"))
        assert (await client.answer()).json["agentName"] == "a"
        await client.close()
        assert (await asked(listener, "POST", TELL, body=b"", **signed_headers("a", "1.0.0"))).status == 400, "::1"
    finally:
        await listener.drain(0)


@pytest.mark.parametrize(
    "lines",
    [
        b"X-Agent-Name: a\r\nX-Agent-Name: b\r\n",
        b"X-Agent-Name: a\r\nx-AGENT-name: a\r\n",
        b"X_Agent_Name: a\r\n",
        b"X-Agent-Name: a\r\nX_Agent-Name: b\r\n",
        b"X-Agent-Name: a, b\r\n",
        b"X-Agent-Name: a\x00\r\n",
        b"X-Agent-Name: a\rX-Agent-Version: 2\r\n",
        b"X-Agent-Name: a\r\n b\r\n",
        b"X-Agent-Name: \xc3\xa4gent\r\n",
        b"X-Agent-Name:\r\n",
        b"X-Caller-Agent: https://a.example/card, https://b.example/card\r\n",
        b"X-Caller-Agent: https://me:secret@a.example/card\r\n",
        b"X-Caller-Agent: ftp://a.example/card\r\n",
        b"X-Caller-Agent: https:///card\r\n",
        b"X_Caller_Agent: https://a.example/card\r\n",
    ],
)
async def test_headers_that_can_be_read_in_two_ways_are_a_bad_request_even_here(lines: bytes):
    async with serving(guarded(Authenticators())) as listener, connected(listener) as client:
        client.send(b"POST /mcp/tools/call HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n" + lines + b"\r\n")
        assert (await client.answer()).status == 400


async def test_headers_in_any_case_are_the_same_header():
    async with serving(guarded(Authenticators())) as listener, connected(listener) as client:
        client.send(b"POST /mcp/tools/call HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nx-AGENT-Name: a\r\n\r\n")
        assert (await client.answer()).json["agentName"] == "a"


async def test_headers_and_a_token_that_disagree_are_refused_here(tmp_path: Path, issuer: Issuer):
    (tmp_path / "jwks.json").write_bytes(issuer.key_set())
    given = {"jwt": [{"issuer": ISSUER, "audience": AUDIENCE, "jwks": "jwks.json"}]}
    identity = Identity.model_validate(given, context=tmp_path)
    token = f"Bearer {issuer.token()}"
    async with serving(guarded(authenticators_of(identity, loopback=True))) as listener:
        same = await asked(listener, "POST", TELL, body=b"", authorization=token, x_agent_name="research-agent")
        assert same.json["method"] == "jwt"
        assert (await asked(listener, "POST", TELL, body=b"", authorization=token, x_agent_name="b")).status == 401


@pytest.mark.req("REG-38")
async def test_the_card_of_the_calling_agent_says_who_it_is():
    card = "https://agents.example/research/card.json"
    authenticators = Authenticators(agent_at={card: ("research-agent", "2.1.0")}.get)
    async with serving(guarded(authenticators)) as listener:

        async def who(**headers: str) -> Answer:
            return await asked(listener, "POST", TELL, body=b"", **headers)

        known = (await who(x_caller_agent=card)).json
        assert (known["agentName"], known["agentVersion"], known["method"]) == ("research-agent", "2.1.0", "header")
        assert "x-caller-agent" not in known["headers"]
        both = await who(x_caller_agent=card, x_agent_name="research-agent", x_agent_version="2.1.0")
        assert both.json["id"] == known["id"]
        unknown = (await who(x_caller_agent="https://agents.example/other")).json
        assert (unknown["agentName"], unknown["subject"]) == (None, "https://agents.example/other")
        assert (await who(x_caller_agent=card, x_agent_name="other")).status == 401
        assert (await who(x_caller_agent=card, x_agent_name="research-agent", x_agent_version="1.0.0")).status == 401
        assert (await who(x_caller_agent="https://agents.example/other", x_agent_name="other")).status == 401


@pytest.mark.req("REG-38")
async def test_a_card_is_taken_of_others_only_from_a_proxy_that_signed_it(tmp_path: Path):
    card = "https://agents.example/research/card.json"
    identity = Identity.model_validate({"proxies": PROXY}, context=tmp_path)
    who = authenticators_of(identity, loopback=False, agent_at={card: ("research-agent", "2.1.0")}.get)
    async with serving(guarded(who)) as listener:
        told = signed_headers("", "", card=card)
        got = await asked(listener, "POST", TELL, body=b"", **told)
        assert (got.json["agentName"], got.json["method"]) == ("research-agent", "proxy")
        swapped = {**told, "x-caller-agent": "https://agents.example/other"}
        assert (await asked(listener, "POST", TELL, body=b"", **swapped)).status == 401
        added = {**signed_headers("", ""), "x-caller-agent": card}
        assert (await asked(listener, "POST", TELL, body=b"", **added)).status == 401
    strict = configured(tmp_path, proxies=PROXY | {"trusted": ["10.0.0.0/8"]})
    async with serving(guarded(strict)) as listener:
        assert (await asked(listener, "POST", TELL, body=b"", x_caller_agent=card)).status == 400

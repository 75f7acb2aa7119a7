"""Who asks, as a client meets it: 401 with where tokens come from, and sessions that are one principal's alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.doors.mcp.fakes import EVENTS, HELLO, FakeGateway
from tests.doors.serving import Answer, asked, serving
from tests.gateway.issuing import AUDIENCE, ISSUER, Issuer
from weft.app.identities import authenticators_of
from weft.config.identity import Identity
from weft.doors.asgi import PRINCIPAL, Receive, Scope, Send, answer_json
from weft.doors.guard import Guard
from weft.doors.identified import Identified, ProtectedResource
from weft.doors.listener import Listener
from weft.doors.mcp import McpDoor
from weft.doors.sites import Site
from weft.gateway.challenges import WELL_KNOWN
from weft.gateway.identity import Authenticators
from weft.ports import Principal

BASE = "https://gateway.example"
METADATA = f"{BASE}{WELL_KNOWN}/mcp"


async def tell(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with what a door sees of the caller."""
    principal: Principal = scope["state"][PRINCIPAL]
    names = sorted(name.decode() for name, _ in scope["headers"])
    told = {**principal.to_json(), "id": principal.id, "headers": names}
    await answer_json(send, 200, told)


def guarded(authenticators: Authenticators) -> Guard:
    about = ProtectedResource(authenticators, base=BASE)
    routes = {
        "/mcp": Identified(McpDoor(FakeGateway()), authenticators, base=BASE),
        "/tell": Identified(tell, authenticators),
        WELL_KNOWN: about,
    }
    return Guard(routes, prefixes={f"{WELL_KNOWN}/": about}, site=Site())


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
async def listener(issuer: Issuer, tmp_path: Path) -> AsyncIterator[Listener]:
    """A listener that takes the tokens of an issuer, and nobody without one."""
    (tmp_path / "jwks.json").write_bytes(issuer.key_set())
    given = {"jwt": [{"issuer": ISSUER, "audience": AUDIENCE, "jwks": "jwks.json"}]}
    identity = Identity.model_validate(given, context=tmp_path)
    authenticators = authenticators_of(identity, loopback=False)
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


async def test_every_token_that_does_not_hold_gets_the_same_answer(listener: Listener, issuer: Issuer):
    tokens = [issuer.token(exp=1), issuer.token(aud="x"), issuer.token(iss="x"), Issuer().token(), "x", "e30.e30."]
    answers = set[tuple[int, str, bytes]]()
    for token in tokens:
        got = await asked(listener, "POST", "/tell", body=b"", authorization=f"Bearer {token}")
        answers.add((got.status, got.headers["www-authenticate"], got.body))
    ((status, challenge, _),) = answers
    assert status == 401
    assert challenge.startswith('Bearer error="invalid_token", resource_metadata="http://127.0.0.1')


async def test_a_door_sees_the_principal_and_none_of_the_credentials(listener: Listener, issuer: Issuer):
    token = f"Bearer {issuer.token()}"
    got = await asked(listener, "POST", "/tell", body=b"", authorization=token, x_forwarded_for="10.0.0.1", x_other="1")
    assert (got.json["agentName"], got.json["strength"]) == ("research-agent", "proven")
    assert got.json["id"].startswith("jwt:")
    assert "x-other" in got.json["headers"]
    assert not {"authorization", "x-forwarded-for"} & set(got.json["headers"])


async def test_identity_headers_of_a_stranger_are_a_bad_request(listener: Listener):
    got = await asked(listener, "POST", "/tell", body=b"", x_agent_name="admin")
    assert (got.status, got.json["error"]["code"]) == (400, "BadIdentityHeader")


async def test_a_session_is_its_principals_alone_and_opens_nothing_by_itself(listener: Listener, issuer: Issuer):
    tokens = [("alice", "1"), ("alice", "2"), ("bob", "3")]
    alice, again, bob = (f"Bearer {issuer.token(sub=sub, jti=jti)}" for sub, jti in tokens)
    begun = await call(listener, {"method": "initialize", "params": HELLO}, authorization=alice)
    session = begun.headers["mcp-session-id"]
    ask = {"method": "tools/list"}
    assert (await call(listener, ask, authorization=alice, mcp_session_id=session)).status == 200
    assert (await call(listener, ask, authorization=again, mcp_session_id=session)).status == 200
    assert (await call(listener, ask, authorization=bob, mcp_session_id=session)).status == 404
    assert (await call(listener, ask, mcp_session_id=session)).status == 401


async def test_a_token_that_ended_ends_its_session_too(listener: Listener, issuer: Issuer):
    alice = f"Bearer {issuer.token()}"
    begun = await call(listener, {"method": "initialize", "params": HELLO}, authorization=alice)
    session = begun.headers["mcp-session-id"]
    over = f"Bearer {issuer.token(exp=1)}"
    assert (await call(listener, {"method": "tools/list"}, authorization=over, mcp_session_id=session)).status == 401


@pytest.mark.req("REG-34")
async def test_on_this_machine_a_header_is_enough():
    async with serving(guarded(authenticators_of(Identity(), loopback=True))) as listener:
        named = await asked(listener, "POST", "/tell", body=b"", x_agent_name="research-agent", x_agent_version="2.1.0")
        assert (named.json["agentName"], named.json["method"], named.json["strength"]) == (
            "research-agent",
            "header",
            "none",
        )
        assert (await asked(listener, "POST", "/tell", body=b"")).json["id"] == "anonymous"

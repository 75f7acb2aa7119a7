"""Who calls, at a whole gateway: as weft.yaml says, at every door, and hidden from the servers behind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.app.served import EVENTS, META, PATIENCE, House, house, message_of, modern
from tests.app.upstream import Upstream, upstream
from tests.doors.certificates import ClientCertificate, made_authority, made_certificate
from tests.doors.mcp.fakes import HELLO
from tests.doors.serving import Answer, connected
from tests.gateway.issuing import AUDIENCE, ISSUER, Issuer
from tests.upstreams.listening import listening
from weft.gateway.challenges import WELL_KNOWN
from weft.gateway.keys import KeyFile, make_key

CALL: dict[str, Any] = {"name": "echo", "arguments": {}}
CARD = "https://agents.example/research/card.json"


def keys(folder: Path, *agents: str) -> list[str]:
    """Make a key for each agent."""
    made = [make_key(agent=agent, versions=["1.0.0"]) for agent in agents]
    for key, _ in made:
        KeyFile(folder / "keys.json").add(key)
    return [text for _, text in made]


def settings(up: Upstream, **identity: Any) -> dict[str, Any]:
    """Return the settings of a gateway on this machine that asks who calls all the same."""
    strict = {"anonymous": "deny", "allowSelfAsserted": False}
    return {"servers": {"up": {"url": up.url}}, "identity": {**strict, **identity}}


async def plain(gate: House, **headers: str) -> Answer:
    body = orjson.dumps({"tool": "echo"})
    told: dict[str, Any] = {"content-type": "application/json", **headers}
    return await gate.ask("POST", "/mcp/tools/call", body=body, **told)


async def legacy(gate: House, message: dict[str, Any], **headers: str) -> Answer:
    told: dict[str, Any] = {"content-type": "application/json", "accept": EVENTS, **headers}
    return await gate.ask("POST", "/mcp", body=orjson.dumps({"jsonrpc": "2.0", "id": 1, **message}), **told)


@pytest.mark.req("REG-36")
async def test_every_door_wants_a_key_and_a_session_is_its_holders(tmp_path: Path):
    alice, bob = keys(tmp_path, "alice", "bob")
    async with upstream("echo") as up, house(tmp_path, settings(up, keyFile="keys.json")) as gate:
        hello = {"method": "initialize", "params": HELLO}
        for answer in (await gate.post("tools/call", CALL), await plain(gate), await legacy(gate, hello)):
            assert (answer.status, WELL_KNOWN in answer.headers["www-authenticate"]) == (401, True)
        assert (await gate.post("tools/call", CALL, **{"x-api-key": alice})).status == 200
        assert (await plain(gate, authorization=f"Bearer {alice}")).status == 200
        begun = await legacy(gate, hello, **{"x-api-key": alice})
        session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        call = {"method": "tools/call", "params": CALL}
        for who, status in (({"x-api-key": alice}, 200), ({"x-api-key": bob}, 404), ({}, 401)):
            assert (await legacy(gate, call, **session, **who)).status == status
        for path in ("/healthz", "/readyz", WELL_KNOWN, f"{WELL_KNOWN}/mcp"):
            assert (await gate.ask("GET", path)).status == 200


async def test_a_key_that_is_revoked_opens_nothing_any_more(tmp_path: Path):
    (alice,) = keys(tmp_path, "alice")
    async with upstream("echo") as up, house(tmp_path, settings(up, keyFile="keys.json")) as gate:
        assert (await plain(gate, authorization=f"Bearer {alice}")).status == 200
        KeyFile(tmp_path / "keys.json").revoke(alice.split("_")[1])
        async with asyncio.timeout(PATIENCE):
            while (answer := await plain(gate, authorization=f"Bearer {alice}")).status == 200:
                pass  # It is taken for as long as the file is not looked at again.
        assert answer.status == 401


async def test_the_servers_behind_see_nothing_of_what_a_caller_proved_itself_with(tmp_path: Path):
    issuer = Issuer()
    (tmp_path / "jwks.json").write_bytes(issuer.key_set())
    jwt = [{"issuer": ISSUER, "audience": AUDIENCE, "jwks": "jwks.json"}]
    canary = issuer.token(sub="canary-subject")
    async with upstream("echo") as up, house(tmp_path, settings(up, jwt=jwt, allowSelfAsserted=True)) as gate:
        told = {"authorization": f"Bearer {canary}", "x-agent-name": "research-agent", "x-forwarded-for": "10.9.8.7"}
        assert (await gate.post("tools/call", CALL, **told)).status == 200
        assert (await plain(gate, **told)).status == 200
        assert up.calls == 2
        for part in (canary, canary.split(".")[2], "x-agent-name", "10.9.8.7", "authorization"):
            assert part.encode() not in up.traffic.lower() + up.traffic


async def test_tokens_hold_while_their_issuer_is_away_and_unknown_ones_do_not(tmp_path: Path):
    issuer = Issuer()
    async with upstream("echo") as up:
        with listening(issuer) as port:
            jwt = [{"issuer": ISSUER, "audience": AUDIENCE, "jwks": f"http://127.0.0.1:{port}/"}]
            known = {"authorization": f"Bearer {issuer.token()}"}
            async with house(tmp_path, settings(up, jwt=jwt)) as gate:
                assert (await gate.post("tools/call", CALL, **known)).status == 200
                issuer.status = 503
                issuer.add("new", issuer.private["ec-1"][0], "ES256")
                asked = issuer.asked
                for _ in range(5):
                    fresh = {"authorization": f"Bearer {issuer.token('new')}"}
                    assert (await gate.post("tools/call", CALL, **fresh)).status == 401
                assert issuer.asked <= asked + 1
                other = {"authorization": f"Bearer {issuer.token(jti='2')}"}
                assert (await gate.post("tools/call", CALL, **other)).status == 200


@pytest.mark.req("REG-38")
async def test_a_certificate_of_weft_yaml_is_an_agent_over_tls(tmp_path: Path):
    cert, key = made_certificate(tmp_path / "tls")
    authority = made_authority(tmp_path / "clients")
    research, stranger = authority.client("research"), authority.client("stranger")
    async with upstream("echo") as up:
        config = settings(up, certificates={"research": "research-agent@1.0.0"})
        config["listen"] = {"tls": {"cert": str(cert), "key": str(key), "clientCa": str(authority.file)}}
        async with house(tmp_path, config) as gate:

            async def call(client: ClientCertificate) -> Answer:
                context = client.context(cert)
                async with connected(gate.listener, ssl=context, server_hostname="localhost") as connection:
                    connection.request("POST", "/mcp", **modern("tools/call", CALL))
                    return await connection.answer()

            assert message_of(await call(research))["result"]["content"] == [{"type": "text", "text": "said"}]
            assert (await call(stranger)).status == 401


@pytest.mark.req("REG-38")
async def test_the_card_of_a_registered_agent_gives_it_what_the_agent_depends_on(tmp_path: Path):
    source = {"server": "up", "serverVersion": "1.0.0"}
    tools = [{"name": name, "version": "1.0.0", "source": {**source, "tool": name}} for name in ("echo", "large")]
    provides = [{"tool": name, "version": "1.0.0"} for name in ("echo", "large")]
    depends = {"depends": [{"type": "tool", "name": "echo", "version": "1.0.0"}]}
    card = {"capabilities": {"extensions": [{"uri": "urn:agentgateway:sbom", "params": depends}]}, "url": CARD}
    registry = {
        "schemaVersion": "2.0",
        "servers": [{"name": "up", "version": "1.0.0", "provides": provides}],
        "tools": tools,
        "agents": [{"name": "research-agent", "version": "1.0.0", "description": "It looks things up.", **card}],
    }
    async with upstream("echo", "large") as up:
        config = {"servers": {"up": {"url": up.url}}}
        async with house(tmp_path, config, registry) as gate:

            async def seen(**headers: str) -> set[str]:
                listed = await gate.post("tools/list", {"_meta": META}, **headers)
                return {tool["name"] for tool in message_of(listed)["result"]["tools"]}

            assert await seen(**{"x-caller-agent": CARD}) == await seen(**{"x-agent-name": "research-agent"})
            assert await seen(**{"x-caller-agent": CARD}) < await seen()

"""Client certificates: whoever TLS has verified is the agent that weft.yaml says, over real TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.doors.certificates import Authority, ClientCertificate, made_authority
from tests.doors.serving import Answer, connected, serving
from tests.doors.test_identified import TELL, guarded
from tests.gateway.issuing import AUDIENCE, ISSUER, Issuer
from weft.app.identities import authenticators_of
from weft.config.identity import Identity
from weft.doors.asgi import CERTIFICATE, COMMON_NAME, Receive, Scope, Send, answer_json
from weft.doors.listener import Listener, Tls, bind
from weft.gateway.identity import Authenticators

pytestmark = pytest.mark.req("REG-38")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return made_authority(tmp_path / "clients")


class House:
    """A listener that wants a certificate of every client."""

    def __init__(self, listener: Listener, cert: Path) -> None:
        self.listener, self._cert = listener, cert

    async def ask(self, client: ClientCertificate, **headers: str) -> Answer:
        """Return the answer to the second request of a connection: what TLS knows is known for all of them."""
        context = client.context(self._cert)
        async with connected(self.listener, ssl=context, server_hostname="localhost") as connection:
            connection.request("POST", TELL, body=b"", **headers)
            first = await connection.answer()
            connection.request("POST", TELL, body=b"", **headers)
            second = await connection.answer()
        assert (first.status, first.body) == (second.status, second.body)
        return second


def tls(certificate: tuple[Path, Path], authority: Authority | None) -> Tls:
    cert, key = certificate
    return Tls(cert=cert, key=key, client_ca=None if authority is None else authority.file)


def identified(folder: Path, **given: Any) -> Authenticators:
    return authenticators_of(Identity.model_validate(given, context=folder), loopback=False)


async def test_a_certificate_that_is_listed_is_its_agents(
    tmp_path: Path, certificate: tuple[Path, Path], authority: Authority
):
    named, pinned, other = authority.client("research"), authority.client("pinned"), authority.client("other")
    listed = {"research": "research-agent@2.1.0", pinned.sha256.upper(): "writer"}
    guard = guarded(identified(tmp_path, certificates=listed))
    async with serving(guard, tls=tls(certificate, authority)) as listener:
        house = House(listener, certificate[0])
        by_name = (await house.ask(named)).json
        assert (by_name["agentName"], by_name["agentVersion"]) == ("research-agent", "2.1.0")
        assert (by_name["method"], by_name["strength"], by_name["subject"]) == ("certificate", "proven", "research")
        by_hash = (await house.ask(pinned)).json
        assert (by_hash["agentName"], by_hash["agentVersion"]) == ("writer", None)
        renewed = (await house.ask(authority.client("research"))).json
        assert renewed["id"] == by_name["id"], "who renews a certificate stays the same"
        assert (await house.ask(other)).status == 401


async def test_nobody_is_somebody_by_being_called_like_a_hash_or_by_two_names(
    tmp_path: Path, certificate: tuple[Path, Path], authority: Authority
):
    pinned = authority.client("pinned")
    guard = guarded(identified(tmp_path, certificates={pinned.sha256: "writer", "research": "research-agent"}))
    async with serving(guard, tls=tls(certificate, authority)) as listener:
        house = House(listener, certificate[0])
        assert (await house.ask(authority.client(pinned.sha256))).status == 401
        assert (await house.ask(authority.client("research", "other"))).status == 401
        assert (await house.ask(authority.client("other", "research"))).status == 401
        assert (await house.ask(authority.client("Research"))).status == 401


async def test_a_certificate_and_other_credentials_name_one_agent(
    tmp_path: Path, certificate: tuple[Path, Path], authority: Authority
):
    issuer = Issuer()
    (tmp_path / "jwks.json").write_bytes(issuer.key_set())
    jwt = [{"issuer": ISSUER, "audience": AUDIENCE, "jwks": "jwks.json"}]
    listed = {"research": "research-agent@2.1.0", "any": "research-agent"}
    guard = guarded(identified(tmp_path, jwt=jwt, certificates=listed, allowSelfAsserted=True))
    research, any_, stranger = (authority.client(name) for name in ("research", "any", "stranger"))
    async with serving(guard, tls=tls(certificate, authority)) as listener:
        house = House(listener, certificate[0])
        token = {"authorization": f"Bearer {issuer.token()}"}
        for client in (research, any_, stranger):
            both = (await house.ask(client, **token)).json
            assert (both["method"], both["scopes"]) == ("jwt", ["read", "write"])
        changes: list[dict[str, Any]] = [{"agent_name": "other"}, {"agent_version": "9.0.0"}, {"agent_name": None}]
        for changed in changes:
            other = {"authorization": f"Bearer {issuer.token(**changed)}"}
            assert (await house.ask(research, **other)).status == 401
        assert (await house.ask(research, authorization="Bearer e30.e30.e30")).status == 401
        assert (await house.ask(research, x_agent_name="research-agent")).json["method"] == "certificate"
        assert (await house.ask(research, x_agent_name="other")).status == 401


async def test_the_certificate_of_a_proxy_proves_the_proxy_and_not_an_agent(
    tmp_path: Path, certificate: tuple[Path, Path], authority: Authority
):
    proxy, other = authority.client("proxy"), authority.client("other")
    proxies = {"trusted": ["127.0.0.1"], "certificates": [proxy.sha256]}
    guard = guarded(identified(tmp_path, proxies=proxies, certificates={"other": "other"}))
    async with serving(guard, tls=tls(certificate, authority)) as listener:
        house = House(listener, certificate[0])
        vouched = (await house.ask(proxy, x_agent_name="research-agent", x_agent_version="2.1.0")).json
        assert (vouched["agentName"], vouched["method"]) == ("research-agent", "proxy")
        assert (await house.ask(proxy)).status == 401
        assert (await house.ask(other, x_agent_name="research-agent")).status == 401
        assert (await house.ask(other)).json["agentName"] == "other"


async def test_a_certificate_that_nobody_asked_for_is_not_looked_at(
    tmp_path: Path, certificate: tuple[Path, Path], authority: Authority
):
    guard = guarded(identified(tmp_path, certificates={"research": "research-agent"}))
    async with serving(guard, tls=tls(certificate, None)) as listener:
        assert (await House(listener, certificate[0]).ask(authority.client("research"))).status == 401


async def seen(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with what is known of the client's certificate."""
    await answer_json(send, 200, [scope.get(CERTIFICATE), scope.get(COMMON_NAME)])


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("shared_by", [1, 2])
def test_every_loop_and_every_way_to_accept_knows_the_certificate(
    certificate: tuple[Path, Path],
    authority: Authority,
    loop: Callable[[], asyncio.AbstractEventLoop],
    shared_by: int,
):
    client = authority.client("research")

    async def ask() -> Any:
        wanted = tls(certificate, authority)
        listener = Listener(seen, sockets=[bind("127.0.0.1", 0)], tls=wanted, shared_by=shared_by)
        await listener.start()
        try:
            return (await House(listener, certificate[0]).ask(client)).json
        finally:
            await listener.drain(0)

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(ask()) == [client.sha256, "research"]


async def test_without_tls_there_is_no_certificate():
    async with serving(seen) as listener, connected(listener) as client:
        client.request("GET", "/")
        assert (await client.answer()).json == [None, None]


async def test_a_certificate_of_another_authority_does_not_get_in(
    tmp_path: Path, certificate: tuple[Path, Path], authority: Authority
):
    guard = guarded(identified(tmp_path, certificates={"research": "research-agent"}))
    forged = made_authority(tmp_path / "others").client("research")
    async with serving(guard, tls=tls(certificate, authority)) as listener:
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await House(listener, certificate[0]).ask(forged)

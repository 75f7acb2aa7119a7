"""A server in both eras, over HTTP and as a child: what it offers, how it is asked, what comes beside the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from typing import Any, Literal, TypeAlias

import pytest

from tests.upstreams.children.workshop import TOOLS
from tests.upstreams.pools import FORM, WORKSHOP, Person, Watched, call, has, open_shop, running
from tests.waiting import soon, until
from weft.errors import DeadlineExceeded, UpstreamProtocolError, UpstreamRefused
from weft.upstreams.server import Server
from weft.upstreams.spec import ServerSpec

Era: TypeAlias = Literal["legacy", "modern"]
over_http = pytest.mark.parametrize("spec", ["http"], indirect=True)


@pytest.fixture
def url() -> Generator[str]:
    with open_shop() as url:
        yield url


@pytest.fixture(params=["legacy", "modern"])
def era(request: pytest.FixtureRequest) -> Era:
    return request.param


@pytest.fixture(params=["http", "stdio"])
def spec(request: pytest.FixtureRequest, era: Era) -> ServerSpec:
    if request.param == "http":
        return ServerSpec(name="shop", url=request.getfixturevalue("url"), era=era)
    return ServerSpec(name="shop", command=WORKSHOP, era=era, start_timeout=60.0)


@pytest.fixture
async def shop(spec: ServerSpec) -> AsyncGenerator[Watched]:
    async with running(spec) as watched:
        yield watched


@pytest.fixture
def server(shop: Watched) -> Server:
    return shop.server()


async def test_all_that_a_server_offers_is_known(server: Server, era: Era):
    found = server.inventory
    assert (server.state, server.problem, found.era) == ("ready", None, era)
    assert [tool["name"] for tool in found.tools] == list(TOOLS)
    assert [one["name"] for one in found.prompts] == ["greet"]
    assert [one["uri"] for one in found.resources] == ["shop://bench"]
    assert (found.templates, found.info["version"], found.instructions) == ((), "3", "Knock first.")


async def test_a_change_of_the_tools_is_read_again_once_for_a_burst(shop: Watched, server: Server):
    before, changes = int(await call(server, "readings")), shop.changes
    await call(server, "burst")
    await call(server, "grow", name="lathe")
    await until(has(server, "lathe"))
    assert shop.changes == changes + 1
    assert int(await call(server, "readings")) - before <= 4
    assert await call(server, "lathe") == "made lathe"


async def test_progress_and_meta_go_along_only_if_wanted(server: Server):
    ann, bob = Person("ann", wants_progress=True, meta={"traceparent": "00-1"}), Person("bob")
    await asyncio.gather(*(call(server, "steps", caller=who, who=who.name) for who in (ann, bob)))
    assert [one["message"] for one in ann.heard] == ["ann 1", "ann 2", "ann 3"]
    assert bob.heard == []
    assert (await call(server, "who", caller=ann))["meta"] == {"traceparent": "00-1"}


async def test_a_question_of_the_server_reaches_its_own_caller(server: Server):
    people = [Person(name, capabilities={**FORM, "experimental": {}}) for name in ("ann", "bob")]
    answers = await asyncio.gather(*(call(server, "ask", caller=who) for who in people))
    assert [answer.split()[0] for answer in answers] == ["ann", "bob"]
    for who in people:
        (question,) = who.asked[0].values()
        assert (len(who.asked), question["method"]) == (1, "elicitation/create")
        assert question["params"]["message"] == "Who is there?"


@over_http
async def test_only_what_weft_relays_is_offered(server: Server):
    person = Person(capabilities={**FORM, "roots": {"listChanged": True}, "experimental": {"x": {}}})
    assert (await call(server, "who", caller=person))["can"].keys() == {"elicitation", "roots"}
    assert (await call(server, "who", caller=Person()))["can"] == {}
    assert (await call(server, "who"))["can"] == {}


async def test_log_messages_go_to_the_caller_from_its_level_on(server: Server):
    loud, quiet, mute = Person(log_level="debug"), Person(log_level="error"), Person()
    for who in (quiet, loud, quiet, mute):
        await call(server, "log", caller=who, who="w")
    assert [one["level"] for one in loud.logged] == ["debug", "info", "error"]
    assert [one["data"] for one in quiet.logged] == ["w error", "w error"]
    assert mute.logged == []
    if server.inventory.era == "legacy":
        assert (await call(server, "who"))["levels"] == ["error", "debug"]


async def test_giving_up_reaches_the_handler(server: Server):
    person = Person(wants_progress=True)
    waiting = asyncio.create_task(call(server, "wait", caller=person, who="ann"))
    await until(lambda: bool(person.heard))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(5):
        while await call(server, "cancelled") != "ann":
            pass
    assert server.in_flight == 0


@over_http
async def test_the_limit_of_a_server_shortens_the_deadline(spec: ServerSpec):
    brief = ServerSpec(name="shop", url=spec.url, command=spec.command, era=spec.era, timeout=0.3)
    async with running(brief) as watched:
        with pytest.raises(DeadlineExceeded):
            await call(watched.server(), "wait", who="ann")


async def test_resources_are_watched_until_the_last_has_left(shop: Watched, server: Server):
    await server.subscribe("shop://bench")
    await server.subscribe("shop://bench")
    await server.unsubscribe("shop://bench")
    await call(server, "touch", uri="shop://bench")
    await until(lambda: bool(shop.events))
    assert shop.events[0] == ("shop", "notifications/resources/updated", {"uri": "shop://bench"})
    await server.unsubscribe("shop://bench")
    if server.inventory.era == "legacy":
        assert await call(server, "touch", uri="shop://saw") == "shop://bench,shop://bench"


@over_http
async def test_a_refusal_is_passed_on(server: Server):
    with pytest.raises(UpstreamRefused):
        await server.request("prompts/get", {"name": "greet"}, deadline=soon())
    assert server.state == "ready"


@over_http
@pytest.mark.parametrize("era", ["modern"], indirect=True)
async def test_a_result_that_asks_for_input_is_returned_to_who_relays_it(server: Server):
    params: dict[str, Any] = {"name": "ask", "arguments": {}}
    relaying = Person(capabilities=FORM, relays_input=True)
    for caller in (relaying, None):
        result = await server.request("tools/call", params, deadline=soon(), caller=caller)
        assert (result["resultType"], result["requestState"]) == ("input_required", "state-1")
    assert relaying.asked == []


@over_http
@pytest.mark.parametrize("era", ["modern"], indirect=True)
async def test_a_server_that_never_stops_asking_is_given_up(server: Server):
    person = Person(capabilities=FORM)
    with pytest.raises(UpstreamProtocolError, match="more than 8 times"):
        await call(server, "ask", caller=person, endless=True)
    assert len(person.asked) == 9
    with pytest.raises(UpstreamProtocolError, match="did not offer"):
        await call(server, "ask", caller=Person())

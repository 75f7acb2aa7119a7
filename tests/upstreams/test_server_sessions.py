"""Many callers of one server: who shares a session, who has one alone, and who has to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.upstreams.pools import FORM, FRAGILE, Person, call, open_shop, running
from tests.waiting import soon, until
from weft.errors import DeadlineExceeded, LimitExceeded, UpstreamRefused
from weft.upstreams.asking import offer_set
from weft.upstreams.bulkhead import Bulkhead
from weft.upstreams.spec import ServerSpec

BOTH: dict[str, Any] = {**FORM, "roots": {"listChanged": True}}


@pytest.fixture
def url() -> Generator[str]:
    with open_shop() as url:
        yield url


@pytest.fixture
def legacy_http(url: str) -> ServerSpec:
    return ServerSpec(name="shop", url=url, era="legacy")


@pytest.fixture
def legacy_child(tmp_path: Path) -> ServerSpec:
    return ServerSpec(name="shop", command=(*FRAGILE, str(tmp_path / "starts")), era="legacy")


@pytest.fixture(params=["http", "stdio"])
def legacy(request: pytest.FixtureRequest) -> ServerSpec:
    return request.getfixturevalue("legacy_http" if request.param == "http" else "legacy_child")


async def test_a_legacy_session_offers_what_its_own_callers_can_do(legacy_http: ServerSpec):
    async with running(legacy_http) as watched:
        server = watched.server()
        form, both, none = Person(capabilities=FORM), Person(capabilities=BOTH), Person()
        told = [(await call(server, "who", caller=who))["can"] for who in (form, both, form, none)]
        assert [sorted(can) for can in told] == [["elicitation"], ["elicitation", "roots"], ["elicitation"], []]


async def test_a_caller_without_the_capability_is_not_asked(legacy_http: ServerSpec):
    async with running(legacy_http) as watched:
        person = Person(capabilities={"sampling": {}})
        with pytest.raises(UpstreamRefused):
            await call(watched.server(), "ask", caller=person)
        assert person.asked == []


async def test_an_answer_that_is_a_refusal_reaches_the_server(legacy: ServerSpec):
    class Shy(Person):
        async def ask(self, requests: Any) -> dict[str, dict[str, Any]]:
            raise UpstreamRefused("client", "elicitation/create", {"code": -32042, "message": "not today"})

    async with running(legacy) as watched:
        with pytest.raises(UpstreamRefused, match="not today") as caught:
            await call(watched.server(), "ask", caller=Shy(capabilities=FORM))
        assert caught.value.rpc_code == -32042


async def test_a_question_outside_the_stream_of_its_call_reaches_the_only_caller(legacy: ServerSpec):
    async with running(legacy) as watched:
        person = Person("cleo", capabilities=FORM)
        assert await call(watched.server(), "ask", caller=person, apart=True) == "cleo"


async def test_callers_of_a_child_that_can_be_asked_never_share_one_at_the_same_time(legacy_child: ServerSpec):
    async with running(legacy_child) as watched:
        server = watched.server()
        ann, bob = (Person(name, capabilities=FORM, thinks=asyncio.Event()) for name in ("ann", "bob"))
        asking = [asyncio.create_task(call(server, "ask", caller=who, text=who.name)) for who in (ann, bob)]
        await until(lambda: bool(ann.asked and bob.asked))
        for who in (bob, ann):
            (question,) = who.asked[0].values()
            assert question["params"]["message"] == who.name
            assert who.thinks is not None
            who.thinks.set()
        assert await asyncio.gather(*asking) == ["ann", "bob"]


async def test_a_leased_child_is_kept_for_the_next_call_and_apart_from_the_plain_one(legacy_child: ServerSpec):
    async with running(legacy_child) as watched:
        server, person = watched.server(), Person(capabilities=FORM)
        pids = [(await call(server, "who", caller=who))["pid"] for who in (person, None, person, Person())]
        assert (pids[0] == pids[2], pids[1] == pids[3], pids[0] != pids[1]) == (True, True, True)


async def test_a_leased_child_whose_call_was_given_up_is_not_handed_on(legacy_child: ServerSpec):
    async with running(legacy_child) as watched:
        server = watched.server()
        ann = Person(capabilities=FORM, wants_progress=True)
        before = (await call(server, "who", caller=ann))["pid"]
        waiting = asyncio.create_task(call(server, "wait", caller=ann, who="ann"))
        await until(lambda: bool(ann.heard))
        waiting.cancel()
        await asyncio.wait({waiting})
        assert (await call(server, "who", caller=Person("bob", capabilities=FORM)))["pid"] != before


async def test_log_messages_of_calls_side_by_side_in_one_child_go_to_nobody(legacy_child: ServerSpec):
    async with running(legacy_child) as watched:
        server = watched.server()
        alone, busy = Person(log_level="debug"), Person(wants_progress=True)
        waiting = asyncio.create_task(call(server, "wait", caller=busy, who="b"))
        await until(lambda: bool(busy.heard))
        await call(server, "log", caller=alone, who="a")
        assert alone.logged == []
        waiting.cancel()
        await asyncio.wait({waiting})
        await call(server, "log", caller=alone, who="a")
        assert len(alone.logged) == 1


async def test_so_many_are_in_flight_so_many_wait_and_the_next_is_refused(url: str):
    async with running(ServerSpec(name="shop", url=url, concurrency=1, queue=1)) as watched:
        server, person = watched.server(), Person(wants_progress=True)
        first = asyncio.create_task(call(server, "wait", caller=person, who="a", seconds=0.5))
        await until(lambda: bool(person.heard))
        second = asyncio.create_task(call(server, "who"))
        await asyncio.sleep(0)
        with pytest.raises(LimitExceeded, match="1 requests in flight and 1 waiting") as caught:
            await call(server, "who")
        assert caught.value.code == "UpstreamBusy"
        assert await first == "waited"
        assert (await second)["pid"]
        assert server.in_flight == 0


async def test_a_place_is_handed_to_the_first_who_still_waits():
    bulkhead = Bulkhead("shop", concurrency=1, queue=3)
    assert bulkhead.enter()
    late, cancelled, patient = (asyncio.create_task(bulkhead.turn(soon(within))) for within in (0.01, 10, 10))
    with pytest.raises(DeadlineExceeded) as caught:
        await late
    assert caught.value.retryable == "yes"
    bulkhead.leave()
    cancelled.cancel()
    await asyncio.wait({cancelled, patient})
    assert (cancelled.cancelled(), patient.exception(), bulkhead.free) == (True, None, 0)
    bulkhead.leave()
    await bulkhead.idle()
    assert bulkhead.free == 1


def test_few_sets_of_capabilities_are_told_apart():
    assert offer_set({"elicitation": {"form": {"x": 1}, "other": {}}, "sampling": {}, "tasks": {}}) == {
        "elicitation": {"form": {}},
        "sampling": {},
    }
    assert offer_set({"roots": {"listChanged": True}}) == {"roots": {}}

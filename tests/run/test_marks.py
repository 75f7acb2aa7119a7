"""Marks tell the caller, beside a result or an error, how it was got; calls without any have none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import weft as w
from tests.patterns.caches import P, Q, cached, passes, served, then, world_of
from tests.patterns.gateways import gateway, outcome
from tests.patterns.stepped import Gate, SteppedClock, settle
from tests.saga.worlds import Customer, Instance, Shop, Slow, order, shared_store, step
from weft.errors import DeadlineExceeded, ExecutionFailed, SagaFailed, ToolFailed, UpstreamUnavailable, WeftError
from weft.testing import FakeWorld, Late, down, refusal
from weft.testing.clock import FakeClock

PAY = w.tool("pay")
BREAKS: dict[str, Any] = {"failure_threshold": 1, "failure_window": 60, "reset_timeout": 30}


def sagas(told: Any) -> list[tuple[str, str]]:
    """Return the id and the status of each saga that a result or an error is marked with."""
    return [(one["id"], one["status"]) for one in told.marks["weft/sagas"]]


async def test_a_call_that_has_nothing_to_say_has_no_marks():
    world = FakeWorld(tools={"pay": "paid", "book": refusal("full")})
    assert (await world.trace(PAY)).marks == {}
    error = await outcome(world.run(w.tool("book")))
    assert error.marks is None


# Caches.


async def test_a_result_tells_whether_it_came_from_a_cache():
    world = world_of(then("old", "new"))
    engine = gateway(world, cached(stale_while_revalidate=60))
    assert (await engine.run("it", Q)).marks == {"cache": "miss"}
    assert (await engine.run("it", Q, trace=False)).marks == {"cache": "hit"}
    await passes(world, 61)
    assert (await engine.run("it", Q)).marks == {"cache": "stale"}


async def test_an_answer_given_in_the_place_of_an_error_is_marked_as_such():
    world = world_of(then("old", down()))
    engine = gateway(world, cached(stale_if_error=600))
    await served(engine)
    await passes(world, 61)
    result = await engine.run("it", Q)
    assert (result.value, result.marks) == ("old", {"cache": "stale-error"})


@pytest.mark.parametrize("ttls", [(60, 600), (600, 60)])
async def test_of_several_caches_in_a_call_the_oldest_answer_is_told(ttls: tuple[int, int]):
    world = world_of("found")
    engine = gateway(world, w.pipeline(*(_kept(ttl) for ttl in ttls)))
    await engine.run("it", Q)
    await passes(world, 61)
    assert (await engine.run("it", Q)).marks == {"cache": "hit"}, "one of the two is not new"
    assert len(world.calls) == 3


def _kept(ttl: int) -> Any:
    return w.step(w.cache(w.tool("search"), key=P.q, ttl=ttl), id=f"for_{ttl}", input=w.from_input(P))


async def test_a_failed_call_is_marked_as_well():
    error = await outcome(world_of(down()).run(cached(), Q))
    assert isinstance(error, UpstreamUnavailable)
    assert error.marks == {"cache": "miss"}


async def test_what_is_done_in_the_background_marks_nobodys_result():
    """A refresh that a fallback answers says nothing about the answer that was already given."""
    breaks: dict[str, Any] = {**BREAKS, "reset_timeout": 6000}
    inner = w.circuit_breaker(w.tool("search"), name="s", **breaks, fallback=w.tool("archive"))
    world = FakeWorld(tools={"search": then("old", down()), "archive": "kept"}, clock=SteppedClock())
    engine = gateway(world, w.cache(inner, key=P.q, ttl=60, stale_while_revalidate=6000))
    await engine.run("it", Q)
    marks: list[Any] = []
    for _ in range(2):  # the first refresh opens the circuit
        await passes(world, 61)
        result = await engine.run("it", Q)
        await settle()
        marks.append(result.marks)
    assert world.calls[-1][0] == "archive", "the refresh was answered by the fallback"
    assert marks == [{"cache": "stale"}] * 2


# Requests that are carried out once.


async def test_a_replayed_result_is_marked_and_the_first_is_not():
    world = FakeWorld(tools={"pay": "paid"})
    engine = gateway(world, w.idempotent(PAY, key=P.id))
    assert (await engine.run("it", {"id": 1})).marks == {}
    assert (await engine.run("it", {"id": 1})).marks == {"idempotentReplay": True}
    assert len(world.calls) == 1


async def test_a_replayed_error_is_the_same_and_marked():
    world = FakeWorld(tools={"pay": refusal("no money")})
    engine = gateway(world, w.idempotent(PAY, key=P.id))
    first, second = [await outcome(engine.run("it", {"id": 1})) for _ in range(2)]
    assert isinstance(second, ToolFailed)
    assert first.to_json() == second.to_json()
    assert (first.marks, second.marks) == (None, {"idempotentReplay": True})


async def test_who_waits_for_an_earlier_request_is_told_so():
    gate = Gate()
    engine = gateway(FakeWorld(tools={"pay": gate}, clock=SteppedClock()), w.idempotent(PAY, key=P.id))
    calls = [asyncio.create_task(engine.run("it", {"id": 1})) for _ in range(2)]
    await settle()
    await gate.open("paid")
    leader, follower = await asyncio.gather(*calls)
    assert (leader.marks, follower.marks) == ({}, {"idempotentReplay": True})


async def test_who_is_skipped_cannot_tell():
    engine = gateway(FakeWorld(tools={"pay": "paid"}), w.idempotent(PAY, key=P.id, on_duplicate="skip"))
    await engine.run("it", {"id": 1})
    result = await engine.run("it", {"id": 1})
    assert (result.value, result.marks) == (None, {})


# Fallbacks.


@pytest.mark.req("STA-21")
async def test_what_the_fallback_of_a_circuit_answers_is_marked():
    world = FakeWorld(tools={"pay": down(), "later": "queued"})
    engine = gateway(world, w.circuit_breaker(PAY, name="p", **BREAKS, fallback=w.tool("later")))
    assert (await outcome(engine.run("it", None))).marks is None
    result = await engine.run("it", None)
    assert (result.value, result.marks) == ("queued", {"fallback": True})


@pytest.mark.req("STA-32")
async def test_what_the_fallback_of_a_timeout_answers_is_marked():
    world = FakeWorld(tools={"pay": Late("paid", 9), "later": "queued"})
    result = await world.trace(w.timeout(PAY, w.seconds(1), fallback=w.tool("later")))
    assert (result.value, result.marks) == ("queued", {"fallback": True})


async def test_a_fallback_that_fails_tells_why_it_was_asked():
    world = FakeWorld(tools={"pay": down(), "slow": Late("x", 9), "later": refusal("queue full")})
    engine = gateway(world, w.circuit_breaker(PAY, name="p", **BREAKS, fallback=w.tool("later")))
    await outcome(engine.run("it", None))
    error = await outcome(engine.run("it", None))
    assert isinstance(error, ToolFailed)
    assert (error.to_json()["cause"]["code"], error.marks) == ("CircuitOpen", None)
    late = await outcome(world.trace(w.timeout(w.tool("slow"), w.seconds(1), fallback=w.tool("later"))))
    assert isinstance(late, ToolFailed)
    assert late.to_json()["cause"]["code"] == "Timeout"


# Dead letters.


async def test_a_letter_that_was_not_taken_is_a_field_of_the_error():
    world = FakeWorld(tools={"pay": refusal("no money"), "dlq": down("queue away")})
    kept = w.dead_letter(PAY, "dlq")
    error = await outcome(world.run(kept))
    assert isinstance(error, ToolFailed)
    wanted = "Upstream 'fake' is unavailable: queue away"
    assert error.to_json()["deadLetterError"] == wanted
    engine = gateway(world, w.idempotent(kept, key=P.id))
    first, replayed = [await outcome(engine.run("it", {"id": 1})) for _ in range(2)]
    assert first.to_json() == replayed.to_json(), "as it was told to the first"
    assert replayed.to_json()["deadLetterError"] == wanted


# Sagas.


@pytest.fixture
def shop() -> Shop:
    return Shop(FakeClock())


def instance(shop: Shop, op: Any = None, **others: Any) -> Instance:
    made = Instance(shop, shared_store(shop.clock))
    made.load(op or order(), **others)
    return made


async def failure(one: Instance, value: Any, **given: Any) -> WeftError:
    error = await outcome(one.engine.run("order", value, caller=Customer(), **given))
    assert isinstance(error, WeftError)
    return error


@pytest.mark.req("STA-43")
async def test_a_saga_tells_its_id_also_one_that_was_made_up(shop: Shop):
    result = await instance(shop).engine.run("order", {"id": "o1"}, caller=Customer())
    assert sagas(result) == [("o1", "COMPLETED")]
    (one,) = (await instance(shop, order(id=None)).engine.run("order", {}, caller=Customer())).marks["weft/sagas"]
    assert len(one["id"]) == 36


async def test_a_saga_is_named_as_operators_name_it(shop: Shop):
    one = instance(shop)
    shop.always = {"ship": ToolFailed("ship", "no"), "refund": ToolFailed("refund", "no")}
    error = await failure(one, {"id": "o1"})
    (listed,) = await one.sagas.list()
    assert error.marks is not None
    assert error.marks["weft/sagas"] == [{"ref": listed["ref"], "id": "o1", "status": "COMPENSATION_FAILED"}]


async def test_a_saga_that_failed_is_told_with_its_error_and_again_when_it_is_asked_for_again(shop: Shop):
    one = instance(shop)
    shop.always = {"ship": ToolFailed("ship", "no")}
    for _ in range(2):
        error = await failure(one, {"id": "o1"})
        assert isinstance(error, SagaFailed)
        assert sagas(error) == [("o1", "COMPENSATED")]


async def test_who_cannot_wait_any_longer_is_told_which_saga_goes_on(shop: Shop):
    one = instance(shop)
    shop.does = {"charge": [Slow(20)]}
    error = await failure(one, {"id": "o1"}, timeout=5)
    assert isinstance(error, DeadlineExceeded)
    assert sagas(error) == [("o1", "RUNNING")]
    result = await one.engine.run("order", {"id": "o1"}, caller=Customer())
    assert sagas(result) == [("o1", "COMPLETED")]


async def test_who_asks_for_a_saga_that_runs_is_told_how_it_stands(shop: Shop):
    one = instance(shop, order(on_duplicate="error"))
    shop.does = {"charge": [Slow(20)]}
    await failure(one, {"id": "o1"}, timeout=5)
    error = await failure(one, {"id": "o1"})
    assert isinstance(error, ExecutionFailed)
    assert (error.code, sagas(error)) == ("SagaInProgress", [("o1", "RUNNING")])


async def test_each_saga_of_a_call_is_told(shop: Shop):
    one = instance(shop, w.map_each(w.composition("one", "One.", order())))
    result = await one.engine.run("order", [{"id": "a"}, {"id": "b"}, {"id": "a"}], caller=Customer())
    assert sorted(sagas(result)) == [("a", "COMPLETED"), ("b", "COMPLETED")]


async def test_what_the_steps_of_a_saga_mark_the_call_has_marked(shop: Shop):
    charge = w.idempotent(w.tool("charge"), key=P.card)
    one = instance(shop, order(step("reserve"), w.saga_step("charge", charge, input=w.constant({"card": 1}))))
    first, second = [await one.engine.run("order", {"id": id}, caller=Customer()) for id in ("a", "b")]
    assert "idempotentReplay" not in first.marks
    assert second.marks["idempotentReplay"] is True
    assert sagas(second) == [("b", "COMPLETED")]


# Who follows a call.


async def followed(one: Instance, value: Any, told: list[str], **given: Any) -> Any:
    """Return what a call gives, or its error; `told` gets each step that ended, with its outcome."""

    def tell(place: Any) -> None:
        told.append(f"{place.name or place.step.name}: {place.outcome}")

    return await outcome(one.engine.run("order", value, caller=Customer(), on_step=tell, **given))


async def test_each_step_of_a_saga_is_told_done_and_undone(shop: Shop):
    one, told = instance(shop), list[str]()
    shop.does = {"ship": [ToolFailed("ship", "no")]}
    assert isinstance(await followed(one, {"id": "o1"}, told), SagaFailed)
    steps = ["reserve: ok", "charge: ok", "ship: failed", "undo_charge: ok", "undo_reserve: ok"]
    assert told == [*steps, "order: failed"]


async def test_nobody_is_told_of_what_goes_on_after_the_call(shop: Shop):
    one, told = instance(shop), list[str]()
    shop.does = {"charge": [Slow(20)]}
    assert isinstance(await followed(one, {"id": "o1"}, told, timeout=5), DeadlineExceeded)
    await one.engine.run("order", {"id": "o1"}, caller=Customer())
    assert shop.called == ["reserve", "charge", "ship", "mail"]
    assert told == ["reserve: ok", "order: failed"]


async def test_work_of_its_own_in_the_background_is_not_told():
    world = world_of(then("old", "new"))
    engine = gateway(world, cached(stale_while_revalidate=60))
    told = list[str]()
    await engine.run("it", Q)
    await passes(world, 61)
    await engine.run("it", Q, on_step=lambda place: told.append(place.step.name))
    await settle()
    assert len(world.calls) == 2, "it was refreshed"
    assert told == ["it"]

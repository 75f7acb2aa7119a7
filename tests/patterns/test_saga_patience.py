"""What was never sent costs no attempt: sagas wait for weft's own limits and for who is away, with growing pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import weft as w
from tests.patterns.test_saga import failed, instance, shop, statuses
from tests.run.test_recovery import City, city
from tests.saga.worlds import Shop, Slow, order, step
from weft.errors import CircuitOpen, DeadlineExceeded, LimitExceeded, SagaFailed, ToolFailed, UpstreamUnavailable
from weft.patterns.saga_patience import PATIENCE
from weft.run.limits import Limits

__all__ = ["city", "shop"]


def busy() -> LimitExceeded:
    return LimitExceeded("UpstreamBusy", 96, "server 'bank' has 32 requests in flight and 64 waiting")


def gone() -> UpstreamUnavailable:
    return UpstreamUnavailable("bank", "connection refused")


def open_circuit() -> CircuitOpen:
    return CircuitOpen("Circuit 'bank' is open")


def throttled() -> LimitExceeded:
    return LimitExceeded("Throttled", 5, "throttle 'bank' lets nothing through now")


UNSENT = [busy, gone, open_circuit, throttled]


def for_seconds(shop: Shop, seconds: float, error: Callable[[], Exception]) -> Callable[[Any], Exception | None]:
    """Return how a tool behaves that fails until some time has passed."""
    until = shop.clock.now() + seconds
    return lambda _: error() if shop.clock.now() < until else None


@pytest.mark.parametrize("error", UNSENT)
async def test_what_undoes_a_step_is_tried_until_it_could_be_sent(shop: Shop, error: Callable[[], Exception]):
    shop.does["ship"] = [ToolFailed("ship", "no")]
    shop.always["refund"] = for_seconds(shop, 40, error)
    one = instance(shop, order(max_attempts=2))
    told = await failed(one, timeout=600)
    assert (told.saga["status"], statuses(told)["charge"]) == ("COMPENSATED", "COMPENSATED")
    most = 50 if error is busy else 14
    assert 6 <= shop.called.count("refund") <= most, "pauses from 0.2 seconds to 30, or 2, half of each left to chance"
    assert shop.called[-1] == "release", "in reverse order: what comes before waits"
    assert {seen.attempt for seen in shop.calls if seen.tool == "refund"} == {1}
    (waiting,) = one.events("saga_waiting")
    assert (waiting["step"], waiting["reason"]) == ("charge", error().args[0])
    assert "error" not in (await one.sagas.show("o1"))["steps"][1], "it is well now"


async def test_while_it_waits_operators_see_for_what_and_nobody_takes_it_over(shop: Shop):
    shop.does["ship"] = [ToolFailed("ship", "no")]
    shop.always["refund"] = for_seconds(shop, 300, gone)
    one = instance(shop)
    with pytest.raises(DeadlineExceeded):
        await one.call()
    shown = await one.sagas.show("o1")
    assert (shown["status"], shown["held"], shown.get("stuck")) == ("COMPENSATING", True, None)
    assert shown["steps"][1]["error"]["code"] == "UpstreamUnavailable"
    assert await one.recovery.once() == 0
    await one.engine.close(drain=300)
    assert (await one.sagas.show("o1"))["status"] == "COMPENSATED"


async def test_what_was_sent_and_failed_costs_an_attempt_also_among_waits(shop: Shop):
    shop.does["ship"] = [ToolFailed("ship", "no")]
    shop.does["refund"] = [ToolFailed("refund", "no"), busy(), ToolFailed("refund", "no"), busy()]
    shop.always["refund"] = ToolFailed("refund", "no")
    told = await failed(instance(shop))
    assert told.code == "SagaStuck"
    assert [seen.attempt for seen in shop.calls if seen.tool == "refund"] == [1, 2, 2, 3, 3]


async def test_it_is_not_waited_for_for_ever(shop: Shop):
    shop.does["ship"] = [ToolFailed("ship", "no")]
    shop.always["refund"] = busy()
    one = instance(shop)
    began = shop.clock.now()
    told = await failed(one, timeout=3600)
    assert PATIENCE - 60 < shop.clock.now() - began < PATIENCE + 60
    assert (told.code, told.saga["status"]) == ("SagaStuck", "COMPENSATION_FAILED")


@pytest.mark.parametrize("error", UNSENT)
async def test_after_the_pivot_a_step_is_tried_until_it_could_be_sent(shop: Shop, error: Callable[[], Exception]):
    shop.always["ship"] = for_seconds(shop, 40, error)
    one = instance(shop, order(step("reserve"), step("charge", pivot=True), step("ship"), max_attempts=1))
    assert (await one.call(timeout=600))["did"] == "ship"
    assert {seen.attempt for seen in shop.calls if seen.tool == "ship"} == {1}
    assert len(one.events("saga_waiting")) == 1


async def test_after_the_pivot_it_is_not_waited_for_for_ever_either(shop: Shop):
    shop.always["ship"] = gone()
    one = instance(shop, order(step("reserve"), step("charge", pivot=True), step("ship")))
    told = await failed(one, timeout=3600)
    assert (told.code, told.saga["status"]) == ("SagaStuck", "FORWARD_ONLY")


async def test_before_the_pivot_a_burst_is_waited_for_and_undoes_nothing(shop: Shop):
    shop.always["charge"] = for_seconds(shop, 20, busy)
    one = instance(shop)
    assert (await one.call())["did"] == "mail"
    assert "release" not in shop.called
    assert {seen.attempt for seen in shop.calls} == {1}


async def test_before_the_pivot_a_burst_is_waited_for_as_long_as_a_step_may_take(shop: Shop):
    shop.always["charge"] = busy()
    one = instance(shop)
    began = shop.clock.now()
    told = await failed(one, timeout=600)
    assert (told.saga["status"], told.cause["code"]) == ("COMPENSATED", "UpstreamBusy")
    assert 55 < shop.clock.now() - began <= 60
    assert "refund" not in shop.called, "it was not done, and that is known"


@pytest.mark.parametrize("error", [gone, open_circuit])
async def test_before_the_pivot_a_server_that_is_away_turns_the_order_back_at_once(
    shop: Shop, error: Callable[[], Exception]
):
    shop.always["charge"] = error()
    await failed(instance(shop))
    assert shop.called == ["reserve", "charge", "release"]


async def test_a_saga_that_turns_back_when_its_caller_leaves_does_not_wait_for_a_burst(shop: Shop):
    shop.always["charge"] = busy()
    one = instance(shop, order(on_disconnect="compensate"))
    call = asyncio.create_task(one.call())
    await shop.clock.sleep(1)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await one.engine.close(drain=60)
    assert (await one.sagas.show("o1"))["error"]["code"] == "CallerLeft"
    assert "ship" not in shop.called


@pytest.mark.parametrize("error", [busy, open_circuit])
async def test_who_takes_a_saga_over_lets_go_of_it_until_it_can_be_undone(city: City, error: Callable[[], Exception]):
    a, b = city.instance(order(max_attempts=1)), city.instance()
    city.shop.does["charge"] = [Slow(1000)]
    await city.cut(a)
    await city.wait_for_lease()
    city.shop.always["refund"] = error()
    assert await b.recovery.once() == 0
    shown = await b.sagas.show("o1")
    assert (shown["status"], shown.get("stuck")) == ("COMPENSATING", None)
    assert city.shop.called.count("refund") == 1
    del city.shop.always["refund"]
    await city.clock.sleep(2)
    assert await b.recovery.once() == 1
    assert (await b.sagas.show("o1"))["status"] == "COMPENSATED"


# The time of the caller, of a step, and of the saga.


@pytest.mark.req("STA-45")
async def test_the_deadline_of_the_call_ends_the_waiting_and_not_the_saga(shop: Shop):
    shop.always |= {tool: Slow(1.5) for tool in ("reserve", "charge", "ship", "mail")}
    one = instance(shop)
    one.engine.limits = Limits(timeout=2)
    with pytest.raises(DeadlineExceeded) as caught:
        await one.call()
    (mark,) = (caught.value.marks or {})["weft/sagas"]
    assert (mark["id"], mark["status"]) == ("o1", "RUNNING")
    await one.engine.close(drain=60)
    assert (await one.sagas.show("o1"))["status"] == "COMPLETED"


@pytest.mark.req("STA-45")
async def test_a_saga_with_a_time_of_its_own_gives_that_to_each_step(shop: Shop):
    shop.always["charge"] = Slow(200)
    one = instance(shop, order(timeout=300))
    with pytest.raises(DeadlineExceeded):
        await one.call()
    await one.engine.close(drain=600)
    assert (await one.sagas.show("o1"))["status"] == "COMPLETED"
    late = instance(Shop(shop.clock, always={"charge": Slow(200)}), order(timeout=100))
    with pytest.raises(SagaFailed, match="Saga timeout: it was not done after 100000ms"):
        await late.call(timeout=600)


async def test_a_step_takes_no_longer_than_a_call_ever_may(shop: Shop):
    shop.always["charge"] = Slow(200)
    one = instance(shop, order(timeout=300))
    one.engine.limits = Limits(timeout=2, max_timeout=20)
    with pytest.raises(DeadlineExceeded):
        await one.call(timeout=600)
    await one.engine.close(drain=600)
    shown = await one.sagas.show("o1")
    assert (shown["status"], shown["error"]["code"]) == ("COMPENSATED", "Timeout")


async def test_a_saga_without_a_time_gives_each_step_that_of_a_call(shop: Shop):
    shop.always["charge"] = Slow(100)
    told = await failed(instance(shop), timeout=600)
    assert told.cause["message"] == "'charge' did not answer before its deadline"
    assert shop.called == ["reserve", "charge", "refund", "release"]


# The same holds for retries around a call.


async def test_retries_that_all_found_the_server_busy_are_waited_for_too(shop: Shop):
    undo = w.retry(w.tool("refund"), 2)
    charge = w.saga_step("charge", w.tool("charge"), id="charge", compensate=undo)
    shop.does["ship"] = [ToolFailed("ship", "no")]
    shop.always["refund"] = for_seconds(shop, 20, gone)
    told = await failed(instance(shop, order(step("reserve"), charge, step("ship"), max_attempts=1)))
    assert told.saga["status"] == "COMPENSATED"


async def test_a_compensation_that_could_not_be_sent_at_once_is_not_overtaken_by_those_of_earlier_steps(shop: Shop):
    shop.does |= {"mail": [ToolFailed("mail", "no")], "recall": [gone()]}
    await failed(instance(shop, order(max_attempts=20)), timeout=600)
    undone = [seen.tool for seen in shop.effects.values() if seen.tool in ("recall", "refund", "release")]
    assert undone == ["recall", "refund", "release"]

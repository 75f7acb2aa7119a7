"""Recovery waits for servers that are away: until they are ready, and then for as long as a saga may be taken over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import weft as w
from tests.run.test_recovery import SAFE, City, city
from tests.saga.worlds import Customer, Instance, Slow, order, step
from weft.errors import SagaFailed, ToolFailed, UpstreamUnavailable, WeftError
from weft.ir.document import Document
from weft.run.limits import Limits
from weft.run.recovery import Recovery

__all__ = ["city"]
pytestmark = pytest.mark.req("STA-44")
GONE = UpstreamUnavailable("bank", "connection refused")


class Bank:
    """One server, `bank`; it is configured, and ready when somebody says so."""

    def __init__(self, *, configured: bool = True, ready: bool = True, heard: bool = True) -> None:
        self.configured = configured
        self.heard = heard
        self.there = asyncio.Event()
        if ready:
            self.there.set()

    async def ready(self) -> None:
        await self.there.wait()

    def may_come(self, server: str) -> bool:
        return self.configured and server == "bank"

    def unheard(self, document: Document) -> bool:
        return not self.heard


def recovery(one: Instance, bank: Bank, **given: Any) -> Recovery:
    """Return the recovery of an instance whose servers are these."""
    return Recovery(
        [one.store], one.compile, lambda principal, tool: Customer(principal), detach=one.engine.detach,
        clock=one.clock, signals=one.signals, rng=one.rng, servers=bank, **given,
    )  # fmt: skip


async def cut_in(city: City, tool: str, *steps: Any, **given: Any) -> Instance:
    """Return an instance that finds a saga whose owner died while a tool worked; its lease is over."""
    a, b = city.instance(order(*(steps or SAFE), **given)), city.instance()
    city.shop.does[tool] = [Slow(1000)]
    await city.cut(a)
    await city.wait_for_lease()
    return b


async def test_nothing_is_looked_for_before_the_servers_are_ready(city: City):
    b = await cut_in(city, "charge")
    city.shop.always["charge"] = GONE
    bank = Bank(configured=False, ready=False)
    one = recovery(b, bank)
    loop, asked = asyncio.create_task(one.run()), asyncio.create_task(one.once())
    await city.clock.sleep(60)
    assert city.shop.called == ["reserve", "charge"]
    del city.shop.always["charge"]
    bank.there.set()
    await asked
    assert (await b.sagas.show("o1"))["status"] == "COMPLETED"
    loop.cancel()


async def test_a_saga_waits_for_a_server_that_is_away_with_growing_pauses_and_goes_on_when_it_is_back(city: City):
    b = await cut_in(city, "charge")
    city.shop.always["charge"] = GONE
    one = recovery(b, Bank())
    loop = asyncio.create_task(one.run())
    await city.clock.sleep(60)
    shown = await b.sagas.show("o1")
    assert (shown["status"], shown.get("stuck")) == ("RUNNING", None)
    charge = shown["steps"][1]
    assert (charge["status"], charge["attempt"], charge["error"]["code"]) == ("STARTED", 1, "UpstreamUnavailable")
    tried = city.shop.called.count("charge") - 1
    assert 3 <= tried <= 8, "pauses of 1, 2, 4, 8, 16, 32 seconds, less some chance and more until it looks"
    assert "refund" not in city.shop.called
    (told,) = b.events("saga_waiting")
    assert (told["step"], told["reason"]) == ("charge", GONE.message)
    del city.shop.always["charge"]
    await city.clock.sleep(120)
    shown = await b.sagas.show("o1")
    assert shown["status"] == "COMPLETED"
    assert "error" not in shown["steps"][1]
    assert set(city.shop.balance().values()) == {1}
    loop.cancel()


async def test_a_step_that_was_begun_here_and_not_sent_is_begun_again_though_it_may_not_be_repeated(city: City):
    b = await cut_in(city, "charge", step("reserve"), step("charge", retry_safe=True), step("ship"))
    city.shop.always["ship"] = GONE
    one = recovery(b, Bank())
    assert await one.once() == 0
    ship = (await b.sagas.show("o1"))["steps"][2]
    assert (ship["status"], ship["attempt"]) == ("PENDING", 0)
    del city.shop.always["ship"]
    await city.clock.sleep(2)
    assert await one.once() == 1
    assert (await b.sagas.show("o1"))["status"] == "COMPLETED"
    assert city.shop.calls[-1].attempt == 1


async def test_a_server_that_does_not_come_back_is_not_waited_for_for_ever(city: City):
    b = await cut_in(city, "charge", max_recovery_attempts=4)
    city.shop.always["charge"] = GONE
    loop = asyncio.create_task(recovery(b, Bank()).run())
    await city.clock.sleep(60)
    shown = await b.sagas.show("o1")
    assert (shown["status"], shown["failed"]) == ("COMPENSATED", "charge")
    assert city.shop.called[-2:] == ["refund", "release"]
    loop.cancel()


@pytest.mark.parametrize(
    "failure",
    [
        UpstreamUnavailable("elsewhere", "it is not among the configured servers any more"),
        UpstreamUnavailable("bank", "gone after it was sent", sent=True),
        ToolFailed("charge", "no"),
    ],
)
async def test_a_step_that_failed_for_another_reason_is_not_waited_for(city: City, failure: WeftError):
    b = await cut_in(city, "charge")
    city.shop.always["charge"] = failure
    await recovery(b, Bank()).once()
    assert (await b.sagas.show("o1"))["status"] == "COMPENSATED"


async def test_retries_that_all_found_the_server_away_are_waited_for_too(city: City):
    retried = w.saga_step(
        "charge", w.retry(w.tool("charge"), 2), id="charge", compensate=w.tool("refund"), retry_safe=True
    )
    b = await cut_in(city, "charge", step("reserve"), retried)
    city.shop.always["charge"] = GONE
    one = recovery(b, Bank())
    assert await one.once() == 0
    del city.shop.always["charge"]
    await city.clock.sleep(2)
    assert await one.once() == 1
    assert (await b.sagas.show("o1"))["status"] == "COMPLETED"


async def test_after_the_pivot_a_saga_waits_instead_of_getting_stuck(city: City):
    b = await cut_in(city, "ship", step("reserve"), step("charge", pivot=True), step("ship"), step("mail"))
    city.shop.always["ship"] = GONE
    one = recovery(b, Bank())
    assert await one.once() == 0
    assert (await b.sagas.show("o1")).get("stuck") is None
    del city.shop.always["ship"]
    await city.clock.sleep(2)
    assert await one.once() == 1
    assert (await b.sagas.show("o1"))["status"] == "COMPLETED"


async def test_what_is_undone_waits_for_a_server_that_is_away_in_reverse_order(city: City):
    b = await cut_in(city, "ship", max_attempts=1)
    city.shop.always["refund"] = GONE
    city.shop.always["ship"] = ToolFailed("ship", "no")
    one = recovery(b, Bank())
    assert await one.once() == 0
    shown = await b.sagas.show("o1")
    assert (shown["status"], shown.get("stuck")) == ("COMPENSATING", None)
    assert [row["status"] for row in shown["steps"]] == ["DONE", "COMPENSATING", "FAILED", "PENDING"]
    assert "release" not in city.shop.called
    del city.shop.always["refund"]
    await city.clock.sleep(2)
    assert await one.once() == 1
    assert (await b.sagas.show("o1"))["status"] == "COMPENSATED"
    assert city.shop.called.count("release") == 1


async def test_a_server_that_has_never_told_what_its_tools_are_like_is_waited_for_before_a_step_is_given_up(city: City):
    b = await cut_in(city, "charge", *(step(tool) for tool in ("reserve", "charge")))
    bank = Bank(heard=False)
    one = recovery(b, bank)
    assert await one.once() == 0
    assert city.shop.called == ["reserve", "charge"]
    bank.heard = True
    city.shop.hints = {"charge": {"idempotentHint": True}}
    await city.clock.sleep(2)
    assert await one.once() == 1
    assert (await b.sagas.show("o1"))["status"] == "COMPLETED"


async def test_a_first_owner_does_not_wait(city: City):
    a = city.instance(order(*SAFE))
    city.shop.always["charge"] = GONE
    with pytest.raises(SagaFailed, match="Saga step 'charge' failed"):
        await a.call()


async def test_a_saga_is_finished_within_the_limits_of_now(city: City):
    b = await cut_in(city, "charge")
    city.shop.always["charge"] = Slow(50)
    now = Limits(timeout=60)
    one = recovery(b, Bank(), limits=lambda: now)
    now = Limits(timeout=20)
    await one.once()
    shown = await b.sagas.show("o1")
    assert (shown["status"], shown["failed"], shown["error"]["code"]) == ("COMPENSATED", "charge", "Timeout")

"""Sagas do their steps in order or undo them, and never lie about which (SEMANTICS 1.7, by number)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import weft as w
from tests.patterns.worlds import document, problems
from tests.saga.worlds import UNDO, Broken, Customer, Frail, Instance, Shop, Slow, order, shared_store, step
from weft.errors import (
    DeadlineExceeded,
    ExecutionFailed,
    SagaFailed,
    ToolFailed,
    UpstreamDied,
    UpstreamUnavailable,
)
from weft.patterns.saga import Saga
from weft.plan.compiler import check
from weft.ports import Principal
from weft.testing import FakeWorld, refusal
from weft.testing.clock import FakeClock

P = w.path({})
TOOLS = list(UNDO)
FIXTURE = Path(__file__).resolve().parents[1] / "fixtures" / "registry-pattern-saga.json"


@pytest.fixture
def shop() -> Shop:
    return Shop(FakeClock())


def instance(shop: Shop, op: Any = None) -> Instance:
    return Instance(shop, Frail(shared_store(shop.clock)), op or order())


async def failed(one: Instance, value: Any = None, **given: Any) -> SagaFailed:
    with pytest.raises(SagaFailed) as caught:
        await one.call(value, **given)
    return caught.value


def statuses(error: SagaFailed) -> dict[str, str]:
    return {one["id"]: one["status"] for one in error.saga["steps"]}


# Forward.


@pytest.mark.req("STA-39", "STA-42", "STA-46")
async def test_saga_01_steps_run_in_order_each_on_the_result_before_it_and_the_last_is_the_result(shop: Shop):
    one = instance(shop)
    result = await one.call({"id": "o1"})
    assert shop.called == TOOLS
    assert shop.calls[0].arguments == {"id": "o1"}
    assert shop.calls[1].arguments == {"did": "reserve", "for": {"id": "o1"}}
    assert result["did"] == "mail"
    assert await one.sagas.list() == []
    (row,) = await one.sagas.list(ended=True)
    assert (row["id"], row["status"], row["held"]) == ("o1", "COMPLETED", False)


@pytest.mark.req("STA-42", "STA-46")
async def test_saga_01_bindings_reach_the_input_and_every_earlier_step_and_output_says_what_is_returned(shop: Shop):
    steps = [
        step("reserve", input=w.from_input(P.id)),
        step("charge", input=w.construct(id=w.from_input(P.id), of=w.from_step("reserve", P.did))),
        step("ship", input=w.from_step("reserve")),
    ]
    one = instance(shop, order(*steps, output=w.construct(a=w.from_step("charge", P["for"].of), b=w.from_input(P.id))))
    assert await one.call() == {"a": "reserve", "b": "o1"}
    assert [seen.arguments for seen in shop.calls] == [
        "o1", {"id": "o1", "of": "reserve"}, {"did": "reserve", "for": "o1"},
    ]  # fmt: skip
    assert await one.call() == {"a": "reserve", "b": "o1"}, "what is replayed is the same"


async def test_each_step_has_one_key_of_its_own_and_so_has_what_undoes_it(shop: Shop):
    shop.does["mail"] = [ToolFailed("mail", "no")]
    await failed(instance(shop))
    keys = [seen.key for seen in shop.calls]
    assert len(set(keys)) == len(keys) == 7
    assert all(len(key) == 64 for key in keys)


async def test_the_key_of_a_step_may_be_one_of_its_arguments(shop: Shop):
    one = instance(shop, order(step("reserve", key_argument="key"), step("charge")))
    await one.call()
    key = shop.calls[0].arguments["key"]
    assert len(key) == 64
    other = instance(Shop(shop.clock), order(step("reserve", key_argument="key"), step("charge")))
    await other.call()
    assert other.shop.calls[0].arguments["key"] == key, "the same saga has the same key everywhere"


async def test_a_saga_of_four_steps_costs_five_commits(shop: Shop):
    one = instance(shop)
    await one.call()
    assert isinstance(one.store, Frail)
    assert one.store.commits == 5


# Back.


@pytest.mark.req("STA-41", "STA-47")
@pytest.mark.parametrize("at", range(4))
async def test_saga_02_a_step_that_fails_has_those_before_it_undone_in_reverse(shop: Shop, at: int):
    shop.does[TOOLS[at]] = [ToolFailed(TOOLS[at], "sold out")]
    one = instance(shop)
    error = await failed(one)
    assert shop.called == [*TOOLS[: at + 1], *(UNDO[tool] for tool in reversed(TOOLS[:at]))]
    reason = f"Tool '{TOOLS[at]}' failed: sold out"
    assert error.message == f"Saga step '{TOOLS[at]}' failed, compensation required: {reason}"
    assert (error.code, error.retryable, error.cause["code"]) == ("SagaStepFailed", "no", "ToolFailed")
    assert statuses(error) == {
        tool: "COMPENSATED" if n < at else "FAILED" if n == at else "PENDING" for n, tool in enumerate(TOOLS)
    }
    assert error.clean
    assert set(shop.balance().values()) == {0}


@pytest.mark.req("STA-40")
@pytest.mark.parametrize("at", range(4))
async def test_saga_02_a_step_of_unknown_outcome_is_undone_too_with_its_input(shop: Shop, at: int):
    tool = TOOLS[at]
    shop.does[tool] = [Broken(UpstreamDied(tool, "exit 1"))]
    error = await failed(instance(shop))
    assert shop.called == [*TOOLS[: at + 1], *(UNDO[one] for one in reversed(TOOLS[: at + 1]))]
    assert shop.calls[at + 1].arguments == shop.calls[at].arguments
    assert set(statuses(error).values()) <= {"COMPENSATED", "PENDING"}
    assert set(shop.balance().values()) == {0}


@pytest.mark.req("STA-40")
async def test_saga_03_a_compensation_gets_the_output_and_may_bind_all_that_is_known(shop: Shop):
    about = w.construct(
        order=w.from_input(P.id), was=w.from_previous(P.output.did), given=w.from_previous(P.input),
        outcome=w.from_previous(P.outcome), key=w.from_previous(P.idempotencyKey), acted=w.from_previous(P.actionKey),
    )  # fmt: skip
    steps = [step("reserve"), step("charge", key_argument="key", compensate_input=about), step("ship")]
    shop.does["ship"] = [ToolFailed("ship", "no")]
    await failed(instance(shop, order(*steps)))
    refund, release = shop.calls[3:]
    assert release.arguments == {"did": "reserve", "for": {"id": "o1"}}
    assert refund.arguments["order"] == "o1"
    assert refund.arguments["was"] == "charge"
    assert refund.arguments["outcome"] == "done"
    assert refund.arguments["given"] == {"did": "reserve", "for": {"id": "o1"}}
    assert refund.arguments["acted"] == shop.calls[1].arguments["key"] != refund.arguments["key"]


async def test_saga_03_a_compensation_is_told_that_the_outcome_is_unknown(shop: Shop):
    steps = [step("reserve", compensate_input=w.from_previous())]
    shop.does["reserve"] = [Broken(UpstreamDied("reserve", "gone"))]
    await failed(instance(shop, order(*steps)))
    told = shop.calls[1].arguments
    assert (told["outcome"], told["output"], told["input"]) == ("unknown", None, {"id": "o1"})


@pytest.mark.req("STA-47")
async def test_saga_04_a_step_without_compensation_is_skipped_and_reported(shop: Shop):
    one = instance(shop, order(step("reserve"), step("charge", compensate=None), step("ship")))
    shop.does["ship"] = [ToolFailed("ship", "no")]
    error = await failed(one)
    assert shop.called == ["reserve", "charge", "ship", "release"]
    (kept,) = [row for row in error.saga["steps"] if row.get("notCompensated")]
    assert (kept["id"], kept["status"]) == ("charge", "DONE")
    assert not error.clean
    assert "not undone: charge" in (error.hint or "")


async def test_saga_05_a_compensation_that_fails_once_is_tried_again_under_the_same_key(shop: Shop):
    shop.does |= {"ship": [ToolFailed("ship", "no")], "refund": [ToolFailed("refund", "busy")]}
    error = await failed(instance(shop))
    assert shop.called == ["reserve", "charge", "ship", "refund", "refund", "release"]
    first, second = (seen for seen in shop.calls if seen.tool == "refund")
    assert first.key == second.key
    assert (first.attempt, second.attempt) == (1, 2)
    assert error.clean


async def test_saga_06_a_compensation_that_fails_for_ever_does_not_stop_the_others_and_is_seen(shop: Shop):
    shop.does["mail"] = [ToolFailed("mail", "no")]
    shop.always["refund"] = ToolFailed("refund", "closed")
    one = instance(shop)
    error = await failed(one)
    assert shop.called == [*TOOLS, "recall", "refund", "refund", "refund", "release"]
    assert error.code == "SagaStuck"
    assert error.saga["status"] == "COMPENSATION_FAILED"
    assert statuses(error)["charge"] == "COMP_FAILED"
    assert not error.clean
    assert "could not undo 'charge'" in error.message
    (row,) = await one.sagas.list()
    assert (row["status"], row["failed"]) == ("COMPENSATION_FAILED", "mail")
    assert len(one.events("saga_stuck")) == 1
    assert await one.recovery.once() == 0, "only an operator goes on with it"


@pytest.mark.req("STA-45")
async def test_saga_07_a_timeout_in_a_step_leaves_it_unknown_and_undoes_it(shop: Shop):
    shop.does["charge"] = [Slow(100)]
    error = await failed(instance(shop, order(timeout=5)))
    assert shop.called == ["reserve", "charge", "refund", "release"]
    assert error.cause["code"] == "Timeout"
    assert set(shop.balance().values()) == {0}


async def test_saga_07_the_time_limit_of_a_step_leaves_it_unknown_too(shop: Shop):
    shop.does["charge"] = [Slow(100)]
    charge = w.saga_step("charge", w.timeout(w.tool("charge"), w.seconds(2)), id="charge", compensate=w.tool("refund"))
    await failed(instance(shop, order(step("reserve"), charge)))
    assert shop.called == ["reserve", "charge", "refund", "release"]


@pytest.mark.req("STA-45")
async def test_saga_17_the_timeout_ends_forward_work_and_gives_compensations_all_their_time(shop: Shop):
    shop.always |= {"reserve": Slow(3), "charge": Slow(3), "refund": Slow(30), "release": Slow(30)}
    one = instance(shop, order(timeout=5))
    error = await failed(one, timeout=600)
    assert shop.called == ["reserve", "charge", "refund", "release"]
    assert error.saga["status"] == "COMPENSATED"


async def test_saga_17_a_saga_whose_time_is_over_between_two_steps_begins_no_other(shop: Shop):
    def sleep(_: Any) -> None:
        shop.clock.time += 6

    shop.does["reserve"] = [sleep]
    error = await failed(instance(shop, order(timeout=5)))
    assert shop.called == ["reserve", "release"]
    assert error.message == (
        "Saga step 'charge' failed, compensation required: Saga timeout: it was not done after 5000ms"
    )


async def test_a_composite_action_that_fails_may_have_done_a_part_and_is_undone(shop: Shop):
    both = w.saga_step("both", w.pipeline(w.tool("charge"), w.tool("ship")), compensate=w.tool("refund"))
    shop.does["ship"] = [ToolFailed("ship", "no")]
    await failed(instance(shop, order(step("reserve"), both)))
    assert shop.called == ["reserve", "charge", "ship", "refund", "release"]


# The pivot.


async def test_saga_18_after_the_pivot_a_step_is_tried_until_it_is_done(shop: Shop):
    shop.does["ship"] = [ToolFailed("ship", "no"), UpstreamDied("ship", "gone")]
    one = instance(shop, order(step("reserve"), step("charge", pivot=True), step("ship"), step("mail")))
    assert (await one.call())["did"] == "mail"
    assert shop.called == ["reserve", "charge", "ship", "ship", "ship", "mail"]
    assert len({seen.key for seen in shop.calls if seen.tool == "ship"}) == 1


async def test_saga_18_after_the_pivot_nothing_is_undone_and_an_operator_can_go_on(shop: Shop):
    shop.always["ship"] = ToolFailed("ship", "closed")
    one = instance(shop, order(step("reserve"), step("charge", pivot=True), step("ship")))
    error = await failed(one)
    assert shop.called == ["reserve", "charge", "ship", "ship", "ship"]
    assert (error.code, error.saga["status"]) == ("SagaStuck", "FORWARD_ONLY")
    del shop.always["ship"]
    await one.sagas.retry("o1")
    assert await one.recovery.once() == 1
    assert (await one.sagas.show("o1"))["status"] == "COMPLETED"
    assert (await one.call())["did"] == "ship"


async def test_saga_18_before_the_pivot_a_failure_goes_back_and_the_timeout_counts_for_nothing_after_it(shop: Shop):
    shop.does["charge"] = [ToolFailed("charge", "no")]
    steps = [step("reserve"), step("charge", pivot=True), step("ship")]
    await failed(instance(shop, order(*steps)))
    assert shop.called == ["reserve", "charge", "release"]
    late = Shop(shop.clock, does={"ship": [Slow(30)]})
    assert (await instance(late, order(*steps, timeout=5)).call(timeout=600))["did"] == "ship"


async def test_a_pivot_that_may_have_been_done_is_undone_though_its_server_is_away_at_the_next_try(shop: Shop):
    gone = UpstreamUnavailable("bank", "refused")
    shop.does["charge"] = [Broken(UpstreamDied("bank", "gone")), gone, gone, gone]
    one = instance(shop, order(step("reserve"), step("charge", pivot=True, retry_safe=True), step("ship")))
    assert (await failed(one)).saga["status"] == "COMPENSATED"
    assert shop.balance()["charge"] == 0


async def test_a_pivot_of_unknown_outcome_that_nothing_undoes_is_stuck_rather_than_guessed(shop: Shop):
    shop.does["charge"] = [Broken(UpstreamDied("bank", "gone"))]
    one = instance(shop, order(step("reserve"), step("charge", pivot=True, compensate=None), step("ship")))
    error = await failed(one)
    assert shop.called == ["reserve", "charge"]
    assert error.code == "SagaStuck"
    await one.sagas.retry("o1")
    assert await one.recovery.once() == 1
    assert shop.called == ["reserve", "charge", "charge", "ship"]
    assert shop.balance() == {"reserve": 1, "charge": 1, "ship": 1, "mail": 0}


# The same id again.


@pytest.mark.req("STA-43")
async def test_saga_11_the_same_id_gives_what_the_saga_gave_and_does_nothing(shop: Shop):
    one = instance(shop)
    first = await one.call()
    assert await one.call() == first
    assert len(shop.calls) == 4
    shop.does["mail"] = [ToolFailed("mail", "no")]
    error = await failed(one, {"id": "o2"})
    again = await failed(one, {"id": "o2"})
    assert (again.message, again.saga, again.code) == (error.message, error.saga, error.code)
    assert len(shop.calls) == 4 + 7


@pytest.mark.req("STA-43")
async def test_saga_11_calls_of_the_same_id_at_once_run_it_once(shop: Shop):
    shop.always["charge"] = Slow(3)
    one = instance(shop)
    results = await asyncio.gather(*(one.call() for _ in range(20)))
    assert shop.called == TOOLS
    assert all(result == results[0] for result in results)
    assert len({id(result) for result in results}) == 20, "no two callers share a value"


async def test_saga_11_an_instance_that_did_not_begin_it_waits_for_it(shop: Shop):
    store = shared_store(shop.clock)
    a, b = Instance(shop, Frail(store), order()), Instance(shop, Frail(store), order())
    shop.always["charge"] = Slow(3)
    first, second = await asyncio.gather(a.call(), b.call())
    assert first == second
    assert shop.called == TOOLS


async def test_saga_11_a_caller_that_will_not_wait_is_told_that_it_runs(shop: Shop):
    shop.always["charge"] = Slow(3)
    one = instance(shop, order(on_duplicate="error"))
    first = asyncio.create_task(one.call())
    await shop.clock.sleep(1)
    with pytest.raises(ExecutionFailed, match="Saga 'o1' is in progress") as caught:
        await one.call()
    assert caught.value.code == "SagaInProgress"
    assert await one.call({"id": "o2"}) == (await one.call({"id": "o2"}))
    await first
    assert len(shop.calls) == 8


async def test_saga_11_the_same_id_with_another_input_is_refused_in_every_state(shop: Shop):
    shop.does["charge"] = [Slow(3)]
    one = instance(shop)
    first = asyncio.create_task(one.call({"id": "o1", "n": 1}))
    await shop.clock.sleep(1)
    for _ in range(2):
        with pytest.raises(ExecutionFailed, match="begun with another input") as caught:
            await one.call({"id": "o1", "n": 2})
        assert caught.value.code == "SagaIdReused"
        await first
    assert len(shop.calls) == 4


async def test_saga_11_two_callers_and_two_tenants_have_sagas_of_their_own(shop: Shop):
    one = instance(shop)
    for who in ("alice", "bob"):
        for tenant in ("acme", "evil"):
            await one.call(who=Principal(subject=who, tenant=tenant, method="key", strength="proven"))
    assert len(shop.calls) == 16
    assert len({seen.key for seen in shop.calls}) == 16
    shared = Shop(shop.clock)
    two = instance(shared, order(scope="tenant"))
    for who in ("alice", "bob"):
        await two.call(who=Principal(subject=who, tenant="acme", method="key", strength="proven"))
    assert len(shared.calls) == 4


@pytest.mark.parametrize("value", [{}, {"id": None}, {"id": ""}, {"id": ["a"]}, {"id": True}, {"id": 1.5}, "text"])
async def test_an_input_without_a_usable_id_begins_nothing(shop: Shop, value: Any):
    one = instance(shop)
    with pytest.raises(ExecutionFailed) as caught:
        await one.call(value)
    assert caught.value.code in ("KeyPathMissing", "SagaIdInvalid")
    assert shop.calls == []


async def test_without_an_id_every_call_is_a_saga_of_its_own_which_the_trace_names(shop: Shop):
    one = instance(shop, order(id=None))
    results = [await one.engine.run("order", {"n": 1}, caller=Customer()) for _ in range(2)]
    assert len(shop.calls) == 8
    notes = [result.trace.root.notes for result in results if result.trace is not None]
    assert len({note["saga"] for note in notes if note is not None}) == 2


async def test_saga_20_a_retry_around_a_saga_finds_the_saga_of_its_first_attempt(shop: Shop):
    shop.does["charge"] = [Slow(8)]
    again = w.retry(
        order(id=None), max_attempts=3, backoff=w.fixed(0.1), attempt_timeout=w.seconds(3), retry_unknown=True
    )
    one = instance(shop, again)
    assert (await one.call())["did"] == "mail"
    assert shop.called == TOOLS


async def test_saga_20_a_retry_around_a_saga_that_failed_does_not_run_it_again(shop: Shop):
    shop.does["mail"] = [ToolFailed("mail", "no")]
    one = instance(shop, w.retry(order(id=None), max_attempts=3, backoff=w.fixed(0.1)))
    with pytest.raises(SagaFailed):
        await one.call()
    assert len(shop.calls) == 7


async def test_saga_19_a_saga_in_a_saga_is_undone_by_what_the_outer_one_says(shop: Shop):
    inner = order(step("charge"), step("ship"), id=None)
    outer = order(w.saga_step("pay", inner, compensate=w.tool("refund")), step("mail"))
    shop.does["mail"] = [ToolFailed("mail", "no")]
    one = instance(shop, outer)
    await failed(one)
    assert shop.called == ["charge", "ship", "mail", "refund"]


async def test_saga_19_a_saga_in_a_saga_that_undid_itself_is_not_undone_again(shop: Shop):
    inner = order(step("charge"), step("ship"), id=None)
    outer = order(step("reserve"), w.saga_step("pay", inner, compensate=w.tool("unmail")))
    shop.does["ship"] = [ToolFailed("ship", "no")]
    await failed(instance(shop, outer))
    assert shop.called == ["reserve", "charge", "ship", "refund", "release"]


# Callers that go away.


@pytest.mark.parametrize("how", ["cancel", "deadline"])
async def test_saga_16_a_saga_goes_on_when_its_caller_goes_away(shop: Shop, how: str):
    shop.does["charge"] = [Slow(10)]
    one = instance(shop)
    call = asyncio.create_task(one.call(timeout=5 if how == "deadline" else None))
    if how == "cancel":
        await shop.clock.sleep(3)
        call.cancel()
    with pytest.raises(DeadlineExceeded if how == "deadline" else asyncio.CancelledError):
        await call
    await one.engine.close(drain=60)
    assert shop.called == TOOLS
    assert (await one.sagas.show("o1"))["status"] == "COMPLETED"


async def test_saga_16_or_turns_back_where_that_was_asked_for(shop: Shop):
    shop.does["charge"] = [Slow(10)]
    one = instance(shop, order(on_disconnect="compensate"))
    call = asyncio.create_task(one.call())
    await shop.clock.sleep(3)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await one.engine.close(drain=60)
    assert shop.called == ["reserve", "charge", "refund", "release"]
    shown = await one.sagas.show("o1")
    assert (shown["status"], shown["error"]["code"]) == ("COMPENSATED", "CallerLeft")


async def test_saga_16_as_long_as_one_caller_waits_nobody_has_gone_away(shop: Shop):
    shop.does["charge"] = [Slow(10)]
    one = instance(shop, order(on_disconnect="compensate"))
    first, second = asyncio.create_task(one.call()), asyncio.create_task(one.call())
    await shop.clock.sleep(3)
    first.cancel()
    assert (await second)["did"] == "mail"


async def test_saga_16_after_the_pivot_nobody_turns_back(shop: Shop):
    shop.does["ship"] = [Slow(10)]
    one = instance(shop, order(step("reserve"), step("charge", pivot=True), step("ship"), on_disconnect="compensate"))
    call = asyncio.create_task(one.call())
    await shop.clock.sleep(3)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await one.engine.close(drain=60)
    assert (await one.sagas.show("o1"))["status"] == "COMPLETED"


# What documents say.


@pytest.mark.req("REG-59")
def test_the_saga_of_the_registry_seed_loads_unchanged():
    spec = json.loads(FIXTURE.read_text(encoding="utf-8"))["spec"]
    saga = document(spec).tools[0].spec
    assert isinstance(saga, Saga)
    assert [(one.id, one.name) for one in saga.steps][1] == ("charge_payment", "Charge Payment")
    assert {"saga": saga.to_ir()} == spec


@pytest.mark.req("REG-59")
async def test_the_saga_of_the_registry_seed_runs():
    spec = json.loads(FIXTURE.read_text(encoding="utf-8"))["spec"]
    world = FakeWorld(tools={
        "inventory_reserve": 1, "payment_charge": 2, "shipping_create": refusal("no"),
        "payment_refund": None, "inventory_release": None,
    })  # fmt: skip
    with pytest.raises(SagaFailed):
        await world.run("it", {}, document=document(spec))
    assert [tool for tool, _ in world.calls][-2:] == ["payment_refund", "inventory_release"]


@pytest.mark.req("STA-39", "STA-54")
def test_the_builder_writes_ids_names_and_only_what_was_said():
    op = w.saga(
        w.saga_step("reserve", w.tool("a"), compensate=w.tool("b")),
        w.saga_step("charge", w.tool("c"), input=w.from_previous()),
        id=P.orderId, store="saga_state", timeout=w.minutes(5), output=w.from_step("saga_step_0"),
    )  # fmt: skip
    body: Any = op.to_ir()["saga"]
    assert body["steps"][0] == {
        "id": "saga_step_0", "name": "reserve", "action": {"tool": {"name": "a"}},
        "compensate": {"tool": {"name": "b"}},
    }  # fmt: skip
    assert {key: value for key, value in body.items() if key != "steps"} == {
        "store": "saga_state", "sagaIdPath": "$.orderId", "timeoutMs": 300000,
        "output": {"step": {"stepId": "saga_step_0", "path": "$"}},
    }  # fmt: skip


def test_a_step_has_an_id_or_a_name_and_the_other_follows():
    saga = document({"saga": {"steps": [{"name": "Pay now", "action": "a"}, {"id": "b", "action": "b"}]}}).tools[0].spec
    assert isinstance(saga, Saga)
    assert [(one.id, one.name) for one in saga.steps] == [("Pay now", "Pay now"), ("b", "b")]


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ({"steps": []}, "too_short", "/steps"),
        ({"steps": [{"action": "a"}]}, "MissingKey", "/steps/0"),
        ({"steps": [{"id": "a", "action": "a"}] * 2}, "DuplicateStep", "/steps/1/id"),
        ({"steps": [{"id": x, "action": "a", "pivot": True} for x in "ab"]}, "TwoPivots", "/steps/1/pivot"),
        (
            {"steps": [{"id": "a", "action": "a", "input": {"step": "b"}}, {"id": "b", "action": "a"}]},
            "UnknownStep",
            "/steps/0/input/step",
        ),
        ({"steps": [{"id": "a", "action": "a"}], "output": {"step": "c"}}, "UnknownStep", "/output/step"),
        ({"steps": [{"id": "a", "action": "a"}], "timeoutMs": 0}, "", "/timeoutMs"),
        ({"steps": [{"id": "a", "action": "a"}], "sagaIdPath": "id"}, "InvalidJsonPath", "/sagaIdPath"),
        (
            {"steps": [{"id": "a", "action": "a", "compensateInput": {"previous": "$"}}]},
            "NoCompensation",
            "/steps/0/compensateInput",
        ),
    ],
)
def test_saga_24_what_is_wrong_with_a_saga_is_told_with_its_place(body: dict[str, Any], code: str, pointer: str):
    found = problems({"saga": body})
    assert [problem.pointer for problem in found] == [f"/tools/0/spec/saga{pointer}"], found
    assert code in ("", "too_short") or found[0].code == code


def test_a_step_that_nothing_undoes_is_warned_of_unless_there_is_no_way_back():
    def warned(*steps: Any) -> list[str]:
        made = w.compile(w.composition("it", "It.", order(*steps))).document
        return [one.pointer or str(one.loc) for one in check(made) if one.code == "NotCompensated"]

    assert len(warned(step("reserve", compensate=None), step("charge"))) == 1
    assert warned(step("reserve"), step("charge", compensate=None)) == []
    assert warned(step("reserve"), step("charge", compensate=None, pivot=True), step("ship", compensate=None)) == []


async def test_a_result_too_large_for_the_record_is_undone_instead_of_forgotten(shop: Shop):
    one = instance(shop, order(step("reserve"), step("charge")))
    error = await failed(one, {"id": "o1", "text": "x" * 500_000})
    assert error.cause["code"] == "SagaRecordLimit"
    assert shop.called == ["reserve", "release"]


async def test_numbers_of_any_length_survive_the_journal(shop: Shop):
    one = instance(shop)
    n = 3**200
    assert (await one.call({"id": 7, "n": n}))["for"]["for"]["for"]["for"]["n"] == n
    assert (await one.call({"id": 7, "n": n}))["for"]["for"]["for"]["for"]["n"] == n

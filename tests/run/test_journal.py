"""What operators see of sagas, and what they can do about those that are stuck."""

from __future__ import annotations

from typing import Any

import pytest

import weft as w
from tests.saga.worlds import ALICE, Frail, Instance, Shop, order, shared_store, step
from weft.errors import ExecutionFailed, NotFound, SagaFailed, ToolFailed, UpstreamUnavailable
from weft.ports import Principal
from weft.run.journal import Sagas, volatile_sagas
from weft.testing.clock import FakeClock


async def stuck(*, ids: tuple[str, ...] = ("o1",)) -> Instance:
    """Return an instance whose refunds do not work, with sagas that needed one."""
    shop = Shop(FakeClock())
    shop.always |= {"ship": ToolFailed("ship", "no"), "refund": UpstreamUnavailable("bank", "closed")}
    one = Instance(shop, Frail(shared_store(shop.clock)), order(step("reserve"), step("charge"), step("ship")))
    for id in ids:
        with pytest.raises(SagaFailed):
            await one.call({"id": id})
    return one


async def test_list_has_a_line_of_each_saga_that_has_not_ended():
    one = await stuck(ids=("o1", "o2"))
    rows = await one.sagas.list()
    assert [row["id"] for row in rows] == ["o1", "o2"]
    assert {row["status"] for row in rows} == {"COMPENSATION_FAILED"}
    assert {row["stuck"] for row in rows} == {"could not undo 'charge'"}
    assert [row["tool"] for row in rows] == ["order", "order"]
    assert len({row["ref"] for row in rows}) == 2
    assert await one.sagas.list(tenant="other") == []


async def test_show_has_everything_and_takes_a_ref_or_an_id():
    one = await stuck()
    shown = await one.sagas.show("o1")
    assert shown == await one.sagas.show(shown["ref"])
    assert [(row["id"], row["status"]) for row in shown["steps"]] == [
        ("reserve", "COMPENSATED"), ("charge", "COMP_FAILED"), ("ship", "FAILED"),
    ]  # fmt: skip
    assert shown["steps"][0]["output"]["did"] == "reserve"
    assert shown["input"] == {"id": "o1"}
    assert shown["principal"] == ALICE.id
    with pytest.raises(NotFound):
        await one.sagas.show("o9")
    with pytest.raises(NotFound):
        await one.sagas.show("o1", tenant="other")


async def test_an_id_that_two_callers_have_must_be_told_apart_by_ref():
    one = await stuck()
    with pytest.raises(SagaFailed):
        await one.call(who=Principal(subject="bob", tenant="acme", method="key", strength="proven"))
    with pytest.raises(ExecutionFailed, match="several sagas have the id 'o1'"):
        await one.sagas.show("o1")
    for row in await one.sagas.list():
        assert (await one.sagas.show(row["ref"]))["id"] == "o1"


async def test_retry_undoes_what_could_not_be_undone_and_only_that():
    one = await stuck()
    del one.shop.always["refund"]
    made = len(one.shop.calls)
    assert (await one.sagas.retry("o1"))["status"] == "COMPENSATING"
    assert await one.recovery.once() == 1
    assert one.shop.called[made:] == ["refund"]
    assert (await one.sagas.show("o1"))["status"] == "COMPENSATED"
    assert set(one.shop.balance().values()) == {0}
    with pytest.raises(SagaFailed) as caught:
        await one.call()
    assert caught.value.clean


async def test_retry_that_does_not_help_is_stuck_again():
    one = await stuck()
    await one.sagas.retry("o1")
    await one.recovery.once()
    assert (await one.sagas.show("o1"))["stuck"] == "could not undo 'charge'"


async def test_abandon_ends_a_saga_and_says_so_to_whoever_asks():
    one = await stuck()
    shown = await one.sagas.abandon("o1", "refunded by hand")
    assert shown["status"] == "ABANDONED"
    assert await one.sagas.list() == []
    with pytest.raises(SagaFailed, match="was abandoned: refunded by hand") as caught:
        await one.call()
    assert caught.value.code == "SagaAbandoned"


@pytest.mark.parametrize("what", ["retry", "abandon"])
async def test_only_what_is_stuck_can_be_retried_or_abandoned(what: str):
    one = await stuck()
    one.shop.always.clear()
    await one.call({"id": "o2"})
    given: dict[str, Any] = {"reason": "why"} if what == "abandon" else {}
    with pytest.raises(ExecutionFailed, match="is COMPLETED and not stuck"):
        await getattr(one.sagas, what)("o2", **given)


async def test_two_operators_at_once_do_not_undo_each_others_work():
    one = await stuck()
    assert isinstance(one.store, Frail)
    raced: list[bool] = []

    class Slowly(Frail):
        async def batch(self, changes: Any) -> list[int] | None:
            if not raced:
                raced.append(True)
                await one.sagas.abandon("o1", "first")
            return await super().batch(changes)

    second = Sagas([Slowly(one.store.inner)], clock=one.clock)
    with pytest.raises(ExecutionFailed, match="changed by somebody else"):
        await second.retry("o1")
    assert (await one.sagas.show("o1"))["status"] == "ABANDONED"


async def test_a_record_stays_as_long_as_its_retention_and_no_longer():
    shop = Shop(FakeClock())
    one = Instance(shop, Frail(shared_store(shop.clock)), order(retention=60))
    await one.call()
    await shop.clock.sleep(59)
    assert len(await one.sagas.list(ended=True)) == 1
    await shop.clock.sleep(2)
    assert await one.sagas.list(ended=True) == []


@pytest.mark.parametrize(("allow", "severity"), [(False, "error"), (True, "warning")])
def test_a_store_that_forgets_is_an_error_unless_that_was_allowed(allow: bool, severity: str):
    store = shared_store(FakeClock())
    document = w.compile(w.composition("it", "It.", order(allow_volatile=allow))).document
    (problem,) = volatile_sagas(document, lambda name: store)
    assert (problem.code, problem.severity) == ("StoreNotDurable", severity)
    assert problem.loc == ("tools", 0, "spec", "saga", "store")
    assert list(volatile_sagas(document, lambda name: Frail(store))) == []

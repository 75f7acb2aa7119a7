"""What operators see of sagas, and what they can do about those that are stuck."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import weft as w
from tests.saga.worlds import ALICE, Frail, Instance, Shop, order, shared_store, step
from weft.errors import ExecutionFailed, NotFound, SagaFailed, ToolFailed
from weft.patterns.keys import KeySpace, hash_of_values
from weft.patterns.saga_record import HEADS, INDEX, OPEN, SPECS, ref_of
from weft.ports import Principal, Stored
from weft.run import journal
from weft.run.journal import Sagas, volatile_sagas
from weft.stores.memory import MemoryStore
from weft.stores.sqlite import SqliteStore
from weft.testing.clock import FakeClock


async def stuck(*, ids: tuple[str, ...] = ("o1",)) -> Instance:
    """Return an instance whose refunds do not work, with sagas that needed one."""
    shop = Shop(FakeClock())
    shop.always |= {"ship": ToolFailed("ship", "no"), "refund": ToolFailed("refund", "closed")}
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
    assert (shown["status"], shown["abandoned"]) == ("ABANDONED", "refunded by hand")
    assert shown["error"]["message"] == "Tool 'ship' failed: no", "why it failed is still there"
    assert await one.sagas.list() == []
    with pytest.raises(SagaFailed, match="was abandoned: refunded by hand") as caught:
        await one.call()
    assert caught.value.code == "SagaAbandoned"
    assert caught.value.cause["code"] == "ToolFailed"


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


def test_a_shared_store_that_is_not_said_to_be_durable_is_told_how_to_say_so(tmp_path: Path):
    document = w.compile(w.composition("it", "It.", order())).document
    (problem,) = volatile_sagas(document, lambda name: SqliteStore(tmp_path / "a.db", "s", synchronous="NORMAL"))
    assert problem.message == "store 's' is not said to keep its sagas over a crash of its server"
    assert problem.expected is not None
    assert problem.expected.startswith("`durable: true` in the store's settings")
    (problem,) = volatile_sagas(document, lambda name: MemoryStore("m"))
    assert "redis with `durable: true`" in (problem.expected or "")


class Watched(Frail):
    """A store that notes what is scanned, and how often a record is got."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.scanned: list[str] = []
        self.got: list[str] = []

    async def get(self, key: str) -> Stored | None:
        self.got.append(key)
        return await super().get(key)

    async def scan(self, prefix: str) -> AsyncIterator[tuple[str, Stored]]:
        self.scanned.append(prefix)
        async for one in super().scan(prefix):
            yield one


async def many_ended(count: int = 30) -> tuple[Instance, Watched]:
    shop = Shop(FakeClock())
    store = Watched(shared_store(shop.clock))
    one = Instance(shop, store, order(step("reserve"), step("charge")))
    for n in range(count):
        await one.call({"id": f"o{n}"})
    store.got.clear()
    store.scanned.clear()
    return one, store


async def test_a_saga_that_has_ended_is_found_by_id_and_ref_without_reading_the_others():
    one, store = await many_ended()
    shown = await one.sagas.show("o7")
    assert (await one.sagas.show(shown["ref"]))["id"] == "o7"
    assert HEADS not in store.scanned
    assert {key for key in store.got if key.startswith(HEADS)} == {shown_key(store, "o7")}


def shown_key(store: Watched, id: str) -> str:
    (key,) = {key for key in store.got if key.startswith(HEADS) and key.endswith(hash_of_values([id]))}
    return key


async def test_a_saga_that_an_older_weft_has_ended_is_found_too_and_the_others_are_not_read():
    one, store = await many_ended()
    for key in [key async for key, _ in store.inner.scan(INDEX)]:
        await store.inner.delete(key)
    shown = await one.sagas.show("o7")
    key = shown_key(store, "o7")
    assert {read for read in store.got if read.startswith(HEADS)} == {key}
    older = hashlib.sha256(key.encode()).hexdigest()[:12]
    assert await one.sagas.show(older) == await one.sagas.show(shown["ref"]) == shown


async def test_what_leads_to_a_saga_that_has_ended_goes_with_its_record():
    shop = Shop(FakeClock())
    one = Instance(shop, Frail(shared_store(shop.clock)), order(retention=60))
    await one.call()
    assert [key async for key, _ in one.store.scan(INDEX)]
    await shop.clock.sleep(61)
    assert [key async for key, _ in one.store.scan(INDEX)] == []


async def test_the_name_that_was_meant_is_looked_for_among_a_bounded_number(monkeypatch: pytest.MonkeyPatch):
    one, _ = await many_ended()
    with pytest.raises(NotFound) as caught:
        await one.sagas.show("o-7")
    assert caught.value.hint == "did you mean 'o7'?"
    monkeypatch.setattr(journal, "MOST_NAMES", 10)
    assert len(await one.sagas.names()) == 10


@pytest.mark.parametrize("what", [HEADS, OPEN])
@pytest.mark.parametrize(
    "value", [b"", b"{}", b"[]", b'"x"', b'{"head": 1}', b'{"head": {}, "status": "NEW"}', b"\xff"]
)
async def test_a_record_that_cannot_be_read_is_listed_with_the_reason_beside_the_others(what: str, value: bytes):
    one = await stuck(ids=("o1", "o2"))
    torn = (await one.sagas.show("o1"))["ref"]
    key = next(key for key in [key async for key, _ in one.store.scan(what)] if key.endswith(hash_of_values(["o1"])))
    await one.store.set(key, value)
    rows = {row["ref"]: row for row in await one.sagas.list()}
    assert rows[torn]["status"] == "UNREADABLE"
    assert rows[torn]["unreadable"]
    assert (rows[torn]["store"], rows[torn]["tenant"]) == ("sagas", "acme")
    assert [row["status"] for ref, row in rows.items() if ref != torn] == ["COMPENSATION_FAILED"]
    assert (rows[torn].get("id") == "o1") is (what == OPEN), "what can be read is shown"
    assert (await one.sagas.show("o1"))["unreadable"] == rows[torn]["unreadable"]
    assert len(await one.sagas.list(ended=True)) == 2
    for change in (one.sagas.retry("o1"), one.sagas.abandon("o1", "why")):
        with pytest.raises(ExecutionFailed, match="cannot be read") as caught:
            await change
        assert caught.value.code == "SagaUnreadable"
    assert (await one.sagas.abandon("o2", "why"))["status"] == "ABANDONED"


@pytest.mark.parametrize("what", [HEADS, SPECS])
async def test_recovery_tells_once_of_a_record_that_it_cannot_read_and_goes_on_with_the_others(what: str):
    one = await stuck(ids=("o1", "o2"))
    for id in ("o1", "o2"):
        await one.sagas.retry(id)
    one.shop.always.clear()
    keys = [key async for key, _ in one.store.scan(what)]
    await one.store.set(next((key for key in keys if key.endswith(hash_of_values(["o1"]))), keys[0]), b"{}")
    before = len(one.events("saga_stuck"))
    await one.recovery.once()
    await one.recovery.once()
    told = one.events("saga_stuck")[before:]
    assert all("cannot be read: '" in one["reason"] for one in told)
    # All sagas of one registry have the same spec.
    assert len(told) == (1 if what == HEADS else 2)
    assert ((await one.sagas.show("o2"))["status"] == "COMPENSATED") is (what == HEADS)


def test_sagas_of_one_id_have_refs_of_their_own_however_many_callers_there_are():
    space = KeySpace("saga", "order|x|y", "caller")
    keys = [space.key(Principal(subject=f"u{n}", tenant=f"t{n % 50}", method="key"), ["1"]) for n in range(20_000)]
    assert len({ref_of(key) for key in keys}) == len(keys)

"""The ids of sagas, records that cannot be read, and what documents and builders refuse."""

from __future__ import annotations

from typing import Any

import pytest

import weft as w
from tests.patterns.test_saga import instance, shop
from tests.saga.worlds import Shop, order, step
from weft.errors import ExecutionFailed, WeftError
from weft.patterns.saga_record import HEADS, OPEN
from weft.run.found import keys_of

__all__ = ["shop"]


@pytest.mark.req("STA-43")
async def test_a_number_and_its_text_are_two_sagas_and_operators_tell_them_apart_by_ref(shop: Shop):
    one = instance(shop)
    await one.call({"id": 17})
    assert (await one.sagas.show("17"))["id"] == "17", "a number is found as it is written"
    await one.call({"id": "17"})
    assert shop.called.count("reserve") == 2
    rows = await one.sagas.list(ended=True)
    assert [row["id"] for row in rows] == ["17", "17"]
    with pytest.raises(ExecutionFailed) as caught:
        await one.sagas.show("17")
    assert caught.value.code == "AmbiguousSaga"
    assert {(await one.sagas.show(row["ref"]))["input"]["id"] for row in rows} == {17, "17"}


@pytest.mark.parametrize("id", [-5, 0, 10**511, "007", "a" * 512])
async def test_any_number_and_any_text_of_some_length_is_found_by_operators(shop: Shop, id: Any):
    one = instance(shop)
    await one.call({"id": id})
    assert len(await keys_of(one.store, str(id))) == 1


@pytest.mark.parametrize(
    ("id", "told"),
    [
        ("", "not ''"),
        ("x" * 5000, "not one of 5000 characters"),
        (10**512, "not a longer one"),
        (1.5, "not a number"),
        (None, "not null"),
    ],
)
async def test_an_id_that_is_none_is_refused_with_the_rule(shop: Shop, id: Any, told: str):
    with pytest.raises(ExecutionFailed) as caught:
        await instance(shop).call({"id": id})
    assert caught.value.code == "SagaIdInvalid"
    rule = "the id of a saga is a text of 1 to 512 characters or a whole number of as many digits, "
    assert caught.value.message == rule + told


@pytest.mark.parametrize("junk", [b"junk", b"", b"{}", b"[]", b'{"v":99}', b"\xff\xfe\x00", b'{"head":{}}'])
@pytest.mark.parametrize("where", [HEADS, OPEN])
async def test_a_record_that_cannot_be_read_is_told_of_and_nothing_is_done(shop: Shop, junk: bytes, where: str):
    shop.always["ship"] = ExecutionFailed("no")
    shop.always["refund"] = ExecutionFailed("no")
    one = instance(shop)
    with pytest.raises(WeftError, match="stuck"):
        await one.call()
    (key,) = [key async for key, _ in one.store.scan(where)]
    await one.store.set(key, junk)
    before = list(shop.called)
    with pytest.raises(ExecutionFailed) as caught:
        await one.call()
    assert (caught.value.code, caught.value.retryable) == ("RecordUnreadable", "no")
    assert "saga 'o1' cannot be read" in caught.value.message
    assert "weft saga show" in (caught.value.hint or "")
    assert shop.called == before


@pytest.mark.parametrize("lease", [0.01, "900ms"])
def test_a_lease_that_nobody_could_renew_in_time_is_refused(lease: Any):
    for make in (lambda: order(lease=lease), lambda: w.idempotent(w.tool("a"), key="$.a", lease=lease)):
        with pytest.raises(WeftError) as caught:
            make()
        assert "LeaseTooShort" in str(caught.value)
        assert "expected at least 1 second" in str(caught.value)
    assert order(lease=1)


@pytest.mark.parametrize("given", [{"pivot": "no"}, {"retry_safe": 0}, {"pivot": 1}])
def test_what_is_no_boolean_does_not_become_one(given: dict[str, Any]):
    with pytest.raises(WeftError, match="should be a valid boolean"):
        order(step("reserve"), step("charge", **given))


def test_nor_does_the_word_that_a_store_may_forget():
    volatile: Any = "no"
    with pytest.raises(WeftError, match="should be a valid boolean"):
        order(allow_volatile=volatile)

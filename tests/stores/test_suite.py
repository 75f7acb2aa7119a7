"""What every store promises (SEMANTICS 1.9), on each of them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.stores.stores import Make, Place
from tests.waiting import until
from weft.errors import StoreError
from weft.ports import ABSENT, Delete, Put, Store
from weft.run.clock import MonotonicClock
from weft.stores.guarding import Guarded

pytestmark = pytest.mark.req("STA-2")

AWKWARD = [
    "",
    "a\x00b",
    "a",
    "a\x00",
    "ключ",
    "\U0001f9f5",
    "a*b",
    "a?b",
    "a[b]",
    "a\\b",
    "a%b",
    "a_b",
    "'; --",
    "\ud800",
]


async def all_of(store: Store, prefix: str = "") -> dict[str, bytes]:
    """Return what a scan yields, having checked that no key came twice."""
    listed = [(key, stored.value) async for key, stored in store.scan(prefix)]
    assert len(listed) == len(dict(listed))
    return dict(listed)


async def test_what_was_set_is_there_with_its_version_and_no_end(store: Store):
    version = await store.set("key", b"value")
    stored = await store.get("key")
    assert stored is not None
    assert (stored.value, stored.version, stored.ttl) == (b"value", version, None)
    assert version > 0
    assert await store.exists("key")


async def test_nothing_is_there_before_and_after(store: Store):
    assert await store.get("key") is None
    assert not await store.exists("key")
    assert not await store.delete("key")
    await store.set("key", b"")
    assert await store.delete("key")
    assert await store.get("key") is None
    assert not await store.delete("key")


async def test_put_if_absent_has_one_winner_of_two_hundred(make: Make, place: Place):
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(make(place))]
        if stores[0].shared:
            stores.append(await stack.enter_async_context(make(place)))
        tries = (stores[n % len(stores)].put_if_absent("lock", b"%d" % n, ttl=60) for n in range(200))
        versions = await asyncio.gather(*tries)
        (winner,) = [n for n, version in enumerate(versions) if version is not None]
        for one in stores:
            stored = await one.get("lock")
            assert stored is not None
            assert (stored.value, stored.version) == (b"%d" % winner, versions[winner])


async def test_no_update_is_lost_with_cas(make: Make, place: Place):
    async def add(store: Store) -> None:
        while True:
            stored = await store.get("n")
            assert stored is not None
            if await store.cas("n", b"%d" % (int(stored.value) + 1), stored.version) is not None:
                return

    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(make(place))]
        if stores[0].shared:
            stores.append(await stack.enter_async_context(make(place)))
        await stores[0].set("n", b"0")
        await asyncio.gather(*(add(stores[n % len(stores)]) for n in range(40)))
        stored = await stores[0].get("n")
        assert stored is not None
        assert stored.value == b"40"


async def test_cas_with_another_version_changes_nothing(store: Store):
    first = await store.set("key", b"1")
    second = await store.set("key", b"2")
    assert await store.cas("key", b"3", first) is None
    assert await store.cas("key", b"3", -1) is None
    assert await store.cas("none", b"3", first) is None
    stored = await store.get("key")
    assert stored is not None
    assert (stored.value, stored.version) == (b"2", second)
    assert await store.cas("key", b"3", second)
    assert await store.cas("key", b"4", ABSENT) is None
    assert await store.cas("other", b"4", ABSENT)


async def test_cas_sets_the_end_anew(store: Store):
    version = await store.set("key", b"1", ttl=60)
    assert await store.cas("key", b"2", version) is not None
    stored = await store.get("key")
    assert stored is not None
    assert stored.ttl is None


async def test_delete_if_of_another_version_does_nothing(store: Store):
    first = await store.set("key", b"1")
    second = await store.set("key", b"1")
    for wrong in (first, second + 1, 0, -1):
        assert not await store.delete_if("key", wrong)
    assert await store.exists("key")
    assert await store.delete_if("key", second)
    assert not await store.exists("key")
    assert not await store.delete_if("key", second)


async def test_no_version_of_a_key_comes_back(store: Store):
    seen: list[int] = []
    for _ in range(5):
        seen.append(await store.put_if_absent("key", b"5") or 0)
        seen.append(await store.cas("key", b"5", seen[-1]) or 0)
        seen.append(await store.set("key", b"5"))
        await store.incr("key")
        stored = await store.get("key")
        assert stored is not None
        seen.append(stored.version)
        batched = await store.batch([Put("key", b"6"), Put("other", b"6")])
        assert batched is not None
        seen.append(batched[0])
        assert await store.delete_if("key", seen[-1])
    assert len(set(seen)) == len(seen)
    assert all(version > 0 for version in seen)


async def test_incr_counts_every_one(make: Make, place: Place):
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(make(place))]
        if stores[0].shared:
            stores.append(await stack.enter_async_context(make(place)))
        counted = await asyncio.gather(*(stores[n % len(stores)].incr("n") for n in range(200)))
        assert sorted(counted) == list(range(1, 201))
        stored = await stores[0].get("n")
        assert stored is not None
        assert stored.value == b"200"


async def test_incr_goes_down_and_on_from_what_was_set(store: Store):
    await store.set("n", b"40")
    assert await store.incr("n", 2) == 42
    assert await store.incr("n", -43) == -1
    assert await store.incr("n", 1) == 0


async def test_incr_has_the_end_of_its_first_writing(store: Store):
    await store.incr("n", ttl=1000)
    await store.incr("n", ttl=5000)
    await store.incr("n")
    stored = await store.get("n")
    assert stored is not None
    assert stored.ttl is not None
    assert 900 < stored.ttl <= 1000
    await store.incr("for ever")
    await store.incr("for ever", ttl=1)
    stored = await store.get("for ever")
    assert stored is not None
    assert stored.ttl is None


@pytest.mark.parametrize("value", [b"", b"x", b"1.0", b" 1", b"01", b"\xff", b"1" * 30])
async def test_incr_of_what_is_no_number_is_refused(store: Store, value: bytes):
    version = await store.set("key", value)
    with pytest.raises(StoreError) as raised:
        await store.incr("key")
    assert (raised.value.code, raised.value.retryable) == ("NotANumber", "no")
    stored = await store.get("key")
    assert stored is not None
    assert (stored.value, stored.version) == (value, version)


async def test_incr_over_63_bits_is_refused(store: Store):
    await store.set("n", b"%d" % ((1 << 63) - 1))
    with pytest.raises(StoreError) as raised:
        await store.incr("n")
    assert (raised.value.code, raised.value.retryable) == ("NumberTooLarge", "no")
    assert await store.incr("n", -1) == (1 << 63) - 2


async def test_what_has_expired_is_not_there_for_anybody(store: Store):
    await store.set("set", b"1", ttl=0.02)
    await store.put_if_absent("put", b"1", ttl=0.02)
    await store.incr("n", 7, ttl=0.02)
    version = (await store.batch([Put("batch", b"1", ttl=0.02)]) or [0])[0]
    for key in ("set", "put", "n", "batch"):
        await until(lambda key=key: _gone(store, key))
        assert not await store.exists(key)
    assert await all_of(store) == {}
    assert await store.cas("batch", b"2", version) is None
    assert not await store.delete_if("batch", version)
    assert not await store.delete("set")
    assert await store.batch([Put("batch", b"2", when=version)]) is None
    assert await store.put_if_absent("put", b"2") is not None
    assert await store.incr("n") == 1
    assert await store.batch([Put("batch", b"2", when=ABSENT)]) is not None


async def _gone(store: Store, key: str) -> bool:
    return await store.get(key) is None


async def test_the_time_that_is_left_is_told_and_does_not_grow(store: Store):
    await store.set("key", b"1", ttl=100)
    first, second = await store.get("key"), await store.get("key")
    assert first is not None
    assert second is not None
    assert first.ttl is not None
    assert second.ttl is not None
    assert 0 < second.ttl <= first.ttl <= 100


@pytest.mark.parametrize("ttl", [0, -1.5, math.nan, math.inf])
async def test_a_lifetime_that_is_none_is_refused(store: Store, ttl: float):
    tries: list[Callable[[], Awaitable[object]]] = [
        lambda: store.set("key", b"1", ttl=ttl),
        lambda: store.put_if_absent("key", b"1", ttl=ttl),
        lambda: store.incr("key", ttl=ttl),
        lambda: store.batch([Put("other", b"1"), Put("key", b"1", ttl=ttl)]),
    ]
    for one in tries:
        with pytest.raises(StoreError) as raised:
            await one()
        assert (raised.value.code, raised.value.retryable) == ("InvalidTtl", "no")
    assert await all_of(store) == {}


async def test_the_shortest_lifetime_is_no_error(store: Store):
    await store.set("key", b"1", ttl=1e-9)
    await until(lambda: _gone(store, "key"))


async def test_awkward_keys_are_kept_apart(store: Store):
    for number, key in enumerate(AWKWARD):
        await store.set(key, b"%d" % number)
    for number, key in enumerate(AWKWARD):
        stored = await store.get(key)
        assert stored is not None
        assert stored.value == b"%d" % number
    assert await all_of(store) == {key: b"%d" % number for number, key in enumerate(AWKWARD)}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.binary(max_size=300), key=st.text(max_size=40))
async def test_any_bytes_come_back_as_they_were(store: Store, key: str, value: bytes):
    await store.set(key, value)
    stored = await store.get(key)
    assert stored is not None
    assert stored.value == value


async def test_a_value_over_the_limit_is_refused_and_changes_nothing(make: Make, place: Place):
    async with make(replace(place, max_value=100)) as store:
        version = await store.set("key", b"x" * 100)
        tries: list[Callable[[], Awaitable[object]]] = [
            lambda: store.set("key", b"x" * 101),
            lambda: store.put_if_absent("new", b"x" * 101),
            lambda: store.cas("key", b"x" * 101, version),
            lambda: store.batch([Put("new", b""), Put("key", b"x" * 101)]),
        ]
        for one in tries:
            with pytest.raises(StoreError) as raised:
                await one()
            assert (raised.value.code, raised.value.retryable) == ("ValueTooLarge", "no")
        assert await all_of(store) == {"key": b"x" * 100}


async def test_a_mebibyte_is_a_value(store: Store):
    value = bytes(range(256)) * 4096
    await store.set("key", value)
    stored = await store.get("key")
    assert stored is not None
    assert stored.value == value


async def test_a_key_over_the_limit_is_refused(store: Store):
    await store.set("k" * 2048, b"1")
    assert await store.exists("k" * 2048)
    for key in ("k" * 2049, "\U0001f9f5" * 513):
        with pytest.raises(StoreError) as raised:
            await store.set(key, b"1")
        assert (raised.value.code, raised.value.retryable) == ("InvalidKey", "no")


async def test_a_batch_is_made_wholly_or_not_at_all(store: Store):
    one, two = await store.set("one", b"1"), await store.set("two", b"2")
    before = await all_of(store)
    for wrong in (
        Put("three", b"!", when=9),
        Put("one", b"!", when=ABSENT),
        Delete("two", when=one),
        Delete("three", 5),
    ):
        assert await store.batch([Put("one", b"!"), Delete("two"), wrong]) is None
        assert await store.batch([wrong, Put("one", b"!"), Delete("two")]) is None
        assert await all_of(store) == before
    changes = [
        Put("one", b"11", when=one),
        Delete("two", when=two),
        Put("three", b"3", ttl=60, when=ABSENT),
        Delete("four"),
    ]
    versions = await store.batch(changes)
    assert versions is not None
    assert [version > 0 for version in versions] == [True, False, True, False]
    assert await all_of(store) == {"one": b"11", "three": b"3"}
    stored = await store.get("three")
    assert stored is not None
    assert (stored.version, stored.ttl is None) == (versions[2], False)
    assert await store.batch([]) == []


async def test_conditions_of_a_batch_are_about_what_was_there_before_it(store: Store):
    assert await store.batch([Put("key", b"1", when=ABSENT), Put("key", b"2", when=ABSENT)]) is not None
    assert await all_of(store) == {"key": b"2"}
    assert await store.batch([Delete("key"), Put("key", b"3", when=ABSENT)]) is None
    assert await store.batch([Put("key", b"3"), Delete("key")]) is not None
    assert await all_of(store) == {}


async def test_batches_at_the_same_time_do_not_mix(make: Make, place: Place):
    async def move(store: Store, n: int) -> bool:
        left, right = await store.get("left"), await store.get("right")
        assert left is not None
        assert right is not None
        changes = [Put("left", b"%d" % n, when=left.version), Put("right", b"%d" % n, when=right.version)]
        return await store.batch(changes) is not None

    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(make(place))]
        if stores[0].shared:
            stores.append(await stack.enter_async_context(make(place)))
        await stores[0].batch([Put("left", b"0"), Put("right", b"0")])
        for _ in range(5):
            moved = await asyncio.gather(*(move(stores[n % len(stores)], n) for n in range(20)))
            found = await all_of(stores[-1])
            assert any(moved)
            assert found["left"] == found["right"]


@pytest.mark.parametrize("prefix", ["a:", "a:b:", "a*", "a?", "a[b]", "a\\", "a%", "a_", "A", "", "é", "\x00", "a^"])
async def test_a_scan_yields_what_begins_with_its_prefix_and_nothing_else(store: Store, prefix: str):
    keys = ["a:1", "a:b:1", "a:b", "a*1", "ab1", "a?1", "a[b]1", "a\\1", "a%1", "axx", "a_1", "A1", "é1", "e1", "\x001"]
    for key in [*keys, prefix]:
        await store.set(key, key.encode())
    assert await all_of(store, prefix) == {key: key.encode() for key in [*keys, prefix] if key.startswith(prefix)}


async def test_a_scan_yields_each_of_many_once_while_others_write(store: Store):
    keys = {f"p:{number:04d}" for number in range(500)}
    async with asyncio.TaskGroup() as group:
        for key in keys:
            group.create_task(store.set(key, b"1"))
    seen: list[str] = []
    async for key, _ in store.scan("p:"):
        seen.append(key)
        if len(seen) % 50 == 0:
            await store.set(f"p:{len(seen):04d}", b"2")
            await store.set(f"q:{len(seen)}", b"1")
            await store.delete(f"q:{len(seen) - 50}")
    assert sorted(seen) == sorted(keys)


@pytest.mark.req("STA-3")
@pytest.mark.parametrize(
    "prefixes", [("a:", "a:b:"), ("", "a:"), ("a", "a|"), ("t*", "t1"), ("t?", "t["), ("a|", "a%7C")]
)
async def test_stores_with_different_prefixes_do_not_see_each_other(store: Store, prefixes: tuple[str, str]):
    one, two = (Guarded(store, clock=MonotonicClock(), timeout=20, prefix=prefix) for prefix in prefixes)
    keys = ["", "x", "b:x", "b:|x", "|x", "1", "|"]
    for key in keys:
        await one.set(key, b"one")
        assert await two.put_if_absent(key, b"two") is not None
        assert await one.incr(f"n{key}") == 1
        assert await two.incr(f"n{key}") == 1
    await two.batch([Delete("x"), Put("y", b"two")])
    assert {value for value in (await all_of(one)).values() if value != b"1"} == {b"one"}
    assert (await all_of(one)).keys() == {*keys, *(f"n{key}" for key in keys)}
    assert (await all_of(two)).keys() == {*keys, *(f"n{key}" for key in keys), "y"} - {"x"}


@pytest.mark.req("STA-3")
async def test_clearing_one_prefix_leaves_the_others_alone(store: Store):
    one, two = (Guarded(store, clock=MonotonicClock(), timeout=20, prefix=prefix) for prefix in ("t*", "t*1"))
    for key in ("a", "b", "1", "|"):
        await one.set(key, b"1")
        await two.set(key, b"2")
    for key in await all_of(one):
        assert await one.delete(key)
    assert await all_of(one) == {}
    assert await all_of(two) == dict.fromkeys(("a", "b", "1", "|"), b"2")


@pytest.mark.req("STA-3")
async def test_a_prefix_is_what_every_key_begins_with(store: Store):
    guarded = Guarded(store, clock=MonotonicClock(), timeout=20, prefix="weft:")
    await guarded.set("key", b"1")
    assert [key.startswith("weft:") for key in await all_of(store)] == [True]


async def test_it_is_there_after_a_restart_if_the_store_says_so(make: Make, place: Place):
    async with make(place) as store:
        version = await store.put_if_absent("key", b"1")
        assert version is not None
        await store.incr("n", ttl=1000)
    async with make(place) as store:
        stored = await store.get("key")
        if store.durable:
            assert stored is not None
            assert (stored.value, stored.version) == (b"1", version)
            assert await store.incr("n") == 2
            assert await store.set("key", b"2") != version
        if not store.shared:
            assert stored is None


async def test_another_process_sees_the_same_if_the_store_says_so(make: Make, place: Place):
    async with make(place) as one, make(place) as two:
        version = await one.set("key", b"1")
        assert await two.exists("key") is two.shared
        if two.shared:
            assert await two.cas("key", b"2", version) is not None
            assert await one.cas("key", b"3", version) is None


async def test_its_time_is_that_of_the_day_and_goes_on(store: Store):
    first = await store.now()
    assert abs(first - time.time()) < 3600
    assert await store.now() >= first


async def test_a_closed_store_can_be_opened_again(store: Store):
    await store.close()
    await store.open()
    await store.set("key", b"1")
    assert await store.exists("key")


async def test_an_operation_whose_caller_leaves_harms_nobody(store: Store):
    left = [asyncio.create_task(store.incr("n")) for _ in range(20)]
    await asyncio.sleep(0)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    assert await store.set("key", b"1") > 0
    stored = await store.get("key")
    assert stored is not None
    assert stored.value == b"1"

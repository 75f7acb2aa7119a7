"""The memory store: bounded, and honest about what it cannot keep."""

from __future__ import annotations

import pytest

from weft.errors import StoreError
from weft.ports import Delete, Put
from weft.stores.memory import MemoryStore
from weft.testing.clock import FakeClock


async def test_the_least_recently_used_of_what_was_plainly_set_makes_room():
    store = MemoryStore(max_entries=3)
    for key in ("a", "b", "c"):
        await store.set(key, b"1")
    await store.get("a")
    await store.set("b", b"2")
    await store.set("d", b"1")
    assert [await store.exists(key) for key in "abcd"] == [True, True, False, True]
    assert len(store) == 3


async def test_what_others_rely_on_is_kept_while_the_rest_makes_room():
    store = MemoryStore(max_entries=5)
    await store.put_if_absent("lease", b"1", ttl=60)
    await store.incr("count", ttl=60)
    await store.batch([Put("journal", b"1")])
    version = await store.set("record", b"1")
    await store.cas("record", b"2", version)
    for number in range(50):
        await store.set(f"cached {number}", b"1")
    assert [await store.exists(key) for key in ("lease", "count", "journal", "record")] == [True] * 4
    assert await store.exists("cached 49")
    assert len(store) == 5


async def test_a_record_that_is_plainly_overwritten_stays_a_record():
    store = MemoryStore(max_entries=2)
    await store.put_if_absent("record", b"begun")
    await store.set("record", b"done")
    for number in range(5):
        await store.set(f"cached {number}", b"1")
    stored = await store.get("record")
    assert stored is not None
    assert stored.value == b"done"


async def test_when_only_records_are_left_it_is_full_and_says_so():
    store = MemoryStore("mem", max_entries=2)
    await store.put_if_absent("a", b"1")
    await store.put_if_absent("b", b"1")
    for refuse in (
        lambda: store.put_if_absent("c", b"1"),
        lambda: store.set("c", b"1"),
        lambda: store.incr("c"),
        lambda: store.batch([Put("a", b"2"), Put("c", b"1")]),
    ):
        with pytest.raises(StoreError, match=r"'mem'.*full") as raised:
            await refuse()
        assert raised.value.code == "StoreFull"
    stored = await store.get("a")
    assert stored is not None
    assert stored.value == b"1"
    assert await store.set("a", b"2")
    assert await store.batch([Delete("b"), Put("c", b"1")])
    await store.delete("c")
    assert await store.put_if_absent("d", b"1")


async def test_a_batch_that_does_not_fit_drops_nothing():
    store = MemoryStore(max_entries=3)
    await store.put_if_absent("record", b"1")
    await store.set("cached", b"1")
    with pytest.raises(StoreError):
        await store.batch([Put(key, b"1") for key in "abc"])
    assert await store.exists("cached")


async def test_what_a_batch_writes_does_not_make_room_for_the_batch():
    store = MemoryStore(max_entries=2)
    await store.set("a", b"1")
    await store.set("b", b"1")
    await store.batch([Put("a", b"2"), Put("c", b"2")])
    assert len(store) == 2
    assert [await store.exists(key) for key in "abc"] == [True, False, True]


async def test_room_is_counted_in_bytes_too():
    store = MemoryStore(max_bytes=1000, max_value=900)
    await store.set("a", b"x" * 400)
    await store.set("b", b"x" * 400)
    await store.set("c", b"x" * 400)
    assert [await store.exists(key) for key in "abc"] == [False, True, True]
    await store.set("b", b"")
    await store.put_if_absent("d", b"x" * 590)
    assert [await store.exists(key) for key in "bcd"] == [True, True, True]
    with pytest.raises(StoreError):
        await store.put_if_absent("e", b"x" * 500)
    assert await store.exists("c")


async def test_records_that_have_expired_make_room():
    clock = FakeClock()
    store = MemoryStore(clock=clock, max_entries=50)
    for number in range(50):
        await store.put_if_absent(f"lease {number}", b"1", ttl=10)
    clock.time += 10
    await store.put_if_absent("new", b"1")
    assert len(store) < 50
    for number in range(49):
        await store.put_if_absent(f"more {number}", b"1")
    assert len(store) == 50


async def test_a_lease_that_is_renewed_over_and_over_takes_no_more_memory():
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    version = await store.put_if_absent("lease", b"1", ttl=10)
    for _ in range(1000):
        assert version is not None
        version = await store.cas("lease", b"1", version, ttl=10)
    assert len(store._ends) < 200  # pyright: ignore[reportPrivateUsage]
    clock.time += 9.9
    assert await store.exists("lease")
    clock.time += 0.1
    assert not await store.exists("lease")


async def test_it_goes_by_the_clock_that_it_is_given():
    clock = FakeClock(5000.0)
    store = MemoryStore(clock=clock)
    assert await store.now() == 5000.0
    await store.set("key", b"1", ttl=10)
    clock.time += 4
    stored = await store.get("key")
    assert stored is not None
    assert stored.ttl == 6.0
    clock.time += 6
    assert await store.get("key") is None
    assert len(store) == 0


async def test_it_says_that_it_is_neither_durable_nor_shared():
    store = MemoryStore()
    assert not store.durable
    assert not store.shared

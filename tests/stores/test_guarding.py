"""A guarded store: never late, not asked in vain while it is away, and one event for each outage (R2)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from weft.errors import StoreError
from weft.ports import Put, Stored
from weft.stores.guarding import Guarded
from weft.stores.links import Crowded
from weft.stores.memory import MemoryStore
from weft.testing.clock import FakeClock

TROUBLE = "Store 'faulty': trouble"


class Faulty(MemoryStore):
    """A store in memory that can hang, or raise."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__("faulty", clock=clock)
        self.clock = clock
        self.hangs = False
        self.says: str | None = None
        self.raises: StoreError | None = None
        self.asked = 0

    async def _trouble(self) -> None:
        self.asked += 1
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        if self.says is not None:
            raise StoreError("faulty", "trouble", code=self.says)
        if self.raises is not None:
            raise self.raises

    async def open(self) -> None:
        """Open, or not."""
        await self._trouble()

    async def get(self, key: str) -> Stored | None:
        """Read, or not."""
        await self._trouble()
        return await super().get(key)

    async def set(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        """Write, or not."""
        await self._trouble()
        return await super().set(key, value, ttl=ttl)

    async def scan(self, prefix: str) -> AsyncIterator[tuple[str, Stored]]:
        """Yield one, then whatever there is."""
        async for one in super().scan(prefix):
            yield one
            await self._trouble()


class Heard:
    """Signals that a test reads."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.counts: list[dict[str, str]] = []

    def count(self, name: str, **labels: str) -> None:
        """Keep a count."""
        self.counts.append(labels)

    def event(self, name: str, **facts: Any) -> None:
        """Keep an event."""
        self.events.append((name, facts))


class World:
    """A faulty store, guarded, in a time that moves by itself."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.faulty = Faulty(self.clock)
        self.heard = Heard()
        self.store = Guarded(self.faulty, clock=self.clock, timeout=0.25, signals=self.heard)

    async def fail(self, times: int = 1) -> StoreError:
        """Read in vain."""
        error = None
        for _ in range(times):
            with pytest.raises(StoreError) as raised:
                await self.store.get("key")
            error = raised.value
        assert error is not None
        return error


@pytest.fixture
def world() -> World:
    """Return a world in which nothing is wrong yet."""
    return World()


async def test_a_reading_that_takes_too_long_ends_with_its_time_limit(world: World):
    world.faulty.hangs = True
    error = await world.fail()
    assert world.clock.time == pytest.approx(1000.25)
    assert (error.code, error.retryable, error.store) == ("StoreUnavailable", "yes", "faulty")
    assert "0.25 s" in error.message


async def test_a_writing_that_takes_too_long_may_have_been_done(world: World):
    world.faulty.hangs = True
    with pytest.raises(StoreError) as raised:
        await world.store.set("key", b"1")
    assert raised.value.retryable == "unknown-outcome"


async def test_each_step_of_a_scan_has_the_time_limit(world: World):
    for key in "abc":
        await world.store.set(key, b"1")
    seen: list[str] = []

    async def scan() -> None:
        async for key, _ in world.store.scan(""):
            seen.append(key)
            world.faulty.hangs = len(seen) == 2
            await world.clock.sleep(10)

    with pytest.raises(StoreError):
        await scan()
    assert seen == ["a", "b"]


async def test_r2_after_three_failures_in_a_row_the_store_is_not_asked(world: World):
    world.faulty.hangs = True
    await world.fail(3)
    began, asked = world.clock.time, world.faulty.asked
    error = await world.fail(1000)
    assert (world.clock.time, world.faulty.asked) == (began, asked)
    assert (error.code, error.retryable) == ("StoreUnavailable", "yes")
    assert error.retry_after == pytest.approx(0.1)


async def test_r2_an_outage_costs_one_probe_a_second(world: World):
    world.faulty.hangs = True
    await world.fail(3)
    asked: list[float] = []
    for _ in range(100):
        before = world.faulty.asked
        await asyncio.gather(*(world.fail() for _ in range(10)))
        asked += [world.clock.time] * (world.faulty.asked - before)
        world.clock.time += 0.1
    apart = [after - before for before, after in itertools.pairwise(asked)]
    assert all(pause >= 1.0 for pause in apart[4:])
    assert 7 <= len(asked) <= 13


async def test_r2_the_store_is_back_with_the_first_probe_that_succeeds(world: World):
    world.faulty.says = "StoreUnavailable"
    await world.fail(3)
    world.faulty.says = None
    await world.fail(2)
    world.clock.time += 0.1
    assert await world.store.get("key") is None
    assert await world.store.set("key", b"1") > 0
    assert [name for name, _ in world.heard.events] == ["store_away", "store_back"]
    assert world.heard.events[1][1] == {"store": "faulty", "seconds": 0.1, "refused": 2}


async def test_r2_one_probe_at_a_time(world: World):
    world.faulty.hangs = True
    await world.fail(3)
    world.clock.time += 1
    asked = world.faulty.asked
    told = await asyncio.gather(*(world.store.get("key") for _ in range(50)), return_exceptions=True)
    assert all(isinstance(one, StoreError) for one in told)
    assert world.faulty.asked == asked + 1


async def test_r2_a_probe_whose_caller_leaves_lets_the_next_one_try(world: World):
    world.faulty.hangs = True
    await world.fail(3)
    world.clock.time += 1
    with world.clock.held():
        probe = asyncio.create_task(world.store.get("key"))
        await asyncio.sleep(0)
        probe.cancel()
        await asyncio.wait([probe])
    world.faulty.hangs = False
    world.clock.time += 1
    assert await world.store.get("key") is None


async def test_r2_one_event_for_an_outage_however_many_calls(world: World):
    for _ in range(3):
        world.faulty.hangs = True
        await asyncio.gather(*(world.fail(5) for _ in range(20)))
        world.faulty.hangs = False
        world.clock.time += 1
        await world.store.get("key")
    assert [name for name, _ in world.heard.events] == ["store_away", "store_back"] * 3
    assert {labels["code"] for labels in world.heard.counts} == {"StoreUnavailable"}


async def test_failures_between_successes_are_no_outage(world: World):
    for _ in range(10):
        world.faulty.says = "StoreBusy"
        await world.fail(2)
        world.faulty.says = None
        await world.store.get("key")
    assert world.heard.events == []


@pytest.mark.parametrize("code", ["StoreFull", "StoreReadOnly", "StoreCorrupt", "StoreAuth"])
async def test_a_store_that_answers_with_a_refusal_is_failing_and_not_away(world: World, code: str):
    world.faulty.says = code
    assert (await world.fail(10)).code == code
    assert world.faulty.asked == 10
    assert world.heard.events == [("store_failing", {"store": "faulty", "code": code, "reason": TROUBLE})]
    assert (world.store.away, world.store.failing) == (False, TROUBLE)


@pytest.mark.parametrize("code", ["ValueTooLarge", "NotANumber", "InvalidKey", "InvalidTtl"])
async def test_what_a_store_does_not_take_says_nothing_about_it(world: World, code: str):
    world.faulty.says = code
    await world.fail(10)
    assert (world.heard.events, world.store.away, world.store.failing) == ([], False, None)
    world.faulty.says = "StoreUnavailable"
    await world.fail(3)
    world.clock.time += 1
    world.faulty.says = code
    await world.fail()
    assert world.store.away
    assert [name for name, _ in world.heard.events] == ["store_away"]


async def test_a_store_that_keeps_nothing_is_failing_until_it_keeps_something_however_well_it_reads(world: World):
    for _ in range(3):
        world.faulty.says = "StoreFull"
        with pytest.raises(StoreError):
            await world.store.set("key", b"1")
        world.faulty.says = None
        await world.store.get("key")
        await world.store.delete("key")
    assert world.store.failing == TROUBLE
    assert await world.store.put_if_absent("other", b"1")
    assert world.store.failing is None
    assert [name for name, _ in world.heard.events] == ["store_failing", "store_working"]


async def test_a_condition_that_does_not_hold_does_not_show_that_a_store_keeps_things(world: World):
    version = await world.store.set("key", b"1")
    world.faulty.says = "StoreFull"
    for _ in range(3):
        with pytest.raises(StoreError):
            await world.store.set("key", b"2")
    assert await world.store.put_if_absent("key", b"2") is None
    assert world.store.failing == TROUBLE
    assert await world.store.cas("key", b"2", version)
    assert world.store.failing is None


async def test_writings_that_fail_between_readings_that_succeed_are_told_too(world: World):
    for _ in range(3):
        world.faulty.says = "StoreUnavailable"
        with pytest.raises(StoreError):
            await world.store.set("key", b"1")
        world.faulty.says = None
        await world.store.get("key")
    assert world.store.failing == TROUBLE


async def test_a_store_that_is_read_well_and_keeps_nothing_is_told_of_once_and_an_outage_of_it_as_any_other(
    world: World,
):
    async def keep_in_vain() -> None:
        world.faulty.says = "StoreUnavailable"
        for _ in range(4):
            with pytest.raises(StoreError):
                await world.store.set("key", b"1")
        world.faulty.says = None

    for _ in range(20):
        await keep_in_vain()
        world.clock.time += 1
        await world.store.get("key")
    assert [name for name, _ in world.heard.events] == ["store_away", "store_back", "store_failing"]
    world.faulty.hangs = True
    await world.fail(3)
    assert world.store.away
    assert [name for name, _ in world.heard.events][3:] == ["store_away"]


async def test_a_store_that_cannot_be_opened_for_good_is_failing_at_once(world: World):
    world.faulty.says = "StoreCorrupt"
    with pytest.raises(StoreError):
        await world.store.open()
    assert world.store.failing == TROUBLE
    world.faulty.says = None
    await world.store.get("key")
    assert world.store.failing is None


async def test_the_clock_of_a_store_ends_no_outage_and_takes_no_probe(world: World):
    world.faulty.says = "StoreUnavailable"
    await world.fail(3)
    with pytest.raises(StoreError):
        await world.store.now()
    world.clock.time += 1
    assert await world.store.now() == world.clock.time
    assert world.store.away
    world.faulty.says = None
    assert await world.store.get("key") is None
    assert [name for name, _ in world.heard.events] == ["store_away", "store_back"]


async def test_one_outage_is_told_once_though_the_time_is_asked_in_between(world: World):
    world.faulty.says = "StoreUnavailable"
    for _ in range(20):
        await world.fail(4)
        with contextlib.suppress(StoreError):
            await world.store.now()
        world.clock.time += 1
    assert [name for name, _ in world.heard.events] == ["store_away"]


async def test_too_many_who_wait_for_a_connection_are_no_outage(world: World):
    world.faulty.raises = Crowded("faulty", 0.125)
    error = await world.fail(10)
    assert (error.code, error.retryable) == ("StoreBusy", "yes")
    assert (world.heard.events, world.store.away, world.store.failing) == ([], False, None)


async def test_r1_a_store_that_cannot_be_opened_is_away_and_comes_back(world: World):
    world.faulty.says = "StoreUnavailable"
    with pytest.raises(StoreError):
        await world.store.open()
    asked = world.faulty.asked
    await world.fail(5)
    assert world.faulty.asked == asked
    world.faulty.says = None
    world.clock.time += 0.1
    assert await world.store.get("key") is None
    assert [name for name, _ in world.heard.events] == ["store_away", "store_back"]


async def test_whoever_leaves_says_nothing_about_the_store(world: World):
    world.faulty.hangs = True
    for _ in range(5):
        task = asyncio.create_task(world.store.get("key"))
        with world.clock.held():
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        assert task.cancelled()
    assert world.heard.counts == []


async def test_it_is_what_it_guards_in_every_other_way(world: World):
    store = Guarded(world.faulty, clock=world.clock, timeout=None, prefix="p")
    assert (store.name, store.durable, store.shared) == ("faulty", False, False)
    version = await store.put_if_absent("a", b"1", ttl=10)
    assert version is not None
    assert await store.cas("a", b"2", version) is not None
    assert await store.incr("n", 2) == 2
    assert await store.batch([Put("b", b"1")]) is not None
    assert [key async for key, _ in store.scan("")] == ["a", "n", "b"]
    assert await store.now() == world.clock.time
    assert await store.exists("b")
    assert await store.delete("b")
    assert not await store.delete_if("a", version)
    assert [key async for key, _ in world.faulty.scan("")] == ["p|a", "p|n"]
    await store.close()
    assert len(world.faulty) == 0

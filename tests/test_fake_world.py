"""What a fake world gives to patterns that remember: stores, chance and somebody who hears them."""

from __future__ import annotations

import weft as w
from weft.stores.memory import MemoryStore
from weft.testing import FakeWorld


async def test_a_store_is_made_when_it_is_first_named_and_stays():
    world = FakeWorld()
    assert await world.store("a").set("key", b"1", ttl=5) > 0
    assert world.store("a") is world.store("a")
    assert world.store("a") is not world.store("b")
    assert world.store() is world.store("default")
    assert (await world.store("a").get("key")) is not None
    world.clock.time += 5
    assert await world.store("a").get("key") is None


async def test_a_store_that_is_given_is_the_one():
    given = MemoryStore("mine")
    assert FakeWorld(stores={"mine": given}).store("mine") is given


async def test_the_chance_of_patterns_follows_the_seed_and_is_not_that_of_failing_tools():
    first, same, other = (FakeWorld(seed=seed, chance={"a": 0.5}) for seed in (1, 1, 2))
    assert first.rng.random() == same.rng.random() != other.rng.random()


async def test_signals_are_counted_by_name_and_by_label_and_events_kept_in_order():
    world = FakeWorld()
    world.signals.count("retries", outcome="again", tool="a")
    world.signals.count("retries", outcome="again", tool="b")
    world.signals.event("opened", circuit="x")
    world.signals.event("closed", circuit="x")
    assert world.signals.counts["retries"] == 2
    assert world.signals.counts["retries{outcome=again,tool=a}"] == 1
    assert world.signals.events == [("opened", {"circuit": "x"}), ("closed", {"circuit": "x"})]
    assert world.signals.named("closed") == [{"circuit": "x"}]


async def test_what_patterns_keep_stays_from_run_to_run_of_one_world():
    op = w.throttle(w.tool("a"), 1, w.seconds(5))
    world = FakeWorld(tools={"a": 1})
    await world.run(op)
    await world.run(op)
    assert world.pauses == [5]
    other = FakeWorld(tools={"a": 1})
    await other.run(op)
    assert other.pauses == []

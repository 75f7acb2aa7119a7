"""What a cache keeps, for how long, and who loads it anew."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import weft as w
from tests.patterns.caches import SEARCH, P, Q, cached, passes, served, world_of
from tests.patterns.gateways import caller, gateway
from tests.patterns.stepped import Gate, SteppedClock, settle
from weft.patterns.keys import KeySpace
from weft.ports import ANONYMOUS, Invoke, ToolRef
from weft.run.limits import Limits
from weft.testing import FakeWorld, Late


async def test_keys_carry_the_place_so_that_two_caches_in_one_composition_do_not_mix():
    world = FakeWorld(tools={"a": "A", "b": "B"})
    one, two = (w.cache(w.tool(name), key="$", ttl=60) for name in ("a", "b"))
    both = w.scatter_gather(one, two, aggregate=[w.keep_lists()])
    first = await world.run(both, 1)
    assert first == await world.run(both, 1)
    assert len(world.calls) == 2
    space = KeySpace("cache", "it|x|y")
    assert space.key(ANONYMOUS, [1]) != KeySpace("cache", "it|x|z").key(ANONYMOUS, [1])


async def test_what_is_too_large_is_given_and_not_stored():
    world = world_of("x" * 100)
    engine = gateway(world, cached(max_entry_bytes=50))
    assert [await served(engine) for _ in range(2)] == [("x" * 100, "miss")] * 2
    assert world.signals.counts["cache_not_stored{cache=it,reason=too large}"] == 2


async def test_refresh_ahead_loads_before_the_result_is_stale():
    gate = Gate()
    world = world_of(gate)
    engine = gateway(world, cached(refresh_ahead=10))
    task = asyncio.create_task(engine.execute("it", Q))
    await settle()
    await gate.open("old")
    await task
    await passes(world, 49)
    assert await served(engine) == ("old", "hit")
    await settle()
    assert gate.calls == 1
    await passes(world, 1)
    assert [await served(engine) for _ in range(3)] == [("old", "hit")] * 3
    await settle()
    assert gate.calls == 2
    await gate.open("new")
    await passes(world, 59)
    assert await served(engine) == ("new", "hit")


async def test_jitter_spreads_the_ends_of_entries_around_their_ttl():
    world = world_of("x")
    engine = gateway(world, cached(ttl_jitter=0.1))
    for n in range(50):
        await served(engine, {"q": n})
    left = [stored.ttl or 0 async for _, stored in world.store().scan("")]
    assert len(set(left)) > 40
    assert all(54 <= one <= 66 for one in left)


async def test_a_refresh_is_made_for_the_caller_who_found_the_result_stale():
    seen: list[Any] = []

    class Noting:
        def bind(self, ref: ToolRef) -> Invoke:
            async def invoke(arguments: Any, call: Any) -> Any:
                seen.append((call.root.context.principal.subject, call.deadline - call.root.clock.now()))
                return 1

            return invoke

        def describe(self, ref: ToolRef) -> None:
            return None

        def names(self) -> list[str]:
            return ["search"]

    world = FakeWorld(clock=SteppedClock(), limits=Limits(timeout=60))
    op = cached(scope="public", stale_while_revalidate=30)
    engine = world.engine(w.compile(w.composition("it", "It.", op)).document, Noting())
    await engine.run("it", Q, caller=caller("ann"))
    await passes(world, 61)
    await engine.run("it", Q, caller=caller("bob"), timeout=1)
    await settle()
    assert seen == [("ann", 60), ("bob", 60)]


async def test_a_refresh_that_made_room_for_other_work_is_made_by_the_next_reader():
    gate = Gate()
    world = world_of(gate, limits=Limits(background=1))
    engine = gateway(world, cached(stale_while_revalidate=30))
    for n in range(2):
        task = asyncio.create_task(engine.execute("it", {"q": n}))
        await settle()
        await gate.open("old")
        await task
    await passes(world, 61)
    await asyncio.gather(*(engine.execute("it", {"q": n}) for n in range(2)))
    await settle()
    assert gate.given == [{"q": 1}]
    assert await served(engine, {"q": 0}) == ("old", "stale")
    await settle()
    assert gate.given == [{"q": 0}]


async def test_a_refresh_takes_no_longer_than_a_call_may():
    gate = Gate()
    world = world_of(gate, limits=Limits(timeout=20))
    engine = gateway(world, cached(stale_while_revalidate=1000))
    task = asyncio.create_task(engine.execute("it", Q))
    await settle()
    await gate.open("old")
    await task
    await passes(world, 61)
    assert await served(engine) == ("old", "stale")
    await passes(world, 21)
    assert gate.waiting == 0
    assert await served(engine) == ("old", "stale")
    await settle()
    assert gate.calls == 3


@pytest.mark.req("STA-57")
async def test_patterns_nest_freely():
    world = FakeWorld(tools={"search": [Late("found", 5)]})
    op = w.cache(w.timeout(w.retry(SEARCH, 2, backoff=w.fixed(1)), w.seconds(50)), key=P.q, ttl=60)
    assert [await world.run(op, Q) for _ in range(2)] == ["found"] * 2

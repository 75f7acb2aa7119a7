"""Results are given again while they are fresh (SEMANTICS 1.2, by number)."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

import weft as w
from tests.patterns.caches import SEARCH, P, Q, cached, counting, passes, served, then, world_of
from tests.patterns.gateways import FaultyStore, caller, cancelled, gateway, outcome
from tests.patterns.stepped import Gate, SharedStore, SteppedClock, notes, settle
from weft.errors import (
    CircuitOpen,
    ExecutionFailed,
    InputError,
    RetriesExhausted,
    ToolFailed,
    UpstreamAuth,
    UpstreamUnavailable,
    WeftError,
)
from weft.stores.memory import MemoryStore
from weft.testing import FakeClock, FakeWorld, down, in_turn, refusal


@pytest.mark.req("STA-10", "STA-11", "STA-14")
async def test_cache_01_within_its_ttl_a_result_is_given_again_without_a_call():
    world = world_of(counting())
    engine = gateway(world, w.cache(SEARCH, key=[P.q, P.page.size], ttl=w.minutes(1)))
    given = {"q": "cats", "page": {"size": 5}, "trace": 1}
    assert await served(engine, given) == ({"n": 1}, "miss")
    await passes(world, 59.9)
    assert await served(engine, {**given, "trace": 2}) == ({"n": 1}, "hit")
    assert await served(engine, {**given, "page": {"size": 6}}) == ({"n": 2}, "miss")
    assert len(world.calls) == 2


@pytest.mark.req("STA-11", "STA-12")
async def test_cache_02_at_its_ttl_a_result_is_stale():
    world = world_of(counting())
    plain, lenient = gateway(world, cached()), gateway(world, cached(stale_while_revalidate=10))
    assert (await served(plain), await served(lenient)) == (({"n": 1}, "miss"), ({"n": 2}, "miss"))
    await passes(world, 60)
    assert await served(plain) == ({"n": 3}, "miss")
    assert await served(lenient) == ({"n": 2}, "stale")


@pytest.mark.parametrize("ttl", [0.1, 0.3, 1.7, 86_400.1])
async def test_cache_02_the_boundary_holds_for_seconds_that_binary_numbers_cannot_write(ttl: float):
    world = world_of(counting())
    engine = gateway(world, w.cache(SEARCH, key=P.q, ttl=ttl, stale_while_revalidate=1.1))
    await served(engine)
    await passes(world, ttl)
    assert (await served(engine))[1] == "stale"


@pytest.mark.req("STA-12")
async def test_cache_03_a_stale_result_is_given_at_once_and_one_refresh_runs_for_all_readers():
    gate = Gate()
    world = world_of(gate)
    engine = gateway(world, cached(stale_while_revalidate=30))
    first = asyncio.create_task(engine.execute("it", Q))
    await settle()
    await gate.open("old")
    assert await first == "old"
    await passes(world, 61)
    # None of them waits: the tool does not answer until afterwards.
    assert await asyncio.gather(*(engine.execute("it", Q) for _ in range(200))) == ["old"] * 200
    await settle()
    assert (gate.calls, gate.most) == (2, 1)
    await gate.open("new")
    assert await served(engine) == ("new", "hit")
    assert gate.calls == 2


async def test_cache_04_across_two_processes_one_refresh_runs():
    gate, clock = Gate(), SteppedClock()
    store = SharedStore(clock)
    worlds = [FakeWorld(tools={"search": gate}, clock=clock, stores={"s": store}) for _ in range(2)]
    engines = [gateway(world, cached(store="s", stale_while_revalidate=30)) for world in worlds]
    first = asyncio.create_task(engines[0].execute("it", Q))
    await settle()
    await gate.open("old")
    await first
    await clock.advance(61)
    calls = [engine.execute("it", Q) for engine in engines for _ in range(50)]
    assert await asyncio.gather(*calls) == ["old"] * 100
    await clock.advance(6)  # The lease of the one that refreshes is renewed meanwhile.
    assert await asyncio.gather(*(engine.execute("it", Q) for engine in engines)) == ["old"] * 2
    await settle()
    assert gate.calls == 2
    await gate.open("new")
    assert [await served(engine) for engine in engines] == [("new", "hit")] * 2


async def test_cache_05_a_refresh_that_fails_keeps_the_old_result_to_the_end_of_its_window_and_no_longer():
    world = world_of(then("old", down()))
    engine = gateway(world, cached(stale_while_revalidate=30))
    await served(engine)
    await passes(world, 60)
    for _ in range(29):
        assert await served(engine) == ("old", "stale")
        await passes(world, 1)
    assert await served(engine) == ("old", "stale")
    await passes(world, 1)
    with pytest.raises(UpstreamUnavailable):
        await engine.execute("it", Q)
    # The pause after each failure is longer: 0.25, 0.5, 1, .. seconds.
    assert len(world.calls) < 12
    assert world.signals.counts["cache_refresh_failed"] == len(world.calls) - 2


async def test_cache_06_after_the_window_nothing_stale_is_given():
    world = world_of(counting())
    engine = gateway(world, cached(stale_while_revalidate=30))
    await served(engine)
    await passes(world, 90)
    assert await served(engine) == ({"n": 2}, "miss")


LATE = RetriesExhausted("Max retries (3) exhausted", causes=[down()])


@pytest.mark.parametrize("error", [down(), LATE, CircuitOpen("Circuit 'x' is OPEN.")])
async def test_cache_07_when_loading_fails_a_stale_result_is_given_and_marked(error: WeftError):
    world = world_of(then("old", error))
    engine = gateway(world, cached(stale_if_error=100))
    await served(engine)
    await passes(world, 100)
    result = await engine.run("it", Q)
    assert (result.value, notes(result)["cache"]) == ("old", "stale-error")
    assert result.warnings == [f"{error.message}; the answer of 100 s ago was given instead"]
    await passes(world, 60)
    assert (await outcome(engine.execute("it", Q))).code == error.code


@pytest.mark.parametrize(
    "error", [refusal("no such page"), ExecutionFailed("bad input"), UpstreamAuth("s", "401"), InputError("bad")]
)
async def test_cache_07_a_caller_at_fault_is_told_whatever_is_stored(error: WeftError):
    world = world_of(then("old", error))
    engine = gateway(world, cached(stale_if_error=100))
    await served(engine)
    await passes(world, 100)
    assert (await outcome(engine.execute("it", Q))).code == error.code


async def test_cache_08_a_cold_miss_of_two_hundred_is_one_call():
    gate = Gate()
    world = world_of(gate)
    engine = gateway(world, cached())
    tasks = [asyncio.create_task(engine.run("it", Q)) for _ in range(200)]
    await settle()
    await gate.open({"found": []})
    results = await asyncio.gather(*tasks)
    assert [result.value for result in results] == [{"found": []}] * 200
    assert gate.calls == 1
    assert sum("shared" in notes(result) for result in results) == 199
    assert len({id(result.value) for result in results}) == 200


async def test_cache_08_across_two_processes_a_cold_miss_is_one_call():
    gate, clock = Gate(), SteppedClock()
    store = SharedStore(clock)
    worlds = [FakeWorld(tools={"search": gate}, clock=clock, stores={"s": store}) for _ in range(2)]
    engines = [gateway(world, cached(store="s")) for world in worlds]
    tasks = [asyncio.create_task(engine.execute("it", Q)) for engine in engines for _ in range(20)]
    await clock.advance(20)
    assert gate.calls == 1
    await gate.open("found")
    await clock.advance(1)
    assert await asyncio.gather(*tasks) == ["found"] * 40
    assert gate.calls == 1


async def test_cache_08_a_process_that_dies_while_it_loads_holds_the_others_up_for_its_lease():
    gate, clock = Gate(), SteppedClock()
    store, frozen = SharedStore(clock), SharedStore(clock)
    frozen.store = store.store
    dead = gateway(FakeWorld(tools={"search": gate}, clock=clock, stores={"s": frozen}), cached(store="s"))
    alive = gateway(FakeWorld(tools={"search": gate}, clock=clock, stores={"s": store}), cached(store="s"))
    lost = asyncio.create_task(dead.execute("it", Q))
    await settle()
    frozen.stop()
    waits = asyncio.create_task(alive.execute("it", Q))
    await clock.advance(4)
    assert gate.calls == 1
    await clock.advance(2)
    assert gate.calls == 2
    await gate.open("found", which=1)
    assert await waits == "found"
    # The one that was held up comes back late: what it has to say is not stored any more.
    await gate.open("late")
    frozen.go_on()
    assert await lost == "late"
    assert await served(alive) == ("found", "hit")


async def test_cache_09_when_the_leader_goes_away_a_follower_leads():
    gate = Gate()
    world = world_of(gate)
    engine = gateway(world, cached())
    tasks = [asyncio.create_task(engine.execute("it", Q)) for _ in range(5)]
    await settle()
    await cancelled(tasks[0])
    await settle()
    assert (gate.calls, gate.waiting) == (2, 1)
    await cancelled(tasks[3])  # That a follower goes away is nothing to the others.
    await gate.open("found")
    assert [await tasks[index] for index in (1, 2, 4)] == ["found"] * 3
    assert gate.calls == 2


async def test_cache_09_nobody_inherits_the_deadline_of_the_leader():
    gate = Gate()
    world = world_of(gate)
    engine = gateway(world, cached())
    hurried = asyncio.create_task(engine.run("it", Q, timeout=1))
    await settle()
    patient = asyncio.create_task(engine.run("it", Q, timeout=20))
    await passes(world, 1)
    assert (await outcome(hurried)).code == "DeadlineExceeded"
    await gate.open("found")
    assert (await patient).value == "found"


async def test_cache_10_when_loading_fails_each_follower_is_told_and_nothing_is_stored():
    gate = Gate()
    world = world_of(gate)
    engine = gateway(world, cached())
    tasks = [asyncio.create_task(engine.execute("it", Q)) for _ in range(200)]
    await settle()
    await gate.open(down("gone"))
    errors = [await outcome(task) for task in tasks]
    assert {(error.code, error.path) for error in errors} == {("UpstreamUnavailable", ("search",))}
    assert len({id(error) for error in errors}) == 200, "each has an error of its own"
    assert gate.calls == 1
    assert [one async for one in world.store().scan("")] == []


async def test_cache_10_a_key_that_fails_is_tried_once_in_each_pause():
    world = world_of(down("gone"))
    engine = gateway(world, cached())
    errors = [await outcome(engine.execute("it", Q)) for _ in range(50)]
    assert {error.message for error in errors} == {"Upstream 'fake' is unavailable: gone"}
    assert len(world.calls) == 1
    assert errors[1].retry_after == 0.25
    assert (await outcome(engine.execute("it", {"q": "dogs"}))).retry_after is None, "another key has its own pause"
    for pause in (0.25, 0.5, 1.0, 2.0, 2.0, 2.0):
        before = len(world.calls)
        await passes(world, pause - 0.01)
        await outcome(engine.execute("it", Q))
        assert len(world.calls) == before
        await passes(world, 0.01)
        await outcome(engine.execute("it", Q))
        assert len(world.calls) == before + 1


async def test_cache_10_what_the_caller_did_wrong_is_not_waited_for():
    world = world_of(refusal("no such page"))
    engine = gateway(world, cached())
    errors = [await outcome(engine.execute("it", Q)) for _ in range(3)]
    assert [error.code for error in errors] == ["ToolFailed"] * 3
    assert len(world.calls) == 3


async def test_cache_10_a_retry_around_a_cache_waits_for_the_pause_and_gets_its_answer():
    world = FakeWorld(tools={"search": in_turn(down(), "found")})
    assert await world.run(w.retry(cached(), 3, backoff=w.fixed(0.01)), Q) == "found"
    assert world.pauses == [0.01, pytest.approx(0.24)]


@pytest.mark.req("STA-13")
async def test_cache_11_what_the_condition_does_not_admit_is_given_and_not_stored():
    world = world_of(in_turn({"status": "pending"}, {"status": "done"}))
    engine = gateway(world, cached(cache_if=w.holds(P.status, w.eq("done"))))
    assert await served(engine) == ({"status": "pending"}, "miss")
    assert await served(engine) == ({"status": "done"}, "miss")
    assert await served(engine) == ({"status": "done"}, "hit")


@pytest.mark.req("STA-13")
async def test_cache_11_a_bare_predicate_is_about_the_whole_result():
    world = world_of(in_turn(None, 1))
    engine = gateway(world, cached(cache_if=w.is_not_null()))
    assert [await served(engine) for _ in range(3)] == [(None, "miss"), (1, "miss"), (1, "hit")]


async def test_cache_11_a_refresh_whose_result_is_not_admitted_is_not_made_again_at_once():
    world = world_of(then(1, None))
    engine = gateway(world, cached(cache_if=w.is_not_null(), stale_while_revalidate=30))
    await served(engine)
    await passes(world, 60)
    for _ in range(10):
        assert await served(engine) == (1, "stale")
        await settle()
    assert len(world.calls) == 2


async def test_cache_12_errors_and_partial_results_are_not_stored():
    world = world_of(in_turn(refusal("no"), "yes"))
    engine = gateway(world, cached())
    with pytest.raises(ToolFailed):
        await engine.execute("it", Q)
    assert await served(engine) == ("yes", "miss")

    world = FakeWorld(tools={"a": [1], "b": in_turn(down(), [2])}, clock=SteppedClock())
    both = w.cache(w.scatter_gather(w.tool("a"), w.tool("b"), aggregate=[w.flatten()]), key=P.q, ttl=60)
    engine = gateway(world, both)
    assert await served(engine) == ([1], "miss")
    assert await served(engine) == ([1, 2], "miss"), "what came with a warning was not all that there is"
    assert await served(engine) == ([1, 2], "hit")


async def test_cache_12_refusals_are_stored_where_the_condition_asks_for_them():
    world = world_of(refusal("no such page"))
    engine = gateway(world, cached(cache_if=w.is_error()))
    errors = [await outcome(engine.execute("it", Q)) for _ in range(3)]
    assert [error.content for error in errors] == ["no such page"] * 3
    assert len(world.calls) == 1


async def test_cache_14_tenants_and_callers_have_entries_of_their_own():
    world = world_of(counting())
    engine = gateway(world, cached())
    ann, bob, eve = caller("ann", "a"), caller("bob", "a"), caller("ann", "b")
    assert [(await served(engine, caller=one))[0]["n"] for one in (ann, bob, eve, ann, bob, eve)] == [1, 2, 3, 1, 2, 3]
    tenants = gateway(world, cached(scope="tenant"))
    assert [(await served(tenants, caller=one))[0]["n"] for one in (ann, bob, eve)] == [4, 4, 5]
    public = gateway(world, cached(scope="public"))
    assert [(await served(public, caller=one))[0]["n"] for one in (ann, bob, eve)] == [6, 6, 6]


async def test_cache_14_no_tenant_can_name_itself_into_the_entries_of_another():
    world = world_of(counting())
    engine = gateway(world, cached())
    names = [("a", "b|c"), ("a|b", "c"), ("a%7Cb", "c"), ("*", "*"), ("", "")]
    got = [(await served(engine, caller=caller(subject, tenant)))[0]["n"] for tenant, subject in names * 2]
    assert got == [1, 2, 3, 4, 5] * 2


async def test_cache_15_keys_differ_when_their_values_do():
    world = world_of(counting())
    engine = gateway(world, w.cache(SEARCH, key=[P.a, P.b], ttl=60))
    values: list[Any] = [1, "1", True, None, "true", "null", [], {}, [1], {"1": 1}, "", [[]], 2**53 + 1, 2**53]
    inputs = [{"a": value, "b": 0} for value in values] + [{"a": 0, "b": value} for value in values]
    inputs += [{"a": "ab", "b": ""}, {"a": "a", "b": "b"}, {"a": ["a"], "b": "b"}, {"a": ["a", "b"], "b": ""}]
    assert len({(await served(engine, one))[0]["n"] for one in inputs}) == len(inputs)
    assert await served(engine, {"a": 1.0, "b": 0}) == ({"n": 1}, "hit"), "1.0 is 1 in JSON"
    assert await served(engine, {"a": {"x": 1, "y": 2}, "b": 0}) == (
        (await served(engine, {"a": {"y": 2, "x": 1}, "b": 0}))[0],
        "miss",
    )


async def test_cache_15_a_key_that_is_not_there_is_an_error_and_null_is_not():
    world = world_of(counting())
    engine = gateway(world, w.cache(SEARCH, key=[P.a, P.b], ttl=60))
    wrong: list[Any] = [{"a": 1}, {"b": 1}, {}, [], "text"]
    for given in wrong:
        error = await outcome(engine.execute("it", given))
        assert error.code == "KeyPathMissing"
        assert f"nothing at $.{'b' if given == {'a': 1} else 'a'}, which" in error.message
    assert (await outcome(engine.execute("it", {"a": math.nan, "b": 1}))).code == "NotJson"
    assert await served(engine, {"a": None, "b": None}) == ({"n": 1}, "miss")


async def test_cache_16_who_changes_a_result_changes_only_its_own():
    world = world_of(in_turn({"found": [1]}))
    engine = gateway(world, cached())
    for _ in range(3):
        value = await engine.execute("it", Q)
        assert value == {"found": [1]}
        value["found"].append(2)


async def test_cache_16_a_leader_that_changes_its_result_at_once_does_not_change_that_of_followers():
    gate = Gate()
    world = world_of(gate)
    engine = gateway(world, cached())

    async def greedy() -> Any:
        value = await engine.execute("it", Q)
        value["found"].clear()
        return value

    first, second = asyncio.create_task(greedy()), asyncio.create_task(engine.execute("it", Q))
    await settle()
    await gate.open({"found": [1]})
    assert await first == {"found": []}
    assert await second == {"found": [1]}


async def test_cache_16_what_cannot_be_written_is_given_and_not_stored():
    gate = Gate()
    world = world_of(gate)
    engine = gateway(world, cached())
    tasks = [asyncio.create_task(engine.execute("it", Q)) for _ in range(2)]
    await settle()
    await gate.open({"n": 2**70})
    values = await asyncio.gather(*tasks)
    assert values == [{"n": 2**70}] * 2
    assert values[0] is not values[1]
    assert world.signals.counts["cache_not_stored{cache=it,reason=not JSON}"] == 1
    assert [one async for one in world.store().scan("")] == []


async def test_cache_17_another_spec_does_not_see_the_entries_of_the_one_before():
    world = world_of(counting())
    first = gateway(world, cached())
    await served(first)
    same, changed = gateway(world, cached()), gateway(world, w.cache(SEARCH, key=P.q, ttl=61))
    assert await served(same) == ({"n": 1}, "hit")
    assert await served(changed) == ({"n": 2}, "miss")


@pytest.mark.parametrize(
    "written", [b"", b"x", b"wc0v" + b"\0" * 16 + b"1", b"wc1v" + b"\xff" * 16 + b"1", b"\x80\x04N.", b"{}" * 50]
)
async def test_cache_18_what_cannot_be_read_is_a_miss(written: bytes):
    world = world_of(counting())
    engine = gateway(world, cached())
    await served(engine)
    ((key, _),) = [one async for one in world.store().scan("")]
    await world.store().set(key, written, ttl=60)
    assert await served(engine) == ({"n": 2}, "miss")
    assert world.signals.counts["cache_undecodable"] == 1
    assert await served(engine) == ({"n": 2}, "hit")


async def test_cache_18_a_damaged_body_is_a_miss():
    world = world_of(counting())
    engine = gateway(world, cached())
    await served(engine)
    ((key, stored),) = [one async for one in world.store().scan("")]
    await world.store().set(key, stored.value[:-1], ttl=60)
    assert await served(engine) == ({"n": 2}, "miss")


async def test_cache_19_without_its_store_a_cache_calls_the_tool_and_says_so_once():
    clock = SteppedClock()
    store = SharedStore(clock)
    world = FakeWorld(tools={"search": counting()}, clock=clock, stores={"s": store})
    engine = gateway(world, cached(store="s"))
    await served(engine)
    store.fail()
    assert [await served(engine) for _ in range(3)] == [({"n": n}, "bypass") for n in (2, 3, 4)]
    assert [name for name, _ in world.signals.events] == ["store_outage"]
    store.heal()
    assert await served(engine) == ({"n": 1}, "hit")
    assert [name for name, _ in world.signals.events] == ["store_outage", "store_back"]
    store.fail()
    await served(engine)
    assert len(world.signals.named("store_outage")) == 2


async def test_cache_19_a_store_is_asked_once_for_a_call_that_it_fails():
    clock = SteppedClock()
    store = SharedStore(clock)
    store.lost = {"get"}
    engine = gateway(FakeWorld(tools={"search": 1}, clock=clock, stores={"s": store}), cached(store="s"))
    await served(engine)
    assert store.done == ["get"], "each would cost the time limit of the store"


@pytest.mark.parametrize("fault", [{"set"}, {"put_if_absent"}, {"batch"}, {"cas", "delete_if"}])
@pytest.mark.parametrize("shared", [True, False])
async def test_cache_19_a_store_that_fails_in_the_middle_costs_no_result(fault: set[str], shared: bool):
    clock = SteppedClock()
    store = SharedStore(clock) if shared else FaultyStore(MemoryStore("s", clock=clock))
    world = FakeWorld(tools={"search": counting()}, clock=clock, stores={"s": store})
    engine = gateway(world, cached(store="s", stale_while_revalidate=30))

    async def after(seconds: float, faults: set[str]) -> str:
        store.down = faults
        task = asyncio.create_task(served(engine))
        await clock.advance(seconds)
        assert task.done()
        return task.result()[1]

    assert await after(0, fault) == "miss"
    assert await after(10, set()) in ("hit", "miss")
    assert await after(65, set()) == "hit"
    assert await after(0, fault) == "stale"
    assert await after(100, set()) in ("hit", "stale")
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cache_19_during_an_outage_many_who_want_the_same_are_one_call():
    clock, gate = SteppedClock(), Gate()
    store = SharedStore(clock)
    store.fail()
    engine = gateway(FakeWorld(tools={"search": gate}, clock=clock, stores={"s": store}), cached(store="s"))
    tasks = [asyncio.create_task(engine.execute("it", Q)) for _ in range(50)]
    await settle()
    await gate.open(1)
    assert await asyncio.gather(*tasks) == [1] * 50
    assert gate.calls == 1


async def test_cache_20_a_clock_that_is_put_back_makes_nothing_fresh_for_longer():
    wall, world = FakeClock(1_000_000.0), world_of(counting())
    store = MemoryStore("wall", clock=wall)
    engine = gateway(FakeWorld(tools=world.tools, clock=world.clock, stores={"s": store}), cached(store="s"))
    await served(engine)
    wall.time -= 3600
    assert await served(engine) == ({"n": 2}, "miss")
    assert await served(engine) == ({"n": 2}, "hit")
    wall.time += 60
    assert await served(engine) == ({"n": 3}, "miss")
    wall.time += 3600
    assert await served(engine) == ({"n": 4}, "miss")

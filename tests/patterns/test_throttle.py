"""Throttles let only so many through, in so much time or at once; here alone, or with others over a store."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft as w
from tests.patterns.worlds import document, problems
from weft.errors import DocumentInvalid, LimitExceeded, StoreError, ToolFailed
from weft.patterns.throttle_gates import Gate, Gates
from weft.patterns.throttle_rates import Strategy, rate_of
from weft.ports import Principal, Stored
from weft.run.call import Root
from weft.run.engine import Engine
from weft.run.limits import Limits
from weft.stores.memory import MemoryStore
from weft.testing import FakeClock, FakeWorld, Late, refusal

SEARCH = w.tool("search")
STRATEGIES: list[Strategy] = ["sliding_window", "token_bucket", "fixed_window", "leaky_bucket"]


def engine_of(world: FakeWorld, op: Any, *more: Any) -> Engine:
    """Return an engine that has the operation as `it`, and more as `it1`, `it2`..."""
    compositions = [w.composition(f"it{index or ''}", "It.", one) for index, one in enumerate((op, *more))]
    return world.engine(w.compile(*compositions).document)


class Watched:
    """A tool that notes when it began, and how many were at work at once."""

    def __init__(self, clock: FakeClock, seconds: float = 0.0) -> None:
        self.clock, self.seconds = clock, seconds
        self.began: list[float] = []
        self.now = self.most = 0

    async def __call__(self, _: Any) -> str:
        self.began.append(self.clock.now() - 1000)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if self.seconds:
                await self.clock.sleep(self.seconds)
        finally:
            self.now -= 1
        return "found"


async def began(op: Any, calls: int, *, seconds: float = 0.0, timeout: float = 50) -> Watched:
    """Make so many calls at once and return what the tool saw of them."""
    clock = FakeClock()
    tool = Watched(clock, seconds)
    engine = engine_of(FakeWorld(tools={"search": tool}, clock=clock), op)
    await asyncio.gather(*(engine.execute("it", n, timeout=timeout) for n in range(calls)))
    await engine.close()
    return tool


@pytest.mark.parametrize(
    ("strategy", "burst", "expected"),
    [
        ("sliding_window", None, [0, 0, 1, 1, 2, 2, 3]),
        ("fixed_window", None, [0, 0, 1, 1, 2, 2, 3]),
        ("token_bucket", 4, [0, 0, 0, 0, 0.5, 1, 1.5]),
        ("token_bucket", None, [0, 0, 0.5, 1, 1.5, 2, 2.5]),
        ("leaky_bucket", None, [0, 0.5, 1, 1.5, 2, 2.5, 3]),
    ],
)
@pytest.mark.parametrize("store", [None, "limits"])
async def test_calls_wait_for_their_turn_by_the_strategy(
    strategy: Strategy, burst: int | None, expected: list[float], store: str | None
):
    tool = await began(w.throttle(SEARCH, 2, w.seconds(1), strategy=strategy, burst=burst, store=store), 7)
    assert tool.began == pytest.approx(expected, abs=0.02)


async def test_a_call_that_need_not_wait_does_not():
    world = FakeWorld(tools={"search": "found"})
    result = await world.trace(w.throttle(SEARCH, 1, w.seconds(1)))
    assert (result.value, world.pauses) == ("found", [])
    assert result.trace is not None
    assert result.trace.root.notes is None
    result = await world.trace(w.throttle(SEARCH, 1, w.seconds(1)))
    assert world.pauses == [1]
    assert result.trace is not None
    assert result.trace.root.notes == {"throttle": "waited", "waitedMs": 1000}
    assert world.signals.counts["throttled{outcome=waited,throttle=throttle}"] == 1


class Ticking(FakeClock):
    """Time passes with every look at the clock, as it does in earnest."""

    def now(self) -> float:
        self.time += 0.0001
        return self.time


@pytest.mark.parametrize("store", [None, "limits"])
@pytest.mark.parametrize("limit", [{"rate": 5}, {"concurrency": 1}])
async def test_only_who_had_to_wait_counts_as_waited(limit: dict[str, Any], store: str | None):
    clock = Ticking()
    world = FakeWorld(tools={"search": Watched(clock, 2)}, clock=clock)
    engine = engine_of(world, w.throttle(SEARCH, per=w.seconds(9), store=store, **limit))
    free = await engine.run("it", 1, trace=True)
    assert free.trace is not None
    assert free.trace.root.notes is None
    assert world.signals.counts == {}
    await asyncio.gather(*(engine.execute("it", 1) for _ in range(5 if "rate" in limit else 2)))
    await engine.close()
    assert world.signals.counts["throttled{outcome=waited,throttle=throttle}"] == 1


@pytest.mark.parametrize("store", [None, "limits"])
async def test_a_call_that_may_not_wait_is_refused_and_told_when_to_come_again(store: str | None):
    world = FakeWorld(tools={"search": "found"})
    op = w.throttle(SEARCH, 2, w.seconds(10), name="search", on_exceeded="reject", store=store)
    assert [await world.run(op) for _ in range(2)] == ["found", "found"]
    world.clock.time += 3
    with pytest.raises(LimitExceeded) as caught:
        await world.run(op)
    error = caught.value
    assert (error.code, error.retry_after, error.retryable) == ("Throttled", pytest.approx(7), "no")
    assert error.message == "Throttled: 'search' lets 2 calls through in 10 s (limit 2)"
    assert world.signals.counts["throttled{outcome=refused,throttle=search}"] == 1
    world.clock.time += 7
    assert await world.run(op) == "found"


@pytest.mark.parametrize("store", [None, "limits"])
async def test_a_call_whose_turn_comes_after_its_deadline_is_refused_at_once(store: str | None):
    world = FakeWorld(tools={"search": "found"})
    engine = engine_of(world, w.throttle(SEARCH, 1, w.seconds(10), store=store))
    await engine.execute("it", 1)
    before = world.clock.now()
    with pytest.raises(LimitExceeded) as caught:
        await engine.execute("it", 1, timeout=5)
    assert (world.clock.now(), caught.value.retry_after) == (before, pytest.approx(10))
    assert await engine.execute("it", 1, timeout=15) == "found"
    assert world.clock.now() - before == pytest.approx(10)
    await engine.close()


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_who_gives_up_waiting_gives_the_turn_back(strategy: Strategy):
    world = FakeWorld(tools={"search": "found"})
    engine = engine_of(world, w.throttle(SEARCH, 1, w.seconds(10), strategy=strategy))
    await engine.execute("it", 1)
    before = world.clock.now()
    task = asyncio.ensure_future(engine.execute("it", 2))
    world.clock.call_at(before + 1, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await engine.execute("it", 3) == "found"
    assert world.clock.now() - before == pytest.approx(10)
    await engine.close()


@pytest.mark.parametrize("store", [None, "limits"])
async def test_only_so_many_run_at_once(store: str | None):
    tool = await began(w.throttle(SEARCH, concurrency=3, store=store), 8, seconds=2)
    assert tool.most == 3
    assert len(tool.began) == 8
    if store is None:
        assert tool.began == [0, 0, 0, 2, 2, 2, 4, 4]


@pytest.mark.parametrize("store", [None, "limits"])
async def test_a_place_is_given_back_whatever_happens(store: str | None):
    world = FakeWorld(tools={"search": refusal("no")})
    engine = engine_of(world, w.throttle(SEARCH, concurrency=1, on_exceeded="reject", store=store))
    for _ in range(3):
        with pytest.raises(ToolFailed):
            await engine.execute("it", 1)
        await asyncio.sleep(0)
    await engine.close()
    world = FakeWorld(tools={"search": Late("found", 5)})
    engine = engine_of(world, w.throttle(SEARCH, concurrency=1, store=store))
    tasks = [asyncio.ensure_future(engine.execute("it", n)) for n in range(3)]
    world.clock.call_at(world.clock.now() + 1, tasks[0].cancel)
    world.clock.call_at(world.clock.now() + 2, tasks[1].cancel)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in results] == [asyncio.CancelledError, asyncio.CancelledError, str]
    await engine.close()


async def test_a_place_that_comes_to_one_who_has_just_given_up_is_the_next_ones():
    root = Root(FakeClock(), Limits(), lambda work, dropped: None)
    gate = Gate(None, 1)
    await gate.enter(root, 10)
    gives_up, next_one = (asyncio.ensure_future(gate.enter(root, 10)) for _ in range(2))
    await asyncio.sleep(0)
    gate.leave()
    gives_up.cancel()
    assert await next_one == 0
    gate.leave()
    assert gate.idle(0)


@pytest.mark.parametrize("store", [None, "limits"])
async def test_without_a_free_place_a_call_that_may_not_wait_is_refused(store: str | None):
    world = FakeWorld(tools={"search": Late("found", 5)})
    engine = engine_of(world, w.throttle(SEARCH, concurrency=1, name="one", on_exceeded="reject", store=store))
    first = asyncio.ensure_future(engine.execute("it", 1))
    world_waits: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    world.clock.call_at(world.clock.now() + 1, lambda: world_waits.set_result(None))
    await world_waits
    with pytest.raises(LimitExceeded, match="Throttled: 'one' lets 1 calls through at once"):
        await engine.execute("it", 2)
    assert await first == "found"
    await engine.close()


async def test_a_place_in_a_store_falls_free_once_the_time_of_its_holder_is_over():
    world = FakeWorld(tools={"search": Late("found", 3)})
    store = world.store("limits")
    engine = engine_of(world, w.throttle(SEARCH, concurrency=1, store="limits"))
    task = asyncio.ensure_future(engine.execute("it", 1, timeout=20))
    before = world.clock.now()
    held: list[tuple[str, Stored]] = []

    async def look() -> None:
        held.extend([found async for found in store.scan("")])

    world.clock.call_at(before + 1, lambda: asyncio.ensure_future(look()))
    await task
    await engine.close()
    ((key, stored),) = held
    # As if the process had been killed before it could give the place back.
    await store.set(key, stored.value, ttl=stored.ttl)
    world.clock.time = before + 24
    with pytest.raises(LimitExceeded):
        await engine.execute("it", 2, timeout=0.5)
    assert await engine.execute("it", 3, timeout=20) == "found"
    assert world.clock.now() - before == pytest.approx(25 + 3, abs=0.1)
    await engine.close()


async def test_throttles_of_one_name_share_their_limit_and_others_do_not():
    clock = FakeClock()
    tool = Watched(clock)
    one, other = w.throttle(SEARCH, 1, w.seconds(5), name="shared"), w.throttle(SEARCH, 1, w.seconds(5), name="alone")
    engine = engine_of(FakeWorld(tools={"search": tool}, clock=clock), one, one, other)
    await asyncio.gather(*(engine.execute(name, 1) for name in ("it", "it1", "it2")))
    assert sorted(tool.began) == [0, 0, 5]
    await engine.close()


def test_throttles_of_one_name_must_agree():
    world = FakeWorld(tools={"search": 1})
    one, other = w.throttle(SEARCH, 1, name="shared"), w.throttle(SEARCH, 2, name="shared")
    with pytest.raises(DocumentInvalid, match="throttle 'shared' has other settings in 'it'"):
        engine_of(world, one, other)


class Client:
    """A caller whose name is known."""

    capabilities: Any = {}
    info: Any = {}
    meta: Any = {}
    log_level = None
    wants_progress = relays_input = False

    def __init__(self, subject: str, tenant: str) -> None:
        self.principal = Principal(subject=subject, tenant=tenant, method="key")

    def progress(self, params: Any) -> None: ...
    def log(self, params: Any) -> None: ...
    async def ask(self, requests: Any) -> dict[str, dict[str, Any]]:
        return {}


@pytest.mark.parametrize(
    ("scope", "expected"), [("public", [0, 5, 10, 15]), ("tenant", [0, 0, 5, 5]), ("caller", [0, 0, 0, 5])]
)
@pytest.mark.parametrize("store", [None, "limits"])
async def test_a_scope_parts_callers_or_tenants(scope: Any, expected: list[float], store: str | None):
    clock = FakeClock()
    tool = Watched(clock)
    engine = engine_of(
        FakeWorld(tools={"search": tool}, clock=clock), w.throttle(SEARCH, 1, w.seconds(5), scope=scope, store=store)
    )
    callers = [Client("a", "t1"), Client("b", "t1"), Client("a", "t2"), Client("a", "t2")]
    await asyncio.gather(*(engine.run("it", 1, caller=caller) for caller in callers))
    assert sorted(tool.began) == pytest.approx(expected, abs=0.05)
    await engine.close()


async def test_two_processes_that_share_a_store_share_the_limit():
    clock = FakeClock()
    store, tool = MemoryStore("limits", clock=clock), Watched(clock)
    worlds = [FakeWorld(tools={"search": tool}, clock=clock, stores={"limits": store}) for _ in range(2)]
    op = w.throttle(SEARCH, 2, w.seconds(1), name="search", strategy="token_bucket", store="limits")
    engines = [engine_of(world, op) for world in worlds]
    await asyncio.gather(*(engine.execute("it", n) for n in range(3) for engine in engines))
    assert sorted(tool.began) == pytest.approx([0, 0, 0.5, 1, 1.5, 2], abs=0.05)
    for engine in engines:
        await engine.close()


@pytest.mark.parametrize(
    "limit", [{"concurrency": 1}, {"concurrency": 2}, {"rate": 2, "strategy": "leaky_bucket"}, {"rate": 3}]
)
async def test_calls_of_one_gateway_get_their_turn_in_the_order_of_coming_also_through_a_store(limit: dict[str, Any]):
    clock = FakeClock()
    order: list[int] = []

    async def search(number: int) -> int:
        order.append(number)
        await clock.sleep(0.12)
        return number

    world = FakeWorld(tools={"search": search}, clock=clock)
    engine = engine_of(world, w.throttle(SEARCH, name="search", store="limits", **limit))

    async def come(number: int) -> None:
        await clock.sleep(0.01 * number)
        await engine.execute("it", number)

    await asyncio.gather(*map(come, range(20)))
    assert order == list(range(20))
    await engine.close()


async def test_who_may_not_wait_is_refused_though_others_stand_in_line_for_a_place_in_a_store():
    clock = FakeClock()
    tool = Watched(clock, 1.0)
    waiting, refusing = (
        w.throttle(SEARCH, name="search", concurrency=1, store="limits", on_exceeded=what)
        for what in ("wait", "reject")
    )
    engine = engine_of(FakeWorld(tools={"search": tool}, clock=clock), waiting, refusing)
    calls = [asyncio.create_task(engine.execute("it", number)) for number in range(3)]

    async def come(when: float) -> None:
        await clock.sleep(when)
        with pytest.raises(LimitExceeded):
            await engine.execute("it1", 9)
        assert clock.now() - 1000 == pytest.approx(when)

    await asyncio.gather(*(come(0.01 * number) for number in range(1, 30)))
    assert await asyncio.gather(*calls) == ["found"] * 3
    await engine.close()


async def test_who_leaves_the_line_before_a_store_lets_the_others_pass():
    clock = FakeClock()
    tool = Watched(clock)
    engine = engine_of(
        FakeWorld(tools={"search": tool}, clock=clock), w.throttle(SEARCH, concurrency=1, store="limits")
    )
    calls = [asyncio.create_task(engine.execute("it", number)) for number in range(5)]
    await asyncio.sleep(0)
    for left in (1, 3):
        calls[left].cancel()
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert [one for one in done if one == "found"] == ["found"] * 3
    await engine.close()


class Broken(MemoryStore):
    """A store that is away when it is told to be."""

    away = True

    async def get(self, key: str) -> Stored | None:
        if self.away:
            raise StoreError(self.name, "it is away")
        return await super().get(key)


@pytest.mark.parametrize("limit", [{"rate": 1}, {"concurrency": 1}])
async def test_without_its_store_each_process_has_limits_of_its_own_and_says_so_once(limit: dict[str, Any]):
    clock = FakeClock()
    store, tool = Broken("limits", clock=clock), Watched(clock, 1)
    world = FakeWorld(tools={"search": tool}, clock=clock, stores={"limits": store})
    engine = engine_of(world, w.throttle(SEARCH, store="limits", **limit))
    await asyncio.gather(*(engine.execute("it", n) for n in range(3)))
    assert tool.began == [0, 1, 2]
    assert [facts["reason"] for facts in world.signals.named("store_outage")] == ["Store 'limits': it is away"]
    store.away = False
    await engine.execute("it", 1)
    assert len(world.signals.named("store_back")) == 1
    await engine.close()


async def test_limits_outlive_a_reload_and_end_with_other_rules():
    world = FakeWorld(tools={"search": "found"})
    for rate, pauses in ((1, []), (1, [1]), (2, [1])):
        await world.run(w.throttle(SEARCH, rate, w.seconds(1), name="search"))
        assert world.pauses == pauses
    assert len(world.kept.of(Gates)._known) == 2  # pyright: ignore[reportPrivateUsage]


async def test_gates_of_callers_who_are_away_are_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("weft.patterns.throttle_gates.KNOWN", 5)
    world = FakeWorld(tools={"search": "found"})
    engine = engine_of(world, w.throttle(SEARCH, 1, w.seconds(1), scope="caller", concurrency=2))
    for number in range(20):
        await engine.run("it", 1, caller=Client(f"c{number}", "t"))
        world.clock.time += 2
    assert len(world.kept.of(Gates)._known) <= 5  # pyright: ignore[reportPrivateUsage]
    await engine.close()


def test_the_builder_writes_the_canonical_form_and_other_spellings_are_taken():
    op = w.throttle(SEARCH, 10, w.seconds(1), name="search", strategy="sliding_window", store="limits")
    body = {
        "inner": {"tool": {"name": "search"}}, "name": "search", "rate": 10, "windowMs": 1000,
        "strategy": "sliding_window", "onExceeded": "wait", "store": "limits",
    }  # fmt: skip
    assert op.to_ir() == {"throttle": body}
    short = {"inner": "search", "name": "s", "calls": 10, "perSeconds": 0.5, "burst": 20, "onLimit": "reject"}
    expected = w.throttle(SEARCH, 10, "500ms", name="s", strategy="token_bucket", burst=20, on_exceeded="reject")
    assert document({"throttle": short}).tools[0].spec == expected.node
    with pytest.raises(TypeError, match=r"the window of a throttle needs its unit: w\.seconds\(1\) or w\.millis\(1\)"):
        w.throttle(SEARCH, 10, 1)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, ""),
        ({"rate": 0}, "/rate"),
        ({"rate": 1.5}, "/rate"),
        ({"rate": 1, "windowMs": 0}, "/windowMs"),
        ({"rate": 1, "strategy": "sliding"}, "/strategy"),
        ({"rate": 1, "strategy": "leaky_bucket", "burst": 2}, "/burst"),
        ({"concurrency": 0}, "/concurrency"),
        ({"rate": 1, "onExceeded": "drop"}, "/onExceeded"),
        ({"rate": 1, "scope": "all"}, "/scope"),
        ({"rate": 1, "name": ""}, "/name"),
    ],
)
def test_what_makes_no_sense_is_refused_at_its_place(body: dict[str, Any], place: str):
    found = problems({"throttle": {"inner": "search", **body}})
    assert [problem.pointer for problem in found] == [f"/tools/0/spec/throttle{place}"]


@settings(max_examples=200, deadline=None)
@given(
    strategy=st.sampled_from(STRATEGIES),
    rate=st.integers(1, 6),
    window=st.sampled_from([0.5, 1.0, 4.0]),
    burst=st.integers(1, 8),
    gaps=st.lists(st.floats(0, 3), min_size=1, max_size=60),
)
def test_no_strategy_ever_lets_more_through_than_it_may(
    strategy: Strategy, rate: int, window: float, burst: int, gaps: list[float]
):
    limiter = rate_of(strategy, rate, window, burst if strategy == "token_bucket" else None)
    numbers, now, moments = deque[float](), 1000.0, list[float]()
    for gap in gaps:
        now += gap
        when = limiter.take(numbers, now)
        assert when >= now
        moments.append(when)
    assert moments == sorted(moments)
    slack = 1e-6
    if strategy == "sliding_window":
        assert all(later - first >= window - slack for first, later in zip(moments, moments[rate:], strict=False))
    elif strategy == "fixed_window":
        windows = [moment // window for moment in moments]
        assert all(windows.count(one) <= rate for one in windows)
    else:
        saved = burst if strategy == "token_bucket" else 1
        for index, first in enumerate(moments):
            for count, moment in enumerate(moments[index:], 1):
                assert count <= saved + (moment - first) * rate / window + slack
    limiter.give_back(numbers, moments[-1])
    assert limiter.take(numbers, now) <= moments[-1] + slack
    assert limiter.idle(numbers, moments[-1] + burst * window + 2 * window)


@settings(max_examples=120, deadline=None)
@given(
    places=st.integers(1, 3),
    rate=st.one_of(st.none(), st.integers(1, 4)),
    calls=st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 20), st.one_of(st.none(), st.integers(0, 40))),
        min_size=1,
        max_size=12,
    ),
    store=st.sampled_from([None, "limits"]),
)
def test_whoever_comes_stays_and_gives_up_no_more_are_inside_than_may_and_none_is_forgotten(
    places: int, rate: int | None, calls: list[tuple[int, int, int | None]], store: str | None
):
    """Calls come, stay and give up at tenths of a second."""

    async def main() -> None:
        clock = FakeClock()
        tool = Watched(clock)

        async def search(seconds: float) -> str:
            tool.seconds = seconds
            return await tool(seconds)

        world = FakeWorld(tools={"search": search}, clock=clock)
        engine = engine_of(world, w.throttle(SEARCH, rate, w.seconds(1), concurrency=places, store=store))

        async def one(come: int, stay: int, give_up: int | None) -> str:
            await clock.sleep(come / 10)
            task = asyncio.ensure_future(engine.execute("it", stay / 10, timeout=3000))
            if give_up is not None:
                clock.call_at(clock.now() + give_up / 10, task.cancel)
            try:
                return await task
            except asyncio.CancelledError:
                return "gave up"

        outcomes = await asyncio.gather(*(one(*call) for call in calls))
        assert tool.most <= places
        assert all(outcome == "found" for outcome, (*_, gave) in zip(outcomes, calls, strict=True) if gave is None)
        if rate is not None:
            starts = sorted(tool.began)
            assert all(later - first >= 1 - 1e-6 for first, later in zip(starts, starts[rate:], strict=False))
        await engine.close()
        clock.time += 100
        assert await engine.execute("it", 0.0, timeout=0.5) == "found", "nobody is inside any more"
        await engine.close()

    asyncio.run(main())

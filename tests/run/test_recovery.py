"""Any instance goes on with a saga whose owner is gone, by the spec that it began with; nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import weft as w
from tests.saga.worlds import UNDO, Broken, Frail, Instance, Shop, Slow, away, order, shared_store, step
from weft.errors import ExecutionFailed, SagaFailed, StoreError, ToolFailed, UpstreamDied, UpstreamUnavailable
from weft.patterns.saga_journal import open_key
from weft.patterns.saga_record import HEADS, LEASES, OPEN, SPECS
from weft.ports import Store
from weft.stores.memory import MemoryStore
from weft.testing.clock import FakeClock

pytestmark = pytest.mark.req("STA-44")
TOOLS = list(UNDO)
SAFE = [step(tool, retry_safe=True) for tool in TOOLS]


class City:
    """A store and a shop that several instances share."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.shop = Shop(self.clock)
        self.store = shared_store(self.clock)
        self.begun: list[asyncio.Task[Any]] = []

    def instance(self, op: Any = None, store: Store | None = None) -> Instance:
        return Instance(self.shop, store or Frail(self.store), op or order())

    def begin(self, one: Instance, value: Any = None) -> asyncio.Task[Any]:
        task = asyncio.create_task(one.call(value))
        self.begun.append(task)
        return task

    async def cut(self, one: Instance, seconds: float = 1) -> None:
        """Begin a saga, and end its instance some seconds later as kill -9 does."""
        self.begin(one)
        await self.clock.sleep(seconds)
        one.kill()

    async def wait_for_lease(self) -> None:
        await self.clock.sleep(11)

    async def keys(self, prefix: str) -> list[str]:
        return [key async for key, _ in self.store.scan(prefix)]


@pytest.fixture
async def city() -> AsyncIterator[City]:
    before = asyncio.all_tasks()
    city = City()
    yield city
    # What a dead instance was doing waits for ever for its store.
    left = [*(asyncio.all_tasks() - before - {asyncio.current_task()}), *city.begun]
    while not all(task.done() for task in left):
        for task in left:
            task.cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*left, return_exceptions=True)


async def test_saga_09_another_instance_finishes_what_a_dead_one_began(city: City):
    a, b = city.instance(order(*SAFE)), city.instance()
    city.shop.does["charge"] = [Slow(1000)]
    await city.cut(a)
    assert await b.recovery.once() == 0, "its lease still holds"
    await city.wait_for_lease()
    assert await b.recovery.once() == 1
    assert city.shop.called == ["reserve", "charge", "charge", "ship", "mail"]
    assert city.shop.balance() == dict.fromkeys(TOOLS, 1)
    assert (await b.sagas.show("o1"))["status"] == "COMPLETED"
    assert await city.keys(OPEN) == await city.keys(LEASES) == []


async def test_saga_09_keys_stay_the_same_on_another_instance_and_attempts_are_counted(city: City):
    a, b = city.instance(order(*SAFE)), city.instance()
    city.shop.does["charge"] = [Slow(1000)]
    await city.cut(a)
    await city.wait_for_lease()
    await b.recovery.once()
    first, second = (seen for seen in city.shop.calls if seen.tool == "charge")
    assert first.key == second.key
    assert (first.attempt, second.attempt) == (1, 2)


async def test_a_step_that_may_not_be_repeated_is_undone_with_all_before_it(city: City):
    a, b = city.instance(), city.instance()
    city.shop.does["charge"] = [Slow(1000)]
    await city.cut(a)
    await city.wait_for_lease()
    await b.recovery.once()
    assert city.shop.called == ["reserve", "charge", "refund", "release"]
    shown = await b.sagas.show("o1")
    assert (shown["status"], shown["error"]["code"]) == ("COMPENSATED", "OutcomeUnknown")


@pytest.mark.parametrize("hint", ["idempotentHint", "readOnlyHint"])
async def test_a_tool_that_says_so_may_be_repeated(city: City, hint: str):
    city.shop.hints = {"charge": {hint: True}}
    a, b = city.instance(), city.instance()
    city.shop.does["charge"] = [Slow(1000)]
    await city.cut(a)
    await city.wait_for_lease()
    await b.recovery.once()
    assert (await b.sagas.show("o1"))["status"] == "COMPLETED"


async def test_saga_09_of_two_that_race_one_wins(city: City):
    a = city.instance(order(*SAFE))
    others = [city.instance() for _ in range(5)]
    city.shop.does["charge"] = [Slow(1000)]
    await city.cut(a)
    await city.wait_for_lease()
    assert sorted(await asyncio.gather(*(one.recovery.once() for one in others))) == [0, 0, 0, 0, 1]
    assert city.shop.called == ["reserve", "charge", "charge", "ship", "mail"]


async def test_compensation_that_was_cut_off_goes_on_where_it_was(city: City):
    a, b = city.instance(), city.instance()
    city.shop.does |= {"mail": [ToolFailed("mail", "no")], "refund": [Slow(1000)]}
    await city.cut(a)
    await city.wait_for_lease()
    await b.recovery.once()
    assert city.shop.called == [*TOOLS, "recall", "refund", "refund", "release"]
    assert set(city.shop.balance().values()) == {0}
    assert (await b.sagas.show("o1"))["failed"] == "mail"


async def test_saga_10_an_owner_that_was_stopped_past_its_lease_is_fenced_and_calls_nothing_more(city: City):
    a, b = city.instance(order(*SAFE)), city.instance()
    city.shop.does["charge"] = [Slow(20)]
    call = city.begin(a)
    await city.clock.sleep(1)
    assert isinstance(a.store, Frail)
    a.store.thawed = asyncio.Event()
    await city.wait_for_lease()
    assert await b.recovery.once() == 1
    await city.clock.sleep(20)
    made = list(city.shop.called)
    a.store.thawed.set()
    assert (await call)["did"] == "mail", "the caller learns how the saga ended all the same"
    assert city.shop.called == made == ["reserve", "charge", "charge", "ship", "mail"]


async def test_saga_10_the_renewal_of_its_lease_tells_an_owner_that_the_saga_is_not_its_own(city: City):
    a, b = city.instance(order(*SAFE)), city.instance()
    city.shop.does["charge"] = [Slow(8)]
    call = city.begin(a)
    await city.clock.sleep(1)
    await drop_leases(city)
    await b.recovery.once()
    made = list(city.shop.called)
    assert (await call)["did"] == "mail", "the caller learns how the saga ended all the same"
    assert city.shop.called == made == ["reserve", "charge", "charge", "ship", "mail"]


async def drop_leases(city: City) -> None:
    for key in await city.keys(LEASES):
        await city.store.delete(key)


async def test_saga_10_an_owner_that_slept_between_writing_and_calling_looks_before_it_calls(city: City):
    b = city.instance()

    class Sleepy(Frail):
        async def batch(self, changes: Any) -> list[int] | None:
            done = await super().batch(changes)
            if city.shop.called == ["reserve"]:
                city.clock.time += 60
                await b.recovery.once()
            return done

    a = city.instance(order(*SAFE), Sleepy(city.store))
    assert (await a.call())["did"] == "mail"
    assert city.shop.called == TOOLS
    assert len(b.events("saga_recovered")) == 1


@pytest.mark.parametrize("way", ["forward", "back"])
async def test_saga_10_an_owner_that_was_fenced_between_two_attempts_makes_no_other(city: City, way: str):
    steps = [step("reserve"), step("charge", pivot=way == "forward"), step("ship", retry_safe=True)]
    a, b = city.instance(order(*steps, backoff=w.fixed(8.0))), city.instance()
    tool = "ship" if way == "forward" else "refund"
    city.shop.always[tool] = ToolFailed(tool, "away")
    if way == "back":
        city.shop.always["ship"] = ToolFailed("ship", "no")
    call = city.begin(a)
    await city.clock.sleep(1)
    del city.shop.always[tool]
    await drop_leases(city)
    assert await b.recovery.once() == 1
    made = list(city.shop.called)
    await asyncio.gather(call, return_exceptions=True)
    await city.clock.sleep(30)
    assert city.shop.called == made
    assert made.count(tool) == 2


@pytest.mark.parametrize("change", ["other spec", "gone"])
async def test_saga_12_13_a_saga_goes_on_by_the_spec_that_it_began_with(city: City, change: str):
    a, b = city.instance(order(*SAFE)), city.instance()
    city.shop.does["charge"] = [Slow(1000)]
    await city.cut(a)
    if change == "other spec":
        b.load(order(step("mail")))
    else:
        b.load(w.tool("mail"), name="unrelated")
    await city.wait_for_lease()
    await b.recovery.once()
    assert city.shop.called == ["reserve", "charge", "charge", "ship", "mail"]


async def test_saga_12_a_reload_in_the_middle_changes_nothing_for_what_runs(city: City):
    one = city.instance()
    city.shop.does["charge"] = [Slow(5)]
    call = city.begin(one)
    await city.clock.sleep(1)
    one.load(order(step("mail")))
    assert (await call)["did"] == "mail"
    assert city.shop.called == TOOLS
    assert (await one.call())["did"] == "mail", "the same id is the same saga, whatever its spec is now"
    assert city.shop.called == TOOLS


async def test_saga_12_compositions_that_a_step_names_are_part_of_what_is_stored(city: City):
    named = order(w.saga_step("both", w.tool("two"), compensate=w.tool("refund"), retry_safe=True), step("mail"))
    a, b = city.instance(), city.instance()
    a.load(named, two=w.pipeline(w.tool("reserve"), w.tool("charge")))
    city.shop.does["charge"] = [Slow(1000)]
    await city.cut(a)
    b.load(named, two=w.tool("ship"))
    await city.wait_for_lease()
    await b.recovery.once()
    assert city.shop.called == ["reserve", "charge", "reserve", "charge", "mail"]
    assert city.shop.balance()["reserve"] == 1, "what was done before the crash has the same key after it"


async def test_a_saga_in_a_saga_is_found_again_after_a_crash(city: City):
    inner = order(step("charge", retry_safe=True), step("ship", retry_safe=True), id=None)
    outer = order(w.saga_step("pay", inner, compensate=w.tool("refund"), retry_safe=True), step("mail"))
    a, b = city.instance(outer), city.instance()
    city.shop.does["ship"] = [Slow(1000)]
    await city.cut(a)
    await city.wait_for_lease()
    recovering = asyncio.create_task(b.recovery.once())
    assert await recovering == 2
    assert city.shop.called == ["charge", "ship", "ship", "mail"]
    assert {row["status"] for row in await b.sagas.list(ended=True)} == {"COMPLETED"}


# The store.


async def test_saga_14_an_outage_that_is_short_is_waited_for_and_nothing_is_called_meanwhile(city: City):
    down: list[float] = []

    def fault(what: str, count: int) -> StoreError | None:
        if what != "batch" or not city.shop.calls:
            return None
        if not down:
            down.append(city.clock.now())
        return away() if city.clock.now() < down[0] + 5 else None

    one = city.instance(store=Frail(city.store, fault))
    seen: list[float] = []

    def when(_: Any) -> None:
        seen.append(city.clock.now())

    city.shop.always["charge"] = when
    assert (await one.call())["did"] == "mail"
    assert seen[0] >= down[0] + 5
    assert city.shop.called == TOOLS


@pytest.mark.parametrize("at", ["batch"])
async def test_saga_14_an_outage_that_is_long_stops_before_the_next_action_and_another_goes_on(city: City, at: str):
    def fault(what: str, count: int) -> StoreError | None:
        return away() if city.shop.calls else None

    one, other = city.instance(order(*SAFE), Frail(city.store, fault)), city.instance()
    with pytest.raises(StoreError, match="saga 'o1' goes on when the store is back") as caught:
        await one.call()
    assert caught.value.retryable == "unknown-outcome"
    assert city.shop.called == ["reserve"]
    await city.wait_for_lease()
    assert await other.recovery.once() == 1
    assert city.shop.called == ["reserve", "reserve", "charge", "ship", "mail"]
    assert city.shop.balance() == dict.fromkeys(TOOLS, 1)


@pytest.mark.parametrize("code", ["StoreUnavailable", "StoreFull"])
async def test_saga_23_a_saga_that_cannot_be_written_is_not_begun(city: City, code: str):
    one = city.instance(store=Frail(city.store, lambda what, n: StoreError("sagas", "no", code=code)))
    with pytest.raises(StoreError) as caught:
        await one.call()
    assert caught.value.code == code
    assert city.shop.calls == []


async def test_saga_23_a_disk_that_fills_up_stops_it_before_the_action_and_it_goes_on_when_there_is_room(city: City):
    full = [True]

    def fault(what: str, count: int) -> StoreError | None:
        return StoreError("sagas", "disk full", code="StoreFull") if full[0] and city.shop.calls else None

    one = city.instance(order(*SAFE), Frail(city.store, fault))
    with pytest.raises(StoreError):
        await one.call()
    assert city.shop.called == ["reserve"]
    full[0] = False
    await city.wait_for_lease()
    assert await one.recovery.once() == 1
    assert city.shop.balance() == dict.fromkeys(TOOLS, 1)


@pytest.mark.parametrize("nth", range(1, 6))
async def test_a_writing_whose_answer_was_lost_is_looked_up_and_not_repeated(city: City, nth: int):
    class Deaf(Frail):
        writes = 0

        async def batch(self, changes: Any) -> list[int] | None:
            done = await super().batch(changes)
            self.writes += 1
            if self.writes == nth:
                raise away(sent=True)
            return done

    one = city.instance(store=Deaf(city.store))
    assert (await one.call())["did"] == "mail"
    assert city.shop.called == TOOLS
    assert (await one.sagas.show("o1"))["status"] == "COMPLETED"


async def test_saga_15_a_store_that_was_emptied_is_noticed_and_nothing_is_begun_again(city: City):
    one = city.instance()

    def flush(_: Any) -> None:
        forget(city.store)

    city.shop.does["charge"] = [flush]
    with pytest.raises(SagaFailed, match="its record is gone") as caught:
        await one.call()
    assert caught.value.code == "SagaLost"
    assert city.shop.called == ["reserve", "charge"]
    assert len(one.events("saga_stuck")) == 1


def forget(store: MemoryStore) -> None:
    store._entries.clear()  # pyright: ignore[reportPrivateUsage]  (FLUSHALL has no other name here)


@pytest.mark.parametrize("what", ["head", "state", "spec"])
async def test_saga_15_a_part_of_a_record_that_is_gone_makes_the_saga_stuck_not_new(city: City, what: str):
    a, b = city.instance(order(*SAFE)), city.instance(order(*SAFE))
    city.shop.does["charge"] = [Slow(1000)]
    await city.cut(a)
    await city.wait_for_lease()
    prefix = {"head": HEADS, "state": OPEN, "spec": SPECS}[what]
    for key in await city.keys(prefix):
        await city.store.delete(key)
    for _ in range(3):
        await b.recovery.once()
    assert city.shop.called == ["reserve", "charge"]
    if what != "state":
        assert len(b.events("saga_stuck")) == 1
    if what == "head":
        return
    with pytest.raises(SagaFailed) as caught:
        await b.call()
    assert caught.value.code == ("SagaLost" if what == "state" else "SagaStuck")
    assert city.shop.called == ["reserve", "charge"]


async def test_a_saga_that_comes_no_further_is_stuck_after_some_recoveries(city: City):
    a = city.instance(order(*SAFE, max_recovery_attempts=3))
    city.shop.does["charge"] = [Slow(1000)] * 10
    await city.cut(a)
    for _ in range(3):
        await city.wait_for_lease()
        b = city.instance()
        task = asyncio.create_task(b.recovery.once())
        await city.clock.sleep(1)
        b.kill()
        city.begun.append(task)
    await city.wait_for_lease()
    last = city.instance()
    await last.recovery.once()
    shown = await last.sagas.show("o1")
    assert "taken over 3 times" in shown["stuck"]
    assert len(last.events("saga_stuck")) == 1
    assert city.shop.called.count("charge") == 4
    city.shop.does["charge"] = []
    await last.sagas.retry("o1")
    await last.recovery.once()
    assert (await last.sagas.show("o1"))["status"] == "COMPLETED"


async def test_the_time_of_a_saga_goes_on_while_nobody_works_on_it(city: City):
    a, b = city.instance(order(*SAFE, timeout=10)), city.instance()
    city.shop.does["charge"] = [Slow(1000)]
    await city.cut(a)
    await city.wait_for_lease()
    await b.recovery.once()
    assert (await b.sagas.show("o1"))["status"] == "COMPENSATED"
    assert set(city.shop.balance().values()) == {0}


async def test_an_engine_that_is_closed_leaves_its_sagas_to_others_at_once(city: City):
    a, b = city.instance(order(*SAFE)), city.instance()
    city.shop.does["charge"] = [Slow(1000)]
    call = city.begin(a)
    await city.clock.sleep(1)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await a.engine.close(drain=1)
    assert len(a.events("saga_handed_over")) == 1
    assert await b.recovery.once() == 1
    assert city.shop.balance() == dict.fromkeys(TOOLS, 1)


async def test_a_recovery_that_is_stopped_leaves_its_sagas_to_others_at_once(city: City):
    a, b, c = city.instance(order(*SAFE)), city.instance(), city.instance()
    city.shop.does["charge"] = [Slow(1000), Slow(1000)]
    await city.cut(a)
    await city.wait_for_lease()
    task = asyncio.create_task(b.recovery.run())
    await city.clock.sleep(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await c.recovery.once() == 1
    assert city.shop.balance() == dict.fromkeys(TOOLS, 1)


async def test_the_loop_finds_sagas_while_others_take_their_time(city: City):
    a, b = city.instance(order(*SAFE)), city.instance()
    city.shop.does["charge"] = [Slow(1000), Slow(50)]
    await city.cut(a)
    await city.wait_for_lease()
    loop = asyncio.create_task(b.recovery.run())
    await city.clock.sleep(1)
    c = city.instance(order(*SAFE))
    city.shop.does["charge"] = [Slow(1000)]
    city.begin(c, {"id": "o2"})
    await city.clock.sleep(1)
    c.kill()
    await city.clock.sleep(30)
    assert (await b.sagas.show("o2"))["status"] == "COMPLETED"
    assert (await b.sagas.show("o1"))["status"] == "RUNNING"
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)


async def test_saga_21_compensations_run_for_a_caller_who_lost_the_right_and_forward_steps_do_not(city: City):
    a, b = city.instance(order(*SAFE)), city.instance()
    city.shop.does["charge"] = [Slow(1000)]
    await city.cut(a)
    await city.wait_for_lease()

    denied = ExecutionFailed("may not be called for this caller", code="StepDenied")
    bind = city.shop.bind

    def guarded(ref: Any) -> Any:
        invoke = bind(ref)
        assert invoke is not None

        async def checked(arguments: Any, call: Any) -> Any:
            if type(call.root.context).__name__ == "Customer":
                raise denied
            return await invoke(arguments, call)

        return checked

    city.shop.bind = guarded
    await b.recovery.once()
    assert city.shop.called == ["reserve", "charge", "refund", "release"]
    shown = await b.sagas.show("o1")
    assert (shown["status"], shown["error"]["code"]) == ("COMPENSATED", "StepDenied")


async def test_a_saga_is_finished_in_the_name_of_who_began_it(city: City):
    a, b = city.instance(order(*SAFE)), city.instance()
    city.shop.does["charge"] = [Slow(1000)]
    await city.cut(a)
    await city.wait_for_lease()
    seen: list[tuple[str, str]] = []

    def caller(principal: Any, tool: str) -> None:
        seen.append((principal.subject, tool))

    b.recovery._caller = caller  # pyright: ignore[reportPrivateUsage]
    await b.recovery.once()
    assert seen == [("alice", "order")]


async def test_sagas_that_have_ended_are_not_looked_at(city: City):
    one = city.instance()
    for n in range(5):
        await one.call({"id": f"o{n}"})
    assert isinstance(one.store, Frail)
    before = one.store.count
    assert await one.recovery.once() == 0
    assert one.store.count - before == 1, "one scan, of nothing"


async def test_a_store_that_is_away_is_told_of_once_and_recovery_goes_on_when_it_is_back(city: City):
    a = city.instance(order(*SAFE))
    city.shop.does["charge"] = [Slow(1000)]
    await city.cut(a)
    await city.wait_for_lease()
    down = [True]
    b = city.instance(store=Frail(city.store, lambda what, n: away() if down[0] else None))
    for _ in range(3):
        assert await b.recovery.once() == 0
    assert len(b.events("recovery_away")) == 1
    down[0] = False
    assert await b.recovery.once() == 1


async def test_a_record_that_this_version_cannot_read_is_left_alone_and_told_of_once(city: City):
    one = city.instance()
    await city.store.set(open_key(HEADS + "x"), b'{"v": 9, "status": "DREAMING"}')
    for _ in range(3):
        assert await one.recovery.once() == 0
    assert len(one.events("saga_stuck")) == 1


async def test_a_broken_answer_leaves_it_open_whether_the_step_was_done(city: City):
    one = city.instance()
    city.shop.does["charge"] = [Broken(UpstreamDied("bank", "gone"))]
    with pytest.raises(SagaFailed):
        await one.call()
    assert set(city.shop.balance().values()) == {0}


@pytest.mark.parametrize(
    ("error", "undone"),
    [
        (UpstreamUnavailable("charge", "not connected yet"), ["refund", "release"]),
        (ToolFailed("charge", "no such card"), ["release"]),
    ],
)
async def test_saga_08_what_a_dead_instance_began_is_undone_unless_the_tool_itself_says_no(
    city: City, error: Exception, undone: list[str]
):
    a, b = city.instance(order(*SAFE)), city.instance()
    city.shop.does["charge"] = [Slow(1000), error]
    await city.cut(a)
    await city.wait_for_lease()
    assert await b.recovery.once() == 1
    assert [row["status"] for row in await b.sagas.list(ended=True)] == ["COMPENSATED"]
    assert [tool for tool in city.shop.called if tool not in UNDO] == undone

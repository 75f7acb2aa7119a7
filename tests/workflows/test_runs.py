"""Recorded runs, on every store: what is kept of them, which are still alive, and who sees them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.stores.stores import STORES, TIMED, Make, Place
from tests.workflows.recording import ALICE, ran, run, step
from weft.errors import InputError, NotFound, StoreError
from weft.ports import Store
from weft.stores.memory import MemoryStore
from weft.testing import FakeClock
from weft.workflows.recorded import MOST_STEPS, Ended, Run, new_run
from weft.workflows.runs import RETENTION, Runs
from weft.workflows.trails import DAY

pytestmark = pytest.mark.req("WFL-33")
SECRET = "hunter2-in-a-value"
ENDS: list[Ended] = ["succeeded", "failed"]
CHOICES: list[dict[str, Any]] = [
    {},
    {"template": "t"},
    {"status": "succeeded"},
    {"template": "t", "status": "succeeded"},
]


@pytest.fixture
def runs(store: Store) -> Runs:
    """Return the runs in a store."""
    return Runs(store)


async def test_a_run_is_there_from_its_beginning(runs: Runs):
    begun = await runs.begin(new_run(ALICE, "report", template="report-v1", started=1000.5, input_bytes=12))
    found = await runs.get("acme", begun.run_id)
    assert found == begun
    assert found.row() == {
        "run_id": begun.run_id, "template": "report-v1", "name": "report", "tenant": "acme", "principal": ALICE.id,
        "status": "running", "started": 1000.5, "duration_ms": None, "input_bytes": 12, "error": None,
    }  # fmt: skip
    assert (await runs.list("acme")).runs == [found]


async def test_a_run_that_ended_has_its_steps(runs: Runs):
    begun = await runs.begin(run())
    told = {"id": "b", "status": "failed", "started_ms": 3.5, "duration_ms": 2.0, "attempts": 3,
            "error": {"code": "ToolFailed", "message": SECRET}, "because": SECRET}  # fmt: skip
    done = begun.ended(
        "failed", duration_ms=5.25, steps=[step("a"), told, step("c", "skipped", None, attempts=0)],
        error={"code": "ToolFailed", "message": SECRET},
    )  # fmt: skip
    assert await runs.end(done)
    found = await runs.get("acme", begun.run_id)
    assert found == done
    assert (found.status, found.duration_ms, found.error) == ("failed", 5.25, "ToolFailed")
    assert found.to_json()["steps"] == [
        {"id": "a", "status": "succeeded", "duration_ms": 10.0, "attempts": 1},
        {"id": "b", "status": "failed", "started_ms": 3.5, "duration_ms": 2.0, "attempts": 3, "error": "ToolFailed"},
        {"id": "c", "status": "skipped"},
    ]
    (listed,) = (await runs.list("acme")).to_json()["runs"]
    assert listed["step_counts"] == {"succeeded": 1, "failed": 1, "skipped": 1}
    assert "steps" not in listed


async def test_no_value_of_a_call_is_ever_stored(store: Store):
    runs = Runs(store)
    begun = await runs.begin(run())
    told = {"id": "b", "status": "failed", "error": {"code": "E", "message": SECRET}, "because": SECRET}
    await runs.end(begun.ended("failed", duration_ms=1, steps=[told], error={"code": "E", "message": SECRET}))
    everything = [(key, stored.value) async for key, stored in store.scan("")]
    assert everything
    assert not any(SECRET in key or SECRET.encode() in value for key, value in everything)


async def test_a_run_ends_once(runs: Runs):
    begun = await runs.begin(run())
    ends = [begun.ended("succeeded" if at else "failed", duration_ms=at) for at in range(6)]
    counted = await asyncio.gather(*map(runs.end, ends))
    assert sum(counted) == 1
    won = ends[counted.index(True)]
    assert (await runs.get("acme", begun.run_id)).duration_ms == won.duration_ms
    by_status = [len((await runs.list("acme", status=one)).runs) for one in ("succeeded", "failed")]
    assert sorted(by_status) == [0, 1]


async def test_nobody_sees_the_runs_of_another_tenant(runs: Runs):
    mine, other = await ran(runs, tenant="a", template="t"), await ran(runs, tenant="a|t", template="t")
    for tenant, own, foreign in (("a", mine, other), ("a|t", other, mine)):
        assert [one.run_id for one in (await runs.list(tenant)).runs] == [own.run_id]
        assert [one.run_id for one in (await runs.list(tenant, template="t")).runs] == [own.run_id]
        assert [one.run_id for one in (await runs.list(tenant, status="succeeded")).runs] == [own.run_id]
        with pytest.raises(NotFound, match=f"Run not found: {foreign.run_id}"):
            await runs.get(tenant, foreign.run_id)
        assert await runs.adopt(tenant, foreign.run_id) is None


async def test_lists_are_narrowed_by_template_and_status(runs: Runs):
    made: dict[tuple[str, str], list[str]] = {}
    for at in range(12):
        template = ("a", "b", None)[at % 3]
        status = ENDS[at % 2]
        one = await ran(runs, template=template, status=status)
        for where in ((template or "-", status), (template or "-", ""), ("", status), ("", "")):
            made.setdefault(where, []).insert(0, one.run_id)
    for (template, status), expected in made.items():
        if template != "-":
            page = await runs.list("acme", template=template or None, status=status or None)
            assert [one.run_id for one in page.runs] == expected
            assert page.next is None
    assert (await runs.list("acme", template="c")).runs == []
    assert (await runs.list("acme", status="cancelled")).runs == []


async def test_a_run_whose_process_is_gone_is_interrupted_until_another_goes_on(make: Make, place: Place):
    async with make(place) as store:
        dead, alive = Runs(store), Runs(store)
        lost, kept = await dead.begin(run()), await alive.begin(run())
        await store.delete(f"v1|run-owner|{dead.me}")
        assert (await alive.get("acme", lost.run_id)).status == "interrupted"
        assert [one.run_id for one in (await alive.list("acme", status="interrupted")).runs] == [lost.run_id]
        assert [one.run_id for one in (await alive.list("acme", status="running")).runs] == [kept.run_id]
        adopted = await alive.adopt("acme", lost.run_id)
        assert adopted is not None
        assert (await Runs(store).get("acme", lost.run_id)).status == "running"
        assert await alive.end(adopted.ended("succeeded", duration_ms=1))
        assert not await dead.end(lost.ended("failed", duration_ms=1))
        assert (await dead.get("acme", lost.run_id)).status == "succeeded"
        assert await alive.adopt("acme", lost.run_id) is None


async def test_a_process_that_says_so_stays_alive_for_as_long_as_it_does():
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    runs = Runs(store, clock=clock)
    begun = await runs.begin(run())
    beating = asyncio.create_task(runs.keep_alive())
    await clock.sleep(3600)
    assert (await Runs(store).get("acme", begun.run_id)).status == "running"
    beating.cancel()
    await clock.sleep(31)
    assert (await Runs(store).get("acme", begun.run_id)).status == "interrupted"


async def test_a_store_that_is_away_does_not_end_the_beating():
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    runs = Runs(store, clock=clock)
    asked = 0

    class Away:
        async def batch(self, changes: object) -> None:
            nonlocal asked
            asked += 1
            raise StoreError("s", "away")

    runs._store = Away()  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]  (it goes away later)
    beating = asyncio.create_task(runs.keep_alive())
    await clock.sleep(35)
    assert asked >= 3
    assert not beating.done()
    beating.cancel()


@pytest.mark.parametrize("kind", sorted(TIMED))
async def test_runs_are_kept_for_thirty_days_and_no_longer_than_thirty_one(kind: str, place: Place):
    clock = FakeClock(1_000_000_000.0)
    async with STORES[kind](replace(place, clock=clock)) as store:
        runs = Runs(store, clock=clock)
        old = await ran(runs, template="t")
        clock.time += RETENTION - 1
        new = await ran(runs, template="t")
        for chosen in CHOICES:
            assert [one.run_id for one in (await runs.list("acme", **chosen)).runs] == [new.run_id, old.run_id]
        clock.time += DAY + 1
        for chosen in CHOICES:
            page = await runs.list("acme", **chosen)
            assert [one.run_id for one in page.runs] == [new.run_id]
            assert page.next is None
        with pytest.raises(NotFound):
            await runs.get("acme", old.run_id)
        clock.time += RETENTION + DAY
        left = [key async for key, _ in store.scan("")]
        assert left == []


async def test_an_end_after_the_record_is_gone_still_counts():
    clock = FakeClock(1_000_000_000.0)
    runs = Runs(MemoryStore(clock=clock), clock=clock)
    begun = await runs.begin(run())
    clock.time += 2 * RETENTION
    assert await runs.end(begun.ended("succeeded", duration_ms=1))
    assert (await runs.list("acme")).runs == []


async def test_a_run_whose_beginning_could_not_be_recorded_still_counts(runs: Runs):
    assert await runs.end(run().ended("succeeded", duration_ms=1))
    assert (await runs.list("acme")).runs == []


async def test_runs_make_room_for_others_in_memory_and_never_fill_it():
    store = MemoryStore(max_entries=300)
    runs = Runs(store)
    made = [(await ran(runs, template="t")).run_id for _ in range(500)]
    await store.put_if_absent("something to keep", b"")
    page = await runs.list("acme", limit=10)
    assert [one.run_id for one in page.runs] == made[:-11:-1]


async def test_a_run_of_very_many_steps_is_recorded():
    runs = Runs(MemoryStore())
    begun = await runs.begin(run())
    many = [step(f"{'s' * 120}-{at}") for at in range(10_000)]
    await runs.end(begun.ended("succeeded", duration_ms=1, steps=many))
    found = await runs.get("acme", begun.run_id)
    assert len(found.steps) == MOST_STEPS
    assert found.step_counts == {"succeeded": 10_000}


def test_ids_of_runs_are_not_to_be_guessed():
    made = {run().run_id for _ in range(1000)}
    assert len(made) == 1000
    assert all(one.startswith("run_") and len(one) == 28 and one.isalnum() is False for one in made)


def test_a_record_of_a_newer_weft_is_read():
    begun = replace(run(), owner="me", at="1-1")
    data = begun.record().removesuffix(b"}") + b',"news":1}'
    assert Run.of_record(data) == begun


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        ({"status": "succeded"}, "UnknownStatus", "did you mean 'succeeded'?"),
        ({"status": ""}, "UnknownStatus", "expected one of running, interrupted, succeeded"),
        ({"limit": 0}, "InvalidLimit", "expected 1 to 200"),
        ({"limit": 201}, "InvalidLimit", "expected 1 to 200"),
        ({"before": "x"}, "InvalidCursor", "'x'"),
        ({"before": "1-2-3"}, "InvalidCursor", "'1-2-3'"),
        ({"before": "٣-٣"}, "InvalidCursor", "next"),
    ],
)
async def test_a_wrong_question_is_refused(asked: dict[str, Any], code: str, said: str):
    with pytest.raises(InputError) as caught:
        await Runs(MemoryStore()).list("acme", **asked)
    assert caught.value.code == code
    assert said in f"{caught.value.message} {caught.value.hint}"

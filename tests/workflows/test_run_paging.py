"""Paging through runs: nothing is lost or comes twice while others are added, and every page costs the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workflows.recording import Asked, ran, run
from weft.ports import Store
from weft.stores.memory import MemoryStore
from weft.testing import FakeClock
from weft.workflows.recorded import Ended
from weft.workflows.runs import LOOK, RETENTION, Runs
from weft.workflows.trails import DAY, Trails

STATUSES: list[Ended] = ["succeeded", "failed", "cancelled"]
CHOICES: list[dict[str, Any]] = [{}, {"template": "a"}, {"status": "failed"}, {"template": "a", "status": "failed"}]

one_run = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(STATUSES), st.integers(0, 30))
"""Of which template, how it ended, and how many hours after the one before it began."""


async def add(runs: Runs, clock: FakeClock, made: tuple[str | None, Ended, int]) -> tuple[str, str | None, str]:
    """Record a run; return its id, template and status."""
    template, status, hours = made
    clock.time += hours * 3600
    return (await ran(runs, template=template, status=status)).run_id, template, status


def fits(one: tuple[str, str | None, str], chosen: dict[str, Any]) -> bool:
    """Tell whether a run is one of those that a list is narrowed to."""
    return chosen.get("template") in (None, one[1]) and chosen.get("status") in (None, one[2])


@given(
    before=st.lists(one_run, max_size=25),
    between=st.lists(st.lists(one_run, max_size=3), max_size=10),
    limit=st.integers(1, 7),
    chosen=st.sampled_from(CHOICES),
)
async def test_paging_meets_every_run_once_whatever_is_added_meanwhile(
    before: list[Any], between: list[list[Any]], limit: int, chosen: dict[str, Any]
):
    clock = FakeClock(1_000_000_000.0)
    # Longer than all that time, so that nothing expires on the way.
    runs = Runs(MemoryStore(clock=clock), clock=clock, retention=400.0 * DAY)
    there = [await add(runs, clock, one) for one in before]
    expected = [one[0] for one in reversed(there) if fits(one, chosen)]
    met: list[str] = []
    cursor: str | None = None
    for later in range(1000):
        page = await runs.list("acme", limit=limit, before=cursor, **chosen)
        met += [one.run_id for one in page.runs]
        assert len(page.runs) <= limit
        cursor = page.next
        if cursor is None:
            break
        for one in between[later] if later < len(between) else ():
            await add(runs, clock, one)
    assert met == expected


@pytest.mark.parametrize("chosen", CHOICES)
async def test_paging_while_others_write_loses_nothing(store: Store, chosen: dict[str, Any]):
    runs, others = Runs(store), Runs(store)
    there = [await add(runs, FakeClock(), ("a", "failed", 0)) for _ in range(12)]
    writing = asyncio.gather(*(ran(others, template="a", status="failed") for _ in range(12)))
    met: list[str] = []
    cursor: str | None = None
    while True:
        page = await runs.list("acme", limit=3, before=cursor, **chosen)
        met += [one.run_id for one in page.runs]
        if (cursor := page.next) is None:
            break
    await writing
    assert len(met) == len(set(met))
    old = [one[0] for one in there]
    assert [one for one in met if one in old] == old[::-1]


@settings(max_examples=20)
@given(st.lists(st.sampled_from(["ends", "dies", "holes"]), max_size=30), st.integers(1, 5))
async def test_numbers_that_nobody_wrote_to_hide_no_run(fates: list[str], limit: int):
    store = MemoryStore()
    runs = Runs(store)
    made: list[str] = []
    for fate in fates:
        if fate == "holes":
            await Trails(store, RETENTION).next(*await Trails(store, RETENTION).day(), "acme")
            continue
        made.insert(0, (await runs.begin(run())).run_id if fate == "dies" else (await ran(runs)).run_id)
    met: list[str] = []
    cursor: str | None = None
    while True:
        page = await runs.list("acme", limit=limit, before=cursor)
        met += [one.run_id for one in page.runs]
        if (cursor := page.next) is None:
            break
    assert met == made


async def asked_for(count: int) -> list[int]:
    """Return how much each kind of list of 4, and one run, ask of a store with so many runs."""
    clock = FakeClock(1_000_000_000.0)
    store = MemoryStore(clock=clock)
    runs = Runs(store, clock=clock)
    for at in range(count):
        await ran(runs, template="a" if at % 10 == 0 else "b", status="failed" if at % 4 == 0 else "succeeded")
    totals: list[int] = []
    for chosen in CHOICES:
        asked = Asked(store)
        looking = Runs(asked, clock=clock)  # pyright: ignore[reportArgumentType]  (it passes all on)
        page = await looking.list("acme", limit=4, **chosen)
        assert len(page.runs) == 4
        await looking.get("acme", page.runs[0].run_id)
        assert asked.counts["scan"] == 0
        totals.append(asked.counts.total())
    return totals


async def test_a_page_asks_a_store_for_as_much_among_ten_thousand_runs_as_among_a_hundred():
    assert await asked_for(10_000) == await asked_for(100)


async def test_a_status_that_hardly_any_run_has_costs_a_bounded_look_and_a_cursor():
    store = MemoryStore()
    runs = Runs(store)
    first = await runs.begin(run())
    for _ in range(2 * LOOK):
        await ran(runs)
    asked = Asked(store)
    page = await Runs(asked).list("acme", status="running", limit=200)  # pyright: ignore[reportArgumentType]
    assert page.runs == []
    assert page.next is not None
    assert asked.counts["get"] <= LOOK + 200
    met: list[str] = []
    while page.next is not None:
        page = await runs.list("acme", status="running", limit=200, before=page.next)
        met += [one.run_id for one in page.runs]
    assert met == [first.run_id]

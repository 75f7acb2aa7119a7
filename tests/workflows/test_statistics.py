"""Statistics: what they count, that their order does not matter, and that none is lost when many runs end at once."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stores.stores import Make, Place
from tests.workflows.recording import Asked, run, step
from weft.ports import Store
from weft.stores.memory import MemoryStore
from weft.stores.rules import MAX_VALUE
from weft.workflows.book import StatisticsBook
from weft.workflows.recorded import ENDED, Run
from weft.workflows.statistics import (
    MOST_CODES,
    MOST_STEPS,
    MOST_TIMED,
    SAMPLES,
    Statistics,
    digest,
    merged,
    percentile,
)

pytestmark = pytest.mark.req("WFL-37")

steps = st.builds(
    step,
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["succeeded", "failed", "skipped", "cancelled", "undone"]),
    st.none() | st.floats(0, 1e6),
    attempts=st.integers(0, 4),
    error=st.none() | st.sampled_from(["Timeout", "ToolFailed"]),
)


def done(status: str = "succeeded", took: float = 10.0, started: float = 1000.0, **more: Any) -> Run:
    """Return a run of template `t` that has ended."""
    return run(template="t", started=started).ended(status, duration_ms=took, **more)  # pyright: ignore[reportArgumentType]


ended_runs = st.builds(
    done,
    st.sampled_from(ENDED),
    st.floats(0, 1e6),
    st.integers(0, 50).map(float),
    steps=st.lists(steps, max_size=4, unique_by=lambda one: one.id),
    error=st.none() | st.sampled_from(["Timeout", "ToolFailed"]),
)


@given(st.lists(ended_runs, max_size=12), st.randoms(use_true_random=False), st.integers(0, 12))
def test_the_order_of_merging_does_not_matter(runs: list[Run], rng: random.Random, cut: int):
    one_by_one = [Statistics.of(one) for one in runs]
    mixed = list(one_by_one)
    rng.shuffle(mixed)
    assert merged(mixed) == merged(one_by_one)
    assert merged(one_by_one[:cut]).merge(merged(one_by_one[cut:])) == merged(one_by_one)


def test_the_order_of_merging_does_not_matter_beyond_what_is_kept():
    each = [Statistics.of(done(took=float(at), started=float(at % 50))) for at in range(3 * SAMPLES)]
    mixed = random.Random(1).sample(each, len(each))
    assert merged(mixed) == merged(each)
    assert len(merged(each).times) == SAMPLES


@given(st.lists(ended_runs, max_size=12))
def test_a_record_is_read_as_it_was_written(runs: list[Run]):
    known = merged(Statistics.of(one) for one in runs)
    assert Statistics.of_record(known.record()) == known


def test_counts_rates_and_durations():
    runs = [
        *(done(took=float(at), started=float(at)) for at in range(1, 101)),
        *(done("failed", 5000.0, error="Timeout") for _ in range(15)),
        *(done("partial", 50.0) for _ in range(5)),
        *(done("rolled_back", error="ToolFailed") for _ in range(5)),
        *(done("cancelled") for _ in range(75)),
    ]
    told = merged(Statistics.of(one) for one in runs).to_json()
    assert told["usage_count"] == 200
    assert told["successes"] == 100
    assert told["success_rate"] == 100 / 125
    assert told["failures"] == {"Timeout": 15, "ToolFailed": 5}
    # How long something took that failed or was cancelled says nothing of how long it takes.
    assert told["duration_ms"] == {"count": 100, "p50": 50.0, "p95": 95.0, "max": 100.0}
    assert told["last_run"]["started"] == 1000.0


def test_before_the_first_run_nothing_is_known():
    told = Statistics().to_json()
    assert (told["usage_count"], told["success_rate"], told["duration_ms"], told["last_run"]) == (0, None, None, None)
    assert merged([Statistics.of(done("cancelled"))]).success_rate is None


def test_steps_have_durations_attempts_and_codes():
    runs = [
        done(steps=[step("a", took=10.0), step("b", took=1.0)]),
        done(steps=[step("a", took=30.0), step("b", took=900.0, attempts=3)]),
        done("failed", steps=[step("a", "failed", 5.0, attempts=2, error="Timeout"), step("b", "skipped", None)]),
        done("rolled_back", steps=[step("a", "undone", 20.0)]),
    ]
    told = merged(Statistics.of(one) for one in runs).to_json()["steps"]
    assert told["a"] == {
        "usage_count": 4, "successes": 3, "attempts": 5, "failures": {"Timeout": 1},
        "duration_ms": {"count": 2, "p50": 10.0, "p95": 30.0, "max": 30.0},
    }  # fmt: skip
    # What was tried again took pauses too, and is no duration of the step.
    assert told["b"]["duration_ms"] == {"count": 1, "p50": 1.0, "p95": 1.0, "max": 1.0}
    assert (told["b"]["usage_count"], told["b"]["attempts"]) == (2, 4)


def test_the_last_durations_are_kept():
    each = [done(took=float(at), started=float(at)) for at in range(SAMPLES + 50)]
    assert merged(Statistics.of(one) for one in each).durations == [float(at) for at in range(50, SAMPLES + 50)]


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(values: list[float], share: float):
    ordered = sorted(values)
    found = percentile(ordered, share)
    assert sum(one <= found for one in ordered) >= share * len(ordered)
    assert sum(one < found for one in ordered) < share * len(ordered)


def test_a_digest_of_nothing_is_none():
    assert digest([]) is None


def test_a_record_stays_small_whatever_runs_are_like():
    known = Statistics()
    for at in range(50):
        many = [step(f"{'s' * 100}-{at % 5}-{number}", took=float(number)) for number in range(300)]
        failed = step("odd", "failed", error=f"Code{at}")
        one = Statistics.of(done("failed", steps=[*many, failed], error=f"Code{at}", started=float(at)))
        known = Statistics.of_record(known.merge(one).record())
    assert len(known.record()) < MAX_VALUE / 2
    assert len(known.steps) == MOST_STEPS
    assert sum(bool(one.times) for one in known.steps.values()) == MOST_TIMED
    assert len(known.codes) <= MOST_CODES
    assert len(known.steps["odd"].codes) <= MOST_CODES
    assert sum(known.codes.values()) == known.steps["odd"].runs == 50


async def test_a_run_is_added_to_its_template_and_tenant(store: Store):
    book = StatisticsBook(store)
    await book.add(done())
    await book.add(replace(done("failed"), tenant="other"))
    await book.add(replace(done(), template="u"))
    await book.add(replace(done(), template=None))
    assert (await book.get("acme", "t")).statuses == {"succeeded": 1}
    assert (await book.get("other", "t")).statuses == {"failed": 1}
    assert (await book.get("acme", "u")).usage_count == 1
    assert (await book.get("acme", "nothing")).usage_count == 0
    await book.forget("acme", "t")
    assert (await book.get("acme", "t")) == Statistics()
    assert (await book.get("acme", "u")).usage_count == 1


async def test_no_run_is_lost_when_many_end_at_once_in_two_processes(make: Make, place: Place):
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(make(place))]
        if stores[0].shared:
            stores.append(await stack.enter_async_context(make(place)))
        books = [StatisticsBook(stores[at % len(stores)]) for at in range(2)]
        ends = [done(took=float(at), started=float(at)) for at in range(60)]
        await asyncio.gather(*(books[at % 2].add(one) for at, one in enumerate(ends)))
        assert await books[0].get("acme", "t") == merged(Statistics.of(one) for one in ends)


async def test_runs_that_end_together_are_written_together():
    asked = Asked(MemoryStore())

    class Slow(Asked):
        async def cas(self, *given: object, **more: object) -> object:
            await asyncio.sleep(0)
            return await self.inner.cas(*given, **more)

    book = StatisticsBook(Slow(asked))  # pyright: ignore[reportArgumentType]  (it passes all on)
    await asyncio.gather(*(book.add(done()) for _ in range(100)))
    assert asked.counts["cas"] == 2
    assert (await book.get("acme", "t")).usage_count == 100
    assert book._turns == {}  # pyright: ignore[reportPrivateUsage]


async def test_what_is_asked_of_a_store_does_not_grow_with_the_runs():
    asked = Asked(MemoryStore())
    book = StatisticsBook(asked)  # pyright: ignore[reportArgumentType]  (it passes all on)
    for _ in range(500):
        await book.add(done(steps=[step("a")]))
    assert asked.counts == {"get": 500, "cas": 500}
    await book.get("acme", "t")
    assert asked.counts["get"] == 501

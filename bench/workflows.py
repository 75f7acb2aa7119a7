"""Workflows: what three steps cost beside the calls themselves, in memory and journalled; and lists of many runs."""

from __future__ import annotations

import itertools
import os
import platform
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import weft as w
from bench.figure import Figure
from bench.gateway.effort import Effort
from bench.gateway.pairs import ratio_of
from bench.paired import paired, quiet
from bench.state.places import CALL, engine, opened, pay
from bench.state.servers import folder
from weft.patterns.contract import Op
from weft.ports import ABSENT, ANYHOW, Change, Principal, Store
from weft.stores.sqlite import SqliteStore
from weft.workflows.book import StatisticsBook
from weft.workflows.recorded import new_run
from weft.workflows.runs import Runs

METHOD = "in memory: CPU time, batches in turn; with a store: time, sides in turn; medians with quartiles"
ADDED_US = 100.0
COMMITS = 1.3
MANY = 1.3
FEW_RUNS, MANY_RUNS = 100, 10_000
TEMPLATE = "search-fold-store-v1"
ME = Principal(subject="bench")


def workflow(store: str | None = None) -> Op[Any, Any]:
    """Return three steps, each of which reads the one before."""
    steps = [
        w.workflow_step("first", pay, {"id": "{{input.id}}", "amount": 1}),
        w.workflow_step("second", pay, {"id": "{{first.id}}", "amount": "{{first.amount}}"}),
        w.workflow_step("third", pay, {"id": "{{second.id}}", "note": "paid {{second.amount}}"}),
    ]
    return w.workflow(*steps, output="{{third}}", store=store)


async def by_hand() -> Any:
    """Call the tool three times, as the workflow does, with nothing around."""
    first = await pay({"id": CALL["id"], "amount": 1})
    second = await pay({"id": first["id"], "amount": first["amount"]})
    return await pay({"id": second["id"], "note": f"paid {second['amount']}"})


async def in_memory() -> AsyncIterator[Figure]:
    """Measure what a workflow adds to its three calls, traced as a gateway does it."""
    ours = engine(workflow())
    assert (await ours.run("it", CALL)).value == await by_hand()
    measured = await paired(lambda: ours.run("it", CALL), by_hand)
    detail = {key: value for key, value in measured.to_json().items() if key != "quartiles"}
    added = measured.ours_us - measured.theirs_us
    yield Figure("a workflow of three steps in memory, over its bare calls", added, ADDED_US, "us", detail)


async def on_sqlite(effort: Effort) -> AsyncIterator[Figure]:
    """Measure a workflow that journals every step to SQLite against its own commits, made again without it."""
    number = max(effort.calls // 5, 20)
    with folder() as place:
        async with opened(SqliteStore(place / "weft.db")) as store, opened(SqliteStore(place / "bare.db")) as other:
            ours = engine(workflow("runs"), store)
            batches = await _batches(lambda: ours.run("it", CALL), store)
            keys = itertools.count()
            sides: tuple[Callable[[], Awaitable[Any]], ...] = (
                lambda: ours.run("it", CALL),
                lambda: _again(other, batches, str(next(keys))),
            )
            times: tuple[list[float], list[float]] = ([], [])
            for turn in range(effort.turns):
                for which in (0, 1) if turn % 2 else (1, 0):
                    times[which].append(await _time(sides[which], number))
        told = ratio_of(*times).figure("the same journalled to SQLite, time / its own commits", COMMITS, unit="us")
        yield Figure(told.name, told.value, told.limit, told.unit, {**told.detail, "commits": len(batches)})


async def _batches(side: Callable[[], Awaitable[Any]], store: Store) -> list[Sequence[Change]]:
    """Return what one run commits."""
    seen: list[Sequence[Change]] = []
    batch = store.batch

    async def noted(changes: Sequence[Change]) -> list[int] | None:
        seen.append(list(changes))
        return await batch(changes)

    await side()
    with patch.object(store, "batch", noted):
        await side()
    return seen


async def _again(store: Store, batches: list[Sequence[Change]], mark: str) -> None:
    """Make the same commits under keys of their own: the same bytes, on the same conditions."""
    versions: dict[str, int] = {}
    for changes in batches:
        here = [_here(change, mark, versions) for change in changes]
        written = await store.batch(here)
        assert written is not None, "the conditions hold"
        versions |= {change.key: version for change, version in zip(here, written, strict=True)}


def _here(change: Change, mark: str, versions: dict[str, int]) -> Change:
    key = f"{change.key}|{mark}"
    return replace(change, key=key, when=change.when if change.when in (ANYHOW, ABSENT) else versions[key])


async def _time(side: Callable[[], Awaitable[Any]], calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        await side()
    return (time.perf_counter() - began) / calls * 1e6


async def lists(effort: Effort) -> AsyncIterator[Figure]:
    """Measure the first page of runs, and the statistics, among 10,000 runs against among 100."""
    with folder() as place:
        few, many = SqliteStore(place / "few.db"), SqliteStore(place / "many.db")
        async with opened(few), opened(many):
            await _filled(few, FEW_RUNS)
            await _filled(many, MANY_RUNS if effort.turns > 5 else 1000)
            for name, asked in (("a page of runs", _page), ("the statistics of a template", _statistics)):
                times: tuple[list[float], list[float]] = ([], [])
                for turn in range(effort.turns):
                    for which in (0, 1) if turn % 2 else (1, 0):
                        store = (many, few)[which]
                        times[which].append(await _time(lambda store=store, asked=asked: asked(store), 20))
                yield ratio_of(*times).figure(f"{name} among 10,000 runs, time / among 100", MANY, unit="us")


async def _filled(store: Store, number: int) -> None:
    runs, book = Runs(store), StatisticsBook(store)
    for which in range(number):
        run = await runs.begin(new_run(ME, TEMPLATE, template=TEMPLATE, started=time.time()))
        steps = [
            {"id": id, "status": "succeeded", "duration_ms": 1.0 + which % 7} for id in ("search", "fold", "store")
        ]
        ended = run.ended("succeeded", duration_ms=3.0 + which % 7, steps=steps)
        await runs.end(ended)
        await book.add(ended)


async def _page(store: Store) -> Any:
    return (await Runs(store).list(ME.tenant, template=TEMPLATE)).to_json()


async def _statistics(store: Store) -> Any:
    return (await StatisticsBook(store).get(ME.tenant, TEMPLATE)).to_json()


async def measured(effort: Effort) -> dict[str, Any]:
    """Measure everything, and return it as the result file has it."""
    same, is_quiet = await quiet(by_hand)
    noise = "" if is_quiet else "  (too noisy: do not trust this run)"
    print(f"by hand / by hand: {same.ratio:.3f}{noise}", flush=True)
    figures: list[Figure] = []
    for part in (in_memory(), on_sqlite(effort), lists(effort)):
        async for figure in part:
            print(figure, flush=True)
            figures.append(figure)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "method": METHOD,
        "same_against_same": same.to_json(),
        "quiet": is_quiet,
        "figures": [figure.to_json() for figure in figures],
    }

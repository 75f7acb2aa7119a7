"""A workflow of ten steps is killed at every writing, sending and receiving; no step that had ended is done again.

On SQLite at every point, on Postgres at some, unless WEFT_SWEEP=all.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.saga.process import Scenario, Site, opened
from tests.saga.test_sweep import ALL, STORES, context, ended, start, until_stopped
from tests.workflows.process import AFTER, STEPS, begin, freeze, recover
from weft.patterns.workflow_journal import read_run
from weft.patterns.workflow_record import WORKFLOWS

pytestmark = pytest.mark.req("WFL-14")
context.set_forkserver_preload(["tests.saga.process", "tests.workflows.process"])

POINTS: dict[Scenario, tuple[int, int]] = {"safe": (54, 62), "refused": (110, 118)}
"""How many points there are: four for each call and two for each commit, of which steps that end together share one."""
WAYS: dict[str, int] = {"restart": 0, "another": 1, "race": 2}
BECAME: dict[Scenario, str] = {"safe": "succeeded", "refused": "rolled_back"}
TOGETHER = 10
SOME = 6


def site(folder: Path, store: str, scenario: Scenario) -> Site:
    folder.mkdir(parents=True, exist_ok=True)
    return Site(folder, STORES[store](folder), scenario)


async def status(at: Site) -> str | None:
    """Return how the only run ended; nothing else is left of it."""
    async with opened(at) as store:
        keys = [key async for key, _ in store.scan("v1|workflow") if not key.startswith("v1|workflow-spec|")]
        if not keys:
            return None
        (key,) = keys
        assert key.startswith(WORKFLOWS)
        record = await read_run(store, key)
        assert record is not None
        assert record.ended
        assert record.state is not None
        return record.state.status


def check(at: Site, ended_before: Sequence[str]) -> None:
    """Check what the ledger shows of a run that has ended."""
    lines = at.ledger.read_text(encoding="utf-8").splitlines() if at.ledger.exists() else []
    entries = [json.loads(line) for line in lines]
    became = asyncio.run(status(at))
    if became is None:
        assert entries == []
        return
    assert became == BECAME[at.scenario]
    for tool in {entry["tool"] for entry in entries}:
        assert len({entry["key"] for entry in entries if entry["tool"] == tool}) == 1, f"{tool} has several keys"
    calls = [entry["tool"] for entry in entries]
    for step in ended_before:
        assert calls.count(step) == 1, f"{step} had ended, and was done again"
    done = [entry["tool"] for entry in entries if entry["what"] == "done"]
    forward, back = [one for one in done if one in AFTER], [one for one in done if one not in AFTER]
    assert sorted(forward) == sorted(STEPS if became == "succeeded" else STEPS[:-1])
    assert all(forward.index(one) > forward.index(other) for one in forward for other in AFTER[one])
    undone = [one.removeprefix("undo_") for one in back]
    assert sorted(undone) == ([] if became == "succeeded" else sorted(forward))
    assert all(undone.index(one) < undone.index(other) for one in undone for other in AFTER[one])


def steps_ended(at: Site) -> list[str]:
    """Return the steps that were written as ended, up to now."""
    file = at.folder / "ended"
    lines = file.read_text(encoding="utf-8").split() if file.exists() else []
    return sorted({STEPS[int(line)] for line in lines})


def sweep(folder: Path, store: str, scenario: Scenario, way: str, points: Sequence[int]) -> None:
    """Kill a run at each point, let others finish it, and check; some at a time, since most of it is waiting."""
    for first in range(0, len(points), TOGETHER):
        sites = {point: site(folder / str(point), store, scenario) for point in points[first : first + TOGETHER]}
        begun = context.Event()
        helpers = [start(recover, at, begun) for at in sites.values() for _ in range(WAYS[way])]
        killed = {point: start(begin, at, point) for point, at in sites.items()}
        for point, one in killed.items():
            # Where steps end together, some of the last points are not there.
            assert ended(one) in ({-signal.SIGKILL} if point <= POINTS[scenario][0] else {-signal.SIGKILL, 0})
        before = {point: steps_ended(at) for point, at in sites.items()} if not helpers else {}
        begun.set()
        helpers += [start(recover, at, None) for at in sites.values() if way == "restart"]
        assert {ended(helper) for helper in helpers} <= {0}
        for point, at in sites.items():
            check(at, before.get(point, []))


@pytest.mark.parametrize("scenario", POINTS)
def test_the_points_are_all_there_are(tmp_path: Path, scenario: Scenario):
    at = site(tmp_path, "sqlite", scenario)
    out = tmp_path / "points"
    assert ended(start(begin, at, 0, out)) == 0
    least, most = POINTS[scenario]
    assert least <= int(out.read_text(encoding="utf-8")) <= most
    check(at, STEPS[:-1])


@pytest.mark.parametrize("way", WAYS if ALL else ["restart"])
def test_killed_at_every_point_it_goes_on_and_repeats_no_step_that_had_ended(tmp_path: Path, way: str):
    sweep(tmp_path, "sqlite", "safe", way, range(1, POINTS["safe"][1] + 1))


@pytest.mark.parametrize("way", WAYS)
def test_killed_while_it_rolls_back_it_goes_on_rolling_back(tmp_path: Path, way: str):
    points = range(1, POINTS["refused"][1] + 1)
    sweep(tmp_path, "sqlite", "refused", way, points if ALL else chosen(way, points[60:]))


@pytest.mark.parametrize("scenario", POINTS)
@pytest.mark.parametrize("way", WAYS if ALL else ["race"])
@pytest.mark.parametrize("store", ["postgres", *(["redis"] if ALL else [])])
def test_so_it_is_on_servers(tmp_path: Path, store: str, scenario: Scenario, way: str):
    points = range(1, POINTS[scenario][1] + 1)
    sweep(tmp_path, store, scenario, way, points if ALL else chosen(f"{scenario}{way}", points))


def chosen(seed: str, points: Sequence[int]) -> list[int]:
    return random.Random(seed).sample(points, SOME)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_whoever_recovers_it_may_be_killed_too(tmp_path: Path, store: str):
    rng = random.Random(store)
    for first in range(0, 60 if ALL else SOME, SOME):
        points = [(rng.randint(3, POINTS["safe"][0]), rng.randint(1, 12)) for _ in range(SOME)]
        sites = [site(tmp_path / str(first + n), store, "safe") for n in range(SOME)]
        killed = [start(begin, at, point) for at, (point, _) in zip(sites, points, strict=True)]
        assert {ended(one) for one in killed} == {-signal.SIGKILL}
        helpers = [start(recover, at, None, second) for at, (_, second) in zip(sites, points, strict=True)]
        assert {ended(one) for one in helpers} <= {0, -signal.SIGKILL}
        before = [steps_ended(at) for at in sites]
        assert {ended(one) for one in [start(recover, at, None) for at in sites]} == {0}
        for at, had in zip(sites, before, strict=True):
            # What the first had under way, the second did again; what had ended by then, nobody did once more.
            calls = [json.loads(line)["tool"] for line in at.ledger.read_text(encoding="utf-8").splitlines()]
            assert all(calls.count(step) <= 2 for step in had)
            check(at, [])


@pytest.mark.parametrize("point", [3, 9, 30])
def test_a_process_that_was_stopped_past_its_lease_does_nothing_more(tmp_path: Path, point: int):
    at = site(tmp_path, "sqlite", "safe")
    out = tmp_path / "outcome"
    stopped = start(freeze, at, point, out)
    until_stopped(stopped.pid)
    assert ended(start(recover, at, None)) == 0
    before = at.ledger.read_bytes()
    os.kill(stopped.pid, signal.SIGCONT)
    assert ended(stopped) == 0
    assert out.read_text(encoding="utf-8") == "succeeded", "its caller learns how the run ended"
    check(at, [])
    written = [json.loads(line) for line in at.ledger.read_bytes()[len(before) :].splitlines()]
    # Stopped after its last look, it may still send the calls that it was about to send, under the same keys.
    assert {entry["what"] for entry in written} <= {"again"}
    assert len(written) <= 3

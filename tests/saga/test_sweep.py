"""A saga of four steps is killed at every writing, sending and receiving; the ledger shows all done or all undone.

On SQLite at every point; on servers at some, unless WEFT_SWEEP=all.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.saga.process import LEASE, Scenario, Site, begin, freeze, opened, recover, work
from tests.saga.worlds import UNDO
from tests.stores.servers import PostgresServer, RedisServer, postgres_server, redis_server
from weft.run.journal import Sagas

pytestmark = pytest.mark.req("STA-44")
ALL = os.environ.get("WEFT_SWEEP") == "all"
SAGAS = int(os.environ.get("WEFT_SAGAS", "150"))
SCENARIOS: dict[Scenario, int] = {"safe": 26, "unsafe": 26, "refused": 44}
"""How many points each has: two for each commit, four for each call."""
WAYS = ("restart", "another", "race")
STORES: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: str(folder / "weft.db"),
    "postgres": lambda folder: postgres_server().url,
    "redis": lambda folder: redis_server().url,
}
SERVERS = {"postgres": PostgresServer, "redis": RedisServer}
PATIENCE = 60.0
TOGETHER = 6
ENTRY = 130
"""About how many bytes one entry of the ledger has."""

# A child that has weft already costs milliseconds; a new interpreter for each would cost a second.
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["tests.saga.process"])


def start(target: Any, *given: Any) -> Any:
    process = context.Process(target=target, args=given)
    process.start()
    return process


def ended(process: Any, more: float = 0.0) -> int:
    process.join(PATIENCE + more)
    assert process.exitcode is not None, "it hangs"
    return process.exitcode


def site(folder: Path, store: str, scenario: Scenario) -> Site:
    folder.mkdir(parents=True, exist_ok=True)
    return Site(folder, STORES[store](folder), scenario)


async def status(at: Site) -> str | None:
    async with opened(at) as store:
        rows = await Sagas([store]).list(ended=True)
        assert len(rows) <= 1
        return rows[0]["status"] if rows else None


def check(at: Site) -> str | None:
    """Check what the ledger shows of a saga that has ended, and return how it did."""
    lines = at.ledger.read_text(encoding="utf-8").splitlines() if at.ledger.exists() else []
    entries = [json.loads(line) for line in lines]
    done = [entry["tool"] for entry in entries if entry["what"] == "done"]
    became = asyncio.run(status(at))
    for tool in {entry["tool"] for entry in entries}:
        keys = {entry["key"] for entry in entries if entry["tool"] == tool}
        assert len(keys) == 1, f"{tool} was called under several keys: it would have been done twice"
        assert done.count(tool) <= 1
    actions, undos = [tool for tool in done if tool in UNDO], [tool for tool in done if tool not in UNDO]
    if became == "COMPLETED":
        assert (actions, undos) == (list(UNDO), [])
    elif became == "COMPENSATED":
        # What may or may not have been done is undone as well; nothing that was done is left.
        assert {UNDO[tool] for tool in actions} <= set(undos)
        order = [tool for tool, undo in UNDO.items() if undo in undos]
        assert undos == [UNDO[tool] for tool in reversed(order)]
    else:
        assert (became, entries) == (None, [])
    return became


def sweep(folder: Path, store: str, scenario: Scenario, way: str, points: Sequence[int]) -> dict[int, str | None]:
    """Kill a saga at each point, let others finish it, and check; some at a time, since most of it is waiting."""
    became: dict[int, str | None] = {}
    for first in range(0, len(points), TOGETHER):
        sites = {point: site(folder / str(point), store, scenario) for point in points[first : first + TOGETHER]}
        begun = context.Event()
        count = {"restart": 0, "another": 1, "race": 2}[way]
        helpers = [start(recover, at, begun) for at in sites.values() for _ in range(count)]
        killed = [start(begin, at, point) for point, at in sites.items()]
        try:
            assert {ended(one) for one in killed} == {-signal.SIGKILL}
        finally:
            begun.set()  # else those who wait for it would wait for ever
        helpers += [start(recover, at, None, 0, True) for at in sites.values() if way == "restart"]
        assert {ended(helper) for helper in helpers} == {0}
        became |= {point: check(at) for point, at in sites.items()}
    return became


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_points_are_all_there_are(tmp_path: Path, scenario: Scenario):
    at = site(tmp_path, "sqlite", scenario)
    out = tmp_path / "points"
    assert ended(start(begin, at, 0, out)) == 0
    assert int(out.read_text(encoding="utf-8")) == SCENARIOS[scenario] >= 6 * 4
    assert check(at) == ("COMPENSATED" if scenario == "refused" else "COMPLETED")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_saga_08_09_killed_at_every_point_it_is_all_done_or_all_undone(tmp_path: Path, scenario: Scenario, way: str):
    became = sweep(tmp_path, "sqlite", scenario, way, range(1, SCENARIOS[scenario] + 1))
    # Only what was not yet written never was; a client that asks again then begins it.
    assert [point for point, how in became.items() if how is None] == ([] if way == "restart" else [1])
    wanted = {"safe": {"COMPLETED"}, "unsafe": {"COMPLETED", "COMPENSATED"}, "refused": {"COMPENSATED"}}[scenario]
    assert set(became.values()) - {None} == wanted


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("store", sorted(STORES.keys() - {"sqlite"}))
def test_saga_08_09_so_it_is_on_servers(tmp_path: Path, store: str, scenario: Scenario, way: str):
    points = range(1, SCENARIOS[scenario] + 1)
    sweep(tmp_path, store, scenario, way, points if ALL else random.Random(f"{scenario}{way}").sample(points, 4))


@pytest.mark.parametrize("store", sorted(STORES))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_saga_08_whoever_recovers_it_may_be_killed_too(tmp_path: Path, store: str, scenario: Scenario):
    rng = random.Random(f"{store}{scenario}")
    for first in range(0, 60 if ALL else TOGETHER, TOGETHER):
        points = [(rng.randint(3, SCENARIOS[scenario]), rng.randint(1, 12)) for _ in range(TOGETHER)]
        sites = [site(tmp_path / str(first + n), store, scenario) for n in range(TOGETHER)]
        killed = [start(begin, at, point) for at, (point, _) in zip(sites, points, strict=True)]
        assert {ended(one) for one in killed} == {-signal.SIGKILL}
        helpers = [start(recover, at, None, second) for at, (_, second) in zip(sites, points, strict=True)]
        assert {ended(one) for one in helpers} <= {0, -signal.SIGKILL}
        assert {ended(one) for one in [start(recover, at, None) for at in sites]} == {0}
        assert None not in {check(at) for at in sites}, f"killed at {points}"


@pytest.mark.parametrize("store", sorted(STORES))
@pytest.mark.parametrize("point", [3, 8, 12, 17])
def test_saga_10_a_process_that_was_stopped_past_its_lease_does_nothing_more(tmp_path: Path, store: str, point: int):
    at = site(tmp_path, store, "safe")
    out = tmp_path / "outcome"
    stopped = start(freeze, at, point, out)
    until_stopped(stopped.pid)
    other = start(recover, at, None)
    assert ended(other) == 0
    before = at.ledger.read_bytes()
    os.kill(stopped.pid, signal.SIGCONT)
    assert ended(stopped) == 0
    assert out.read_text(encoding="utf-8") == "COMPLETED", "its caller learns how the saga ended"
    assert check(at) == "COMPLETED"
    written = [json.loads(line) for line in at.ledger.read_bytes()[len(before) :].splitlines()]
    # Stopped after its last look, it may still send the call that it was about to send, under the same key.
    assert [entry["what"] for entry in written] in ([], ["again"])


def until_stopped(pid: int) -> None:
    """Wait until the kernel says that a process is stopped."""
    limit = time.monotonic() + PATIENCE
    while Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < limit
        time.sleep(LEASE / 30)


@pytest.mark.parametrize("store", sorted(STORES))
def test_saga_22_many_sagas_survive_instances_and_servers_that_come_and_go(tmp_path: Path, store: str):
    """As many as WEFT_SAGAS says, which for `make sweep` is 5,000: none is lost, and none is mixed up with another."""
    rng, rounds = random.Random(store), 20 if SAGAS >= 1000 else 3
    share = SAGAS * len(UNDO) * ENTRY // rounds
    server = SERVERS[store]() if store in SERVERS else None
    try:
        at = Site(tmp_path, str(tmp_path / "weft.db") if server is None else server.url, "safe")
        ids = [f"o{n}" for n in range(SAGAS)]
        for _ in range(rounds):
            # Whoever is killed is replaced by one that is asked for the same again, as clients do.
            workers = [start(work, at, ids[n::2]) for n in range(2)]
            seen = at.ledger.stat().st_size if at.ledger.exists() else 0
            wait_for_more(at, seen + rng.randint(share // 4, share), workers)
            if server is not None:
                server.kill()
                server.start()
            for worker in workers:
                worker.kill()
                worker.join()
        assert [ended(worker, SAGAS) for worker in [start(work, at, ids[n::2]) for n in range(2)]] == [0, 0]
        assert asyncio.run(all_statuses(at)) == dict.fromkeys(ids, "COMPLETED")
        entries = [json.loads(line) for line in at.ledger.read_text(encoding="utf-8").splitlines()]
        done = [(entry["order"], entry["tool"]) for entry in entries if entry["what"] == "done"]
        assert sorted(done) == sorted((id, tool) for id in ids for tool in UNDO)
    finally:
        if server is not None:
            server.remove()


async def all_statuses(at: Site) -> dict[str, str]:
    async with opened(at) as store:
        return {row["id"]: row["status"] for row in await Sagas([store]).list(ended=True)}


def wait_for_more(at: Site, size: int, workers: Sequence[Any]) -> None:
    """Wait until so much stands in the ledger, or nobody writes in it any more."""
    limit = time.monotonic() + PATIENCE
    while (not at.ledger.exists() or at.ledger.stat().st_size < size) and any(one.is_alive() for one in workers):
        assert time.monotonic() < limit
        time.sleep(LEASE / 30)

"""Idempotency across real processes that share a store, and are killed or stopped (SEMANTICS 1.1: 2, 8, 9)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

import weft as w
from tests.stores.servers import redis_server
from weft.plan.compiler import compile_document
from weft.run.engine import Engine
from weft.stores.sqlite import SqliteStore
from weft.stores.sqlite_rows import Rows
from weft.testing import Canned

CHILD = Path(__file__).with_name("idempotent_child.py")


class Gateways:
    """Processes that share a store and write to one ledger."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._place = str(folder / "store.db") if kind == "sqlite" else redis_server().url
        self._ledger = folder / "ledger"
        self._kind = kind
        self._processes: list[asyncio.subprocess.Process] = []

    async def start(self, name: str, *, lease: float = 30, calls: int = 1, hold: bool = False) -> Gateway:
        """Start one, and wait until it can be told to begin."""
        given = [name, self._ledger, lease, calls, "hold" if hold else "answer", self._kind, self._place]
        root = str(CHILD.parents[2])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(CHILD), *map(str, given), stdin=-1, stdout=-1, env=environment
        )
        self._processes.append(process)
        gateway = Gateway(process)
        assert await gateway.line() == "ready"
        return gateway

    @property
    def ledger(self) -> list[str]:
        """Who carried the request out, in order."""
        return self._ledger.read_text(encoding="utf-8").split()

    async def end(self) -> None:
        """End all that are left."""
        for process in self._processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


class Gateway:
    """One process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> str:
        """Return the next line that it prints."""
        assert self.process.stdout is not None
        return (await self.process.stdout.readline()).decode().strip()

    def tell(self) -> None:
        """Let it begin, or let its tool answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")

    async def result(self) -> dict[str, Any]:
        """Return what it ends with."""
        return json.loads(await self.line())


@pytest.fixture(params=["sqlite", "redis"])
async def gateways(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Gateways]:
    made = Gateways(tmp_path, request.param)
    yield made
    await made.end()


async def test_idempotent_02_two_processes_carry_a_request_out_once(gateways: Gateways):
    both = [await gateways.start(name, calls=25) for name in ("a", "b")]
    for one in both:
        one.tell()
    told = [await one.result() for one in both]
    assert len(gateways.ledger) == 1
    assert [result for one in told for result in one["results"]] == [{"by": gateways.ledger[0]}] * 50


async def test_idempotent_08_after_a_kill_exactly_one_takes_over(gateways: Gateways):
    owner = await gateways.start("owner", lease=1, hold=True)
    owner.tell()
    assert await owner.line() == "working"
    owner.process.kill()
    others = [await gateways.start(name, lease=1, calls=5) for name in ("a", "b")]
    for one in others:
        one.tell()
    told = [await one.result() for one in others]
    assert gateways.ledger[0] == "owner"
    assert len(gateways.ledger) == 2
    assert [result for one in told for result in one["results"]] == [{"by": gateways.ledger[1]}] * 10


async def test_idempotent_09_an_owner_that_was_stopped_past_its_lease_cannot_write(gateways: Gateways):
    owner = await gateways.start("owner", lease=1, hold=True)
    owner.tell()
    assert await owner.line() == "working"
    owner.process.send_signal(signal.SIGSTOP)
    second = await gateways.start("second", lease=1)
    second.tell()
    assert (await second.result())["results"] == [{"by": "second"}]
    owner.process.send_signal(signal.SIGCONT)
    owner.tell()
    told = await owner.result()
    assert told["results"] == [{"by": "owner"}]
    assert told["counts"]["fenced_write{pattern=idempotent}"] == 1
    third = await gateways.start("third", lease=1)
    third.tell()
    assert (await third.result())["results"] == [{"by": "second"}]
    assert gateways.ledger == ["owner", "second"]


async def test_a_request_takes_two_commits_on_sqlite_and_a_replay_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    commits: list[int] = []
    commit = Rows.commit
    monkeypatch.setattr(Rows, "commit", lambda rows: (commits.append(1), commit(rows))[1])  # pyright: ignore
    store = SqliteStore(tmp_path / "store.db", reap=3600)
    await store.open()
    op = w.idempotent(w.tool("pay"), key="$.order")
    document = w.compile(w.composition("it", "It.", op)).document
    engine = Engine(compile_document(document, Canned({"pay": "done"}), stores=lambda _: store))
    commits.clear()
    assert await engine.execute("it", {"order": 1}) == "done"
    assert len(commits) == 2
    await asyncio.gather(*(engine.execute("it", {"order": 1}) for _ in range(20)))
    assert len(commits) <= 3
    await store.close()

"""Durable sagas of four steps, 32 at once: how many a second, beside what the disk can commit."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import weft as w
from bench.figure import Figure
from bench.gateway.effort import Effort
from bench.gateway.pairs import ratio_of
from bench.state.calls import INPUT, counted_commits
from bench.state.places import CALL, engine, opened, pay
from bench.state.servers import folder
from weft.patterns.contract import Op
from weft.ports import Store
from weft.run.engine import Engine
from weft.stores.postgres import PostgresStore
from weft.stores.redis import RedisStore
from weft.stores.sqlite import SqliteStore

TOGETHER = 32
STEPS = ("reserve", "charge", "ship", "mail")
COMMITS_A_SAGA = 10.0
"""Issue 5: 400 sagas a second where the disk does 4,000 commits a second, one after the other."""


def saga() -> Op[Any, Any]:
    """Return a saga of four steps that do nothing."""
    steps = [w.saga_step(name, pay, id=name, compensate=pay, retry_safe=True) for name in STEPS]
    return w.saga(*steps, id=INPUT.id, store="sagas")


async def on_sqlite(effort: Effort) -> AsyncIterator[Figure]:
    """Measure sagas on SQLite and bare commits on the same disk in turn."""
    turns, number = _much(effort)
    with folder() as place, counted_commits() as commits:
        async with opened(SqliteStore(place / "weft.db")) as store:
            ours = engine(saga(), store)
            run = sagas(ours)
            await rate(run, TOGETHER)
            rates, bare, before = list[float](), list[float](), commits[0]
            for _ in range(turns):
                rates.append(await rate(run, number))
                bare.append(await asyncio.to_thread(commit_rate, place / "bare.db", number))
            each = (commits[0] - before) / (turns * number)
        yield _rate("durable sagas of four steps on SQLite, 32 at once", rates, number, commits_each=round(each, 3))
        yield _rate("bare commits on the same disk, one after the other", bare, number)
        # The bare commits that a saga takes the time of: a ratio of rates, turned round.
        told = ratio_of(bare, rates)
        detail = {"quartiles": [round(told.low, 3), round(told.high, 3)], "rounds": told.rounds}
        name = "bare commits that the disk does in the time of a saga"
        yield Figure(name, told.ratio, COMMITS_A_SAGA, "commits", detail)


async def on_redis(url: str, effort: Effort) -> AsyncIterator[Figure]:
    """Measure sagas on a Redis that writes all to the disk."""
    async with opened(RedisStore(url, durable=True, timeout=10.0)) as store:
        yield await _on_server("Redis, appendfsync always", store, effort)


async def on_postgres(url: str, effort: Effort) -> AsyncIterator[Figure]:
    """Measure sagas on Postgres."""
    async with opened(PostgresStore(url, timeout=10.0)) as store:
        yield await _on_server("Postgres", store, effort)


async def _on_server(name: str, store: Store, effort: Effort) -> Figure:
    turns, number = _much(effort)
    run = sagas(engine(saga(), store))
    await rate(run, TOGETHER)
    return _rate(f"the same on {name}", [await rate(run, number) for _ in range(turns)], number)


def sagas(engine: Engine) -> Callable[[], Awaitable[object]]:
    """Return what runs a saga that never was before."""
    ids = itertools.count()
    return lambda: engine.run("it", {**CALL, "id": f"o{next(ids)}"})


async def rate(run: Callable[[], Awaitable[object]], number: int) -> float:
    """Return how many a second there are, 32 at once."""
    left = itertools.repeat(None, number)

    async def client() -> None:
        for _ in left:
            await run()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(TOGETHER)))
    return number / (time.perf_counter() - began)


def commit_rate(path: Path, number: int) -> float:
    """Return how many commits a second SQLite makes of one small row each, as durable as the store's."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, value BLOB)")
        began = time.perf_counter()
        for _ in range(number):
            connection.execute("INSERT INTO entries (value) VALUES (?)", (b"x" * 100,))
        return number / (time.perf_counter() - began)
    finally:
        connection.close()


def _much(effort: Effort) -> tuple[int, int]:
    """Return how many turns, and how many sagas each."""
    return effort.few_turns, effort.calls


def _rate(name: str, rates: list[float], number: int, **more: Any) -> Figure:
    low, middle, high = statistics.quantiles(rates, n=4)
    detail = {"quartiles": [round(low, 1), round(high, 1)], "each_turn": number, **more}
    return Figure(name, middle, None, "a second", detail)

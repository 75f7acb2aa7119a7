"""What a pattern adds to a call, in process; and what it asks of its store."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from redis.asyncio import Redis

import weft as w
from bench.figure import Figure
from bench.gateway.effort import Effort
from bench.gateway.pairs import ratio_of
from bench.paired import Side, paired
from bench.state.places import CALL, engine, opened, pay, plain
from bench.state.servers import folder
from weft.patterns.contract import Op
from weft.run.engine import Engine
from weft.stores import sqlite_file
from weft.stores.memory import MemoryStore
from weft.stores.redis import RedisStore
from weft.stores.sqlite import SqliteStore

INPUT = w.path({})


def patterns() -> Iterator[tuple[str, Op[Any, Any], float]]:
    """Yield patterns around the tool, each with what it may add in microseconds."""
    yield "timeout", w.timeout(w.pipeline(pay), w.seconds(5)), 15.0
    yield "retry that is not needed", w.retry(w.pipeline(pay), 3), 15.0
    yield "closed circuit breaker", breaker(), 15.0
    yield "cache hit in memory", cached(), 20.0


def breaker() -> Op[Any, Any]:
    """Return the tool behind a circuit breaker."""
    window, reset = w.seconds(60), w.seconds(30)
    return w.circuit_breaker(
        w.pipeline(pay), name="pay", failure_threshold=5, failure_window=window, reset_timeout=reset
    )


def cached() -> Op[Any, Any]:
    """Return the tool behind a cache."""
    return w.cache(w.pipeline(pay), key=INPUT.id, ttl=w.hours(1))


async def added() -> AsyncIterator[Figure]:
    """Measure what each pattern adds to the same call without it, traced as a gateway does it."""
    bare = plain()
    for name, op, limit in patterns():
        ours = engine(op, MemoryStore())
        assert (await ours.run("it", CALL)).value == (await bare.run("it", CALL)).value
        measured = await paired(calls(ours), calls(bare))
        detail = {key: value for key, value in measured.to_json().items() if key != "quartiles"}
        yield Figure(f"{name}, added to a call", measured.ours_us - measured.theirs_us, limit, "us", detail)


def calls(engine: Engine) -> Side:
    """Return what calls it."""
    return lambda: engine.run("it", CALL)


async def redis_hits(url: str, effort: Effort) -> AsyncIterator[Figure]:
    """Measure a cache hit on Redis against one GET of the same bytes, by time, since both wait for the server."""
    client: Any = Redis.from_url(url)  # pyright: ignore[reportUnknownMemberType]  (its types are not known)
    async with opened(RedisStore(url)) as store, client:
        ours = engine(cached(), store)
        await ours.run("it", CALL)
        kept: list[bytes] = [key async for key in client.scan_iter("weft|*cache*")]
        assert len(kept) == 1, kept
        sides = (calls(ours), lambda: client.get(kept[0]))
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(effort.turns):
            for which in (0, 1) if number % 2 else (1, 0):
                times[which].append(await _time(sides[which], max(effort.calls // 5, 20)))
        yield ratio_of(*times).figure("a cache hit on Redis, time / a bare GET of redis-py", 1.3, unit="us")


async def _time(side: Side, calls: int) -> float:
    """Return the microseconds that a call takes."""
    began = time.perf_counter()
    for _ in range(calls):
        await side()
    return (time.perf_counter() - began) / calls * 1e6


async def idempotent_commits(effort: Effort) -> AsyncIterator[Figure]:
    """Count the commits of SQLite for a request that is carried out, and for one that was before."""
    with folder() as place, counted_commits() as commits:
        async with opened(SqliteStore(place / "weft.db")) as store:
            ours = engine(w.idempotent(w.pipeline(pay), key=INPUT.id, ttl=w.hours(1)), store)
            number = effort.calls // 2
            for name, limit in (("a new request", 2.0), ("one that was carried out", None)):
                before = commits[0]
                for which in range(number):
                    await ours.run("it", {**CALL, "id": f"o{which}"})
                each = (commits[0] - before) / number
                yield Figure(f"idempotent on SQLite, {name}", each, limit, "commits", {"calls": number})


@contextmanager
def counted_commits() -> Generator[list[int]]:
    """Count what the writers of SQLite stores commit that are opened meanwhile."""
    count, connect = [0], sqlite_file.connect

    def count_commit(statement: str) -> None:
        count[0] += statement == "COMMIT"

    def counting(path: Path, *, wait: float) -> sqlite3.Connection:
        made = connect(path, wait=wait)
        made.set_trace_callback(count_commit)
        return made

    # `prepare` opens what writes, and takes it from here; readers have their own name for it, and never commit.
    with patch.object(sqlite_file, "connect", counting):
        yield count

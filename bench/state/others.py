"""The same four steps in DBOS, on the same Postgres, where that is installed."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from bench.figure import Figure
from bench.gateway.effort import Effort
from bench.gateway.pairs import ratio_of
from bench.state.places import CALL, engine, opened
from bench.state.sagas import STEPS, TOGETHER, rate, saga, sagas
from weft.stores.postgres import PostgresStore

TIMES = 3.0
"""Issue 5: at least so many times its rate."""


async def compared(url: str, effort: Effort) -> list[dict[str, Any]]:
    """Measure DBOS against weft in turn; nothing where it is not installed."""
    if find_spec("dbos") is None:
        print("dbos: not installed, nothing to compare with")
        return []
    turns, number = max(effort.few_turns // 3, 3), max(effort.calls // 2, TOGETHER)
    async with opened(PostgresStore(url, timeout=10.0)) as store, workflows(url) as theirs:
        ours = sagas(engine(saga(), store))
        for side in (ours, theirs):
            await rate(side, TOGETHER)
        mine, other = list[float](), list[float]()
        for _ in range(turns):
            mine.append(await rate(ours, number))
            other.append(await rate(theirs, number))
    told = ratio_of(mine, other)
    spread = {"ratio": round(told.ratio, 3), "quartiles": [round(told.low, 3), round(told.high, 3)]}
    rates = {"ours_a_second": round(told.ours, 1), "theirs_a_second": round(told.theirs, 1)}
    return [{"library": "dbos", "version": version("dbos"), **spread, **rates}]


def promised(library: Mapping[str, Any]) -> Figure:
    """Return the rate of a library against weft's, with the most that it may be."""
    name = f"sagas a second of {library['library']} / of weft, on the same Postgres"
    return Figure(name, 1 / library["ratio"], round(1 / TIMES, 3), "x")


@contextlib.asynccontextmanager
async def workflows(url: str) -> AsyncGenerator[Callable[[], Awaitable[object]]]:
    """Launch DBOS on a Postgres, and give what runs a workflow of four steps that never was before."""
    library: Any = import_module("dbos")
    dbos = library.DBOS
    dbos(config={"name": "weft-bench", "system_database_url": url, "sys_db_pool_size": 16, "log_level": "ERROR"})

    @dbos.step()
    async def step(value: dict[str, Any]) -> dict[str, Any]:
        return value

    @dbos.workflow()
    async def order(value: dict[str, Any]) -> dict[str, Any]:
        for _ in STEPS:
            value = await step(value)
        return value

    ids = itertools.count()

    async def run() -> object:
        id = f"d{next(ids)}"
        with library.SetWorkflowID(id):
            return await order({**CALL, "id": id})

    logging.getLogger("dbos").setLevel(logging.ERROR)
    await asyncio.to_thread(dbos.launch)
    try:
        yield run
    finally:
        await asyncio.to_thread(dbos.destroy)

"""Measure state, print what is found, and return it as the result file has it."""

from __future__ import annotations

import os
import platform
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from bench.figure import Figure
from bench.gateway.effort import Effort
from bench.paired import quiet
from bench.state import servers
from bench.state.calls import added, calls, idempotent_commits, redis_hits
from bench.state.others import compared, promised
from bench.state.places import plain
from bench.state.sagas import on_postgres, on_redis, on_sqlite

METHOD = "in process: CPU time, batches in turn; with a store: time, sides in turn; medians with quartiles"


async def _figures(redis: str | None, postgres: str | None, effort: Effort) -> AsyncIterator[Figure]:
    async for figure in added():
        yield figure
    if redis is not None:
        async for figure in redis_hits(redis, effort):
            yield figure
    async for figure in idempotent_commits(effort):
        yield figure
    async for figure in on_sqlite(effort):
        yield figure
    if postgres is not None:
        async for figure in on_postgres(postgres, effort):
            yield figure
    if redis is not None:
        async for figure in on_redis(redis, effort):
            yield figure


async def measured(effort: Effort) -> dict[str, Any]:
    """Measure everything that there are servers for."""
    with servers.redis() as redis, servers.postgres() as postgres:
        for name, url in (("redis", redis), ("postgres", postgres)):
            if url is None:
                print(f"{name}: not installed, nothing is measured on it")
        same, is_quiet = await quiet(calls(plain()))
        noise = "" if is_quiet else "  (too noisy: do not trust this run)"
        print(f"a plain call / a plain call: {same.ratio:.3f}{noise}", flush=True)
        figures: list[Figure] = []
        async for figure in _figures(redis, postgres, effort):
            print(figure, flush=True)
            figures.append(figure)
        libraries = [] if postgres is None else await compared(postgres, effort)
    for one in libraries:
        figures.append(promised(one))
        print(f"{figures[-1]}\n{one['library']} {one['version']}: weft runs {one['ratio']:.1f}x as many a second")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "method": METHOD,
        "same_against_same": same.to_json(),
        "quiet": is_quiet,
        "figures": [figure.to_json() for figure in figures],
        "libraries": libraries,
    }

"""Memory of the gateway: at rest, and after very many calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from bench.figure import Figure
from bench.gateway.costs import TEN
from bench.gateway.effort import Effort
from bench.gateway.load import Job, answer
from bench.gateway.places import gateway, upstream, url
from bench.gateway.processes import Load

FLAT = 2.0
"""MB: what an allocator may keep of a busy moment."""


def memory(load: Load, effort: Effort) -> Iterator[Figure]:
    """Measure the resident memory of a process before and after calls."""
    with upstream() as behind:
        with gateway({"up": url(behind)}) as served:
            asyncio.run(answer(served.port, TEN[0]))
            (rest,) = served.memory()
            job = Job(port=served.port, tools=TEN)
            load.run(Job(port=job.port, tools=TEN, calls=effort.warm))
            (warm,) = served.memory()
            load.run(Job(port=job.port, tools=TEN, calls=effort.lasting))
            (after,) = served.memory()
        with gateway({"up": url(behind)}, "--workers", "2") as served:
            load.run(Job(port=served.port, tools=TEN, calls=100))
            parent, *workers = served.memory()
    yield Figure("memory at rest, a process", rest, 90.0, "MB", {"after_warming_MB": round(warm, 1)})
    grown = f"memory after {effort.lasting:,} calls more, grown by"
    told = {"before_MB": round(warm, 1), "after_MB": round(after, 1), "warm_calls": effort.warm}
    yield Figure(grown, after - warm, FLAT, "MB", told)
    processes = {"parent_MB": round(parent, 1), "workers_MB": [round(one, 1) for one in workers]}
    yield Figure("memory at rest, the largest of two workers", max(workers), 90.0, "MB", processes)

"""Measure the gateway, print what is found, and return it as the result file has it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from bench.figure import Figure
from bench.gateway.costs import against_the_yardstick, among_many_tools, quiet, with_two_bare_proxies, with_two_workers
from bench.gateway.effort import Effort
from bench.gateway.memory import memory
from bench.gateway.others import fastmcp
from bench.gateway.processes import Load
from bench.gateway.times import beside_a_dead_and_a_slow_server, on_one_connection, the_research_pipeline

METHOD = "processes under load in turn; CPU time of the process; median of paired ratios with quartiles"


def _figures(load: Load, effort: Effort) -> Iterator[Figure]:
    yield from against_the_yardstick(load, effort)
    yield the_research_pipeline(load, effort)
    yield among_many_tools(load, effort)
    yield from beside_a_dead_and_a_slow_server(load, effort)
    yield with_two_workers(load, effort)
    yield with_two_bare_proxies(load, effort)
    yield from memory(load, effort)
    yield on_one_connection(load, effort)


def measured(effort: Effort) -> dict[str, Any]:
    """Measure everything."""
    with Load() as load:
        same, is_quiet = quiet(load, effort)
        noise = "" if is_quiet else "  (too noisy: do not trust this run)"
        print(f"bare proxy / bare proxy: {same.ratio:.3f}{noise}", flush=True)
        figures: list[Figure] = []
        for figure in _figures(load, effort):
            print(figure, flush=True)
            figures.append(figure)
        libraries = fastmcp(load, effort)
        for one in libraries:
            print(f"{one['library']} {one['version']}: a call costs {one['value']:.0f}x weft's CPU")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "method": METHOD,
        "same_against_same": {"ratio": round(same.ratio, 3), "quartiles": [round(same.low, 3), round(same.high, 3)]},
        "quiet": is_quiet,
        "figures": [figure.to_json() for figure in figures],
        "libraries": libraries,
    }

"""Measure the registry, print what is found, and return it as the result file has it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from bench.figure import Figure
from bench.gateway.effort import Effort
from bench.registry.asking import Client
from bench.registry.costs import checked_calls, loaded, quiet, scoped_lists
from bench.registry.reloads import reloads

METHOD = "fresh processes, and processes under load in turn; CPU time of the process; median of paired ratios"


def _figures(client: Client, effort: Effort) -> Iterator[Figure]:
    yield from loaded(effort)
    yield from scoped_lists(client, effort)
    yield from checked_calls(client, effort)
    yield from reloads(client, effort)


def measured(effort: Effort) -> dict[str, Any]:
    """Measure everything."""
    with Client() as client:
        same, is_quiet = quiet(client, effort)
        noise = "" if is_quiet else "  (too noisy: do not trust this run)"
        print(f"plain gateway / plain gateway: {same.ratio:.3f}{noise}", flush=True)
        figures: list[Figure] = []
        for figure in _figures(client, effort):
            print(figure, flush=True)
            figures.append(figure)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "method": METHOD,
        "same_against_same": {"ratio": round(same.ratio, 3), "quartiles": [round(same.low, 3), round(same.high, 3)]},
        "quiet": is_quiet,
        "figures": [figure.to_json() for figure in figures],
        "libraries": [],
    }

"""Measure the engine, print what is found, and return it as the result file has it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from typing import Any

from bench import chain, loading, others, research, rows
from bench.figure import Figure
from bench.paired import Paired, paired, quiet


def _ratio(name: str, measured: Paired, limit: float) -> Figure:
    return Figure(name, measured.ratio, limit, "x", measured.to_json())


def _per_step(name: str, measured: Paired, limit: float) -> Figure:
    cost = (measured.ours_us - measured.theirs_us) / chain.STEPS
    detail = {key: value for key, value in measured.to_json().items() if key != "quartiles"}
    return Figure(name, cost, limit, "us a step", detail)


async def engine_figures() -> list[Figure]:
    """Measure the engine against hand-written Python."""
    figures: list[Figure] = []
    engine = research.engine()
    assert await engine.execute("research", "q") == await research.by_hand("q")
    untraced = await paired(lambda: engine.execute("research", "q"), lambda: research.by_hand("q"))
    traced = await paired(lambda: engine.run("research", "q"), lambda: research.by_hand("q"))
    figures.append(_ratio("research pipeline / by hand", untraced, 1.6))
    figures.append(_ratio("research pipeline, traced / by hand", traced, 2.0))
    three = chain.engine()
    assert await three.execute("chain", "x") == await chain.by_hand("x")
    figures.append(
        _per_step(
            "three no-op tools over bare awaits, traced",
            await paired(lambda: three.run("chain", "x"), lambda: chain.by_hand("x")),
            2.0,
        )
    )
    mapped = rows.engine()
    assert await mapped.execute("rows", rows.ROWS) == await rows.by_hand(rows.ROWS)
    many = await paired(lambda: mapped.execute("rows", rows.ROWS), lambda: rows.by_hand(rows.ROWS))
    figures.append(_ratio("mapEach(schemaMap), 100,000 rows / a loop", many, 1.5))
    few, crowd = loading.crowded(10), loading.crowded(10_000)
    crowded = await paired(lambda: crowd.execute("it", "x"), lambda: few.execute("it", "x"))
    figures.append(_ratio("a call among 10,000 tools / among 10", crowded, 1.05))
    return figures


def loading_figure() -> Figure:
    """Measure from bytes to plans, in CPU seconds: the median of five processes, since a second load finds caches."""
    command = [sys.executable, "-m", "bench.loading"]
    told = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(5)]
    runs = sorted((json.loads(one) for one in told), key=lambda run: run["total"])
    stages = {name: round(seconds, 3) for name, seconds in runs[2].items()}
    size = len(loading.document(loading.COMPOSITIONS))
    name = f"loading {loading.COMPOSITIONS:,} compositions ({size / 1e6:.1f} MB)"
    return Figure(name, runs[2]["total"], 1.5, "s", {"stages_s": stages, "bytes": size})


async def compared() -> list[dict[str, Any]]:
    """Measure the chain in other libraries against the same chain in weft, traced."""
    three = chain.engine()
    found: list[dict[str, Any]] = []
    for name, (release, side) in (await others.installed()).items():
        measured = await paired(side, lambda: three.run("chain", "x"))
        found.append({"library": name, "version": release, **measured.to_json()})
    return found


async def measured() -> dict[str, Any]:
    """Measure everything."""
    same, is_quiet = await quiet(lambda: research.by_hand("q"))
    print(f"by hand / by hand: {same.ratio:.3f}" + ("" if is_quiet else "  (too noisy: do not trust this run)"))
    figures = [*await engine_figures(), loading_figure()]
    for figure in figures:
        print(figure)
    libraries = await compared()
    for one in libraries:
        took = f"{one['ratio']:.1f}x weft's time ({one['ours_us']:.0f} us)"
        print(f"{one['library']} {one['version']}: the chain takes {took}")
    if not libraries:
        print("langgraph and pydantic-graph are not installed: nothing to compare with")
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "method": "CPU time; batches in turn; median of paired ratios with quartiles",
        "same_against_same": same.to_json(),
        "quiet": is_quiet,
        "figures": [figure.to_json() for figure in figures],
        "libraries": libraries,
    }

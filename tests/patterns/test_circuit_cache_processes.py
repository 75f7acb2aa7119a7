"""Caches and circuits of two real processes on one SQLite file."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.patterns import process
from tests.patterns.process import calls


async def started(folder: Path, kind: str, count: int, seconds: float) -> Process:
    """Start a process that waits for its turn."""
    arguments = [str(folder), kind, str(count), str(seconds)]
    one = await asyncio.create_subprocess_exec(sys.executable, process.__file__, *arguments, stdin=PIPE, stdout=PIPE)
    assert one.stdout is not None
    assert await one.stdout.readline() == b"ready\n"
    return one


async def results(*processes: Process) -> list[Any]:
    """Let processes go at the same moment, and return what all their calls gave."""
    for one in processes:
        assert one.stdin is not None
        one.stdin.write(b"go\n")
    outs = await asyncio.gather(*(one.communicate() for one in processes))
    return [result for out, _ in outs for result in json.loads(out)]


def worked(folder: Path) -> list[str]:
    """Return who called the tool, once for each call."""
    return (folder / "lines").read_text().split() if (folder / "lines").exists() else []


async def test_cache_08_a_cold_miss_of_two_processes_is_one_call(tmp_path: Path):
    pair = [await started(tmp_path, "cache", 50, 0.5) for _ in range(2)]
    got = await results(*pair)
    assert len(worked(tmp_path)) == 1
    assert got == [{"by": int(worked(tmp_path)[0])}] * 100


async def test_cache_08_a_process_that_is_killed_while_it_loads_leaves_its_turn_to_another(tmp_path: Path):
    first = await started(tmp_path, "cache", 1, 600)
    try:
        assert first.stdin is not None
        first.stdin.write(b"go\n")
        while not worked(tmp_path):  # noqa: ASYNC110  (another process tells by a file)
            await asyncio.sleep(0.01)
        second = await started(tmp_path, "cache", 5, 0)
    finally:
        first.kill()
        await first.wait()
    assert await results(second) == [{"by": second.pid}] * 5
    assert worked(tmp_path) == [str(first.pid), str(second.pid)]


@pytest.mark.req("STA-24")
async def test_circuit_07_two_processes_make_one_probe(tmp_path: Path):
    pair = [await started(tmp_path, "circuit", 25, 1.5) for _ in range(2)]
    assert await calls(tmp_path, "circuit", 3, -1) == ["UpstreamUnavailable"] * 3
    (tmp_path / "lines").unlink()
    got = Counter("done" if isinstance(one, dict) else one for one in await results(*pair))
    assert got == {"done": 1, "CircuitOpen": 49}
    assert len(worked(tmp_path)) == 1

"""Signals that come while the workers still start."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from tests.waiting import until

PARENT = """
import asyncio, sys
from weft.doors.workers import Workers

worker = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).open('a').write('x'); time.sleep(60)"
sys.exit(asyncio.run(Workers([sys.executable, "-c", worker, sys.argv[1]], count=1, sockets={}).run()))
"""


async def test_workers_that_still_start_outlive_a_reload_and_end_well(tmp_path: Path):
    starts = tmp_path / "starts"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, str(starts))
    try:
        await until(lambda: starts.exists() and starts.read_text() == "x")
        os.kill(process.pid, signal.SIGHUP)
        # Long enough for a worker that died of it to be started again.
        await asyncio.sleep(1.0)
        assert starts.read_text() == "x"
        os.kill(process.pid, signal.SIGTERM)
        async with asyncio.timeout(30):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

"""The watchdog: an event loop that hangs is counted, and its stack is shown once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from weft.telemetry.logs import Log
from weft.telemetry.metrics import Metrics
from weft.telemetry.watchdog import Watchdog


class HeardLog(Log):
    """A log that can be waited for, from a thread that is blocked."""

    def __init__(self) -> None:
        super().__init__("test")
        self.blocked = list[dict[str, Any]]()
        self.recovered = threading.Event()
        self.heard = threading.Event()

    def error(self, message: str, *, stack: str | None = None, **fields: object) -> None:
        self.blocked.append({"message": message, "stack": stack, **fields})
        self.heard.set()

    def warning(self, message: str, **fields: object) -> None:
        self.recovered.set()


def hang_until(heard: threading.Event) -> None:
    assert heard.wait(30)


async def test_a_loop_that_hangs_is_counted_and_its_stack_shown() -> None:
    metrics, log = Metrics(), HeardLog()
    async with Watchdog(metrics, log, limit=0.05, every=0.02):
        hang_until(log.heard)
        assert await asyncio.to_thread(log.recovered.wait, 30)
    assert metrics.loop_blocked == 1
    assert "hang_until" in log.blocked[0]["stack"]
    assert log.blocked[0]["seconds"] >= 0.05
    assert len(log.blocked) == 1


async def test_each_episode_is_told_once() -> None:
    metrics, log = Metrics(), HeardLog()
    async with Watchdog(metrics, log, limit=0.05, every=0.02):
        for _ in range(2):
            hang_until(log.heard)
            assert await asyncio.to_thread(log.recovered.wait, 30)
            log.heard.clear()
            log.recovered.clear()
    assert metrics.loop_blocked == len(log.blocked) == 2


async def test_a_loop_that_runs_is_left_alone() -> None:
    metrics, log = Metrics(), HeardLog()
    async with Watchdog(metrics, log, limit=30, every=0.001):
        await asyncio.to_thread(lambda: None)
    assert metrics.loop_blocked == 0
    assert not log.blocked
    assert not [thread for thread in threading.enumerate() if thread.name == "weft-watchdog"]

"""Watchdog: notices from a thread that the event loop hangs, and shows what it hangs on."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from time import monotonic
from types import TracebackType

from weft.telemetry.logs import Log
from weft.telemetry.metrics import Metrics


class Watchdog:
    """Looks after the event loop that it is entered in: `async with Watchdog(metrics, log):`."""

    def __init__(self, metrics: Metrics, log: Log, *, limit: float = 1.0, every: float = 0.25) -> None:
        self._metrics = metrics
        self._log = log
        self._limit = limit
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="weft-watchdog", daemon=True)

    async def __aenter__(self) -> Watchdog:
        """Begin to watch the running loop."""
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._beat = monotonic()
        self._timer = self._loop.call_later(self._every, self._tick)
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching; the thread needs no more than a moment, and is waited for elsewhere than on the loop."""
        self._timer.cancel()
        self._stop.set()
        await asyncio.to_thread(self._thread.join)

    def _tick(self) -> None:
        now = monotonic()
        self._metrics.loop_lag = max(0.0, now - self._beat - self._every)
        self._beat = now
        self._timer = self._loop.call_later(self._every, self._tick)

    def _watch(self) -> None:
        looked, blocked_since = monotonic(), None
        while not self._stop.wait(self._every):
            now, beat = monotonic(), self._beat
            # When this thread could not run either, the whole process was stopped: nobody is to blame.
            stopped = now - looked > self._every + self._limit
            looked = now
            if blocked_since is not None:
                if beat != blocked_since:
                    self._log.warning("the event loop runs again", seconds=round(beat - blocked_since, 3))
                    blocked_since = None
            elif now - beat > self._limit + self._every and not stopped:
                blocked_since = beat
                self._report(now - beat)

    def _report(self, seconds: float) -> None:
        # Only this thread changes the number, once an episode.
        self._metrics.loop_blocked += 1
        frame = sys._current_frames().get(self._watched)  # pyright: ignore[reportPrivateUsage]  (the documented way)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        self._log.error("the event loop is blocked: every call waits", stack=stack, seconds=round(seconds, 3))

"""The time that expiry in a file goes by: the wall clock's, but never back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class SteadyTime:
    """Seconds since 1970 that follow a wall clock forward, and go on by a monotonic one when it is set back.

    So a lease is never longer than it was granted for; it may be shorter, after a clock was set forward or the machine
    slept. Several threads may ask.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._at = wall()
        self._since = monotonic()

    def now(self) -> float:
        """Return the time."""
        with self._lock:
            return self._forward(self._wall())

    def seen(self, moment: float) -> float:
        """Take note of a moment that has been, by whoever wrote it into the file; return the time."""
        with self._lock:
            return self._forward(max(self._wall(), moment))

    def _forward(self, least: float) -> float:
        ticks = self._monotonic()
        going_on = self._at + (ticks - self._since)
        if least > going_on:
            self._at, self._since = least, ticks
            return least
        return going_on

"""The real clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from weft.ports import Timer


class MonotonicClock:
    """Time as the machine tells it; the event loop counts the same seconds."""

    def __init__(self) -> None:
        self.now = time.monotonic

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Call back at a moment."""
        return asyncio.get_running_loop().call_at(when, callback)

    async def sleep(self, seconds: float) -> None:
        """Pause the caller."""
        await asyncio.sleep(seconds)

    def timeout_at(self, deadline: float) -> asyncio.Timeout:
        """Return a scope that raises TimeoutError in its body at the deadline."""
        return asyncio.timeout_at(deadline)

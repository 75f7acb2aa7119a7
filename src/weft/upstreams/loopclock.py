"""The clock of the running loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from weft.ports import Timer


class LoopClock:
    """Time as the event loop counts it, for those who ask a clock."""

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Call back at a moment."""
        return asyncio.get_running_loop().call_at(when, callback)

    async def sleep(self, seconds: float) -> None:
        """Pause the caller."""
        await asyncio.sleep(seconds)

    def timeout_at(self, deadline: float) -> asyncio.Timeout:
        """Return a scope that raises TimeoutError in its body at the deadline."""
        return asyncio.timeout_at(deadline)

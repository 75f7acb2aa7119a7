"""Waiting for what nobody announces, and deadlines for what answers soon."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

PATIENCE = 30.0
"""Long: other tests may keep the machine busy."""


async def until(happened: Callable[[], object], *, within: float = PATIENCE) -> None:
    """Wait until something has happened, in another process or thread or out of sight; asking may be asynchronous."""
    async with asyncio.timeout(within):
        while True:
            told = happened()
            if await told if inspect.isawaitable(told) else told:
                return
            await asyncio.sleep(0.005)


def soon(seconds: float = 60.0) -> float:
    """Return a deadline on the clock of the loop."""
    return asyncio.get_running_loop().time() + seconds

"""Work that is done in the task of whoever asks for it, and that others can cut short all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Here:
    """Does one thing after another; `cut` ends what is under way, and nothing else of the task."""

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._cut = False

    def cut(self) -> None:
        """Cancel what is under way, if anything is."""
        if self._task is not None and not self._cut:
            self._cut = self._task.cancel()

    async def do(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do something; tell whether it came to its end before it was cut short."""
        self._task = task = asyncio.current_task()
        assert task is not None
        try:
            await work
        except asyncio.CancelledError:
            if not self._cut or task.uncancel() > 0:
                raise
            self._cut = False
            return False
        finally:
            self._task = None
        if self._cut:
            self._cut = False
            await _swallow(task)
        return True


async def _swallow(task: asyncio.Task[object]) -> None:
    """Take back a cancellation that came when the work had just ended."""
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        if task.uncancel() > 0:
            raise
        return
    task.uncancel()

"""Turns: those of one process who want to pass the same shared gate ask its store one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class Turn:
    """The line before one gate, in the order of coming; only its head asks the store."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self.full = False
        """Whether the head of the line has found no place, and looks again and again."""

    @asynccontextmanager
    async def taken(self) -> AsyncGenerator[None]:
        """Wait until all who came before have passed, or have left."""
        async with self._lock:
            try:
                yield
            finally:
                self.full = False


class Turns:
    """The lines of a process; one in which nobody stands is forgotten."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[str, Turn] = WeakValueDictionary()

    def of(self, key: str) -> Turn:
        """Return the line before the gate of a key."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Turn()
        return found

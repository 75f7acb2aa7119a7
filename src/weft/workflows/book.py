"""The book of statistics: one record for each template of a tenant, written whenever runs have ended."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from weft.errors import StoreError
from weft.ports import ABSENT, Clock, Store
from weft.run.clock import MonotonicClock
from weft.workflows.keys import key
from weft.workflows.recorded import Run
from weft.workflows.statistics import Statistics

TRIES: Final = 50
PAUSE: Final = 0.02
"""The longest first pause, in seconds, after another process was quicker."""
LONGEST_PAUSE: Final = 0.5


class StatisticsBook:
    """Statistics by tenant and template; runs that end while a record is being written go into the next writing."""

    def __init__(self, store: Store, *, clock: Clock | None = None, rng: Random | None = None) -> None:
        self._store = store
        self._clock = clock or MonotonicClock()
        self._rng = rng or Random()
        self._waiting: dict[str, Statistics] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def get(self, tenant: str, template: str) -> Statistics:
        """Return what is known of a template; nothing, where it never ran."""
        stored = await self._store.get(_key(tenant, template))
        return Statistics() if stored is None else Statistics.of_record(stored.value)

    async def add(self, run: Run) -> None:
        """Add a run that has ended; runs that are of no template are nobody's.

        Raises:
            StoreError: it could not be written, and is not counted.
        """
        if run.template is None:
            return
        at = _key(run.tenant, run.template)
        self._waiting[at] = Statistics.of(run).merge(self._waiting.get(at, Statistics()))
        turn = self._turns.setdefault(at, asyncio.Lock())
        try:
            async with turn:
                # Whoever had the turn before may have taken this one along.
                if (more := self._waiting.pop(at, None)) is not None:
                    await self._write(at, more)
        finally:
            if not turn.locked() and at not in self._waiting:
                self._turns.pop(at, None)

    async def forget(self, tenant: str, template: str) -> None:
        """Forget all of a template, which was deleted."""
        await self._store.delete(_key(tenant, template))

    async def _write(self, at: str, more: Statistics) -> None:
        for turn in range(TRIES):
            stored = await self._store.get(at)
            known = Statistics() if stored is None else Statistics.of_record(stored.value)
            version = ABSENT if stored is None else stored.version
            if await self._store.cas(at, known.merge(more).record(), version) is not None:
                return
            await self._clock.sleep(self._rng.random() * min(PAUSE * 2**turn, LONGEST_PAUSE))
        raise StoreError(self._store.name, "the statistics are always being changed", code="StoreBusy")


def _key(tenant: str, template: str) -> str:
    return key("template-statistics", tenant, template)

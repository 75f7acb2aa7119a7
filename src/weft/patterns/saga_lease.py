"""The lease of a saga: renewed while its owner works, so that nobody else takes the saga over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from weft.errors import StoreError
from weft.patterns.saga_journal import Away, Fenced, Lost, OwnedJournal
from weft.ports import Clock, Timer


class Lease:
    """Renews the lease of a saga three times in its length; tells when the saga has become somebody else's."""

    def __init__(self, journal: OwnedJournal[Any], clock: Clock, lost: Callable[[Exception], object]) -> None:
        self._journal = journal
        self._clock = clock
        self._lost = lost
        self._timer: Timer | None = None
        self._renewing: asyncio.Task[None] | None = None

    def hold(self) -> None:
        """Begin to renew it."""
        self._timer = self._clock.call_at(self._clock.now() + self._journal.head.lease / 3, self._due)

    def let_go(self) -> None:
        """Renew it no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._renewing is not None:
            self._renewing.cancel()

    async def sure(self) -> None:
        """Return at once while nobody else can have taken the saga over; else look.

        A process that was stopped, or a machine that slept, wakes up here.

        Raises:
            Fenced, Lost, Away: the saga is not one's own any more, or nobody can say.
        """
        if self._clock.now() >= self._journal.held_until:
            try:
                await self._journal.renew()
            except StoreError as error:
                raise Away(error) from error

    def _due(self) -> None:
        self._renewing = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        try:
            await self._journal.renew()
        except (Fenced, Lost) as error:
            self._lost(error)
            return
        except StoreError:
            pass  # The next writing waits for the store, or gives up; nothing is done without it.
        self.hold()

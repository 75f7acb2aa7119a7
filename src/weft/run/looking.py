"""Looking: find what has not ended and has no owner, in stores that others share, and go on with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeVar

from weft.errors import StoreError
from weft.patterns.saga_entry import new_owner
from weft.patterns.saga_journal import Fenced, Lost, Owned, OwnedJournal, head_key
from weft.patterns.saga_record import decode
from weft.ports import Clock, Signals, Store
from weft.run.unreadable import UNREADABLE, why_unreadable

J = TypeVar("J", bound=OwnedJournal[Any])
P = TypeVar("P")

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought(Generic[J, P]):
    """What is looked for: sagas, or the runs of workflows."""

    open: str
    leases: str
    """What the keys begin with of states of those that have not ended, and of those that somebody works on."""
    journal: type[J]
    waits: Callable[[Any], Owned | None]
    """Reads a state; None where nobody is to go on with it."""
    go_on: Callable[[J, dict[str, P]], Awaitable[bool]]
    """Goes on with one, which is one's own now, and tells whether that was so to its end; plans serve for one look."""
    stands: Callable[[str, str], None]
    """Told the key of one that nobody can go on with, and why."""


class Looking(Generic[J, P]):
    """Looks for what nobody works on: of two that look, one wins."""

    def __init__(
        self,
        stores: Iterable[Store],
        sought: Sought[J, P],
        *,
        ready: Callable[[], Awaitable[object]],
        clock: Clock,
        signals: Signals,
        rng: Random,
        every: float,
        concurrent: int,
    ) -> None:
        """Make one that looks when `ready` returns, `every` so many seconds, and goes on with `concurrent` at once."""
        self._stores = list(stores)
        self._sought = sought
        self._ready = ready
        self._clock = clock
        self._signals = signals
        self._rng = rng
        self._every = every
        self._places = asyncio.Semaphore(concurrent)
        self._under_way: dict[str, asyncio.Task[bool]] = {}
        self._told = set[tuple[str, str]]()

    async def run(self) -> None:
        """Look again and again, until cancelled; what is under way is then left to others."""
        try:
            while True:
                await self._look()
                # Instances that started together do not look together for ever.
                await self._clock.sleep(self._every * (0.75 + self._rng.random() / 2))
        finally:
            tasks = list(self._under_way.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def once(self) -> int:
        """Look once, and go on with all that nobody works on, to its end; return how many those were."""
        return sum(await asyncio.gather(*await self._look()))

    def tell(self, event: str, about: str, **facts: str) -> None:
        """Tell of what is met again at each look: once, until that is over."""
        if (event, about) not in self._told:
            self._told.add((event, about))
            self._signals.event(event, **facts)

    async def park(self, journal: J) -> None:
        """Let go of one until a store or a server that is away may be back; each time for longer."""
        pause = min(FIRST_PAUSE * 2 ** max(journal.state.recoveries - 1, 0), LONGEST_PAUSE)
        await journal.park(pause * (1 - self._rng.random() / 2))

    async def _look(self) -> list[asyncio.Task[bool]]:
        await self._ready()
        begun: list[asyncio.Task[bool]] = []
        for store in self._stores:
            try:
                waiting = await self._waiting(store)
            except StoreError as error:
                self.tell("recovery_away", store.name, store=store.name, reason=error.message)
                continue
            self._told.discard(("recovery_away", store.name))
            plans: dict[str, P] = {}
            for key, state, version in waiting:
                at = f"{store.name}|{key}"
                if at not in self._under_way:
                    task = asyncio.create_task(self._recover(store, plans, key, state, version))
                    self._under_way[at] = task
                    task.add_done_callback(lambda _, at=at: self._under_way.pop(at, None))
                    begun.append(task)
        return begun

    async def _waiting(self, store: Store) -> list[tuple[str, Owned, int]]:
        """Return the key, the state and its version of each that has no owner and is to be gone on with."""
        # States first: what is begun between the two readings has a lease, and is not looked at.
        found = [(head_key(key), stored) async for key, stored in store.scan(self._sought.open)]
        held = {head_key(key) async for key, _ in store.scan(self._sought.leases)} if found else set[str]()
        waiting: list[tuple[str, Owned, int]] = []
        for key, stored in found:
            if key in held:
                continue
            try:
                state = self._sought.waits(decode(stored.value))
            except UNREADABLE as error:
                self._unreadable(key, error)
                continue
            if state is not None:
                waiting.append((key, state, stored.version))
        return waiting

    async def _recover(self, store: Store, plans: dict[str, P], key: str, state: Owned, version: int) -> bool:
        async with self._places:
            try:
                journal = await self._taken(store, key, state, version)
                over = journal is not None and await self._sought.go_on(journal, plans)
            except Lost:
                self._sought.stands(key, "its record is gone from the store")
                return False
            except (StoreError, Fenced):
                return False  # What was not written was not done; whoever looks next goes on.
        if over:
            self._told = {one for one in self._told if one[1] != key}
        return over

    async def _taken(self, store: Store, key: str, state: Owned, version: int) -> J | None:
        take_over = self._sought.journal.take_over
        try:
            return await take_over(store, key, state, version, owner=new_owner(), clock=self._clock, rng=self._rng)
        except Lost:
            self._sought.stands(key, "its head is gone from the store")
        except UNREADABLE as error:
            self._unreadable(key, error)
        return None

    def _unreadable(self, key: str, error: Exception) -> None:
        self._sought.stands(key, f"its record cannot be read: {why_unreadable(error)}")

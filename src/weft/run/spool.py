"""Dead letters that wait: sent again and again until their tool takes them, and shown to operators meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from weft.errors import NotFound, StoreError
from weft.patterns.dead_letter_letters import Letter
from weft.patterns.dead_letter_office import MARGIN, deliver, settled
from weft.patterns.dead_letter_spool import Letterboxes, Spool
from weft.ports import Caller, Clock, Principal, Signals, Store
from weft.run.call import CHANCE, SILENCE, Detach, Place, Root
from weft.run.clock import MonotonicClock
from weft.run.limits import Limits

CallerOf: TypeAlias = "Callable[[Principal, str], Caller | None]"
"""Makes a caller of the principal that a letter is about, and of its composition (`name@version`)."""


@dataclass(frozen=True, slots=True)
class Redriven:
    """What came of sending a letter again: delivered, or what went wrong."""

    id: str
    error: str | None = None

    @property
    def delivered(self) -> bool:
        """Whether the tool took it."""
        return self.error is None


class DeadLetters:
    """The letters of all stores that are named as spools, or of those given."""

    def __init__(
        self,
        boxes: Letterboxes,
        caller: CallerOf,
        *,
        detach: Detach,
        stores: Iterable[Store] = (),
        clock: Clock | None = None,
        limits: Limits | None = None,
        signals: Signals = SILENCE,
        rng: Random = CHANCE,
        every: float = 10.0,
        timeout: float = 30.0,
    ) -> None:
        """Make one; `boxes` is what patterns keep (`Kept.of(Letterboxes)`), `detach` the engine's.

        It looks `every` so many seconds, and gives a tool `timeout` seconds for a letter.
        """
        self._boxes = boxes
        self._caller = caller
        self._detach = detach
        self._stores = list(stores)
        self._clock = clock or MonotonicClock()
        self._limits = limits or Limits()
        self._signals = signals
        self._rng = rng
        self._every = every
        self._timeout = timeout
        self._away = set[str]()

    async def run(self) -> None:
        """Send what waits, again and again, until cancelled."""
        while True:
            await self.once()
            # Instances that started together do not look together for ever.
            await self._clock.sleep(self._every * (0.75 + self._rng.random() / 2))

    async def once(self) -> int:
        """Send every letter whose time has come and that nobody else sends; return how many were taken."""
        taken = 0
        for spool in self._spools():
            try:
                letters = [letter async for letter in spool.letters()]
                for letter in letters:
                    if await spool.take(letter, self._timeout + MARGIN):
                        taken += (await self._send(spool, letter)).delivered
            except StoreError as error:
                self._is_away(spool.store, error)
            else:
                self._away.discard(spool.store.name)
        return taken

    # What operators ask.

    async def list(self, *, tool: str | None = None, limit: int = 100) -> list[Letter]:
        """Return letters that wait, of one tool or of all, the oldest first.

        Raises:
            StoreError: a store cannot be read.
        """
        found = [letter async for _, letter in self._all() if tool is None or letter.tool == tool]
        return sorted(found, key=lambda letter: letter.payload["timestamp"])[:limit]

    async def show(self, id: str) -> Letter:
        """Return a letter.

        Raises:
            NotFound: none that waits has this id.
            StoreError: a store cannot be read.
        """
        return (await self._find(id))[1]

    async def redrive(self, id: str | None = None) -> list[Redriven]:
        """Send a letter now, or all of them, however long the pause before the next try may still be.

        Raises:
            NotFound: none that waits has this id.
            StoreError: a store cannot be read.
        """
        chosen = [one async for one in self._all()] if id is None else [await self._find(id)]
        return [await self._send(spool, letter) for spool, letter in chosen]

    async def _find(self, id: str) -> tuple[Spool, Letter]:
        known: list[str] = []
        async for spool, letter in self._all():
            if letter.id == id:
                return spool, letter
            known.append(letter.id)
        raise NotFound("Dead letter", id, known)

    async def _all(self) -> AsyncIterator[tuple[Spool, Letter]]:
        for spool in self._spools():
            async for letter in spool.letters():
                yield spool, letter

    def _spools(self) -> list[Spool]:
        named = {store.name: store for store in self._stores} | self._boxes.stores
        return [Spool(store) for store in named.values()]

    async def _send(self, spool: Spool, letter: Letter) -> Redriven:
        step = self._boxes.find(letter)
        if step is None:
            wrong: str | None = f"no composition that is loaded names the tool '{letter.tool}'"
        else:
            caller = self._caller(letter.principal, letter.owner)
            root = Root(self._clock, self._limits, self._detach, caller, rng=self._rng, signals=self._signals)
            place = Place(root, self._clock.now() + self._timeout, False)
            wrong = await deliver(step, letter, place, self._timeout)
        self._signals.count("dead_letters_redriven", outcome="delivered" if wrong is None else "failed")
        await settled(spool, letter, wrong)
        return Redriven(letter.id, wrong)

    def _is_away(self, store: Store, error: StoreError) -> None:
        if store.name not in self._away:
            self._away.add(store.name)
            self._signals.event("spool_away", store=store.name, reason=error.message)

"""Dead letters that wait: sent again and again until their tool takes them, and shown to operators meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import TypeAlias, TypeVar

from weft.errors import ExecutionFailed, NotFound, StoreError
from weft.patterns.dead_letter_letters import Letter
from weft.patterns.dead_letter_office import MARGIN, deliver, settled
from weft.patterns.dead_letter_spool import Letterboxes, Spool
from weft.ports import Caller, Clock, Principal, Signals, Store
from weft.run.awaiting import NobodyAwaited, Servers
from weft.run.call import CHANCE, SILENCE, Detach, Place, Root
from weft.run.clock import MonotonicClock
from weft.run.letters import Redriven, Redriving, Spooled, Torn, in_spool
from weft.run.limits import Limits

CallerOf: TypeAlias = "Callable[[Principal, str], Caller | None]"
"""Makes a caller of the principal that a letter is about, and of its composition (`name@version`)."""

T = TypeVar("T")
SHORTEST = 4
"""How many characters of an id name a letter, if no other begins with them."""
AT_ONCE = 8
"""How many letters are on their way at the same time."""


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
        limits: Callable[[], Limits] = Limits,
        servers: Servers | None = None,
        signals: Signals = SILENCE,
        rng: Random = CHANCE,
        every: float = 10.0,
        timeout: float = 30.0,
    ) -> None:
        """Make one; `boxes` is what patterns keep (`Kept.of(Letterboxes)`), `detach` the engine's.

        `limits` tells what holds now. It first sends when the servers are ready; it looks `every` so many seconds, and
        gives a tool `timeout` seconds for a letter.
        """
        self._boxes = boxes
        self._caller = caller
        self._detach = detach
        self._stores = list(stores)
        self._clock = clock or MonotonicClock()
        self._limits = limits
        self._servers = servers or NobodyAwaited()
        self._signals = signals
        self._rng = rng
        self._every = every
        self._timeout = timeout
        self._away = set[str]()
        self._places = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        """Send what waits, again and again, until cancelled."""
        while True:
            await self.once()
            # Instances that started together do not look together for ever.
            await self._clock.sleep(self._every * (0.75 + self._rng.random() / 2))

    async def once(self) -> int:
        """Send every letter whose time has come and that nobody else sends; return how many were taken."""
        await self._servers.ready()
        found = await self._look()
        away = dict(found.away)
        taken = await _all(self._sent_in_turn(spool, letter, away) for spool, letter in found.letters)
        for name in self._away - away.keys():
            self._away.discard(name)
        for name in away.keys() - self._away:
            self._away.add(name)
            self._signals.event("spool_away", store=name, reason=away[name].message)
        return sum(taken)

    # What operators ask.

    async def look(self) -> Spooled:
        """Return all letters that wait, the oldest first, those that cannot be read, and which stores are away."""
        found = await self._look()
        found.letters.sort(key=lambda one: str(one[1].payload.get("timestamp")))
        return found

    async def list(self, *, tool: str | None = None, limit: int = 100) -> list[Letter]:
        """Return letters that wait, of one tool or of all, the oldest first.

        Raises:
            StoreError: a store cannot be read.
        """
        found = await self.look()
        for error in found.away.values():
            raise error
        return [letter for _, letter in found.letters if tool is None or letter.tool == tool][:limit]

    async def show(self, id: str) -> Letter | Torn:
        """Return a letter, or what is known of one that cannot be read.

        Raises:
            NotFound: none that waits has this id.
            StoreError: it may be in a store that cannot be read.
        """
        found = await self._found(id)
        return found if isinstance(found, Torn) else found[1]

    async def redrive(self, id: str | None = None) -> Redriving:
        """Send a letter now, or all of them, however long the pause before the next try may still be.

        Raises:
            NotFound: none that waits has this id.
            StoreError: it may be in a store that cannot be read; for all, when no store can be.
        """
        await self._servers.ready()
        if id is not None:
            one = await self._found(id)
            return Redriving([_not_sent(one) if isinstance(one, Torn) else await self._sent_now(*one)])
        found = await self.look()
        if found.away and len(found.away) == found.spools:
            raise next(iter(found.away.values()))
        done = await _all(self._sent_now(spool, letter) for spool, letter in found.letters)
        return Redriving([*done, *map(_not_sent, found.torn)], found.away)

    async def _found(self, id: str) -> tuple[Spool, Letter] | Torn:
        found = await self._look()
        for spool, letter in found.letters:
            if letter.id == id:
                return spool, letter
        for one in found.torn:
            if one.id == id:
                return one
        if begun := _begun(id, found):
            return begun
        for error in found.away.values():
            raise error
        raise NotFound("Dead letter", id, [letter.id for _, letter in found.letters])

    async def _look(self) -> Spooled:
        letters: list[tuple[Spool, Letter]] = []
        torn: list[Torn] = []
        away: dict[str, StoreError] = {}
        spools = self._spools()
        for spool in spools:
            try:
                found = [one async for one in in_spool(spool)]
            except StoreError as error:
                away[spool.store.name] = error
                continue
            letters += [(spool, one) for one in found if isinstance(one, Letter)]
            torn += [one for one in found if isinstance(one, Torn)]
        return Spooled(letters, torn, away, len(spools))

    def _spools(self) -> list[Spool]:
        named = {store.name: store for store in self._stores} | self._boxes.stores
        return [Spool(store) for store in named.values()]

    async def _sent_in_turn(self, spool: Spool, letter: Letter, away: dict[str, StoreError]) -> bool:
        """Send a letter if nobody else does, and its pause is over; tell whether it was taken."""
        async with self._places:
            try:
                mine = await spool.take(letter, self._timeout + MARGIN)
            except StoreError as error:
                away[spool.store.name] = error
                return False
            return mine and (await self._send(spool, letter)).delivered

    async def _sent_now(self, spool: Spool, letter: Letter) -> Redriven:
        async with self._places:
            try:
                mine = await spool.take_now(letter, self._timeout + MARGIN)
            except StoreError as error:
                return Redriven(letter.id, error.message)
            if mine is None:
                return Redriven(letter.id)  # only one that was taken is forgotten
            return await self._send(spool, letter) if mine else Redriven(letter.id, "it is being sent just now")

    async def _send(self, spool: Spool, letter: Letter) -> Redriven:
        wrong = await self._delivered(letter)
        self._signals.count("dead_letters_redriven", outcome="delivered" if wrong is None else "failed")
        await settled(spool, letter, wrong)
        return Redriven(letter.id, wrong)

    async def _delivered(self, letter: Letter) -> str | None:
        """Give a letter to its tool; return what went wrong."""
        step = self._boxes.find(letter)
        if step is None:
            return f"no composition that is loaded names the tool '{letter.tool}'"
        caller = self._caller(letter.principal, letter.owner)
        root = Root(self._clock, self._limits(), self._detach, caller, rng=self._rng, signals=self._signals)
        return await deliver(step, letter, Place(root, self._clock.now() + self._timeout, False), self._timeout)


def _begun(id: str, found: Spooled) -> tuple[Spool, Letter] | Torn | None:
    """Return the one letter whose id begins so, if that is enough of it to be meant.

    Raises:
        ExecutionFailed: several do (AmbiguousLetter).
    """
    meant: list[tuple[Spool, Letter] | Torn] = [one for one in found.letters if one[1].id.startswith(id)]
    meant += [one for one in found.torn if one.id.startswith(id)]
    if len(id) < SHORTEST or not meant:
        return None
    if len(meant) > 1:
        told = f"{len(meant)} letters have an id that begins with '{id}'"
        raise ExecutionFailed(told, code="AmbiguousLetter", hint="give more of it")
    return meant[0]


def _not_sent(letter: Torn) -> Redriven:
    return Redriven(letter.id, f"it cannot be read: {letter.why}")


async def _all(work: Iterable[Awaitable[T]]) -> list[T]:
    return list(await asyncio.gather(*work))

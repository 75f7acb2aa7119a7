"""Runs: recorded when they begin and when they end, listed a page at a time, the newest first."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from weft.errors import InputError, NotFound, StoreError, nearest, shown
from weft.ports import Clock, Put, Store, Stored
from weft.run.clock import MonotonicClock
from weft.workflows.keys import key
from weft.workflows.recorded import ENDED, STATUSES, Run
from weft.workflows.trails import DAY, At, Trails, place

RETENTION: Final = 30.0 * DAY
LEASE: Final = 30.0
"""For how many seconds a process counts as alive after it was last heard of."""
MOST: Final = 200
LOOK: Final = 1000
"""How many places of a list one page looks at, where most of them are empty or of another status."""
TRIES: Final = 20


@dataclass(frozen=True, slots=True)
class Page:
    """Some runs, and where to go on (`before`); None when there are no more."""

    runs: Sequence[Run]
    next: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the page as an API shows it."""
        return {"runs": [run.row() for run in self.runs], "next": self.next}


class Runs:
    """The runs in a store, each of a tenant.

    A process that works on runs calls `keep_alive`; the runs of one that is not heard of any more are `interrupted`,
    until somebody adopts or ends them. What cannot be written raises StoreError: whether to run all the same is for
    the caller to say.
    """

    def __init__(
        self, store: Store, *, clock: Clock | None = None, retention: float = RETENTION, lease: float = LEASE
    ) -> None:
        self.me: Final = secrets.token_hex(8)
        self._store = store
        self._clock = clock or MonotonicClock()
        self._trails = Trails(store, retention)
        self._lease = lease
        self._heard = float("-inf")
        # Memory makes room by dropping what was plainly set; what is written otherwise would fill it for ever.
        self._loose = not (store.durable or store.shared)

    async def begin(self, run: Run) -> Run:
        """Record a run that begins; return it with its place."""
        if self._clock.now() - self._heard >= self._lease / 3:
            await self.beat()
        day, left = await self._trails.day()
        trails = [(run.tenant,), *([(run.tenant, run.template)] if run.template is not None else [])]
        first, *others = await asyncio.gather(*(self._trails.next(day, left, *trail) for trail in trails))
        begun = replace(run, owner=self.me, at=str(first))
        puts = [
            Put(_record(begun.tenant, begun.at), begun.record(), left),
            Put(key("run-id", begun.tenant, begun.run_id), begun.at.encode(), left),
            *(_pointer(begun, at, left, *trail) for at, trail in zip(others, trails[1:], strict=True)),
        ]
        await self._write(puts)
        return begun

    async def end(self, run: Run) -> bool:
        """Record how a run ended (`Run.ended`); tell whether it had not ended before, so that it counts once."""
        assert run.status in ENDED, run.status
        if not run.at:
            return True  # Its beginning could not be recorded.
        trails = [(run.tenant, "", run.status)]
        if run.template is not None:
            trails.append((run.tenant, run.template, run.status))
        day, left = await self._trails.day(place(run.at).day)
        places = await asyncio.gather(*(self._trails.next(day, left, *trail) for trail in trails))
        pointers = [_pointer(run, at, left, *trail) for at, trail in zip(places, trails, strict=True)]
        for _ in range(TRIES):
            stored = await self._store.get(_record(run.tenant, run.at))
            if stored is None:
                return True  # Its time was over, or there was no room for it: nobody can have ended it twice.
            if Run.of_record(stored.value).status in ENDED:
                return False
            if await self._write([_again(run, stored), *pointers]):
                return True
        raise StoreError(self._store.name, f"the record of {run.run_id} is always being changed", code="StoreBusy")

    async def adopt(self, tenant: str, run_id: str) -> Run | None:
        """Make a run one's own, to go on with it; None when there is no such run, or it has ended."""
        await self.beat()
        for _ in range(TRIES):
            found = await self._find(tenant, run_id)
            if found is None or found[0].status in ENDED:
                return None
            mine = replace(found[0], owner=self.me)
            if await self._write([_again(mine, found[1])]):
                return mine
        return None

    async def get(self, tenant: str, run_id: str) -> Run:
        """Return a run with its steps.

        Raises:
            NotFound: the tenant has none of this id.
        """
        found = await self._find(tenant, run_id)
        if found is None:
            raise NotFound("Run", run_id)
        return (await self._as_alive([found[0]]))[0]

    async def list(
        self,
        tenant: str,
        *,
        template: str | None = None,
        status: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Page:
        """Return the newest runs, or those that come after a page's `next`.

        Runs that have ended have a list for each status, so that a page of them costs no more than any other. Those
        that run or are interrupted are looked for among all: a page may then be short and still have a `next`.

        Raises:
            InputError: the status, the limit or the cursor is none.
        """
        _check(status, limit)
        trail = (tenant, template or "", status) if status in ENDED else (tenant, *([template] if template else []))
        places = self._trails.down(None if before is None else place(before), *trail)
        runs: list[Run] = []
        looked, last = 0, None
        while looked < LOOK and len(runs) < limit:
            some = [at async for at in _first(places, limit - len(runs))]
            if not some:
                return Page(runs, None)
            looked, last = looked + len(some), some[-1]
            found = [run for run in await asyncio.gather(*(self._at(at, *trail) for at in some)) if run is not None]
            runs += [run for run in await self._as_alive(found) if status in (None, run.status)]
        more = [at async for at in _first(places, 1)]
        return Page(runs, str(last) if more else None)

    async def beat(self) -> None:
        """Say that this process is alive."""
        self._heard = self._clock.now()
        await self._store.batch([Put(key("run-owner", self.me), b"", self._lease)])

    async def keep_alive(self) -> None:
        """Say so again and again, until cancelled; while the store is away nobody hears it."""
        while True:
            with suppress(StoreError):
                await self.beat()
            await self._clock.sleep(self._lease / 3)

    async def _find(self, tenant: str, run_id: str) -> tuple[Run, Stored] | None:
        at = await self._store.get(key("run-id", tenant, run_id))
        stored = None if at is None else await self._store.get(_record(tenant, at.value.decode()))
        return None if stored is None else (Run.of_record(stored.value), stored)

    async def _at(self, at: At, tenant: str, *trail: str) -> Run | None:
        """Return the run at a place of a trail; all trails but the tenant's own lead to places of that."""
        where = str(at)
        if trail:
            pointer = await self._store.get(key("run-of", tenant, *trail, where))
            if pointer is None:
                return None
            where = pointer.value.decode()
        stored = await self._store.get(_record(tenant, where))
        return None if stored is None else Run.of_record(stored.value)

    async def _as_alive(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Return runs as they are: those of a process that is gone do not run any more."""
        owners = sorted({run.owner for run in runs if run.status == "running"} - {self.me})
        alive = await asyncio.gather(*(self._store.exists(key("run-owner", owner)) for owner in owners))
        gone = {owner for owner, there in zip(owners, alive, strict=True) if not there}
        lost = {run.run_id for run in runs if run.status == "running" and run.owner in gone}
        return [replace(run, status="interrupted") if run.run_id in lost else run for run in runs]

    async def _write(self, puts: Sequence[Put]) -> bool:
        """Write all or, where a condition does not hold, nothing."""
        if not self._loose:
            return await self._store.batch(puts) is not None
        for put in puts:
            # In memory nobody comes between the reading of a record and this.
            await self._store.set(put.key, put.value, ttl=put.ttl)
        return True


def _record(tenant: str, at: str) -> str:
    return key("run", tenant, at)


def _pointer(run: Run, at: At, left: float, *trail: str) -> Put:
    return Put(key("run-of", *trail, str(at)), run.at.encode(), left)


def _again(run: Run, stored: Stored) -> Put:
    """Return the writing of a record over an older one, for as long as that was kept."""
    return Put(_record(run.tenant, run.at), run.record(), stored.ttl, stored.version)


async def _first(places: AsyncIterator[At], most: int) -> AsyncIterator[At]:
    for _ in range(most):
        try:
            yield await anext(places)
        except StopAsyncIteration:
            return


def _check(status: str | None, limit: int) -> None:
    if status is not None and status not in STATUSES:
        close = nearest(status, STATUSES)
        told = f"{shown(status)} is not the status of a run; expected one of {', '.join(STATUSES)}"
        raise InputError(told, code="UnknownStatus", hint=f"did you mean {close!r}?" if close else None)
    if not 1 <= limit <= MOST:
        raise InputError(f"a page of {limit} runs; expected 1 to {MOST}", code="InvalidLimit")

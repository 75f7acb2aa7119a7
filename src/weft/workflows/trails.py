"""Trails: lists in a store that only grow, are read from their newest end, and forget what is old a day at a time.

A trail is numbered anew each day: `<day>-<number>` is a place in it. All of a day expires at one moment, with the
day's counter, so that reading a page costs the same however long the trail is: nothing in it is looked for in vain,
except what a process that died took a number for and never wrote.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from weft.errors import InputError, shown
from weft.ports import Store
from weft.workflows.keys import key

DAY: Final = 86_400
_CURSOR: Final = re.compile(r"([0-9]{1,7})-([0-9]{1,18})")


class At(NamedTuple):
    """A place in a trail: the day since 1970, and the number on that day, from 1."""

    day: int
    number: int

    def __str__(self) -> str:
        return f"{self.day}-{self.number}"


def place(text: str) -> At:
    """Return the place that a cursor stands for.

    Raises:
        InputError: it is none (InvalidCursor).
    """
    found = _CURSOR.fullmatch(text)
    if found is None:
        hint = "give back what was returned as 'next', or nothing for the newest"
        raise InputError(f"{shown(text)} is not a place in a list", code="InvalidCursor", hint=hint)
    return At(int(found[1]), int(found[2]))


class Trails:
    """The trails in a store; each is named by parts, such as a tenant and a template."""

    def __init__(self, store: Store, retention: float) -> None:
        """Make them; what is added is kept for so many seconds at least, and a day more at most."""
        self._store = store
        self._retention = retention
        self._days = math.ceil(retention / DAY) + 1

    async def day(self, day: int | None = None) -> tuple[int, float]:
        """Return a day, or today, and for how many seconds what belongs to it is kept from now on.

        It goes by the clock of the store, as all processes that share it do.
        """
        now = await self._store.now()
        day = int(now // DAY) if day is None else day
        return day, max((day + 1) * DAY + self._retention - now, 1.0)

    async def next(self, day: int, left: float, *trail: str) -> At:
        """Take the next place of a day."""
        return At(day, await self._store.incr(self._counter(day, trail), ttl=left))

    async def down(self, before: At | None, *trail: str) -> AsyncIterator[At]:
        """Yield the places of a trail, the newest first, below a place; whether something is there is not known."""
        today, _ = await self.day()
        newest = today if before is None else min(before.day, today)
        days = range(newest, today - self._days, -1)
        # The page is mostly of one day or two; only who needs more pays for the rest, all at once.
        for some in (days[:2], days[2:]):
            lasts = await asyncio.gather(*(self._last(day, trail) for day in some))
            for day, last in zip(some, lasts, strict=True):
                top = min(last, before.number - 1) if before is not None and day == before.day else last
                for number in range(top, 0, -1):
                    yield At(day, number)

    async def _last(self, day: int, trail: tuple[str, ...]) -> int:
        stored = await self._store.get(self._counter(day, trail))
        return 0 if stored is None else int(stored.value)

    def _counter(self, day: int, trail: tuple[str, ...]) -> str:
        return key("run-count", *trail, str(day))

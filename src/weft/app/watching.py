"""What is not well with the state of a gateway: stores that are away, sagas that are stuck, circuits that are open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from weft.errors import StoreError
from weft.patterns.saga_record import OPEN, decode
from weft.ports import Store, Stored, is_object
from weft.stores.guarding import Guarded

EVERY: Final = 10.0
PAUSE: Final = 1.0
"""Between two looks there are at least so many seconds, however much happens."""
SHARE: Final = 50
"""And so many times as long as a look took: looking is never what a gateway is busy with."""

ABOUT: Final = frozenset(
    {"saga_stuck", "saga_retried", "saga_abandoned", "circuit_opened", "circuit_half_opened", "circuit_closed"}
)
"""Events after which things look different."""


class Watch:
    """Looks now and then, and soon after something has happened; what it tells is what it last saw."""

    def __init__(
        self,
        stores: Mapping[str, Store],
        shelves: list[Store],
        circuits: Callable[[], Awaitable[list[dict[str, Any]]]],
    ) -> None:
        """Make one; `shelves` are the stores in which there may be sagas."""
        self.stuck: dict[str, int] = {}
        """How many sagas are stuck, by store."""
        self.circuits: dict[str, bool] = {}
        """Whether each circuit is open, in any of its scopes."""
        self._stores = stores
        self._shelves = shelves
        self._circuits = circuits
        self._news = asyncio.Event()

    @property
    def away(self) -> list[str]:
        """The names of the stores that are away now."""
        return [name for name, store in self._stores.items() if isinstance(store, Guarded) and store.away]

    @property
    def failing(self) -> dict[str, str]:
        """Why stores fail that are not away, by their names."""
        guarded = {name: store for name, store in self._stores.items() if isinstance(store, Guarded)}
        return {name: store.failing for name, store in guarded.items() if store.failing is not None}

    def heard(self, event: str) -> None:
        """Look soon if an event is about something that is looked at."""
        if event in ABOUT:
            self._news.set()

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._news.clear()
            began = loop.time()
            await self.look()
            pause = max(PAUSE, SHARE * (loop.time() - began))
            await asyncio.sleep(pause)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(EVERY - pause, 0)):
                    await self._news.wait()

    async def look(self) -> None:
        """Look once; of a store that is away, what was last known is kept."""
        for store in self._shelves:
            with contextlib.suppress(StoreError):
                self.stuck[store.name] = await _stuck_in(store.scan(OPEN))
        seen: dict[str, bool] = {}
        for one in await self._circuits():
            seen[one["name"]] = seen.get(one["name"], False) or one["state"] == "open"
        self.circuits = seen

    def report(self) -> dict[str, Any]:
        """Return the parts that are not well, in `degraded`, and a sentence about each, in `problems`."""
        away, failing, stuck = self.away, self.failing, sum(self.stuck.values())
        problems = [f"store '{name}' is away" for name in away]
        problems += [f"store '{name}' answers, and fails: {_bare(why, name)}" for name, why in failing.items()]
        if stuck:
            problems.append(f"{stuck} saga{' is' if stuck == 1 else 's are'} stuck; `weft saga list` has them")
        return {
            "degraded": [*(f"store:{name}" for name in [*away, *failing]), *(["sagas"] if stuck else [])],
            "problems": problems,
        }

    def gauges(self) -> list[list[Any]]:
        """Return what metrics show: rows of name, labels and number."""
        away, failing = set(self.away), self.failing
        return [
            *(["store_away", {"store": name}, int(name in away)] for name in self._stores),
            *(["store_failing", {"store": name}, int(name in failing)] for name in self._stores),
            *(["sagas_stuck", {"store": name}, number] for name, number in self.stuck.items()),
            *(["circuit_open", {"circuit": name}, int(is_open)] for name, is_open in self.circuits.items()),
        ]


def _bare(message: str, store: str) -> str:
    """Return what an error of a store says, without the name that stands before it."""
    return message.removeprefix(f"Store '{store}': ")


async def _stuck_in(states: AsyncIterator[tuple[str, Stored]]) -> int:
    stuck = 0
    async for _, stored in states:
        # Nearly none is, and the word is seen much faster than a record is read.
        if b'"stuck"' in stored.value:
            with contextlib.suppress(ValueError):
                told = decode(stored.value)
                stuck += is_object(told) and "stuck" in told
    return stuck

"""Gates: what a call passes before it may begin. One in this process, or one that several share through a store."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Literal, TypeAlias

import orjson

from weft.errors import StoreError
from weft.patterns.contract import Call, Root
from weft.patterns.throttle_rates import Numbers, Rate
from weft.patterns.throttle_turns import Turn
from weft.ports import Store, is_array, is_object

KNOWN = 10_000
"""How many gates a process remembers; those of callers who are away are forgotten first."""
TRIES = 50
"""How often a change is tried that others keep getting in the way of."""
LOOK = 0.05
"""How often, in seconds, a place that others hold elsewhere is looked for."""
SPARE = 5.0
"""How long a place in a store outlives the deadline of its call, in seconds."""

Pass: TypeAlias = Callable[[], None]
"""Gives a place back."""


class Refused(Exception):
    """There was no way through in time; `wait` is the seconds after which there may be, if that is known."""

    def __init__(self, by: Literal["rate", "places"], wait: float | None = None) -> None:
        super().__init__(by)
        self.by = by
        self.wait = wait


class Gate:
    """A gate for this process: first a place, then a moment, each in the order of coming."""

    def __init__(self, rate: Rate | None, places: int | None) -> None:
        self._rate, self._places = rate, places
        self._numbers: Numbers = deque()
        self._held = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def idle(self, now: float) -> bool:
        """Tell whether the gate could be forgotten without anybody noticing."""
        return not self._held and not self._waiting and (self._rate is None or self._rate.idle(self._numbers, now))

    async def enter(self, root: Root, patience: float) -> float:
        """Pass, within so many seconds; return the seconds that were waited, 0 for a way that was free.

        Raises:
            Refused: it would take longer.
        """
        came, waited = root.clock.now(), False
        if self._places is not None:
            if self._held >= self._places or self._waiting:
                await self._place(patience)
                waited = True
            self._held += 1
        try:
            if self._rate is not None and await self._moment(self._rate, root, came + patience):
                waited = True
        except BaseException:
            self.leave()
            raise
        return root.clock.now() - came if waited else 0.0

    def leave(self) -> None:
        """Give a place back."""
        if self._places is not None:
            self._held -= 1
            self._wake()

    async def _place(self, patience: float) -> None:
        if patience <= 0:
            raise Refused("places")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        # Who waits for it ends with the deadline of the call, as any work does.
        try:
            await turn
        except BaseException:
            if turn in self._waiting:
                self._waiting.remove(turn)
            if turn.done() and not turn.cancelled():
                self._held -= 1
                self._wake()  # the place came in the same turn of the loop, and is the next one's
            raise
        self._held -= 1  # whoever left kept it for this one

    def _wake(self) -> None:
        while self._waiting and self._places is not None and self._held < self._places:
            turn = self._waiting.popleft()
            if not turn.done():
                self._held += 1
                turn.set_result(None)

    async def _moment(self, rate: Rate, root: Root, until: float) -> bool:
        """Wait for the moment that a call may begin; tell whether it was not at once."""
        now = root.clock.now()
        when = rate.take(self._numbers, now)
        if when <= now:
            return False
        if when >= until:
            rate.give_back(self._numbers, when)
            raise Refused("rate", when - now)
        try:
            await root.clock.sleep(when - now)
        except BaseException:
            rate.give_back(self._numbers, when)
            raise
        return True


class Gates:
    """The gates of a process, which a reload does not open."""

    def __init__(self) -> None:
        self._known: dict[str, Gate] = {}

    def of(self, key: str, made: Callable[[], Gate], now: float) -> Gate:
        """Return the gate of a key."""
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= KNOWN:
                self._known = {name: gate for name, gate in self._known.items() if not gate.idle(now)}
            found = self._known[key] = made()
        return found


class SharedGate:
    """A gate that lies in a store: moments and places are taken there, by its clock."""

    def __init__(
        self, store: Store, key: str, rate: Rate | None, places: int | None, window: float, *, turn: Turn
    ) -> None:
        self._store, self._key, self._turn = store, key, turn
        self._rate, self._places, self._window = rate, places, window

    async def enter(self, call: Call, patience: float) -> tuple[float, Pass]:
        """Pass, within so many seconds; return the seconds that were waited, and what gives the place back.

        What the store itself takes to answer is no waiting.

        Raises:
            Refused: it would take longer.
            StoreError: the store cannot be used.
        """
        root = call.root
        came = root.clock.now()
        until = came + patience
        turn = self._turn
        if turn.full and patience <= 0:
            raise Refused("places")
        stood = turn.full
        # Who may not wait does not stand in line either: whoever is its head may begin to wait.
        async with turn.taken() if patience > 0 else nullcontext():
            leave, waited = (_nothing, False) if self._places is None else await self._place(self._places, call, until)
            try:
                wait = 0.0 if self._rate is None else await self._moment(self._rate, root, until)
            except BaseException:
                leave()
                raise
        # The moment is taken: while it is waited for, the next one may take the one after it.
        try:
            if wait > 0:
                await root.clock.sleep(wait)
        except BaseException:
            leave()
            raise
        return root.clock.now() - came if stood or waited or wait > 0 else 0.0, leave

    async def _moment(self, rate: Rate, root: Root, until: float) -> float:
        """Take a moment and return the seconds until it comes."""
        key = f"{self._key}rate"

        def take(held: Any, now: float) -> tuple[Any, float, float]:
            numbers: Numbers = deque(held if is_array(held) else ())
            wait = rate.take(numbers, now) - now
            if wait > 0 and wait >= until - root.clock.now():
                raise Refused("rate", wait)
            return list(numbers), wait + 2 * self._window, wait

        return await self._changed(key, take, root)

    async def _place(self, places: int, call: Call, until: float) -> tuple[Pass, bool]:
        """Take a place; return what gives it back, and whether it was waited for."""
        root, key, mine = call.root, f"{self._key}places", secrets.token_hex(8)
        waited = False

        def take(held: Any, now: float) -> tuple[Any, float, bool]:
            holders = {who: end for who, end in (held if is_object(held) else {}).items() if end > now}
            left = max(0.0, call.deadline - root.clock.now()) + SPARE
            if free := len(holders) < places:
                holders[mine] = now + left
            return holders, max([left, *(end - now for end in holders.values())]), free

        while not await self._changed(key, take, root):
            pause = LOOK * (0.5 + root.rng.random())
            if root.clock.now() + pause >= until:
                raise Refused("places")
            waited = self._turn.full = True
            await root.clock.sleep(pause)

        def drop(held: Any, now: float) -> tuple[Any, float, None]:
            holders = {who: end for who, end in (held if is_object(held) else {}).items() if who != mine}
            return holders, max([SPARE, *(end - now for end in holders.values())]), None

        return lambda: root.detach(self._dropped(key, drop, root)), waited

    async def _dropped(self, key: str, drop: Callable[[Any, float], tuple[Any, float, Any]], root: Root) -> None:
        try:
            await self._changed(key, drop, root)
        except StoreError:
            root.signals.count("throttle_places_left")  # it falls free by itself, once its time is over

    async def _changed(self, key: str, change: Callable[[Any, float], tuple[Any, float, Any]], root: Root) -> Any:
        """Change what is stored: `change` gives the new value, for how long it matters, and what to return."""
        store = self._store
        for attempt in range(TRIES):
            stored = await store.get(key)
            held = None if stored is None else _read(stored.value)
            value, ttl, result = change(held, await store.now())
            if value == held:
                return result
            written = orjson.dumps(value)
            if stored is None:
                done = await store.put_if_absent(key, written, ttl=ttl)
            else:
                done = await store.cas(key, written, stored.version, ttl=ttl)
            if done is not None:
                return result
            if attempt > 3:
                await root.clock.sleep(root.rng.random() * 0.01)
        raise StoreError(store.name, "too many change the same throttle at once", code="StoreBusy")


def _read(value: bytes) -> Any:
    """Return what is stored; what cannot be read counts as nothing."""
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return None


def _nothing() -> None:
    """Give nothing back."""

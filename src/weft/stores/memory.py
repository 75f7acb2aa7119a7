"""Memory: a bounded store for one process, which forgets everything at its end."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from typing import Final

from weft.errors import StoreError
from weft.ports import ABSENT, Change, Clock, Put, Stored
from weft.stores.rules import MAX_VALUE, added, check_key, check_value, holds, lifetime

_SLACK: Final = 64
_FEW: Final = 16
"""How many that have expired a writing takes along, so that none has much to clear away."""
_STRETCH: Final = 512
"""How many keys a scan looks at before others get their turn."""


class _Entry:
    """What is stored: `loose` may make room for others, since nobody relies on its being there."""

    __slots__ = ("expires", "loose", "stored")

    def __init__(self, stored: Stored, expires: float | None, loose: bool) -> None:
        self.stored = stored
        self.expires = expires
        self.loose = loose


class MemoryStore:
    """Entries of plain `set` make room for others, the least recently used first.

    What was ever written with a condition, counted, or written in a batch stays until it is deleted or expires: a
    lease or a record that vanished would let something happen twice. When only such are left, it says StoreFull.
    """

    def __init__(
        self,
        name: str = "memory",
        *,
        clock: Clock | None = None,
        max_entries: int = 100_000,
        max_bytes: int = 256 << 20,
        max_value: int = MAX_VALUE,
    ) -> None:
        """Make an empty store; without a clock it goes by the machine's, else the clock's seconds are since 1970."""
        self.name: Final = name
        self.durable: Final = False
        self.shared: Final = False
        self._now = time.monotonic if clock is None else clock.now
        self._epoch = time.time() - time.monotonic() if clock is None else 0.0
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._max_value = max_value
        self._version = 0
        self._bytes = 0
        self._entries: dict[str, _Entry] = {}
        self._loose: OrderedDict[str, None] = OrderedDict()
        self._ends: list[tuple[float, int, str]] = []

    def __len__(self) -> int:
        """Return how many entries there are, with those that have expired and are not gone yet."""
        return len(self._entries)

    async def open(self) -> None:
        """Do nothing: it is ready."""

    async def close(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._loose.clear()
        self._ends.clear()
        self._bytes = 0

    async def get(self, key: str) -> Stored | None:
        """Return what is stored under a key."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.loose:
            self._loose.move_to_end(key)
        if entry.expires is None:
            return entry.stored
        return self._read(key, entry)

    async def exists(self, key: str) -> bool:
        """Tell whether something is stored under a key."""
        return self._find(key) is not None

    async def set(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        """Write a key, whatever was there; return the new version."""
        return self._put(key, value, self._check(key, value, ttl), loose=True)

    async def put_if_absent(self, key: str, value: bytes, *, ttl: float | None = None) -> int | None:
        """Write a key where nothing is stored; return the new version, or None when something is."""
        return await self.cas(key, value, ABSENT, ttl=ttl)

    async def cas(self, key: str, value: bytes, version: int, *, ttl: float | None = None) -> int | None:
        """Write a key that is still of a version; return the new version, or None when it is not."""
        ttl = self._check(key, value, ttl)
        return self._put(key, value, ttl, loose=False) if self._version_of(key) == version else None

    async def delete(self, key: str) -> bool:
        """Delete a key; tell whether something was there."""
        there = self._find(key) is not None
        self._drop(key)
        return there

    async def delete_if(self, key: str, version: int) -> bool:
        """Delete a key that is still of a version; tell whether it was."""
        if self._version_of(key) != version or version == ABSENT:
            return False
        self._drop(key)
        return True

    async def incr(self, key: str, by: int = 1, *, ttl: float | None = None) -> int:
        """Add to a number, which begins at 0, and return it; `ttl` counts from its first writing."""
        ttl = self._check(key, b"", ttl)
        entry = self._find(key)
        total = added(self.name, None if entry is None else entry.stored.value, by)
        if entry is None:
            self._put(key, b"%d" % total, ttl, loose=False)
        else:
            self._write(key, b"%d" % total, entry.expires, loose=False)
        return total

    async def scan(self, prefix: str) -> AsyncIterator[tuple[str, Stored]]:
        """Yield what is stored under keys with a prefix, each once, in no order."""
        for looked, key in enumerate(list(self._entries)):
            if looked % _STRETCH == _STRETCH - 1:
                await asyncio.sleep(0)
            if key.startswith(prefix):
                entry = self._entries.get(key)
                stored = None if entry is None else self._read(key, entry)
                if stored is not None:
                    yield key, stored

    async def batch(self, changes: Sequence[Change]) -> list[int] | None:
        """Make all changes or none; return the versions (0 for a deletion), or None when a condition does not hold."""
        for change in changes:
            if isinstance(change, Put):
                self._check(change.key, change.value, change.ttl)
        if not all(holds(change.when, self._version_of(change.key)) for change in changes):
            return None
        self._make_room(changes)
        versions: list[int] = []
        for change in changes:
            if isinstance(change, Put):
                expires = self._end_of(lifetime(self.name, change.ttl))
                versions.append(self._write(change.key, change.value, expires, loose=False))
            else:
                self._drop(change.key)
                versions.append(0)
        return versions

    async def now(self) -> float:
        """Return seconds since 1970; wall clocks that are set do not move them."""
        return self._epoch + self._now()

    def _read(self, key: str, entry: _Entry) -> Stored | None:
        if entry.expires is None:
            return entry.stored
        left = entry.expires - self._now()
        if left <= 0:
            self._drop(key)
            return None
        stored = entry.stored
        return Stored(stored.value, stored.version, left)

    def _find(self, key: str) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is None or entry.expires is None or entry.expires > self._now():
            return entry
        self._drop(key)
        return None

    def _version_of(self, key: str) -> int:
        entry = self._find(key)
        return 0 if entry is None else entry.stored.version

    def _check(self, key: str, value: bytes, ttl: float | None) -> float | None:
        check_key(self.name, key)
        check_value(self.name, value, self._max_value)
        return lifetime(self.name, ttl)

    def _put(self, key: str, value: bytes, ttl: float | None, *, loose: bool) -> int:
        self._drop_expired(_FEW)
        if len(self._entries) >= self._max_entries or self._bytes + len(key) + len(value) > self._max_bytes:
            self._make_room((Put(key, value),))
        return self._write(key, value, self._end_of(ttl), loose=loose)

    def _end_of(self, ttl: float | None) -> float | None:
        return None if ttl is None else self._now() + ttl

    def _write(self, key: str, value: bytes, expires: float | None, *, loose: bool) -> int:
        """Write an entry, for which there is room; one that was kept once stays so."""
        old = self._entries.get(key)
        self._version += 1
        stored = Stored(bytes(value), self._version)
        self._bytes += _size(key, value)
        if old is not None:
            self._bytes -= _size(key, old.stored.value)
            loose = loose and old.loose
        self._entries[key] = _Entry(stored, expires, loose)
        if loose:
            self._loose[key] = None
            self._loose.move_to_end(key)
        elif old is not None and old.loose:
            del self._loose[key]
        if expires is not None:
            self._ends_at(key, expires)
        return self._version

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= _size(key, entry.stored.value)
            if entry.loose:
                del self._loose[key]

    def _ends_at(self, key: str, expires: float) -> None:
        if len(self._ends) > 2 * len(self._entries) + _SLACK:
            self._ends = [
                (one.expires, one.stored.version, name)
                for name, one in self._entries.items()
                if one.expires is not None and name != key
            ]
            heapq.heapify(self._ends)
        heapq.heappush(self._ends, (expires, self._version, key))

    def _drop_expired(self, most: int) -> None:
        now = self._now()
        while most and self._ends and self._ends[0][0] <= now:
            most -= 1
            _, version, key = heapq.heappop(self._ends)
            entry = self._entries.get(key)
            if entry is not None and entry.stored.version == version:
                self._drop(key)

    def _make_room(self, changes: Sequence[Change]) -> None:
        """Drop what has expired, and as much that is loose as is needed; nothing loose where that is not enough."""
        self._drop_expired(_FEW)
        if self._fits(*self._after(changes)):
            return
        self._drop_expired(len(self._ends))
        entries, size = self._after(changes)
        touched = {change.key for change in changes}
        leaving: list[str] = []
        for key in self._loose:
            if self._fits(entries, size):
                break
            if key not in touched:
                leaving.append(key)
                entries -= 1
                size -= self._size_of(key)
        if not self._fits(entries, size):
            limits = f"{self._max_entries} entries, {self._max_bytes} bytes"
            raise StoreError(self.name, f"it is full of records that must be kept ({limits})", code="StoreFull")
        for key in leaving:
            self._drop(key)

    def _fits(self, entries: int, size: int) -> bool:
        return entries <= self._max_entries and size <= self._max_bytes

    def _after(self, changes: Sequence[Change]) -> tuple[int, int]:
        """Return how many entries and bytes there would be after some changes."""
        last = {one.key: _size(one.key, one.value) if isinstance(one, Put) else None for one in changes}
        entries, size = len(self._entries), self._bytes
        for key, written in last.items():
            entries += (written is not None) - (key in self._entries)
            size += (written or 0) - self._size_of(key)
        return entries, size

    def _size_of(self, key: str) -> int:
        entry = self._entries.get(key)
        return 0 if entry is None else _size(key, entry.stored.value)


def _size(key: str, value: bytes) -> int:
    return len(key) + len(value)


class MemoryStores:
    """Stores in memory under any name, for work that ends with its process: `weft run`, programs, tests."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock
        self._stores: dict[str, MemoryStore] = {}

    def find(self, name: str | None) -> MemoryStore:
        """Return the store of a name; it is made when it is first asked for."""
        wanted = name or "default"
        if wanted not in self._stores:
            self._stores[wanted] = MemoryStore(wanted, clock=self._clock)
        return self._stores[wanted]

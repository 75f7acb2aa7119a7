"""Leases: of all processes that share a store, one loads a key; if it dies, another may after a short while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from weft.errors import StoreError
from weft.ports import Clock, Delete, Put, Store

LEASE: Final = 5.0
"""How long a process that died keeps the others waiting; one that lives renews its lease."""
_HELD: Final = b"held"
_PAUSED: Final = b"paused"
"""Nobody should refresh the key for now: the last attempt failed."""


def lease_key(key: str) -> str:
    """Return where the lease of a key is."""
    return f"{key}|lease"


class Lease:
    """The right of this process to load a key."""

    def __init__(self, store: Store, key: str, version: int, clock: Clock) -> None:
        self._store = store
        self._key = key
        self._version: int | None = version
        self._clock = clock
        self._writing = asyncio.Lock()
        self._renewing = asyncio.create_task(self._renew())

    @property
    def held(self) -> bool:
        """Whether it was neither given back nor lost, as far as is known here."""
        return self._version is not None

    @classmethod
    async def take(cls, store: Store, key: str, clock: Clock, *, refresh: bool) -> Lease | None:
        """Return the lease of a key unless another has it; a pause after a failed refresh holds only for refreshes.

        Raises:
            StoreError: the store cannot be used.
        """
        at = lease_key(key)
        version = await store.put_if_absent(at, _HELD, ttl=LEASE)
        if version is None and not refresh:
            there = await store.get(at)
            if there is not None and there.value == _PAUSED:
                version = await store.cas(at, _HELD, there.version, ttl=LEASE)
        return None if version is None else cls(store, at, version, clock)

    async def done(self, entry: Put) -> bool:
        """Store what was loaded and give the lease back, both or neither; tell whether the lease still held.

        Raises:
            StoreError: the store cannot be used.
        """
        version = await self._stop()
        if version is None:
            return False
        try:
            return await self._store.batch([entry, Delete(self._key, when=version)]) is not None
        except StoreError:
            self._version = version  # It is still there to be given back.
            raise

    async def release(self, *, pause: float = 0.0) -> None:
        """Give the lease back; with a pause, nobody refreshes the key meanwhile. A store that is away forgets it."""
        version = await self._stop()
        if version is None:
            return
        try:
            if pause > 0:
                await self._store.cas(self._key, _PAUSED, version, ttl=pause)
            else:
                await self._store.delete_if(self._key, version)
        except StoreError:
            return

    def abandon(self, detach: Callable[[Coroutine[Any, Any, object]], object]) -> None:
        """Give the lease back from a task that was cancelled, which may not wait."""
        detach(self.release())

    async def _stop(self) -> int | None:
        # A renewal under way is waited for: else nobody would know the version that it leaves.
        async with self._writing:
            self._renewing.cancel()
            version, self._version = self._version, None
        return version

    async def _renew(self) -> None:
        while self._version is not None:
            await self._clock.sleep(LEASE / 3)
            async with self._writing:
                if self.held:
                    await self._renewed(self._version)

    async def _renewed(self, version: int) -> None:
        try:
            self._version = await self._store.cas(self._key, _HELD, version, ttl=LEASE)
        except StoreError:
            return  # It may be back before the lease ends.

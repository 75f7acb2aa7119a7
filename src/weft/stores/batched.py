"""Batched: a store on a server, for which every writing of keys is a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from weft.ports import ABSENT, ANYHOW, Change, Delete, Put
from weft.stores.remote import merged
from weft.stores.rules import LARGEST, check_value, lifetime


class Batched(ABC):
    """What can be said of writings without knowing the server."""

    def __init__(self, name: str, *, durable: bool, max_value: int) -> None:
        self.name: Final = name
        self.durable: Final = durable
        self.shared: Final = True
        self._max_value = max_value

    @abstractmethod
    async def batch(self, changes: Sequence[Change]) -> list[int] | None:
        """Make all changes or none; return the versions (0 for a deletion), or None when a condition does not hold."""

    async def set(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        """Write a key, whatever was there; return the new version."""
        version = await self._put(Put(key, value, ttl, ANYHOW))
        assert version is not None  # there was no condition
        return version

    async def put_if_absent(self, key: str, value: bytes, *, ttl: float | None = None) -> int | None:
        """Write a key where nothing is stored; return the new version, or None when something is."""
        return await self._put(Put(key, value, ttl, ABSENT))

    async def cas(self, key: str, value: bytes, version: int, *, ttl: float | None = None) -> int | None:
        """Write a key that is still of a version; return the new version, or None when it is not."""
        return None if not ABSENT <= version <= LARGEST else await self._put(Put(key, value, ttl, version))

    async def delete_if(self, key: str, version: int) -> bool:
        """Delete a key that is still of a version; tell whether it was."""
        return ABSENT < version <= LARGEST and await self.batch([Delete(key, version)]) is not None

    async def _put(self, change: Put) -> int | None:
        versions = await self.batch([change])
        return None if versions is None else versions[0]

    def _merged(self, changes: Sequence[Change]) -> list[Change] | None:
        """Return one change for each key, once all are such as every store takes; None when not all can hold."""
        return merged([self._checked(change) for change in changes])

    def _checked(self, change: Change) -> Change:
        if not isinstance(change, Put):
            return change
        check_value(self.name, change.value, self._max_value)
        return Put(change.key, change.value, lifetime(self.name, change.ttl), change.when)

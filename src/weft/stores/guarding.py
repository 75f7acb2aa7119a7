"""Guarded: any store with a time limit, a breaker for its outages, and a prefix of its own before every key."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, ParamSpec, TypeVar

from weft.errors import StoreError
from weft.ports import Change, Clock, Put, Signals, Silence, Store, Stored
from weft.stores.health import Doing, Health

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT: Final = 0.25


class Guarded:
    """Nothing takes longer than the time limit; once the store is away, nothing but one probe a second waits for it."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        timeout: float | None = TIMEOUT,
        prefix: str = "",
        signals: Signals | None = None,
    ) -> None:
        """Guard a store; without a timeout its operations may take what they take, as those of memory do."""
        self.name: Final = store.name
        self.durable: Final = store.durable
        self.shared: Final = store.shared
        self.inner: Final = store
        self._timeout = timeout
        # No prefix has the bar in it, so that what one store writes is never below the prefix of another.
        self._prefix = prefix.replace("%", "%25").replace("|", "%7C") + "|"
        self._clock = clock
        self._health = Health(store.name, clock, signals or Silence())

    @property
    def away(self) -> bool:
        """Whether the store counts as away now."""
        return self._health.away

    @property
    def failing(self) -> str | None:
        """Why the store, which answers, cannot be read or keeps nothing; None when it is well, or away."""
        return None if self._health.away else self._health.failing

    async def open(self) -> None:
        """Open the store, which takes the time it takes: a file may have to be checked."""
        try:
            await self.inner.open()
        except StoreError as error:
            self._health.failed(error, Doing.READING, enough=1)
            raise
        self._health.well(Doing.READING)

    async def close(self) -> None:
        """Let everything go."""
        await self.inner.close()

    async def get(self, key: str) -> Stored | None:
        """Return what is stored under a key."""
        return await self._run(Doing.READING, self.inner.get, self._prefix + key)

    async def exists(self, key: str) -> bool:
        """Tell whether something is stored under a key."""
        return await self._run(Doing.READING, self.inner.exists, self._prefix + key)

    async def set(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        """Write a key, whatever was there; return the new version."""
        return await self._run(Doing.KEEPING, self.inner.set, self._prefix + key, value, ttl=ttl)

    async def put_if_absent(self, key: str, value: bytes, *, ttl: float | None = None) -> int | None:
        """Write a key where nothing is stored; return the new version, or None when something is."""
        return await self._run(Doing.KEEPING, self.inner.put_if_absent, self._prefix + key, value, ttl=ttl)

    async def cas(self, key: str, value: bytes, version: int, *, ttl: float | None = None) -> int | None:
        """Write a key that is still of a version; return the new version, or None when it is not."""
        return await self._run(Doing.KEEPING, self.inner.cas, self._prefix + key, value, version, ttl=ttl)

    async def delete(self, key: str) -> bool:
        """Delete a key; tell whether something was there."""
        return await self._run(Doing.DELETING, self.inner.delete, self._prefix + key)

    async def delete_if(self, key: str, version: int) -> bool:
        """Delete a key that is still of a version; tell whether it was."""
        return await self._run(Doing.DELETING, self.inner.delete_if, self._prefix + key, version)

    async def incr(self, key: str, by: int = 1, *, ttl: float | None = None) -> int:
        """Add to a number, which begins at 0, and return it; `ttl` counts from its first writing."""
        return await self._run(Doing.KEEPING, self.inner.incr, self._prefix + key, by, ttl=ttl)

    async def scan(self, prefix: str) -> AsyncIterator[tuple[str, Stored]]:
        """Yield what is stored under keys with a prefix, each once, in no order; each may take the time limit."""
        found = self.inner.scan(self._prefix + prefix)
        try:
            while (one := await self._run(Doing.READING, _next, found)) is not None:
                yield one[0][len(self._prefix) :], one[1]
        finally:
            if isinstance(found, AsyncGenerator):
                await found.aclose()

    async def batch(self, changes: Sequence[Change]) -> list[int] | None:
        """Make all changes or none; return the versions (0 for a deletion), or None when a condition does not hold."""
        prefixed = [replace(change, key=self._prefix + change.key) for change in changes]
        keeps = any(isinstance(change, Put) for change in prefixed)
        return await self._run(Doing.KEEPING if keeps else Doing.DELETING, self.inner.batch, prefixed)

    async def now(self) -> float:
        """Return seconds since 1970 by the clock that expiry goes by."""
        return await self._run(Doing.CLOCK, self.inner.now)

    async def _run(self, doing: Doing, operation: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation, unless the store is away; a writing that is late may have been done."""
        probe = self._health.away and self._health.admit(doing)
        try:
            if self._timeout is None:
                result = await operation(*args, **kwargs)
            else:
                async with self._clock.timeout_at(self._clock.now() + self._timeout):
                    result = await operation(*args, **kwargs)
        except StoreError as error:
            self._health.failed(error, doing)
            raise
        except TimeoutError:
            late = StoreError(self.name, f"no answer within {self._timeout:g} s", sent=doing.writes)
            self._health.failed(late, doing)
            raise late from None
        finally:
            if probe:
                self._health.probed()
        # Where a condition did not hold, nothing was written.
        self._health.well(Doing.READING if doing is Doing.KEEPING and result is None else doing)
        return result


async def _next(found: AsyncIterator[T]) -> T | None:
    return await anext(found, None)

"""Guarded: any store with a time limit, a breaker for its outages, and a prefix of its own before every key."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, ParamSpec, TypeVar

from weft.errors import StoreError
from weft.ports import Change, Clock, Signals, Silence, Store, Stored

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT: Final = 0.25
TRIES: Final = 3
"""How many operations in a row must fail before the store counts as away: one slow commit is no outage."""
FIRST_PROBE: Final = 0.1
PROBE: Final = 1.0

OUTAGES: Final = frozenset({"StoreUnavailable", "StoreBusy"})
"""Codes of a store that does not answer; with the others it answers, if not as one would like."""


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

    async def open(self) -> None:
        """Open the store, which takes the time it takes: a file may have to be checked."""
        try:
            await self.inner.open()
        except StoreError as error:
            self._health.failed(error, enough=1)
            raise
        self._health.well()

    async def close(self) -> None:
        """Let everything go."""
        await self.inner.close()

    async def get(self, key: str) -> Stored | None:
        """Return what is stored under a key."""
        return await self._read(self.inner.get, self._prefix + key)

    async def exists(self, key: str) -> bool:
        """Tell whether something is stored under a key."""
        return await self._read(self.inner.exists, self._prefix + key)

    async def set(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        """Write a key, whatever was there; return the new version."""
        return await self._write(self.inner.set, self._prefix + key, value, ttl=ttl)

    async def put_if_absent(self, key: str, value: bytes, *, ttl: float | None = None) -> int | None:
        """Write a key where nothing is stored; return the new version, or None when something is."""
        return await self._write(self.inner.put_if_absent, self._prefix + key, value, ttl=ttl)

    async def cas(self, key: str, value: bytes, version: int, *, ttl: float | None = None) -> int | None:
        """Write a key that is still of a version; return the new version, or None when it is not."""
        return await self._write(self.inner.cas, self._prefix + key, value, version, ttl=ttl)

    async def delete(self, key: str) -> bool:
        """Delete a key; tell whether something was there."""
        return await self._write(self.inner.delete, self._prefix + key)

    async def delete_if(self, key: str, version: int) -> bool:
        """Delete a key that is still of a version; tell whether it was."""
        return await self._write(self.inner.delete_if, self._prefix + key, version)

    async def incr(self, key: str, by: int = 1, *, ttl: float | None = None) -> int:
        """Add to a number, which begins at 0, and return it; `ttl` counts from its first writing."""
        return await self._write(self.inner.incr, self._prefix + key, by, ttl=ttl)

    async def scan(self, prefix: str) -> AsyncIterator[tuple[str, Stored]]:
        """Yield what is stored under keys with a prefix, each once, in no order; each may take the time limit."""
        found = self.inner.scan(self._prefix + prefix)
        try:
            while (one := await self._read(_next, found)) is not None:
                yield one[0][len(self._prefix) :], one[1]
        finally:
            if isinstance(found, AsyncGenerator):
                await found.aclose()

    async def batch(self, changes: Sequence[Change]) -> list[int] | None:
        """Make all changes or none; return the versions (0 for a deletion), or None when a condition does not hold."""
        prefixed = [replace(change, key=self._prefix + change.key) for change in changes]
        return await self._write(self.inner.batch, prefixed)

    async def now(self) -> float:
        """Return seconds since 1970 by the clock that expiry goes by."""
        return await self._read(self.inner.now)

    async def _read(self, operation: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(False, operation, *args, **kwargs)

    async def _write(self, operation: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(True, operation, *args, **kwargs)

    async def _run(self, writes: bool, operation: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation, unless the store is away; a writing that is late may have been done."""
        probe = self._health.away and self._health.admit()
        try:
            if self._timeout is None:
                result = await operation(*args, **kwargs)
            else:
                async with self._clock.timeout_at(self._clock.now() + self._timeout):
                    result = await operation(*args, **kwargs)
        except StoreError as error:
            self._health.failed(error)
            raise
        except TimeoutError:
            late = StoreError(self.name, f"no answer within {self._timeout:g} s", sent=writes)
            self._health.failed(late)
            raise late from None
        finally:
            if probe:
                self._health.probed()
        self._health.well()
        return result


async def _next(found: AsyncIterator[T]) -> T | None:
    return await anext(found, None)


class Health:
    """Whether a store answers: away after some failures in a row, back with the first success."""

    def __init__(self, store: str, clock: Clock, signals: Signals) -> None:
        self.away = False
        self._store = store
        self._clock = clock
        self._signals = signals
        self._failures = 0
        self._since = 0.0
        self._pause = 0.0
        self._probe_at = 0.0
        self._probing = False
        self._refused = 0

    def admit(self) -> bool:
        """Let one operation through as a probe when its time has come.

        Raises:
            StoreError: it has not; the store is still away.
        """
        now = self._clock.now()
        if not self._probing and now >= self._probe_at:
            self._probing = True
            return True
        self._refused += 1
        error = StoreError(self._store, f"away for {now - self._since:.1f} s")
        error.retry_after = max(self._probe_at - now, FIRST_PROBE)
        raise error

    def probed(self) -> None:
        """Take note that a probe is over; the next one is due later, unless the store is back."""
        self._probing = False
        self._pause = min(2 * self._pause, PROBE)
        self._probe_at = self._clock.now() + self._pause

    def well(self) -> None:
        """Take note that the store answered."""
        self._failures = 0
        if self.away:
            self.away = False
            seconds = round(self._clock.now() - self._since, 3)
            self._signals.event("store_back", store=self._store, seconds=seconds, refused=self._refused)

    def failed(self, error: StoreError, *, enough: int = TRIES) -> None:
        """Take note of a failure; `enough` in a row mean that the store is away."""
        self._signals.count("store_errors", store=self._store, code=error.code)
        if error.code not in OUTAGES:
            self.well()
            return
        self._failures += 1
        if self._failures >= enough and not self.away:
            self.away = True
            self._refused = 0
            self._since = self._clock.now()
            self._pause = FIRST_PROBE
            self._probe_at = self._since + FIRST_PROBE
            self._signals.event("store_away", store=self._store, code=error.code, reason=error.message)

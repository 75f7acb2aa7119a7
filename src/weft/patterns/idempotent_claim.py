"""A claim on a key: who holds it works alone, for as long as the lease is renewed, and writes once what came of it.

What is kept of a request outlives its lease by `keep` seconds, so that a crash leaves a trace; how long the lease still
lasts follows from the time that the store says is left. Every writing names the version it changes: whoever was taken
over cannot write any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from dataclasses import dataclass
from typing import Any, Final, Literal

from weft.errors import StoreError, WeftError
from weft.patterns.contract import Call
from weft.patterns.idempotent_records import RESULT_TOO_LARGE, Record, State, decode, error_json, verdict
from weft.ports import Store, Timer

OnDuplicate = Literal["cached", "skip", "error"]
OnUnknown = Literal["retry", "error"]
RecordFailures = Literal["none", "deterministic", "all"]

LATER: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How requests of one pattern are treated."""

    store: Store
    ttl: float | None
    keep: float
    lease: float
    wait: float | None
    on_duplicate: OnDuplicate
    on_unknown: OnUnknown
    record_failures: RecordFailures
    max_stored: int


@dataclass(frozen=True, slots=True)
class Found:
    """What is stored for a key, and the seconds that its lease has left."""

    record: Record
    version: int
    lease: float


class Claim:
    """What one request does with its key."""

    def __init__(self, rules: Rules, key: str, payload: str, call: Call) -> None:
        self._rules = rules
        self._store = rules.store
        self._key = key
        self._payload = payload
        self._root = call.root
        self._clock = call.root.clock
        self._owner = secrets.token_hex(8)  # Not by `rng`: forked workers would share its next numbers.
        self._fence = 1
        self._version = 0
        self._settled = False
        self._timer: Timer | None = None
        self._renewal: asyncio.Task[None] | None = None

    async def make(self) -> bool:
        """Claim the key, if nothing is stored for it."""
        try:
            version = await self._store.put_if_absent(self._key, self._running(), ttl=self._lease)
        except StoreError as error:
            # Whatever the store did, nothing was carried out: the caller may try again.
            if error.retryable != "unknown-outcome" or await self._store.get(self._key) is None:
                error.retryable = "yes" if error.retryable != "no" else "no"
                raise
            return False
        self._version = version or 0
        return version is not None

    async def look(self) -> Found | None:
        """Return what is stored for the key."""
        stored = await self._store.get(self._key)
        if stored is None:
            return None
        return Found(decode(stored.value), stored.version, (stored.ttl or 0.0) - self._rules.keep)

    def is_own(self, found: Found) -> bool:
        """Tell whether this very claim is stored, though the answer to making it was lost; then it holds."""
        if found.record.owner != self._owner:
            return False
        self._version = found.version
        return True

    async def take_over(self, found: Found) -> bool:
        """Claim what another request left without an outcome."""
        self._fence = found.record.fence + 1
        version = await self._store.cas(self._key, self._running(), found.version, ttl=self._lease)
        if version is None:
            return False
        self._version = version
        self._root.signals.count("idempotent_takeovers")
        return True

    @property
    def _lease(self) -> float:
        return self._rules.lease + self._rules.keep

    def _running(self) -> bytes:
        return self.record("running").encode()

    # What came of it.

    def record(self, state: State, body: Any = None) -> Record:
        """Return a record of this claim."""
        return Record(state, self._owner, self._fence, self._payload, body)

    def failure(self, error: Exception) -> Record | None:
        """Return what is kept of a failure; None when the next request may try again."""
        kind = verdict(error)
        if kind == "unknown" or not isinstance(error, WeftError):
            return self.record("unknown")
        records = self._rules.record_failures
        if records == "all" or (records == "deterministic" and kind == "answer"):
            return self.record("failed", error_json(error))
        return None

    async def settle(self, record: Record | None) -> str:
        """Write what came of the request, or with None remove it; return the role that the trace shows."""
        self._settled = True
        if self._timer is not None:
            self._timer.cancel()
        if self._renewal is not None and not self._renewal.done():
            await asyncio.wait((self._renewal,))
        try:
            written = await self._write(record)
        except WeftError as error:
            self._root.signals.count("idempotent_unrecorded")
            self._root.warn(f"What came of the request could not be recorded: {error}")
            self._root.detach(self._write_later(record))
            return "unrecorded"
        if not written:
            self._root.signals.count("fenced_write", pattern="idempotent")
            return "fenced"
        return "leader"

    async def _write(self, record: Record | None) -> bool:
        """Tell whether the change was made: not when somebody has taken over."""
        data = None if record is None else self._encoded(record)
        for _ in range(2):
            if await self._change(data):
                return True
            stored = await self._store.get(self._key)
            if stored is None:
                return data is None
            found = decode(stored.value)
            if found.owner != self._owner:
                return False
            if found.state != "running":
                return True  # An earlier try, whose answer was lost.
            self._version = stored.version
        return False

    async def _change(self, data: bytes | None) -> bool:
        if data is None:
            return await self._store.delete_if(self._key, self._version)
        ttl = self._rules.ttl
        try:
            return await self._store.cas(self._key, data, self._version, ttl=ttl) is not None
        except StoreError as error:
            if error.code != "ValueTooLarge":
                raise
            large = self._large(len(data)).encode()
            return await self._store.cas(self._key, large, self._version, ttl=ttl) is not None

    def _encoded(self, record: Record) -> bytes:
        try:
            data = record.encode()
        except (ValueError, TypeError):  # Not JSON: it cannot be given again.
            return self._large(0).encode()
        return data if len(data) <= self._rules.max_stored else self._large(len(data)).encode()

    def _large(self, size: int) -> Record:
        return self.record("large", {"marker": RESULT_TOO_LARGE, "bytes": size})

    async def _write_later(self, record: Record | None) -> None:
        """Try for as long as the lease keeps duplicates waiting."""
        pause, end = LATER, self._clock.now() + self._rules.lease
        while self._clock.now() < end:
            await self._clock.sleep(pause)
            pause *= 2
            with contextlib.suppress(WeftError):
                await self._write(record)
                return

    # The lease.

    def renew_later(self) -> None:
        """Keep the lease until the claim is settled."""
        self._timer = self._clock.call_at(self._clock.now() + self._rules.lease / 3, self._begin_renewal)

    def _begin_renewal(self) -> None:
        self._renewal = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        with contextlib.suppress(WeftError):
            version = await self._store.cas(self._key, self._running(), self._version, ttl=self._lease)
            if version is None:
                stored = await self._store.get(self._key)
                if stored is None or decode(stored.value).owner != self._owner:
                    self._root.signals.count("lease_lost", pattern="idempotent")
                    return
                version = stored.version
            self._version = version
        if not self._settled:
            self.renew_later()

"""How a store is: well, away because it does not answer, or failing because it answers and cannot do its work."""

from __future__ import annotations

from enum import Enum
from typing import Final

from weft.errors import StoreError
from weft.ports import Clock, Signals
from weft.stores.links import Crowded
from weft.stores.rules import DEFINITE

TRIES: Final = 3
"""How many operations in a row must fail before that is told: one slow commit is no outage."""
FIRST_PROBE: Final = 0.1
PROBE: Final = 1.0

OUTAGES: Final = frozenset({"StoreUnavailable", "StoreBusy"})
"""Codes of a store that does not answer."""


class Doing(Enum):
    """What an operation is, for what its end shows of the store."""

    CLOCK = "clock"
    """Only asks for the time, which a store may know without its disk: shows nothing."""
    READING = "reading"
    DELETING = "deleting"
    """A store that is full can still do it."""
    KEEPING = "keeping"

    @property
    def writes(self) -> bool:
        """Whether it changes something."""
        return self in (Doing.DELETING, Doing.KEEPING)


class Health:
    """Away after some failures in a row, and back with the first success; failing, while it answers, in the same way.

    Of a store that can be read and keeps nothing, only what it has kept shows that it works again.
    """

    def __init__(self, store: str, clock: Clock, signals: Signals) -> None:
        self.away = False
        self.failing: str | None = None
        """Why what is asked of it fails, though it answers."""
        self._store = store
        self._clock = clock
        self._signals = signals
        self._failures = 0
        self._refusals = 0
        self._unkept = 0
        self._keeps = True
        self._readable = False
        self._failing_since = 0.0
        self._since = 0.0
        self._pause = 0.0
        self._probe_at = 0.0
        self._probing = False
        self._refused = 0

    def admit(self, doing: Doing) -> bool:
        """Let one operation through as a probe when its time has come; a look at the clock takes nobody's turn.

        Raises:
            StoreError: it has not; the store is still away.
        """
        now = self._clock.now()
        if not self._probing and now >= self._probe_at:
            self._probing = doing is not Doing.CLOCK
            return self._probing
        self._refused += 1
        error = StoreError(self._store, f"away for {now - self._since:.1f} s")
        error.retry_after = max(self._probe_at - now, FIRST_PROBE)
        raise error

    def probed(self) -> None:
        """Take note that a probe is over; the next one is due later, unless the store is back."""
        self._probing = False
        self._pause = min(2 * self._pause, PROBE)
        self._probe_at = self._clock.now() + self._pause

    def well(self, doing: Doing) -> None:
        """Take note that the store did what it was asked."""
        if doing is Doing.CLOCK:
            return
        self._answered()
        self._refusals, self._readable = 0, True
        if doing is Doing.KEEPING:
            self._unkept, self._keeps = 0, True
        if self.failing is not None and self._keeps:
            self.failing = None
            seconds = round(self._clock.now() - self._failing_since, 3)
            self._signals.event("store_working", store=self._store, seconds=seconds)

    def failed(self, error: StoreError, doing: Doing, *, enough: int = TRIES) -> None:
        """Take note of a failure; `enough` in a row mean that the store is away, or failing."""
        self._signals.count("store_errors", store=self._store, code=error.code)
        # That it does not take this, or that too many ask at once, is about who asks.
        if error.code in DEFINITE or isinstance(error, Crowded):
            return
        if doing is Doing.KEEPING:
            self._unkept += 1
        if error.code in OUTAGES:
            if doing is not Doing.KEEPING:
                self._readable = False
            # Of a store that is known to keep nothing, and was read since, it is no news that it did not keep this.
            if self.failing is None or not self._readable:
                self._failures += 1
            if self._failures >= enough:
                self._is_away(error)
        else:
            self._answered()
            self._refusals += 1
        if not self.away and (self._unkept >= TRIES or self._refusals >= enough):
            self._is_failing(error)

    def _answered(self) -> None:
        self._failures = 0
        if self.away:
            self.away = False
            seconds = round(self._clock.now() - self._since, 3)
            self._signals.event("store_back", store=self._store, seconds=seconds, refused=self._refused)

    def _is_away(self, error: StoreError) -> None:
        if not self.away:
            self.away = True
            self._refused = 0
            self._since = self._clock.now()
            self._pause = FIRST_PROBE
            self._probe_at = self._since + FIRST_PROBE
            self._signals.event("store_away", store=self._store, code=error.code, reason=error.message)

    def _is_failing(self, error: StoreError) -> None:
        if self.failing is None:
            self._failing_since = self._clock.now()
            self._signals.event("store_failing", store=self._store, code=error.code, reason=error.message)
        self.failing = error.message
        self._keeps = self._unkept < TRIES

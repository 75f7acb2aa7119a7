"""Token buckets: so many a second, saved up to so many at once."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

KNOWN = 10_000
"""How many keys a limit remembers; who has used nothing lately is forgotten first."""


class Buckets:
    """A token bucket for each key: `rate` a second, saved up to `burst`."""

    def __init__(self, rate: float, burst: int, *, now: Callable[[], float] = monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._now = now
        self._full_at: dict[str, float] = {}

    def take(self, key: str) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        now = self._now()
        # The moment at which the bucket is full again says all: what is missing from it is the time until then.
        full_at = max(self._full_at.pop(key, now), now) + 1 / self._rate
        missing = (full_at - now) * self._rate - self._burst
        if missing > 1e-9:
            self._full_at[key] = full_at - 1 / self._rate
            return missing / self._rate
        self._full_at[key] = full_at
        if len(self._full_at) > KNOWN:
            del self._full_at[next(iter(self._full_at))]
        return 0.0

    def wait(self, key: str) -> float:
        """Return the seconds until there is a token, and take none."""
        now = self._now()
        missing = (max(self._full_at.get(key, now), now) - now) * self._rate + 1 - self._burst
        return missing / self._rate if missing > 1e-9 else 0.0

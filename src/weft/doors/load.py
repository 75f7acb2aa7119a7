"""How much the gateway takes on at once, and what it says when that is reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from weft.errors import LimitExceeded
from weft.groups.middleware.buckets import Buckets

ANONYMOUS = "anonymous"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimits:
    """What may be in flight at once, in all and for one principal; None is no limit."""

    bytes: int = 256 * 1024 * 1024
    reserve: int = 65_536
    """What a request counts for beside its body: what it needs while it runs."""
    unknown_body: int = 1024 * 1024
    """What a body counts for whose length is not announced: the largest that is taken."""
    per_principal: int | None = 64
    anonymous: int | None = 1_024
    """On a loopback bind everybody is anonymous, so that is not one principal's share."""
    rate: float | None = None
    """Requests a second of one principal, with bursts of `burst`."""
    burst: int = 100


class Load:
    """What is in flight; counters are for telemetry to read."""

    def __init__(self, limits: LoadLimits | None = None, *, now: Callable[[], float] = monotonic) -> None:
        """Make one; set `unsent` to what tells how many bytes of answers are still to be read by their clients."""
        self.unsent: Callable[[], int] = int
        self.limits = limits or LoadLimits()
        self.bytes = 0
        self.requests = 0
        self.by_principal: dict[str, int] = {}
        self.overloaded = 0
        self.throttled = 0
        self._buckets = None if self.limits.rate is None else Buckets(self.limits.rate, self.limits.burst, now=now)

    def take(self, principal: str, body: int | None) -> int:
        """Count a request in, by the announced size of its body, and return what to give back at its end.

        Raises:
            LimitExceeded: `Overloaded` (503), or one principal's `TooManyRequests` (429).
        """
        limits = self.limits
        size = limits.reserve + (limits.unknown_body if body is None else body)
        if self.bytes + size + self.unsent() > limits.bytes:
            self.overloaded += 1
            raise _limit("Overloaded", limits.bytes, "too many bytes are in flight", 1.0)
        running = self.by_principal.get(principal, 0)
        allowed = limits.anonymous if principal == ANONYMOUS else limits.per_principal
        if allowed is not None and running >= allowed:
            self.throttled += 1
            raise _limit("TooManyRequests", allowed, "too many requests of one caller are in flight", 1.0)
        if self._buckets is not None and (pause := self._buckets.take(principal)) > 0:
            self.throttled += 1
            raise _limit("TooManyRequests", limits.rate or 0, "too many requests a second of one caller", pause)
        self.bytes += size
        self.requests += 1
        self.by_principal[principal] = running + 1
        return size

    def give(self, principal: str, size: int) -> None:
        """Count a request out."""
        self.bytes -= size
        self.requests -= 1
        running = self.by_principal[principal] - 1
        if running:
            self.by_principal[principal] = running
        else:
            del self.by_principal[principal]


def _limit(name: str, limit: float, what: str, retry_after: float) -> LimitExceeded:
    error = LimitExceeded(name, limit, what)
    error.retry_after = retry_after
    error.retryable = "yes"
    return error

"""When a child that died may be started again: soon, then later and later, and hardly at all when it crash-loops."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from weft.errors import UpstreamUnavailable
from weft.ports import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """How patient weft is; all in seconds but `deaths`."""

    first_pause: float = 0.2
    longest_pause: float = 30.0
    deaths: int = 5
    within: float = 60.0
    probe_every: float = 30.0


class Supervisor:
    """Counts the deaths of one child and says when to start it again; in quarantine its callers fail at once."""

    def __init__(self, server: str, *, clock: Clock, policy: RestartPolicy | None = None) -> None:
        self._server = server
        self._clock = clock
        self._policy = policy or RestartPolicy()
        self._deaths: deque[float] = deque(maxlen=self._policy.deaths)
        self._in_a_row = 0
        self._started: float | None = None
        self._released: float | None = None
        self._next_start = clock.now()
        self._reason = ""
        self.quarantined = False

    def check(self) -> None:
        """Let a caller pass.

        Raises:
            UpstreamUnavailable: the child is in quarantine; `retry_after` says when it is next tried.
        """
        if self.quarantined:
            policy = self._policy
            raise UpstreamUnavailable(
                self._server,
                f"in quarantine after {policy.deaths} deaths in {policy.within:g} s; the last: {self._reason}",
                retry_after=max(0.0, self._next_start - self._clock.now()),
            )

    def started(self) -> None:
        """Note that the child answers, which ends a quarantine."""
        self._started = self._clock.now()
        if self.quarantined:
            self.quarantined = False
            self._released = self._started

    def died(self, reason: str) -> float:
        """Note a death, or a start that failed; return the seconds until the next start."""
        now, policy = self._clock.now(), self._policy
        if self._started is not None and now - self._started >= policy.within:
            self._in_a_row = 0
        self._started = None
        self._reason = reason
        self._deaths.append(now)
        self._in_a_row += 1
        self.quarantined = self.quarantined or self._loops(now)
        pause = policy.probe_every if self.quarantined else self._backoff()
        self._next_start = now + pause
        return pause

    async def keep(self, life: Callable[[], Awaitable[str]]) -> None:
        """Live life after life, until cancelled: each starts the child, calls started(), and tells how it ended."""
        while True:
            await self._clock.sleep(self.died(await life()))

    def _loops(self, now: float) -> bool:
        window = self._policy.within
        full = len(self._deaths) == self._policy.deaths and now - self._deaths[0] < window
        # One more death soon after a quarantine is the same loop: it must not earn five quick restarts again.
        return full or (self._released is not None and now - self._released < window)

    def _backoff(self) -> float:
        # The exponent is bounded too: a child may die for weeks.
        return min(self._policy.longest_pause, self._policy.first_pause * 2.0 ** min(self._in_a_row - 1, 32))

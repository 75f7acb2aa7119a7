"""What a saga waits for: calls that were never made, because too many others were, or because nobody took them."""

from __future__ import annotations

from random import Random

from weft.errors import CircuitOpen, RetriesExhausted, WeftError
from weft.ports import Clock

LIMITS = frozenset({"UpstreamBusy", "Throttled"})
"""The limits of weft's own that are over soon; that to try again at once is pointless makes them no failures."""
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 30.0
SOON = 2.0
"""The longest pause for a place among the calls of a server, which is free as soon as one of them is done."""
PATIENCE = 900.0
"""How long an owner tries what was not sent, in seconds, before the saga is stuck."""


def is_busy(error: WeftError) -> bool:
    """Tell whether weft itself refused a call, because its server has as many as it may: soon there is a place."""
    if isinstance(error, RetriesExhausted):
        return _known(error) and all(is_busy(one) for one in error.causes)
    return error.code == "UpstreamBusy"


def is_unsent(error: WeftError) -> bool:
    """Tell whether nothing was done, and later it may be: a limit, an open circuit, a server that is away."""
    if isinstance(error, RetriesExhausted):
        return _known(error) and all(is_unsent(one) for one in error.causes)
    return error.retryable == "yes" or isinstance(error, CircuitOpen) or error.code in LIMITS


def _known(error: RetriesExhausted) -> bool:
    # Of many attempts only the last are known.
    return error.attempts == len(error.causes) > 0


class Patience:
    """Pauses that grow, half of each left to chance, until a time."""

    def __init__(self, clock: Clock, rng: Random, until: float) -> None:
        self._clock = clock
        self._rng = rng
        self._until = until
        self._pause = FIRST_PAUSE

    async def wait(self, error: WeftError) -> bool:
        """Pause before the next try, as long as the error says if it does; tell whether there is time for one."""
        pause = min(self._pause, SOON if is_busy(error) else LONGEST_PAUSE) * (1 - self._rng.random() / 2)
        pause = max(pause, min(error.retry_after or 0.0, LONGEST_PAUSE))
        if self._clock.now() + pause >= self._until:
            return False
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        await self._clock.sleep(pause)
        return True

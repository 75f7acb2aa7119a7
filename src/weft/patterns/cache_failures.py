"""Failures of a cache's loads: for a moment after one, nobody tries the same again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.errors import WeftError
from weft.patterns.single_flight import again

FIRST: Final = 0.25
LOAD_MOST: Final = 2.0
REFRESH_MOST: Final = 30.0
"""The first pause after a failure, and the longest: short where a caller waits, longer in the background."""
MANY: Final = 1000


@dataclass(frozen=True, slots=True)
class _Failure:
    count: int
    at: float
    error: WeftError | None
    path: tuple[str, ...]
    floor: float


class Failures:
    """The keys whose last load failed, and when they may be tried again."""

    def __init__(self) -> None:
        self._known: dict[str, _Failure] = {}

    def add(self, key: str, now: float, error: WeftError | None) -> float:
        """Note a failure, or with None a refresh that gave nothing to store; return the pause before the next."""
        before = self._known.pop(key, None)
        if len(self._known) >= MANY:
            del self._known[next(iter(self._known))]
        floor = min(error.retry_after, REFRESH_MOST) if error is not None and error.retry_after else 0.0
        count = 1 if before is None else before.count + 1
        path = () if error is None else error.path
        self._known[key] = _Failure(count, now, error, path, floor)
        return _pause(self._known[key], REFRESH_MOST)

    def clear(self, key: str) -> None:
        """Forget a key: it was loaded well."""
        if self._known:
            self._known.pop(key, None)

    def may_refresh(self, key: str, now: float) -> bool:
        """Tell whether a key may be refreshed."""
        failure = self._known.get(key)
        return failure is None or now >= failure.at + _pause(failure, REFRESH_MOST)

    def check(self, key: str, now: float) -> None:
        """Raise the error of the last load again, if that is too short a time ago to try again.

        Only an error that may pass is one to wait for: what a caller did wrong is told to each who does it.
        """
        failure = self._known.get(key)
        if failure is None or failure.error is None or failure.error.retryable == "no":
            return
        left = failure.at + _pause(failure, LOAD_MOST) - now
        if left > 0:
            error = again(failure.error, failure.path)
            error.retry_after = left
            raise error


def _pause(failure: _Failure, most: float) -> float:
    return max(failure.floor, min(FIRST * 2 ** min(failure.count - 1, 30), most))

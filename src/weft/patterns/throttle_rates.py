"""Rates: when the next of so many calls in so much time may begin.

Each strategy is arithmetic on a few numbers, in memory or in a store: `take` notes one more call and returns its
moment, `give_back` is for one that did not come.
"""

from __future__ import annotations

from collections import deque
from typing import Literal, Protocol, TypeAlias

Strategy = Literal["sliding_window", "token_bucket", "fixed_window", "leaky_bucket"]
Numbers: TypeAlias = "deque[float]"
"""What a strategy remembers; empty where nothing happened yet."""


class Rate(Protocol):
    """How calls are spread over time."""

    def take(self, numbers: Numbers, now: float) -> float:
        """Note one more call and return the moment, now or later, at which it may begin."""
        ...

    def give_back(self, numbers: Numbers, when: float) -> None:
        """Forget a call that does not begin at its moment."""
        ...

    def idle(self, numbers: Numbers, now: float) -> bool:
        """Tell whether nothing that is remembered matters any more."""
        ...


class SlidingWindow:
    """No window, wherever it begins, has more calls than the rate; the numbers are their moments."""

    def __init__(self, rate: int, window: float) -> None:
        self._rate, self._window = rate, window

    def take(self, numbers: Numbers, now: float) -> float:
        while numbers and numbers[0] + self._window <= now:
            numbers.popleft()
        full = len(numbers) >= self._rate
        when = max(now, numbers[-self._rate] + self._window) if full else now
        numbers.append(when)
        return when

    def give_back(self, numbers: Numbers, when: float) -> None:
        if when in numbers:
            numbers.remove(when)

    def idle(self, numbers: Numbers, now: float) -> bool:
        return not numbers or numbers[-1] + self._window <= now


class Bucket:
    """Calls come at an even pace, and as many at once as were saved up; the number is when all is saved up again."""

    def __init__(self, rate: int, window: float, burst: int) -> None:
        self._each = window / rate
        self._ahead = (burst - 1) * self._each

    def take(self, numbers: Numbers, now: float) -> float:
        full_at = max(numbers.pop(), now) if numbers else now
        numbers.append(full_at + self._each)
        # Many small parts do not add up exactly.
        return when if (when := full_at - self._ahead) > now + 1e-9 else now

    def give_back(self, numbers: Numbers, when: float) -> None:
        if numbers:
            numbers.append(numbers.pop() - self._each)

    def idle(self, numbers: Numbers, now: float) -> bool:
        return not numbers or numbers[-1] <= now


class FixedWindow:
    """Windows follow each other by the clock; the numbers are the start of the last one used, and its calls."""

    def __init__(self, rate: int, window: float) -> None:
        self._rate, self._window = rate, window

    def take(self, numbers: Numbers, now: float) -> float:
        start, count = (numbers[0], numbers[1]) if numbers else (0.0, 0.0)
        current = now // self._window * self._window
        if start < current:
            start, count = current, 0.0
        if count >= self._rate:
            start, count = start + self._window, 0.0
        numbers.clear()
        numbers.extend((start, count + 1))
        return max(now, start)

    def give_back(self, numbers: Numbers, when: float) -> None:
        if len(numbers) == 2 and numbers[0] <= when and numbers[1] > 0:
            numbers[1] -= 1

    def idle(self, numbers: Numbers, now: float) -> bool:
        return not numbers or numbers[0] + self._window <= now


def rate_of(strategy: Strategy, rate: int, window: float, burst: int | None) -> Rate:
    """Return how a strategy spreads so many calls over so many seconds."""
    if strategy == "sliding_window":
        return SlidingWindow(rate, window)
    if strategy == "fixed_window":
        return FixedWindow(rate, window)
    return Bucket(rate, window, 1 if strategy == "leaky_bucket" else burst or rate)

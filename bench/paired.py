"""Paired measurement: batches of both sides in turn, and the ratios of neighbours.

A machine that is busy slows both sides of a pair, so that ratios stay when times do not. CPU time is counted, since all
that is measured here computes and nothing waits.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Side: TypeAlias = Callable[[], Awaitable[Any]]
ROUNDS = 41
BATCH_SECONDS = 0.02
SAME = (0.97, 1.03)


@dataclass(frozen=True, slots=True)
class Paired:
    """The median ratio of two sides with its quartiles, and the median microseconds a call of each."""

    ratio: float
    low: float
    high: float
    ours_us: float
    theirs_us: float
    calls: int

    def to_json(self) -> dict[str, Any]:
        """Return the numbers, rounded to what they can mean."""
        return {
            "ratio": round(self.ratio, 3),
            "quartiles": [round(self.low, 3), round(self.high, 3)],
            "ours_us": round(self.ours_us, 3),
            "theirs_us": round(self.theirs_us, 3),
            "calls_a_batch": self.calls,
            "rounds": ROUNDS,
        }


async def _batch(side: Side, calls: int) -> float:
    began = time.thread_time()
    for _ in range(calls):
        await side()
    return time.thread_time() - began


async def _calls(side: Side) -> int:
    calls = 1
    while await _batch(side, calls) < BATCH_SECONDS:
        calls *= 2
    return calls


async def paired(ours: Side, theirs: Side) -> Paired:
    """Measure two sides against each other."""
    calls = await _calls(theirs)
    await _batch(ours, calls)
    ratios: list[float] = []
    times: tuple[list[float], list[float]] = ([], [])
    gc.collect()
    gc.disable()
    try:
        for number in range(ROUNDS):
            # The order changes from pair to pair, so that neither side always runs on the warmer machine.
            first, second = (ours, theirs) if number % 2 else (theirs, ours)
            one, two = await _batch(first, calls), await _batch(second, calls)
            mine, other = (one, two) if number % 2 else (two, one)
            ratios.append(mine / other)
            times[0].append(mine / calls)
            times[1].append(other / calls)
            gc.collect(0)
    finally:
        gc.enable()
    low, middle, high = statistics.quantiles(ratios, n=4)
    mine, other = (statistics.median(side) * 1e6 for side in times)
    return Paired(middle, low, high, mine, other, calls)


async def quiet(side: Side, tries: int = 5) -> tuple[Paired, bool]:
    """Measure a side against itself until that gives 1; tell whether it did."""
    same = await paired(side, side)
    while not SAME[0] <= same.ratio <= SAME[1] and tries > 1:
        tries -= 1
        same = await paired(side, side)
    return same, SAME[0] <= same.ratio <= SAME[1]

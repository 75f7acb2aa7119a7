"""Two processes under the same load in turn, and the ratios of neighbours."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from bench.figure import Figure
from bench.gateway.load import Job, Outcome
from bench.gateway.processes import Load, Process

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median ratio of two sides with its quartiles, and the median of each."""

    ratio: float
    low: float
    high: float
    ours: float
    theirs: float
    rounds: int

    def figure(self, name: str, limit: float | None, *, unit: str, **more: Any) -> Figure:
        """Return the ratio as a figure; `unit` is that of the two sides."""
        detail = {
            "quartiles": [round(self.low, 3), round(self.high, 3)],
            f"ours_{unit}": round(self.ours, 3),
            f"theirs_{unit}": round(self.theirs, 3),
            "rounds": self.rounds,
        }
        return Figure(name, self.ratio, limit, "x", {**detail, **more})


def ratio_of(ours: list[float], theirs: list[float]) -> Ratio:
    """Return the ratio of two sides that were measured in turn."""
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return Ratio(middle, low, high, statistics.median(ours), statistics.median(theirs), len(ratios))


def in_turn(ours: Callable[[], T], theirs: Callable[[], T], *, turns: int) -> tuple[list[T], list[T]]:
    """Measure two sides in turn; the order changes from pair to pair, so that neither always comes first."""
    mine: list[T] = []
    other: list[T] = []
    for number in range(turns):
        sides = ((ours, mine), (theirs, other))
        for measure, found in sides if number % 2 else reversed(sides):
            found.append(measure())
    return mine, other


def cpu_of(process: Process, load: Load, job: Job, *, family: bool = False) -> Callable[[], float]:
    """Return what measures the microseconds of CPU that a call costs a process; it has had its first calls already."""
    load.run(job)

    def measure() -> float:
        before = process.cpu(family=family)
        outcome = load.run(job)
        return (process.cpu(family=family) - before) / outcome.calls * 1e6

    return measure


def times_of(load: Load, job: Job) -> Callable[[], Outcome]:
    """Return what measures how long calls take."""
    load.run(job)
    return lambda: load.run(job)

"""Statistics of a template: how often it ran, how that ended, how long it and its steps took.

Two of them merge into one, and in which order many are merged does not matter.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import orjson

from weft.workflows.recorded import RecordedStep, Run

SAMPLES: Final = 100
"""How many durations are kept, the last ones: of the whole, and of each step."""
MOST_TIMED: Final = 64
"""Of how many steps durations are kept, the longest ones."""
MOST_STEPS: Final = 1000
MOST_CODES: Final = 32
OTHER: Final = "Other"
TIMED: Final = frozenset({"succeeded", "partial"})
"""Only what came to its end says how long the whole takes."""
REACHED: Final = frozenset({"succeeded", "undone", "undo_failed"})
"""Statuses of steps that had succeeded, whatever became of them later."""

Times: TypeAlias = "list[list[float]]"
"""Durations, each behind the moment at which its run ended (milliseconds since 1970), the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatistics:
    """How often a step ran, succeeded and was attempted, the codes that it failed with, and how long it took.

    Only a step that succeeded at the first attempt says how long it takes: the others took pauses too.
    """

    runs: int = 0
    succeeded: int = 0
    attempts: int = 0
    codes: Mapping[str, int] = field(default_factory=dict[str, int])
    times: Times = field(default_factory=list[list[float]])

    @classmethod
    def of(cls, step: RecordedStep, ended: int) -> StepStatistics:
        """Return the statistics of one step of one run."""
        timed = step.status == "succeeded" and step.attempts <= 1 and step.duration_ms is not None
        return cls(
            runs=1,
            succeeded=int(step.status in REACHED),
            attempts=max(step.attempts, 1),
            codes={step.error or "Error": 1} if step.status == "failed" else {},
            times=[[ended, round(step.duration_ms or 0.0, 1)]] if timed else [],
        )

    def merge(self, other: StepStatistics) -> StepStatistics:
        """Return the statistics of both."""
        return StepStatistics(
            runs=self.runs + other.runs,
            succeeded=self.succeeded + other.succeeded,
            attempts=self.attempts + other.attempts,
            codes=_added(self.codes, other.codes),
            times=_last(self.times, other.times),
        )

    @property
    def durations(self) -> list[float]:
        """How long it took in the last runs, the shortest first."""
        return sorted(took for _, took in self.times)

    def to_json(self) -> dict[str, Any]:
        """Return the statistics as people and programs are shown them."""
        return {
            "usage_count": self.runs,
            "successes": self.succeeded,
            "attempts": self.attempts,
            "failures": dict(self.codes),
            "duration_ms": digest(self.durations),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """What is known of all runs of a template that have ended."""

    statuses: Mapping[str, int] = field(default_factory=dict[str, int])
    codes: Mapping[str, int] = field(default_factory=dict[str, int])
    steps: Mapping[str, StepStatistics] = field(default_factory=dict[str, StepStatistics])
    times: Times = field(default_factory=list[list[float]])
    last: tuple[float, str, str] | None = None
    """When the last run began, its id, and how it ended."""

    @classmethod
    def of(cls, run: Run) -> Statistics:
        """Return the statistics of one run, which has ended."""
        took = run.duration_ms or 0.0
        ended = round(run.started * 1000 + took)
        counted = [step for step in run.steps if step.status == "failed" or step.status in REACHED]
        return cls(
            statuses={run.status: 1},
            codes={run.error: 1} if run.error is not None else {},
            steps={step.id: StepStatistics.of(step, ended) for step in counted},
            times=[[ended, round(took, 1)]] if run.status in TIMED else [],
            last=(run.started, run.run_id, run.status),
        )

    def merge(self, other: Statistics) -> Statistics:
        """Return the statistics of both."""
        lasts = [one for one in (self.last, other.last) if one is not None]
        steps = {**self.steps, **other.steps}
        for id in self.steps.keys() & other.steps.keys():
            steps[id] = self.steps[id].merge(other.steps[id])
        return Statistics(
            statuses=_added(self.statuses, other.statuses),
            codes=_added(self.codes, other.codes),
            steps=steps,
            times=_last(self.times, other.times),
            last=max(lasts, default=None),
        )

    @property
    def usage_count(self) -> int:
        """How many runs have ended."""
        return sum(self.statuses.values())

    @property
    def success_rate(self) -> float | None:
        """Which share of the runs that were not cancelled succeeded; None before the first."""
        counted = self.usage_count - self.statuses.get("cancelled", 0)
        return self.statuses.get("succeeded", 0) / counted if counted else None

    @property
    def durations(self) -> list[float]:
        """How long the last runs took that came to their end, the shortest first."""
        return sorted(took for _, took in self.times)

    def to_json(self) -> dict[str, Any]:
        """Return the statistics as people and programs are shown them."""
        last = None if self.last is None else dict(zip(("started", "run_id", "status"), self.last, strict=True))
        return {
            "usage_count": self.usage_count,
            "successes": self.statuses.get("succeeded", 0),
            "success_rate": self.success_rate,
            "statuses": dict(self.statuses),
            "failures": dict(self.codes),
            "duration_ms": digest(self.durations),
            "last_run": last,
            "steps": {id: self.steps[id].to_json() for id in sorted(self.steps)},
        }

    def record(self) -> bytes:
        """Return it as a store keeps it, which is bounded."""
        steps = self.steps
        if len(steps) > MOST_STEPS:
            often = sorted(steps, key=lambda id: (-steps[id].runs, id))[:MOST_STEPS]
            steps = {id: steps[id] for id in often}
        timed: Container[str] = steps
        if len(steps) > MOST_TIMED:
            longest = {id: max((took for _, took in one.times), default=-1.0) for id, one in steps.items()}
            timed = frozenset(sorted(steps, key=lambda id: (-longest[id], id))[:MOST_TIMED])
        told = {
            "statuses": self.statuses,
            "codes": _bounded(self.codes),
            "steps": {id: _told(one, one.times if id in timed else []) for id, one in steps.items()},
            "times": self.times,
            "last": self.last,
        }
        return orjson.dumps(told)

    @classmethod
    def of_record(cls, data: bytes) -> Statistics:
        """Return the statistics that `record` wrote."""
        told = orjson.loads(data)
        return cls(
            statuses=told["statuses"],
            codes=told["codes"],
            steps={id: StepStatistics(**one) for id, one in told["steps"].items()},
            times=told["times"],
            last=None if told["last"] is None else tuple(told["last"]),
        )


def _told(step: StepStatistics, times: Times) -> dict[str, Any]:
    counts = {"runs": step.runs, "succeeded": step.succeeded, "attempts": step.attempts}
    return {**counts, "codes": _bounded(step.codes), "times": times}


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def digest(ordered: Sequence[float]) -> dict[str, Any] | None:
    """Return durations in a few numbers; None when there are none."""
    if not ordered:
        return None
    p50, p95 = percentile(ordered, 0.5), percentile(ordered, 0.95)
    return {"count": len(ordered), "p50": p50, "p95": p95, "max": ordered[-1]}


def merged(all_of: Iterable[Statistics]) -> Statistics:
    """Return the statistics of all."""
    total = Statistics()
    for one in all_of:
        total = total.merge(one)
    return total


def _added(some: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    total = Counter(some)
    total.update(more)
    return dict(sorted(total.items()))


def _last(some: Times, more: Times) -> Times:
    return sorted((*some, *more))[-SAMPLES:] if some and more else some or more


def _bounded(codes: Mapping[str, int]) -> dict[str, int]:
    """Return the codes that are seen most, and the others under one name: tools may make up new ones for ever."""
    if len(codes) <= MOST_CODES:
        return dict(codes)
    kept = sorted(codes, key=lambda code: (-codes[code], code))[: MOST_CODES - 1]
    total = Counter({code: codes[code] for code in kept})
    total[OTHER] += sum(count for code, count in codes.items() if code not in kept)
    return dict(sorted(total.items()))

"""Statistics of a template: how often it ran, how that ended, how long it and its steps took.

Two of them merge into one, and in which order many are merged does not matter.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from weft.workflows.recorded import Run

SAMPLES: Final = 200
"""Of how many of the last runs durations are kept."""
STEPS_OF_RUN: Final = 64
"""Of how many steps of a run, the longest ones."""
MOST_STEPS: Final = 1000
MOST_CODES: Final = 32
OTHER: Final = "Other"
TIMED: Final = frozenset({"succeeded", "partial"})
"""Only what came to its end says how long the whole takes."""
REACHED: Final = frozenset({"succeeded", "undone", "undo_failed"})
"""Statuses of steps that had succeeded, whatever became of them later."""


@dataclass(frozen=True, slots=True, order=True)
class Sample:
    """How long one run took, and those of its steps that succeeded at the first attempt; milliseconds."""

    ended: float
    whole: float
    """-1 where the run did not come to its end."""
    steps: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatistics:
    """How often a step ran, succeeded and was attempted, and the codes that it failed with."""

    runs: int = 0
    succeeded: int = 0
    attempts: int = 0
    codes: Mapping[str, int] = field(default_factory=dict[str, int])

    def merge(self, other: StepStatistics) -> StepStatistics:
        """Return the statistics of both."""
        return StepStatistics(
            runs=self.runs + other.runs,
            succeeded=self.succeeded + other.succeeded,
            attempts=self.attempts + other.attempts,
            codes=_added(self.codes, other.codes),
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as it is kept."""
        return {"runs": self.runs, "succeeded": self.succeeded, "attempts": self.attempts, "codes": dict(self.codes)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """What is known of all runs of a template that have ended."""

    statuses: Mapping[str, int] = field(default_factory=dict[str, int])
    codes: Mapping[str, int] = field(default_factory=dict[str, int])
    steps: Mapping[str, StepStatistics] = field(default_factory=dict[str, StepStatistics])
    samples: tuple[Sample, ...] = ()
    """Of the last runs, the oldest first."""
    last: tuple[float, str, str] | None = None
    """When the last run began, its id, and how it ended."""

    @classmethod
    def of(cls, run: Run) -> Statistics:
        """Return the statistics of one run, which has ended."""
        took = run.duration_ms or 0.0
        timed = [
            (step.id, round(step.duration_ms, 1))
            for step in run.steps
            if step.status == "succeeded" and step.attempts <= 1 and step.duration_ms is not None
        ]
        longest = sorted(timed, key=lambda one: (-one[1], one[0]))[:STEPS_OF_RUN]
        whole = round(took, 1) if run.status in TIMED else -1.0
        sample = Sample(round(run.started + took / 1000, 3), whole, tuple(sorted(longest)))
        return cls(
            statuses={run.status: 1},
            codes={run.error: 1} if run.error is not None else {},
            steps={
                step.id: StepStatistics(
                    runs=1,
                    succeeded=int(step.status in REACHED),
                    attempts=max(step.attempts, 1),
                    codes={step.error or "Error": 1} if step.status == "failed" else {},
                )
                for step in run.steps
                if step.status == "failed" or step.status in REACHED
            },
            samples=(sample,) if whole >= 0 or longest else (),
            last=(run.started, run.run_id, run.status),
        )

    def merge(self, other: Statistics) -> Statistics:
        """Return the statistics of both."""
        lasts = [one for one in (self.last, other.last) if one is not None]
        none = StepStatistics()
        ids = self.steps.keys() | other.steps.keys()
        return Statistics(
            statuses=_added(self.statuses, other.statuses),
            codes=_added(self.codes, other.codes),
            steps={id: self.steps.get(id, none).merge(other.steps.get(id, none)) for id in sorted(ids)},
            samples=tuple(sorted((*self.samples, *other.samples))[-SAMPLES:]),
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
        return sorted(one.whole for one in self.samples if one.whole >= 0)

    def step_durations(self) -> dict[str, list[float]]:
        """Return how long each step took in the last runs, the shortest first."""
        found: dict[str, list[float]] = {}
        for sample in self.samples:
            for id, took in sample.steps:
                found.setdefault(id, []).append(took)
        return {id: sorted(all_of) for id, all_of in found.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the statistics as people and programs are shown them."""
        durations = self.step_durations()
        steps: dict[str, Any] = {}
        for id in sorted({*self.steps, *durations}):
            known = self.steps.get(id, StepStatistics())
            steps[id] = {
                "usage_count": known.runs,
                "successes": known.succeeded,
                "attempts": known.attempts,
                "failures": dict(known.codes),
                "duration_ms": digest(durations.get(id, [])),
            }
        return {
            "usage_count": self.usage_count,
            "successes": self.statuses.get("succeeded", 0),
            "success_rate": self.success_rate,
            "statuses": dict(self.statuses),
            "failures": dict(self.codes),
            "duration_ms": digest(self.durations),
            "last_run": None
            if self.last is None
            else dict(zip(("started", "run_id", "status"), self.last, strict=True)),
            "steps": steps,
        }

    def record(self) -> bytes:
        """Return it as a store keeps it: bounded, and the names of steps written once."""
        most = sorted(self.steps, key=lambda id: (-self.steps[id].runs, id))[:MOST_STEPS]
        names = sorted({id for sample in self.samples for id, _ in sample.steps})
        number = {id: at for at, id in enumerate(names)}
        rows = [[one.ended, one.whole, [[number[id], took] for id, took in one.steps]] for one in self.samples]
        told = {
            "statuses": self.statuses,
            "codes": _bounded(self.codes),
            "steps": {id: {**self.steps[id].to_json(), "codes": _bounded(self.steps[id].codes)} for id in sorted(most)},
            "names": names,
            "samples": rows,
            "last": self.last,
        }
        return orjson.dumps(told)

    @classmethod
    def of_record(cls, data: bytes) -> Statistics:
        """Return the statistics that `record` wrote."""
        told = orjson.loads(data)
        names: list[str] = told["names"]
        return cls(
            statuses=told["statuses"],
            codes=told["codes"],
            steps={id: StepStatistics(**one) for id, one in told["steps"].items()},
            samples=tuple(_sample(row, names) for row in told["samples"]),
            last=None if told["last"] is None else tuple(told["last"]),
        )


def _sample(row: list[Any], names: list[str]) -> Sample:
    ended, whole, steps = row
    return Sample(ended, whole, tuple((names[int(at)], float(took)) for at, took in steps))


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


def _bounded(codes: Mapping[str, int]) -> dict[str, int]:
    """Return the codes that are seen most, and the others under one name: tools may make up new ones for ever."""
    if len(codes) <= MOST_CODES:
        return dict(codes)
    kept = sorted(codes, key=lambda code: (-codes[code], code))[: MOST_CODES - 1]
    total = Counter({code: codes[code] for code in kept})
    total[OTHER] += sum(count for code, count in codes.items() if code not in kept)
    return dict(sorted(total.items()))

"""Metrics: plain numbers in the way of a call; whoever asks for them pays for making them readable.

A snapshot is JSON, so that workers can send theirs to the one that was asked, which merges them. Labels are names that
weft knows: what a client makes up is counted, and never becomes a label.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from weft.telemetry.process import process_figures

BOUNDS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
"""Upper bounds of the histogram's buckets in seconds; one more bucket holds what takes longer."""

# No tool can have these names, so they cannot be taken for one.
UNKNOWN: Final = "(unknown)"
OTHER: Final = "(other)"

CALL: Final = "tools/call"


class Metrics:
    """The numbers of one process; only its event loop changes them."""

    def __init__(self, *, labels: int = 1000) -> None:
        self.in_flight = 0
        self.generation = 0
        self.loop_lag = 0.0
        self.loop_blocked = 0
        self._most = labels
        self._known: frozenset[str] = frozenset()
        self._tools: dict[str, defaultdict[str, int]] = {}
        self._requests: defaultdict[str, defaultdict[str, int]] = defaultdict(_counts)
        self._buckets = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0
        self._upstreams: Callable[[], Mapping[str, Mapping[str, int]]] = dict
        self._up: dict[str, int] = {}
        self._limits: defaultdict[str, int] = _counts()
        self._findings: defaultdict[str, int] = _counts()
        self._reloads: defaultdict[str, int] = _counts()
        self._runs: defaultdict[str, int] = _counts()
        self._steps: defaultdict[str, int] = _counts()
        self._elsewhere: list[Callable[[], Mapping[str, int]]] = []
        self._state: Callable[[], list[list[Any]]] = list
        self._gauges: Callable[[], list[list[Any]]] = list

    def know(self, tools: Iterable[str]) -> None:
        """Take the names of all tools that there are now; only these become labels."""
        self._known = frozenset(tools)
        if len(self._tools) >= self._most:
            self._tools = {name: counts for name, counts in self._tools.items() if name in self._known}

    def call(self, method: str, name: str, outcome: str, seconds: float) -> None:
        """Count a request of a client that has ended; tool calls by tool and by how long they took."""
        self._requests[method][outcome] += 1
        if method == CALL:
            counts = self._tools.get(name)
            if counts is None:
                counts = self._counts_of(name)
            counts[outcome] += 1
            self._buckets[bisect_left(BOUNDS, seconds)] += 1
            self._seconds += seconds

    def _counts_of(self, name: str) -> defaultdict[str, int]:
        if name not in self._known:
            name = UNKNOWN
        elif len(self._tools) >= self._most:
            name = OTHER
        return self._tools.setdefault(name, _counts())

    def upstreams(self, up: Mapping[str, bool]) -> None:
        """Take which servers there are and whether each is up."""
        self._up = {server: int(is_up) for server, is_up in up.items()}

    def upstreams_counted_by(self, counts: Callable[[], Mapping[str, Mapping[str, int]]]) -> None:
        """Take the requests to each server, by how they ended, from where they are counted; asked at each look."""
        self._upstreams = counts

    def limit_exceeded(self, limit: str) -> None:
        """Count a limit that was met, by the name of its error."""
        self._limits[limit] += 1

    def limits_counted_by(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Take limits from where they are counted, by the names of their errors; asked whenever somebody looks."""
        self._elsewhere.append(counts)

    def finding(self, code: str) -> None:
        """Count a call that is not as the registry foresees, by what is strange about it."""
        self._findings[code] += 1

    def workflow_ended(self, status: str, steps: Iterable[str]) -> None:
        """Count a run of a workflow by how it ended, and its steps by what became of each."""
        self._runs[status] += 1
        for step in steps:
            self._steps[step] += 1

    def state_counted_by(
        self, counts: Callable[[], list[list[Any]]], *, gauges: Callable[[], list[list[Any]]] = list
    ) -> None:
        """Take what patterns and stores count from where it is counted: rows of name, labels and number.

        Of `gauges` the largest of all workers is shown.
        """
        self._state, self._gauges = counts, gauges

    def reloaded(self, result: str, *, generation: int) -> None:
        """Count a reload ("ok", "unchanged" or "failed") and take the generation that is served now."""
        self._reloads[result] += 1
        self.generation = generation

    def snapshot(self) -> dict[str, Any]:
        """Return all numbers of this process as JSON."""
        return {
            "requests": _copy(self._requests),
            "tools": _copy(self._tools),
            "buckets": list(self._buckets),
            "seconds": self._seconds,
            "upstreams": _copy(self._upstreams()),
            "up": dict(self._up),
            "limits": _sum([self._limits, *(counts() for counts in self._elsewhere)]),
            "findings": dict(self._findings),
            "reloads": dict(self._reloads),
            "runs": dict(self._runs),
            "steps": dict(self._steps),
            "state": self._state(),
            "gauges": self._gauges(),
            "in_flight": self.in_flight,
            "generation": self.generation,
            "loop_lag": self.loop_lag,
            "loop_blocked": self.loop_blocked,
            "process": process_figures(),
        }


def _counts() -> defaultdict[str, int]:
    return defaultdict(int)


def _copy(series: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    return {name: dict(counts) for name, counts in series.items()}


def merge(snapshots: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the snapshots of several workers as one: counts are added up, a gauge shows who is worst off."""
    given = list(snapshots)
    return {
        "requests": _added(one["requests"] for one in given),
        "tools": _added(one["tools"] for one in given),
        "buckets": [sum(column) for column in zip(*(one["buckets"] for one in given), strict=True)],
        "seconds": sum(one["seconds"] for one in given),
        "upstreams": _added(one["upstreams"] for one in given),
        "up": _least(one["up"] for one in given),
        "limits": _sum(one["limits"] for one in given),
        "findings": _sum(one["findings"] for one in given),
        "reloads": _sum(one["reloads"] for one in given),
        "runs": _sum(one["runs"] for one in given),
        "steps": _sum(one["steps"] for one in given),
        "state": _rows((one["state"] for one in given), sum),
        "gauges": _rows((one["gauges"] for one in given), max),
        "in_flight": sum(one["in_flight"] for one in given),
        # A generation counts as served when every worker serves it.
        "generation": min(one["generation"] for one in given),
        "loop_lag": max(one["loop_lag"] for one in given),
        "loop_blocked": sum(one["loop_blocked"] for one in given),
        "process": {
            **_sum(one["process"] for one in given),
            "start_time": min(one["process"]["start_time"] for one in given),
        },
    }


def _sum(counts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)


def _rows(workers: Iterable[list[list[Any]]], put_together: Callable[[list[Any]], Any]) -> list[list[Any]]:
    """Return rows of name, labels and number, of which each name with its labels is there once."""
    found: defaultdict[tuple[str, tuple[tuple[str, str], ...]], list[Any]] = defaultdict(list)
    for rows in workers:
        for name, labels, number in rows:
            found[name, tuple(sorted(labels.items()))].append(number)
    return [[name, dict(labels), put_together(numbers)] for (name, labels), numbers in found.items()]


def _least(gauges: Iterable[Mapping[str, int]]) -> dict[str, int]:
    least: dict[str, int] = {}
    for one in gauges:
        for name, value in one.items():
            least[name] = min(value, least.get(name, value))
    return least


def _added(series: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    total: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in series:
        for name, counts in one.items():
            total[name].update(counts)
    return {name: dict(counts) for name, counts in total.items()}

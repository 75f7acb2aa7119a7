"""The text that Prometheus scrapes, made of snapshots; call it in a thread, for many tools take many milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from weft.telemetry.metrics import BOUNDS, merge
from weft.telemetry.signals import COUNTED

_COUNTS: Final = (
    ("weft_requests", "requests", ("method", "outcome"), "Requests of clients, by MCP method."),
    ("weft_tool_calls", "tools", ("tool", "outcome"), "Tool calls of clients."),
    ("weft_upstream_requests", "upstreams", ("server", "outcome"), "Requests to upstream servers."),
)
_TOTALS: Final = (
    ("weft_limit_exceeded", "limits", "limit", "Limits that were met, by the name of the error."),
    ("weft_findings", "findings", "finding", "Calls that are not as the registry foresees."),
    ("weft_reloads", "reloads", "result", "Reloads of the registry."),
    ("weft_workflow_runs", "runs", "status", "Runs of workflows that callers asked for, by how each ended."),
    ("weft_workflow_steps", "steps", "status", "Steps of those runs, by what became of each."),
)
_GAUGES: Final = (
    ("weft_in_flight", "in_flight", "Requests of clients that are being worked on."),
    ("weft_snapshot_generation", "generation", "Generation of the registry that every worker serves."),
    ("weft_loop_lag_seconds", "loop_lag", "How late the event loop was when last looked at; the worst worker."),
)
_STATE_GAUGES: Final = {
    "circuit_open": "Whether a circuit is open, in any worker or scope.",
    "sagas_stuck": "Sagas that wait for an operator.",
    "store_away": "Whether any worker cannot reach the store.",
    "store_failing": "Whether the store answers any worker, and cannot be read or keeps nothing.",
}
_PROCESS_GAUGES: Final = (
    ("process_resident_memory_bytes", "resident_bytes", "Resident memory size in bytes."),
    ("process_virtual_memory_bytes", "virtual_bytes", "Virtual memory size in bytes."),
    ("process_open_fds", "open_fds", "Number of open file descriptors."),
    ("process_start_time_seconds", "start_time", "Start time of the process since unix epoch in seconds."),
    ("weft_workers", "workers", "Processes that these numbers are of."),
)


def render(snapshots: Iterable[Mapping[str, Any]], *, accept: str = "") -> tuple[bytes, str]:
    """Return what a scrape shows of all workers, and its content type, chosen by the Accept header."""
    encode, content_type = choose_encoder(accept)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(merge(snapshots)))
    return encode(registry), content_type


class _Snapshot(Collector):
    def __init__(self, figures: Mapping[str, Any]) -> None:
        self._figures = figures

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        figures = self._figures
        yield from _counters(figures)
        yield _histogram(figures)
        up = GaugeMetricFamily("weft_upstream_up", "Whether every worker can reach the server.", labels=("server",))
        for server, is_up in figures["up"].items():
            up.add_metric((server,), is_up)
        yield up
        for name, key, about in _GAUGES:
            yield GaugeMetricFamily(name, about, value=figures[key])
        yield CounterMetricFamily("weft_loop_blocked", "How often the event loop hung.", value=figures["loop_blocked"])
        yield from _families(CounterMetricFamily, COUNTED, figures["state"])
        yield from _families(GaugeMetricFamily, _STATE_GAUGES, figures["gauges"])
        yield from _process(figures["process"])


def _counters(figures: Mapping[str, Any]) -> Iterator[Metric]:
    for name, key, labels, about in _COUNTS:
        family = CounterMetricFamily(name, about, labels=labels)
        for label, counts in figures[key].items():
            for outcome, count in counts.items():
                family.add_metric((label, outcome), count)
        yield family
    for name, key, label, about in _TOTALS:
        family = CounterMetricFamily(name, about, labels=(label,))
        for value, count in figures[key].items():
            family.add_metric((value,), count)
        yield family


def _families(
    kind: type[CounterMetricFamily | GaugeMetricFamily], about: Mapping[str, str], rows: Iterable[Any]
) -> Iterator[Metric]:
    """Yield a family for each name; what a row has no label for is empty there."""
    found: dict[str, list[tuple[Mapping[str, str], float]]] = {name: [] for name in about}
    for name, labels, number in rows:
        found.setdefault(name, []).append((labels, number))
    for name, samples in found.items():
        named = sorted({label for labels, _ in samples for label in labels})
        family = kind(f"weft_{name}", about.get(name, "Counted by patterns and stores."), labels=named)
        for labels, number in samples:
            family.add_metric([labels.get(label, "") for label in named], number)
        yield family


def _histogram(figures: Mapping[str, Any]) -> Metric:
    bounds = (*(str(bound) for bound in BOUNDS), "+Inf")
    counts: list[int] = figures["buckets"]
    buckets = list(zip(bounds, accumulate(counts), strict=True))
    about = "How long tool calls took."
    return HistogramMetricFamily("weft_tool_call_seconds", about, buckets=buckets, sum_value=figures["seconds"])


def _process(figures: Mapping[str, float]) -> Iterator[Metric]:
    about = "Total user and system CPU time spent in seconds."
    yield CounterMetricFamily("process_cpu_seconds", about, value=figures["cpu_seconds"])
    for name, key, about in _PROCESS_GAUGES:
        if key in figures:
            yield GaugeMetricFamily(name, about, value=figures[key])

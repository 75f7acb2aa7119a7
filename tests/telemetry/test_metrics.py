"""Metrics: counted cheaply, merged over workers, and rendered as Prometheus reads them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families as prometheus

from weft.telemetry.exposition import render
from weft.telemetry.metrics import CALL, OTHER, UNKNOWN, Metrics, merge


def scraped(*metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return every sample of a scrape by its name and labels, as Prometheus' own parser reads them."""
    text, _ = render([orjson.loads(orjson.dumps(one.snapshot())) for one in metrics])
    families = prometheus(text.decode())
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


def sample(samples: dict[Any, float], name: str, **labels: str) -> float:
    return samples[(name, tuple(sorted(labels.items())))]


def busy(*, calls: int = 1) -> Metrics:
    metrics = Metrics()
    metrics.know(["search"])
    for _ in range(calls):
        metrics.call(CALL, "search", "ok", 0.02)
    return metrics


def test_a_scrape_shows_calls_by_tool_and_outcome() -> None:
    metrics = busy(calls=2)
    metrics.call(CALL, "search", "tool_error", 0.02)
    metrics.call("tools/list", "", "ok", 0.001)
    samples = scraped(metrics)
    assert sample(samples, "weft_tool_calls_total", tool="search", outcome="ok") == 2
    assert sample(samples, "weft_tool_calls_total", tool="search", outcome="tool_error") == 1
    assert sample(samples, "weft_requests_total", method="tools/list", outcome="ok") == 1
    assert sample(samples, "weft_tool_call_seconds_count") == 3


def test_the_histogram_counts_up_to_each_bound() -> None:
    metrics = Metrics()
    for seconds in (0.001, 0.02, 0.02, 3600.0):
        metrics.call(CALL, "search", "ok", seconds)
    samples = scraped(metrics)
    assert sample(samples, "weft_tool_call_seconds_bucket", le="0.001") == 1
    assert sample(samples, "weft_tool_call_seconds_bucket", le="0.01") == 1
    assert sample(samples, "weft_tool_call_seconds_bucket", le="0.025") == 3
    assert sample(samples, "weft_tool_call_seconds_bucket", le="60.0") == 3
    assert sample(samples, "weft_tool_call_seconds_bucket", le="+Inf") == 4
    assert sample(samples, "weft_tool_call_seconds_sum") == pytest.approx(3600.041)


def test_names_that_clients_make_up_never_become_labels() -> None:
    metrics = busy()
    for number in range(5000):
        metrics.call(CALL, f"made-up-{number}", "error", 0.001)
    assert metrics.snapshot()["tools"] == {"search": {"ok": 1}, UNKNOWN: {"error": 5000}}


def test_more_tools_than_labels_are_counted_together() -> None:
    metrics = Metrics(labels=3)
    metrics.know(f"tool-{number}" for number in range(10))
    for number in range(10):
        metrics.call(CALL, f"tool-{number}", "ok", 0.001)
    tools = metrics.snapshot()["tools"]
    assert tools[OTHER] == {"ok": 7}
    assert len(tools) == 4


def test_tools_that_are_gone_make_room_for_new_ones() -> None:
    metrics = Metrics(labels=2)
    for generation in range(100):
        metrics.know([f"a-{generation}", f"b-{generation}"])
        metrics.call(CALL, f"a-{generation}", "ok", 0.001)
        metrics.call(CALL, f"b-{generation}", "ok", 0.001)
    tools = metrics.snapshot()["tools"]
    assert {"a-99", "b-99"} <= set(tools)
    assert len(tools) <= 3


def test_a_server_that_was_removed_is_no_longer_shown() -> None:
    metrics = Metrics()
    metrics.upstreams({"a": True, "b": False})
    counts = {"a": {"ok": 1}, "b": {"error": 1}}
    metrics.upstreams_counted_by(lambda: counts)
    samples = scraped(metrics)
    assert sample(samples, "weft_upstream_up", server="b") == 0
    assert sample(samples, "weft_upstream_requests_total", server="b", outcome="error") == 1
    metrics.upstreams({"a": True})
    del counts["b"]
    assert not [labels for _, labels in scraped(metrics) if ("server", "b") in labels]


def test_a_scrape_through_any_worker_shows_all() -> None:
    one, two = busy(calls=2), busy(calls=3)
    one.in_flight, two.in_flight = 4, 5
    one.upstreams({"a": True, "b": True})
    two.upstreams({"a": True, "b": False})
    one.reloaded("ok", generation=7)
    two.reloaded("failed", generation=6)
    one.limit_exceeded("BodyTooLarge")
    one.loop_lag, two.loop_lag = 0.2, 0.1
    samples = scraped(one, two)
    assert sample(samples, "weft_tool_calls_total", tool="search", outcome="ok") == 5
    assert sample(samples, "weft_tool_call_seconds_count") == 5
    assert sample(samples, "weft_in_flight") == 9
    assert sample(samples, "weft_upstream_up", server="a") == 1
    assert sample(samples, "weft_upstream_up", server="b") == 0
    assert sample(samples, "weft_snapshot_generation") == 6
    assert sample(samples, "weft_reloads_total", result="failed") == 1
    assert sample(samples, "weft_limit_exceeded_total", limit="BodyTooLarge") == 1
    assert sample(samples, "weft_loop_lag_seconds") == 0.2
    assert sample(samples, "weft_workers") == 2


def test_limits_that_are_counted_elsewhere_are_shown_too() -> None:
    metrics, refused = Metrics(), {"Overloaded": 1}
    metrics.limits_counted_by(lambda: refused)
    metrics.limit_exceeded("Overloaded")
    refused["BadHost"] = 3
    assert metrics.snapshot()["limits"] == {"Overloaded": 2, "BadHost": 3}


def test_merging_is_the_same_in_any_order() -> None:
    one, two = busy(calls=2).snapshot(), busy(calls=3).snapshot()
    assert merge([one, two]) == merge([two, one])
    assert merge([one]) == one


def test_the_process_tells_its_memory_and_time() -> None:
    samples = scraped(Metrics())
    assert sample(samples, "process_cpu_seconds_total") > 0
    assert sample(samples, "process_resident_memory_bytes") > 1_000_000
    assert sample(samples, "process_open_fds") >= 3


def test_a_hostile_label_is_escaped() -> None:
    name = 'a"b\\c\nweft_in_flight 99'
    metrics = Metrics()
    metrics.know([name])
    metrics.call(CALL, name, "ok", 0.001)
    samples = scraped(metrics)
    assert sample(samples, "weft_tool_calls_total", tool=name, outcome="ok") == 1
    assert sample(samples, "weft_in_flight") == 0


def test_who_asks_for_openmetrics_gets_it() -> None:
    text, content_type = render([busy().snapshot()], accept="application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")
    assert b'weft_tool_calls_total{outcome="ok",tool="search"} 1.0' in text

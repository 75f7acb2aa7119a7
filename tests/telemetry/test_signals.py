"""Signals: what patterns and stores count becomes metrics, and what happens to them lines of the log."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families as prometheus

from weft.telemetry.exposition import render
from weft.telemetry.metrics import Metrics
from weft.telemetry.signals import CALM, COUNTED, EVENT, GRAVE, MOST, LoggedSignals

SOURCE = Path(__file__).resolve().parents[2] / "src" / "weft"


def said(method: str) -> set[str]:
    """Return the names with which the source calls a method of signals, and the constants that name events."""
    return {name for path in SOURCE.rglob("*.py") for name in _said_in(ast.parse(path.read_text()), method)}


def _said_in(tree: ast.AST, method: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            whose = ast.unparse(node.func.value).lower()
            direct = node.func.attr == method and whose.endswith("signals")
            told = (node.func.attr, whose) in (("_tell", "self"), ("tell", "self"), ("tell", "self._looking"))
            if direct or (method == "event" and told):
                yield from (
                    one.value
                    for one in ast.walk(node.args[0])
                    if isinstance(one, ast.Constant) and isinstance(one.value, str) and "_" in one.value
                )
                if isinstance(node.args[0], ast.Constant):
                    yield str(node.args[0].value)


def test_everything_that_is_counted_has_a_meaning():
    counted = said("count")
    assert {"sagas", "retries", "cache_requests", "store_errors"} <= counted
    assert counted | {EVENT} == COUNTED.keys()


def test_every_event_is_known_to_be_grave_or_not():
    # Circuits name theirs by the phase that begins.
    events = said("event") | {"circuit_opened", "circuit_half_opened", "circuit_closed"}
    assert {"saga_stuck", "saga_compensating", "store_away", "dead_letter_lost", "dead_letter_spooled"} <= events
    assert events == GRAVE | CALM
    assert not GRAVE & CALM


def samples(*signals: LoggedSignals) -> dict[str, float]:
    """Return what a scrape of workers shows."""
    snapshots: list[dict[str, object]] = []
    for one in signals:
        metrics = Metrics()
        metrics.state_counted_by(one.figures, gauges=lambda: [["sagas_stuck", {"store": "s"}, len(snapshots) + 1]])
        snapshots.append(orjson.loads(orjson.dumps(metrics.snapshot())))
    text, _ = render(snapshots)
    return {
        f"{one.name}{sorted(one.labels.items())}": one.value
        for family in prometheus(text.decode())
        for one in family.samples
    }


def test_what_workers_count_is_added_up_and_of_gauges_the_largest_is_shown():
    one, other = LoggedSignals(), LoggedSignals()
    for signals in (one, one, other):
        signals.count("sagas", status="COMPLETED")
    other.count("timeouts")
    other.count("made_up", a="1")
    other.count("made_up", b="2")
    shown = samples(one, other)
    assert shown["weft_sagas_total[('status', 'COMPLETED')]"] == 3
    assert shown["weft_timeouts_total[]"] == 1
    assert shown["weft_made_up_total[('a', '1'), ('b', '')]"] == 1
    assert shown["weft_sagas_stuck[('store', 's')]"] == 2


def test_an_event_is_one_line_and_counted(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    signals, heard = LoggedSignals(), list[str]()
    signals.on_event = heard.append
    signals.event("saga_stuck", saga="o1")
    signals.event("store_back", store="s")
    assert [(one.levelno, one.getMessage()) for one in caplog.records] == [
        (logging.WARNING, "saga stuck"), (logging.INFO, "store back"),
    ]  # fmt: skip
    assert heard == ["saga_stuck", "store_back"]
    assert samples(signals)["weft_state_events_total[('event', 'saga_stuck')]"] == 1


def test_series_are_bounded():
    signals = LoggedSignals()
    for number in range(MOST + 100):
        signals.count("circuit_refused", circuit=f"c{number}")
    assert len(signals.counts) == MOST + 1
    assert sum(signals.counts.values()) == MOST + 100

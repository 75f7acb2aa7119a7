"""A call is begun and ended: its trace, what upstreams are told of it, and what is kept."""

from __future__ import annotations

import asyncio
import gc
import re
import weakref
from typing import Any

import pytest

from weft.run.trace import Span, Trace
from weft.telemetry import Active, Telemetry
from weft.telemetry.context import parent_of
from weft.telemetry.traces import Traces

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


def begin(telemetry: Telemetry | None = None, name: str = "search", **meta: Any) -> Active:
    return (telemetry or Telemetry()).begin("tools/call", name, meta)


def tree(spans: int = 1, error: str | None = None) -> Trace:
    steps = [Span(f"step-{number}", "tool", "find", 0.0, 0.01, "ok", error=error) for number in range(spans)]
    return Trace(Span("search", "composition", "search", 0.0, 0.02, "ok", children=steps))


def test_a_call_without_a_parent_begins_a_trace() -> None:
    one, two = begin(), begin()
    assert re.fullmatch(r"[0-9a-f]{32}", one.trace_id)
    assert one.trace_id != two.trace_id
    assert re.fullmatch(rf"00-{one.trace_id}-[0-9a-f]{{16}}-01", one.meta["traceparent"])


def test_upstreams_are_told_the_same_trace_and_a_parent_of_this_call() -> None:
    active = begin(traceparent=PARENT, tracestate="a=1", baggage="user=7", progressToken=3)
    assert active.trace_id == TRACE
    assert active.meta.keys() == {"traceparent", "tracestate", "baggage"}
    passed_on = parent_of(active.meta["traceparent"])
    assert passed_on is not None
    assert passed_on.trace_id == TRACE
    assert passed_on.span_id != SPAN
    assert passed_on.sampled


def test_a_caller_that_does_not_sample_is_respected() -> None:
    assert begin(traceparent=f"00-{TRACE}-{SPAN}-00").meta["traceparent"].endswith("-00")


def test_unknown_flags_are_not_passed_on() -> None:
    assert begin(traceparent=f"00-{TRACE}-{SPAN}-ff").meta["traceparent"].endswith("-01")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "hello",
        PARENT.upper(),
        f" {PARENT}",
        f"{PARENT}\n",
        f"{PARENT}-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"01-{TRACE}-{SPAN}-01x",
        f"01-{TRACE}-{SPAN}-01-{'x' * 1000}",
        7,
        None,
        [PARENT],
    ],
)
def test_a_parent_that_is_not_exactly_one_is_ignored(header: object) -> None:
    active = begin(traceparent=header, tracestate="a=1")
    assert active.trace_id != TRACE
    assert active.parent_id is None
    assert "tracestate" not in active.meta


def test_a_parent_of_a_later_version_is_understood() -> None:
    assert begin(traceparent=f"01-{TRACE}-{SPAN}-01-what-is-this").trace_id == TRACE


def test_what_travels_along_is_dropped_when_it_could_steer_a_header() -> None:
    active = begin(traceparent=PARENT, tracestate="a=1\r\nHost: evil", baggage="x" * 9000)
    assert active.meta.keys() == {"traceparent"}


def test_a_call_counts_once_however_often_it_is_ended() -> None:
    telemetry = Telemetry()
    telemetry.metrics.know(["search"])
    active = begin(telemetry)
    assert telemetry.metrics.in_flight == 1
    active.end("ok", server="backend")
    active.end("error", server="backend")
    figures = telemetry.metrics.snapshot()
    assert figures["in_flight"] == 0
    assert figures["tools"] == {"search": {"ok": 1}}
    assert len(telemetry.traces.recent()) == 1


def test_recent_calls_are_listed_newest_first_and_by_tool() -> None:
    telemetry = Telemetry()
    for number in range(5):
        begin(telemetry, f"tool-{number % 2}").end("ok")
    assert [one["tool"] for one in telemetry.traces.recent(2)] == ["tool-0", "tool-1"]
    assert [one["tool"] for one in telemetry.traces.recent(tool="tool-1")] == ["tool-1", "tool-1"]


def test_a_trace_shows_every_call_in_it_with_its_steps() -> None:
    telemetry = Telemetry()
    begin(telemetry, "first", traceparent=PARENT).end("ok", server="backend")
    begin(telemetry, "other").end("ok")
    begin(telemetry, "second", traceparent=PARENT).end("error", error="late", spans=lambda: tree(2), size=3)
    first, second = telemetry.traces.get(TRACE)
    assert (first["tool"], first["server"], first["outcome"], first["parent"]) == ("first", "backend", "ok", SPAN)
    assert "spans" not in first
    assert (second["outcome"], second["error"]) == ("error", "late")
    assert [child["step"] for child in second["spans"]["children"]] == ["step-0", "step-1"]
    assert telemetry.traces.get("0" * 32) == []


def test_only_the_last_calls_are_kept() -> None:
    telemetry = Telemetry(traces=Traces(keep=10))
    for number in range(100):
        begin(telemetry, f"tool-{number}").end("ok", spans=tree)
    assert [one["tool"] for one in telemetry.traces.recent(1000)] == [f"tool-{number}" for number in range(99, 89, -1)]


async def test_large_traces_make_room_by_their_size() -> None:
    telemetry = Telemetry(traces=Traces(keep=1000, max_bytes=1_000_000, settle_after=0.0))
    for _ in range(100):
        begin(telemetry).end("ok", spans=lambda: tree(1000), size=1000)
    assert 1 <= len(telemetry.traces.recent(1000)) <= 4
    telemetry.traces.settle()
    for _ in range(10):
        await asyncio.sleep(0)
    for _ in range(2000):
        begin(telemetry).end("ok")
    assert len(telemetry.traces.recent(5000)) == 1000


def test_a_single_trace_over_the_limit_is_not_kept() -> None:
    telemetry = Telemetry(traces=Traces(max_bytes=10_000))
    begin(telemetry).end("ok", spans=tree, size=10_000)
    assert telemetry.traces.recent() == []


class Held:
    """Stands for the snapshot that a call ran in."""


async def test_the_snapshot_of_a_call_is_let_go_when_a_new_one_is_served() -> None:
    telemetry = Telemetry()
    held = Held()
    gone = weakref.ref(held)

    def spans(held: Held = held) -> Trace:
        return tree(2)

    for _ in range(120):
        begin(telemetry, traceparent=PARENT).end("ok", spans=spans)
    del held, spans
    telemetry.traces.settle()
    for _ in range(20):
        await asyncio.sleep(0)
    gc.collect()
    assert gone() is None
    assert len(telemetry.traces.get(TRACE)[0]["spans"]["children"]) == 2


async def test_trees_are_made_only_when_somebody_looks_or_some_time_has_passed() -> None:
    telemetry = Telemetry(traces=Traces(settle_after=3600))
    made = list[int]()

    def spans() -> Trace:
        made.append(1)
        return tree()

    begin(telemetry, traceparent=PARENT).end("ok", spans=spans)
    telemetry.traces.recent()
    await asyncio.sleep(0)
    assert not made
    telemetry.traces.get(TRACE)
    assert made


def test_secrets_in_errors_are_not_shown() -> None:
    telemetry = Telemetry(traces=Traces(redact=lambda text: text.replace("canary", "[redacted]")))
    active = begin(telemetry, traceparent=PARENT)
    active.end("error", error="token canary is wrong", spans=lambda: tree(1, error="no canary here"))
    assert "canary" not in str(telemetry.traces.recent()) + str(telemetry.traces.get(TRACE))
    assert "[redacted]" in str(telemetry.traces.get(TRACE))


def test_names_and_errors_of_any_length_are_cut() -> None:
    telemetry = Telemetry()
    begin(telemetry, "x" * 1_000_000).end("error", error="y" * 1_000_000)
    assert len(str(telemetry.traces.recent())) < 2000


async def test_a_tree_that_cannot_be_made_costs_nothing_but_itself() -> None:
    telemetry = Telemetry()

    def broken() -> Trace:
        raise RuntimeError("no tree")

    begin(telemetry, "bad", traceparent=PARENT).end("ok", spans=broken)
    begin(telemetry, "good", traceparent=PARENT).end("ok", spans=tree)
    telemetry.traces.settle()
    for _ in range(5):
        await asyncio.sleep(0)
    bad, good = telemetry.traces.get(TRACE)
    assert "spans" not in bad
    assert "spans" in good

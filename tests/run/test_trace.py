"""Traces tell what a call did: every step, when it began, how long it took, how it ended."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click import unstyle

import weft as w
from tests.patterns.worlds import told, told_by
from weft.cli.drawing.tree import tree as drawn
from weft.errors import DeadlineExceeded, ToolFailed, WeftError
from weft.run.engine import Result
from weft.run.limits import Limits
from weft.run.trace import Span, Trace
from weft.testing import FakeWorld, Late, down, refusal

A, B = w.tool("a"), w.tool("b")


def tree(result: Result) -> Trace:
    assert result.trace is not None
    return result.trace


async def traced() -> Result:
    """Return a call with a bit of everything."""
    p = w.path({})
    flow = w.pipeline(
        w.step(w.scatter_gather(A, B), id="ask"),
        w.step(w.pipeline(w.map_each(w.schema_map(p, {"m": p.n}))), id="shape"),
        w.step(A, id="never", condition="false"),
        w.step(w.map_each(w.tool("fetch")), id="fetch"),
    )
    tools = {"a": Late([{"n": 1}], 0.5), "b": Late([{"n": 2}, {"n": 3}], 0.25), "fetch": Late("page", 2)}
    return await FakeWorld(tools=tools).trace(flow, {"topic": "weft", "k": 2})


@pytest.mark.req("ALG-36", "ALG-50")
async def test_a_trace_is_the_tree_of_what_was_done():
    assert told((await traced()).trace) == [
        (0, "it", "ok"),
        (1, "ask", "ok"),
        (2, "a", "ok"),
        (2, "b", "ok"),
        (1, "shape", "ok"),
        (2, "step_0", "ok"),
        (1, "never", "skipped"),
        (1, "fetch", "ok"),
        (2, "[0]", "ok"),
        (2, "[1]", "ok"),
        (2, "[2]", "ok"),
    ]


@pytest.mark.req("ALG-50")
async def test_a_span_has_kind_tool_start_duration_and_sizes():
    root = tree(await traced()).root
    ask, shape, never, fetch = root.children
    assert (root.kind, root.target, root.start, root.duration, root.input_size) == ("composition", "it", 0, 2.5, 2)
    assert (ask.kind, ask.start, ask.duration, ask.output_size) == ("scatterGather", 0, 0.5, 3)
    assert [(one.kind, one.target, one.duration) for one in ask.children] == [("tool", "a", 0.5), ("tool", "b", 0.25)]
    assert (shape.kind, shape.start, shape.duration, shape.input_size, shape.output_size) == ("pipeline", 0.5, 0, 3, 3)
    assert (never.outcome, never.duration) == ("skipped", 0)
    assert [(one.target, one.start, one.duration, one.output_size) for one in fetch.children] == [
        ("fetch", 0.5, 2, 4)
    ] * 3


async def test_a_trace_is_json():
    told_json = tree(await traced()).to_json()
    assert json.loads(json.dumps(told_json)) == told_json
    assert {key: value for key, value in told_json.items() if key != "children"} == {
        "step": "it",
        "kind": "composition",
        "tool": "it",
        "startMs": 0,
        "durationMs": 2500,
        "outcome": "ok",
        "inputSize": 2,
        "outputSize": 3,
    }
    assert [child["step"] for child in told_json["children"]] == ["ask", "shape", "never", "fetch"]
    assert "children" not in told_json["children"][0]["children"][0]


async def test_a_trace_prints_as_a_tree():
    lines = str(tree(await traced())).splitlines()
    starts = ["it  composition", "├─ ask  scatterGather", "│  ├─ a  tool", "│  └─ b  tool", "├─ shape  pipeline"]
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=False))
    assert lines[-1].startswith("   └─ [2]  tool fetch ")
    assert "2500.00 ms  2 -> 3" in lines[0]
    assert lines[2].endswith("500.00 ms  2 -> 1")
    assert lines[6].endswith("skipped")
    assert len({line.index(" ms") for line in lines}) == 1


async def test_an_error_carries_the_trace_up_to_it():
    flow = w.pipeline(B, w.scatter_gather(A, w.tool("c"), fail_fast=True), B)
    with pytest.raises(ToolFailed) as caught:
        await FakeWorld(tools={"a": Late(refusal("no"), 1), "b": 1, "c": Late(1, 5)}).trace(flow)
    assert told_by(caught.value) == [
        (0, "it", "failed"),
        (1, "step_0", "ok"),
        (1, "step_1", "failed"),
        (2, "a", "failed"),
        (2, "c", "cancelled"),
    ]
    printed = str(caught.value.trace)
    assert printed.count("Tool 'fake' failed: no") == 3
    assert "cancelled" in printed


async def test_a_call_that_was_too_late_tells_where_it_was():
    with pytest.raises(DeadlineExceeded) as caught:
        await FakeWorld(tools={"a": 1, "b": Late(1, 100)}).trace(w.pipeline(A, B), timeout=3)
    assert told_by(caught.value) == [(0, "it", "failed"), (1, "step_0", "ok"), (1, "step_1", "cancelled")]


async def test_spans_beyond_the_limit_are_counted_not_kept():
    world = FakeWorld(tools={"a": 1}, limits=Limits(spans=5))
    trace = tree(await world.trace(w.map_each(w.pipeline(A)), [1] * 10))
    assert len(told(trace)) == 5
    assert trace.dropped == 1 + 20 - 5
    assert trace.to_json()["droppedSpans"] == 16
    assert str(trace).splitlines()[-1] == "(16 more spans were not kept)"


async def test_a_span_whose_parent_was_not_kept_hangs_on_the_nearest_that_was():
    world = FakeWorld(tools={"a": 1, "b": Late(1, 1)}, limits=Limits(spans=2))
    trace = tree(await world.trace(w.pipeline(w.pipeline(A), B), 1))
    assert told(trace) == [(0, "it", "ok"), (1, "step_0", "ok")]


async def test_without_a_trace_there_is_none_and_warnings_stay():
    world = FakeWorld(tools={"a": refusal("no"), "b": [1]})
    engine = world.engine(w.compile(w.composition("it", "It.", w.scatter_gather(A, B))).document)
    result = await engine.run("it", None, trace=False)
    assert result.trace is None
    assert (result.value, len(result.warnings)) == ([1], 1)


async def test_taps_are_told_where_they_were_tapped():
    flow = w.pipeline(w.wire_tap(A, B, at="before"), A)
    result = await FakeWorld(tools={"a": Late(1, 1), "b": 1}).trace(flow)
    assert told(result.trace) == [
        (0, "it", "ok"),
        (1, "step_0", "ok"),
        (2, "a", "ok"),
        (2, "b", "ok"),
        (1, "step_1", "ok"),
    ]


def test_a_span_that_is_still_running_has_no_duration():
    span = Span("a", "tool", "a", 0.0, None, "running")
    assert "durationMs" not in span.to_json()
    assert "running" in str(Trace(span))


@pytest.mark.parametrize(
    ("value", "size"), [(1, None), (None, None), (True, None), ("text", 4), ([1, 2], 2), ({"a": 1}, 1), ([], 0)]
)
async def test_sizes_count_items_fields_and_characters_and_nothing_else(value: Any, size: int | None):
    root = tree(await FakeWorld(tools={"a": lambda v: v}).trace(A, value)).root
    assert (root.input_size, root.output_size) == (size, size)


async def test_errors_are_objects_with_their_way():
    with pytest.raises(WeftError) as caught:
        await FakeWorld(tools={"a": refusal("no")}).run(w.pipeline(w.map_each(A)), [1])
    assert caught.value.to_json() == {
        "code": "ToolFailed",
        "message": "Tool 'fake' failed: no",
        "retryable": "no",
        "origin": "upstream",
        "path": ["step_0", "[0]"],
    }


async def test_a_printed_trace_shows_what_patterns_did_also_when_it_came_as_json():
    flow = w.cache(w.retry(A, max_attempts=2, backoff=w.fixed("1s")), key=w.path({}).q, ttl=60)
    trace = tree(await FakeWorld(tools={"a": [down(), "found"]}).trace(flow, {"q": 1}))
    first, second, *_ = trace.lines()
    assert first.endswith("cache=miss")
    assert second.endswith("attempts=2")
    assert [unstyle(line) for line in drawn(trace.to_json())] == list(trace.lines())

"""A trace as a tree for the terminal: a line a span, failures in red."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from weft.cli.output import plain
from weft.run.trace import Span, Trace

COLOURS = {"failed": "red", "cancelled": "yellow", "skipped": "bright_black"}


def tree(told: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a trace that was told as JSON."""
    trace = Trace(_span(told), told.get("droppedSpans", 0))
    spans = [span for _, span in trace.root.walk()]
    for at, line in enumerate(trace.lines()):
        colour = COLOURS.get(spans[at].outcome) if at < len(spans) else None
        yield click.style(plain(line), fg=colour) if colour else plain(line)


def _span(told: Mapping[str, Any]) -> Span:
    took: float | None = told.get("durationMs")
    return Span(
        name=str(told.get("step")),
        kind=str(told.get("kind")),
        target=str(told.get("tool", "")),
        start=told.get("startMs", 0.0) / 1000,
        duration=None if took is None else took / 1000,
        outcome=str(told.get("outcome")),
        input_size=told.get("inputSize"),
        output_size=told.get("outputSize"),
        error=told.get("error"),
        notes=told.get("notes"),
        children=[_span(child) for child in told.get("children", ())],
    )

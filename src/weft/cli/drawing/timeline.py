"""A trace as an SVG timeline: one row a span, bars where it worked."""

from __future__ import annotations

from weft.cli.drawing.canvas import LABEL, LINE, Canvas, shortened, width_of
from weft.run.trace import Span, Trace

ROW = 22
INDENT = 14
BARS = 520
MARGIN = 20
MOST_ROWS = 2000
COLOURS = {
    "ok": ("#cfe3f6", "#2f74b5"),
    "failed": ("#f9d3d0", "#b3261e"),
    "cancelled": ("#eee3c8", "#b07f0a"),
    "skipped": ("#f4f4f1", "#8d8d82"),
}


def timeline(trace: Trace) -> str:
    """Return the trace as a drawing."""
    rows = list(trace.root.walk())
    shown, left_out = rows[:MOST_ROWS], max(len(rows) - MOST_ROWS, 0) + trace.dropped
    names = max(width_of(_name(span), LABEL) + depth * INDENT for depth, span in shown) + 16
    total = trace.root.duration or max((span.start + (span.duration or 0) for _, span in shown), default=0) or 1e-9
    height = ROW * (len(shown) + (1 if left_out else 0)) + 2 * MARGIN
    canvas = Canvas(MARGIN * 2 + names + BARS + 90, height, f"Trace of {trace.root.name}")
    for index, (depth, span) in enumerate(shown):
        y = MARGIN + index * ROW
        canvas.words(_name(span), MARGIN + depth * INDENT, y + 14, weight=600 if depth == 0 else 400)
        _bar(canvas, span, MARGIN + names, y, total)
    if left_out:
        canvas.words(f"{left_out} more spans are not shown", MARGIN, MARGIN + len(shown) * ROW + 14, fill=LINE)
    return canvas.text()


def _bar(canvas: Canvas, span: Span, bars: float, y: float, total: float) -> None:
    fill, stroke = COLOURS.get(span.outcome, COLOURS["skipped"])
    took = span.duration or 0.0
    x = bars + BARS * min(span.start / total, 1.0)
    width = max(BARS * min(took / total, 1.0), 1.5)
    told = f"{took * 1000:.2f} ms" if span.duration is not None else "did not end"
    canvas.bar(x, y + 4, width, ROW - 8, fill=fill, stroke=stroke, title=_title(span, told))
    canvas.words(told if span.outcome == "ok" else f"{told}, {span.outcome}", x + width + 6, y + 14, fill=LINE)


def _name(span: Span) -> str:
    what = span.target if span.target and span.target != span.name else span.kind
    return shortened(f"{span.name}  {what}", 60)


def _title(span: Span, told: str) -> str:
    return f"{span.name} ({span.kind}): {told}, {span.outcome}" + (f": {span.error}" if span.error else "")

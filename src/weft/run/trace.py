"""Traces: what one call did, as a tree that can be printed, exported and drawn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from weft.run.call import RUNNING, Place


@dataclass(slots=True)
class Span:
    """One step of a call: seconds are since the call began; sizes count items, fields or characters."""

    name: str
    kind: str
    target: str
    start: float
    duration: float | None
    outcome: str
    input_size: int | None = None
    output_size: int | None = None
    error: str | None = None
    notes: dict[str, Any] | None = None
    """What the step did that its name does not tell: a cache hit, attempts, waits."""
    children: list[Span] = field(default_factory=list["Span"])

    def to_json(self) -> dict[str, Any]:
        """Return the span and all below it as JSON; times in milliseconds."""
        told: dict[str, Any] = {
            "step": self.name,
            "kind": self.kind,
            "tool": self.target or None,
            "startMs": round(self.start * 1000, 3),
            "durationMs": None if self.duration is None else round(self.duration * 1000, 3),
            "outcome": self.outcome,
            "inputSize": self.input_size,
            "outputSize": self.output_size,
            "error": self.error,
            "notes": self.notes,
            "children": [child.to_json() for child in self.children] or None,
        }
        return {key: value for key, value in told.items() if value is not None}

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Span]]:
        """Yield this span and all below it, each with its depth."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


@dataclass(frozen=True, slots=True)
class Trace:
    """A call's spans as a tree, and how many were left out because there were too many."""

    root: Span
    dropped: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the trace as JSON."""
        return {**self.root.to_json(), **({"droppedSpans": self.dropped} if self.dropped else {})}

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Yield the tree as text: one line a span, times to the right of names."""
        rows = list(_rows(self.root, "", ""))
        width = max(len(left) for left, _ in rows)
        for left, span in rows:
            yield f"{left:<{width}}  {_right(span)}".rstrip()
        if self.dropped:
            yield f"({self.dropped} more spans were not kept)"


def _rows(span: Span, first: str, rest: str) -> Iterator[tuple[str, Span]]:
    what = span.kind if not span.target or span.target == span.name else f"{span.kind} {span.target}"
    yield f"{first}{span.name}  {what}", span
    for index, child in enumerate(span.children):
        last = index == len(span.children) - 1
        yield from _rows(child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _right(span: Span) -> str:
    took = "      -   " if span.duration is None else f"{span.duration * 1000:7.2f} ms"
    sizes = "" if span.outcome != "ok" else f"{_size(span.input_size)} -> {_size(span.output_size)}"
    outcome = "" if span.outcome == "ok" else span.outcome
    notes = ", ".join(f"{key}={_noted(value)}" for key, value in (span.notes or {}).items())
    return "  ".join(part for part in (took, sizes, outcome, notes, span.error) if part)


def _noted(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _size(size: int | None) -> str:
    return "·" if size is None else str(size)


def trace_of(places: list[Place], dropped: int = 0) -> Trace:
    """Build the tree of a call from its places, the first of which is the call itself."""
    first = places[0]
    top = _span(first, first.began)
    spans = {id(first): top}
    for place in places[1:]:
        span = spans[id(place)] = _span(place, first.began)
        _nearest(place, spans, top).children.append(span)
    return Trace(top, dropped)


def _nearest(place: Place, spans: dict[int, Span], top: Span) -> Span:
    """Return the span that a place belongs under: its parent's, unless that was not kept or is no span itself."""
    above = place.parent
    while above is not None:
        if (span := spans.get(id(above))) is not None:
            return span
        above = above.parent
    return top


def _span(place: Place, began: float) -> Span:
    finished = place.outcome != RUNNING
    return Span(
        name=place.name or place.step.name,
        kind=place.step.kind,
        target=place.step.target,
        start=place.began - began,
        duration=place.ended - place.began if finished else None,
        outcome=place.outcome,
        input_size=place.given,
        output_size=place.gave if finished else None,
        error=place.error if place.outcome in ("failed", "cancelled") else None,
        notes=place.notes,
    )

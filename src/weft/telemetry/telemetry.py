"""Telemetry of one process: each call is begun and ended here, and counted, kept and exported from here."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter, time
from typing import Any, Protocol

from weft.telemetry.context import carried, new_ids, new_span_id, parent_of
from weft.telemetry.metrics import Metrics
from weft.telemetry.traces import MOST_TEXT, Record, Spans, Traces


class Export(Protocol):
    """Where the spans of calls go, when an OpenTelemetry SDK is there."""

    def samples(self, trace_id: str, name: str) -> bool:
        """Tell whether a call that begins a trace is to be exported."""
        ...

    def add(self, record: Record) -> None:
        """Take a call that has ended; its spans are made elsewhere, later."""
        ...

    def close(self, *, timeout: float = 5.0) -> None:
        """Send what is left; blocks, so call it in a thread."""
        ...


class Active(Record):
    """A call that is under way: its trace id, what to tell upstreams of it, and its end."""

    __slots__ = ("_along", "_telemetry")

    def __init__(self, telemetry: Telemetry, method: str, name: str, meta: Mapping[str, Any]) -> None:
        self._telemetry = telemetry
        self._along: dict[str, str] | None = None
        self.method = method
        self.name = name
        self.outcome = ""
        if "traceparent" in meta and (parent := parent_of(meta["traceparent"])) is not None:
            self.trace_id = parent.trace_id
            self.parent_id = parent.span_id
            self.span_id = new_span_id()
            self.sampled = parent.sampled
            if len(meta) > 1:
                self._along = carried(meta)
        else:
            ids = new_ids()
            self.trace_id = trace_id = ids[:32]
            self.parent_id = None
            self.span_id = ids[32:]
            export = telemetry.export
            # Without an exporter nobody has decided against sampling: servers behind weft may still want to record.
            self.sampled = export is None or export.samples(trace_id, name)
        self.wall = time()
        self.began = perf_counter()

    @property
    def meta(self) -> dict[str, Any]:
        """What goes along in `_meta` of every request that is made for the call."""
        flags = "01" if self.sampled else "00"
        told: dict[str, Any] = {"traceparent": f"00-{self.trace_id}-{self.span_id}-{flags}"}
        if self._along:
            told.update(self._along)
        return told

    def end(
        self,
        outcome: str,
        *,
        server: str | None = None,
        error: str | None = None,
        spans: Spans | None = None,
        size: int = 0,
    ) -> None:
        """Say how the call went; only the first time counts.

        `spans` makes the tree of spans when somebody wants it, and `size` is about how many there are. It is kept for
        seconds: it should hold neither the result nor an exception, whose frames hold everything.
        """
        if self.outcome:
            return
        self.ended = ended = perf_counter()
        self.outcome = outcome
        self.server = server
        self.error = error if error is None or len(error) <= MOST_TEXT else error[:MOST_TEXT]
        self.spans = spans
        self.tree = None
        if len(self.name) > MOST_TEXT:
            self.name = self.name[:MOST_TEXT]
        telemetry = self._telemetry
        metrics = telemetry.metrics
        metrics.in_flight -= 1
        metrics.call(self.method, self.name, outcome, ended - self.began)
        if telemetry.export is not None and self.sampled:
            telemetry.export.add(self)
        telemetry.traces.add(self, spans=size)


class Telemetry:
    """What one process tells its operators."""

    def __init__(
        self, *, metrics: Metrics | None = None, traces: Traces | None = None, export: Export | None = None
    ) -> None:
        self.metrics = metrics or Metrics()
        self.traces = traces or Traces()
        self.export = export

    def begin(self, method: str, name: str, meta: Mapping[str, Any]) -> Active:
        """Begin a call of a client: in the trace that its `traceparent` names, else in a new one."""
        self.metrics.in_flight += 1
        return Active(self, method, name, meta)

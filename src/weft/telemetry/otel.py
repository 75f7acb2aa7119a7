"""OpenTelemetry: calls that have ended become spans with their own ids and times, in a thread of their own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from queue import SimpleQueue
from typing import Final, Protocol

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from weft.errors import InputError
from weft.telemetry.context import new_span_id
from weft.telemetry.logs import Episodes, Log
from weft.telemetry.metrics import CALL
from weft.telemetry.traces import Record, Spans

_QUEUED: Final = 2048
_UPSTREAM_KINDS: Final = frozenset({"tool", "agent"})
_PROTOCOLS: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


_FAILED: Final = frozenset({"failed", "error", "tool_error"})
_log = Episodes(Log("telemetry"))


class _Step(Protocol):
    """A step of a call, as weft.run.trace has it."""

    name: str
    kind: str
    target: str
    start: float
    duration: float | None
    outcome: str
    error: str | None

    @property
    def children(self) -> Iterable[_Step]: ...


class _Tree(Protocol):
    @property
    def root(self) -> _Step: ...


class OtelExport:
    """Sends the spans of calls to a provider's processors; when they come too fast, some are left out and counted."""

    def __init__(self, exporters: Iterable[SpanExporter], *, redact: Callable[[str], str] = str) -> None:
        self._ids = _GivenIds()
        # What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say goes before the name given here.
        resource = Resource.create({"service.name": "weft", **OTELResourceDetector().detect().attributes})
        self._provider = TracerProvider(id_generator=self._ids, resource=resource, shutdown_on_exit=False)
        self._exporters = list(exporters)
        for exporter in self._exporters:
            self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("weft")
        self._redact = redact
        # The spans beside the record: the store may settle the record, and drop them, before the thread comes to it.
        self._queue: SimpleQueue[tuple[Record, Spans | None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self.dropped = 0

    def samples(self, trace_id: str, name: str) -> bool:
        """Tell whether the sampler (OTEL_TRACES_SAMPLER) wants a call that begins a trace."""
        return self._provider.sampler.should_sample(None, int(trace_id, 16), name).decision.is_sampled()

    def add(self, record: Record) -> None:
        """Take a call that has ended."""
        if self._queue.qsize() >= _QUEUED:
            self.dropped += 1
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="weft-otel", daemon=True)
            self._thread.start()
        self._queue.put((record, record.spans))

    def close(self, *, timeout: float = 5.0) -> None:
        """Send what is left, for at most about so many seconds; blocks, so call it in a thread."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(timeout)
        # The provider has no patience of its own to set: it would try for half a minute to reach a collector.
        ending = threading.Thread(target=self._provider.shutdown, name="weft-otel-end", daemon=True)
        ending.start()
        ending.join(timeout)
        if ending.is_alive():
            for exporter in self._exporters:
                exporter.shutdown()
            ending.join(timeout)

    def _run(self) -> None:
        while (taken := self._queue.get()) is not None:
            try:
                self._export(*taken)
            except Exception as error:
                _log.trouble("otel", "spans of a call could not be exported", error=repr(error))

    def _export(self, record: Record, spans: Spans | None) -> None:
        began = round(record.wall * 1e9)
        ended = began + round(record.seconds * 1e9)
        self._ids.trace_id, self._ids.span_id = int(record.trace_id, 16), int(record.span_id, 16)
        server = self._tracer.start_span(
            f"{record.method} {record.name}".strip(),
            context=_remote(record),
            kind=SpanKind.SERVER,
            attributes=_about(record),
            start_time=began,
        )
        within = trace.set_span_in_context(server, Context())
        tree: _Tree | None = None if spans is None else spans()
        if tree is not None:
            for child in tree.root.children:
                self._step(child, within, began, ended)
        elif record.server is not None:
            self._client(record, within, began, ended)
        self._finish(server, record.outcome, record.error, ended)

    def _step(self, step: _Step, context: Context, began: int, ended: int) -> None:
        start = began + round(step.start * 1e9)
        self._ids.span_id = int(new_span_id(), 16)
        span = self._tracer.start_span(
            f"{step.kind} {step.name}",
            context=context,
            kind=SpanKind.CLIENT if step.kind in _UPSTREAM_KINDS else SpanKind.INTERNAL,
            attributes={"weft.step": step.name, "weft.kind": step.kind, **_named(step.target)},
            start_time=start,
        )
        within = trace.set_span_in_context(span, Context())
        for child in step.children:
            self._step(child, within, began, ended)
        # What still runs, detached from its call, is shown up to the call's end.
        end = max(start, ended) if step.duration is None else start + round(step.duration * 1e9)
        self._finish(span, step.outcome, step.error, end)

    def _client(self, record: Record, context: Context, began: int, ended: int) -> None:
        self._ids.span_id = int(new_span_id(), 16)
        name, attributes = f"{record.method} {record.name}", _about(record)
        span = self._tracer.start_span(
            name, context=context, kind=SpanKind.CLIENT, attributes=attributes, start_time=began
        )
        self._finish(span, record.outcome, record.error, ended)

    def _finish(self, span: trace.Span, outcome: str, error: str | None, ended: int) -> None:
        span.set_attribute("weft.outcome", outcome)
        if outcome in _FAILED:
            span.set_attribute("error.type", outcome)
            span.set_status(Status(StatusCode.ERROR, None if error is None else self._redact(error)))
        span.end(ended)


class _GivenIds(IdGenerator):
    """Gives the ids that it was told to give next; only the exporting thread asks."""

    trace_id = 0
    span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


def _remote(record: Record) -> Context:
    if record.parent_id is None:
        return Context()
    flags = TraceFlags(TraceFlags.SAMPLED)
    parent = SpanContext(int(record.trace_id, 16), int(record.parent_id, 16), is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())


def _about(record: Record) -> dict[str, str]:
    """Return what the semantic conventions for MCP call the parts of a request."""
    told = {"mcp.method.name": record.method}
    if record.method == CALL:
        told |= {"gen_ai.operation.name": "execute_tool", **_named(record.name)}
    if record.server is not None:
        told["weft.server"] = record.server
    return told


def _named(tool: str) -> dict[str, str]:
    return {"gen_ai.tool.name": tool} if tool else {}


def export_to(names: Iterable[str], env: Mapping[str, str], *, redact: Callable[[str], str] = str) -> OtelExport:
    """Return an export to the exporters of these names.

    Raises:
        InputError: there is no such exporter here.
    """
    return OtelExport([_exporter(name, env) for name in names], redact=redact)


def _exporter(name: str, env: Mapping[str, str]) -> SpanExporter:
    if name == "console":
        # stdout may be the line to a client.
        return ConsoleSpanExporter(out=sys.stderr)
    if name == "otlp":
        protocol = env.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or env.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        name = _PROTOCOLS.get(protocol or "http/protobuf", name)
    found = next(iter(entry_points(group="opentelemetry_traces_exporter", name=name)), None)
    if found is None:
        raise InputError(
            f"there is no OpenTelemetry exporter {name!r} here",
            code="NotInstalled",
            hint="pip install 'weft[otel]', or set OTEL_TRACES_EXPORTER to otlp, console or none",
        )
    exporter: SpanExporter = found.load()()
    return exporter

"""OpenTelemetry: calls become spans with weft's own ids, parents, kinds and times."""

from __future__ import annotations

import gzip
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from tests.upstreams.listening import listening
from weft.errors import InputError
from weft.run.trace import Span, Trace
from weft.telemetry import Telemetry
from weft.telemetry.exporting import export_of, wanted_exporters
from weft.telemetry.otel import OtelExport

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


class Exported:
    """A telemetry that exports into memory."""

    def __init__(self) -> None:
        self._memory = InMemorySpanExporter()
        self._export = OtelExport([self._memory], redact=lambda text: text.replace("canary", "***"))
        self.telemetry = Telemetry(export=self._export)

    def all(self) -> list[ReadableSpan]:
        """Close the export and return what came out, in the order in which it ended."""
        self._export.close()
        return list(self._memory.get_finished_spans())

    def spans(self) -> dict[str, ReadableSpan]:
        """Close the export and return what came out, by name."""
        return {span.name: span for span in self.all()}


@pytest.fixture
def exported() -> Iterator[Exported]:
    one = Exported()
    yield one
    one.spans()


def context(span: ReadableSpan) -> SpanContext:
    assert span.context is not None
    return span.context


def pipeline() -> Trace:
    fetch = Span("fetch", "tool", "http_fetch", 0.001, 0.010, "failed", error="a canary died")
    both = Span("both", "scatterGather", "", 0.001, 0.015, "ok", children=[fetch])
    tap = Span("tap", "tool", "log", 0.016, None, "running")
    return Trace(Span("research", "composition", "research", 0.0, 0.020, "ok", children=[both, tap]))


def test_a_call_is_a_server_span_with_the_ids_that_upstreams_were_told(exported: Exported) -> None:
    active = exported.telemetry.begin("tools/call", "search", {})
    active.end("ok", server="backend")
    [client, server] = exported.all()
    assert (server.name, server.kind, server.parent) == ("tools/call search", SpanKind.SERVER, None)
    _, trace_id, span_id, flags = active.meta["traceparent"].split("-")
    assert (f"{context(server).trace_id:032x}", f"{context(server).span_id:016x}", flags) == (trace_id, span_id, "01")
    assert server.attributes is not None
    assert server.attributes["mcp.method.name"] == "tools/call"
    assert server.attributes["gen_ai.tool.name"] == "search"
    assert server.resource.attributes["service.name"] == "weft"
    assert client.kind is SpanKind.CLIENT
    assert client.parent is not None
    assert client.parent.span_id == context(server).span_id
    assert server.start_time is not None
    assert server.end_time is not None
    assert 0 <= server.end_time - server.start_time < 60e9


def test_the_caller_is_the_parent(exported: Exported) -> None:
    exported.telemetry.begin("tools/call", "search", {"traceparent": f"00-{TRACE}-{SPAN}-01"}).end("ok")
    server = exported.spans()["tools/call search"]
    assert server.parent is not None
    assert server.parent.is_remote
    assert (context(server).trace_id, server.parent.span_id) == (int(TRACE, 16), int(SPAN, 16))


def test_steps_are_spans_below_each_other_with_their_own_times(exported: Exported) -> None:
    exported.telemetry.begin("tools/call", "research", {}).end("ok", spans=pipeline, size=4)
    spans = exported.spans()
    server, both = spans["tools/call research"], spans["scatterGather both"]
    fetch, tap = spans["tool fetch"], spans["tool tap"]
    assert both.parent == context(server)
    assert fetch.parent == context(both)
    assert (both.kind, fetch.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT)
    assert fetch.start_time is not None
    assert server.start_time is not None
    assert fetch.end_time is not None
    assert fetch.start_time - server.start_time == 1_000_000
    assert fetch.end_time - fetch.start_time == 10_000_000
    assert tap.end_time is not None
    assert len({context(span).trace_id for span in spans.values()}) == 1
    assert len({context(span).span_id for span in spans.values()}) == 4


def test_failures_are_errors_without_their_secrets(exported: Exported) -> None:
    exported.telemetry.begin("tools/call", "research", {}).end("error", error="canary", spans=pipeline)
    exported.telemetry.begin("tools/call", "slow", {}).end("cancelled")
    spans = exported.spans()
    server = spans["tools/call research"]
    assert (server.status.status_code, server.status.description) == (StatusCode.ERROR, "***")
    assert server.attributes is not None
    assert server.attributes["error.type"] == "error"
    assert spans["tool fetch"].status.description == "a *** died"
    assert spans["tools/call slow"].status.status_code is StatusCode.UNSET


def test_a_caller_that_does_not_sample_is_not_exported(exported: Exported) -> None:
    exported.telemetry.begin("tools/call", "search", {"traceparent": f"00-{TRACE}-{SPAN}-00"}).end("ok")
    assert exported.spans() == {}


def test_the_sampler_of_the_environment_decides_about_new_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    exported = Exported()
    active = exported.telemetry.begin("tools/call", "search", {})
    assert active.meta["traceparent"].endswith("-00")
    active.end("ok")
    exported.telemetry.begin("tools/call", "other", {"traceparent": f"00-{TRACE}-{SPAN}-01"}).end("ok")
    assert list(exported.spans()) == ["tools/call other"]


def test_the_service_may_be_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "edge")
    exported = Exported()
    exported.telemetry.begin("tools/call", "search", {}).end("ok")
    assert exported.spans()["tools/call search"].resource.attributes["service.name"] == "edge"


def test_a_tree_that_cannot_be_made_does_not_end_the_export(exported: Exported) -> None:
    def broken() -> Trace:
        raise RuntimeError("no tree")

    exported.telemetry.begin("tools/call", "bad", {}).end("ok", spans=broken)
    exported.telemetry.begin("tools/call", "good", {}).end("ok")
    assert "tools/call good" in exported.spans()


@pytest.mark.parametrize(
    ("env", "names"),
    [
        ({}, []),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, []),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, ["otlp"]),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4318"}, ["otlp"]),
        ({"OTEL_TRACES_EXPORTER": "console, otlp"}, ["console", "otlp"]),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"}, []),
    ],
)
def test_the_environment_says_where_spans_go(env: dict[str, str], names: list[str]) -> None:
    assert wanted_exporters(env) == names


def test_nothing_is_exported_unless_asked() -> None:
    assert export_of({}) is None


def test_the_console_exporter_leaves_stdout_alone(capsys: pytest.CaptureFixture[str]) -> None:
    export = export_of({"OTEL_TRACES_EXPORTER": "console"})
    assert export is not None
    Telemetry(export=export).begin("tools/call", "search", {}).end("ok")
    export.close()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "tools/call search" in captured.err


def test_an_exporter_that_is_not_installed_is_named() -> None:
    with pytest.raises(InputError, match="no OpenTelemetry exporter 'zipkin-9'"):
        export_of({"OTEL_TRACES_EXPORTER": "zipkin-9"})


def test_a_missing_sdk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "weft.telemetry.otel")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(InputError, match="is not installed") as raised:
        export_of({"OTEL_TRACES_EXPORTER": "otlp"})
    assert "weft[otel]" in str(raised.value.hint)


class Collector:
    """An OTLP collector over real HTTP, which keeps what it is sent."""

    def __init__(self) -> None:
        self.sent = list[tuple[str, str, bytes]]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        kind = dict(scope["headers"])[b"content-type"].decode()
        self.sent.append((scope["path"], kind, body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind.encode())]})
        await send({"type": "http.response.body", "body": b""})


def test_spans_reach_a_collector_over_otlp(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector()
    with listening(collector) as port:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
        monkeypatch.setenv(*next(iter(env.items())))
        export = export_of(env)
        assert export is not None
        active = Telemetry(export=export).begin("tools/call", "search", {})
        active.end("ok", server="backend")
        export.close()
    [(path, kind, body)] = collector.sent
    assert (path, kind) == ("/v1/traces", "application/x-protobuf")
    if body.startswith(b"\x1f\x8b"):
        body = gzip.decompress(body)
    assert bytes.fromhex(active.trace_id) in body
    assert bytes.fromhex(active.span_id) in body


class Stuck(SpanExporter):
    """An exporter that tries on and on, until it is told to stop."""

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        assert self.stopped.wait(60)
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self.stopped.set()


def test_a_collector_that_cannot_be_reached_does_not_hold_up_the_end() -> None:
    stuck = Stuck()
    export = OtelExport([stuck])
    Telemetry(export=export).begin("tools/call", "search", {}).end("ok")
    export.close(timeout=0.2)
    assert stuck.stopped.is_set()

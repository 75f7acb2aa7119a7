"""What weft tells its operators: metrics, recent traces, OpenTelemetry spans, logs, and when its event loop hangs."""

from weft.telemetry.telemetry import Active, Export, Telemetry

__all__ = ["Active", "Export", "Telemetry"]

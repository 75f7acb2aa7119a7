"""Whether spans are exported: the OTEL_* variables say so, and an OpenTelemetry SDK must be installed.

Only then is anything of OpenTelemetry imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from weft.errors import InputError
from weft.telemetry.telemetry import Export

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def wanted_exporters(env: Mapping[str, str]) -> list[str]:
    """Return the names of the exporters that the environment asks for: `otlp`, `console`."""
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    default = "otlp" if any(env.get(name) for name in _ENDPOINTS) else "none"
    names = (name.strip() for name in (env.get("OTEL_TRACES_EXPORTER") or default).split(","))
    return [name for name in names if name and name != "none"]


def export_of(env: Mapping[str, str], *, redact: Callable[[str], str] = str) -> Export | None:
    """Return where spans go, or None when nobody asks for them.

    Raises:
        InputError: they are asked for, and what it takes is not installed.
    """
    names = wanted_exporters(env)
    if not names:
        return None
    try:
        otel = import_module("weft.telemetry.otel")
    except ModuleNotFoundError as error:
        raise InputError(
            f"OpenTelemetry spans are asked for, and {error.name} is not installed",
            code="NotInstalled",
            hint="pip install 'weft[otel]', or set OTEL_TRACES_EXPORTER=none",
        ) from error
    export: Export = otel.export_to(names, env, redact=redact)
    return export

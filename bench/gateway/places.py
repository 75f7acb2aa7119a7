"""Where the gateways of the benchmarks live: their configuration, written to a folder, and the servers behind them."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.gateway.processes import Process, module, weft

UPSTREAM = "bench.gateway.upstream"


def url(upstream: Process, *, prefix: str = "tool", tools: int = 10, delay_ms: int = 0) -> str:
    """Return the URL at which an upstream has so many tools, whose calls take so long."""
    return f"http://127.0.0.1:{upstream.port}/mcp/{prefix}/{tools}/{delay_ms}"


@contextmanager
def upstream() -> Generator[Process]:
    """Start a server."""
    with module(UPSTREAM) as started:
        yield started


@contextmanager
def yardstick(target: str) -> Generator[Process]:
    """Start the bare proxy in front of a server."""
    with module("bench.gateway.yardstick", target) as started:
        yield started


@contextmanager
def gateway(
    urls: Mapping[str, str],
    *options: str,
    registry: Mapping[str, Any] | None = None,
    commands: Mapping[str, Sequence[str]] | None = None,
) -> Generator[Process]:
    """Start weft in front of servers."""
    servers: dict[str, Any] = {name: {"url": each} for name, each in urls.items()}
    here = {"PYTHONPATH": str(Path(__file__).parents[2])}
    servers |= {name: {"command": list(each), "env": here} for name, each in (commands or {}).items()}
    config: dict[str, Any] = {"servers": servers, "telemetry": {"logs": {"level": "error"}}}
    with TemporaryDirectory() as folder:
        if registry is not None:
            path = Path(folder) / "registry.json"
            path.write_text(json.dumps(registry))
            config["registry"] = {"source": f"file://{path}"}
        written = Path(folder) / "weft.yaml"
        written.write_text(json.dumps(config))
        with weft(written, *options) as started:
            yield started


def child(tools: int) -> list[str]:
    """Return the command of a server over stdio."""
    return [sys.executable, "-m", UPSTREAM, "--stdio", str(tools)]

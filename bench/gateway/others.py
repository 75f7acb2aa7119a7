"""What a user might put in weft's place: FastMCP's proxy, where an interpreter that has it is named.

`WEFT_BENCH_FASTMCP` is that interpreter, such as `/tmp/fastmcp/bin/python` after `pip install fastmcp==4.1.2`.
"""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from typing import Any

from bench.gateway.effort import Effort
from bench.gateway.load import Job
from bench.gateway.pairs import cpu_of, in_turn, ratio_of
from bench.gateway.places import gateway, upstream, url
from bench.gateway.processes import Load, Process

NAMED = "WEFT_BENCH_FASTMCP"
PROXY = Path(__file__).with_name("fastmcp_proxy.py")


def fastmcp(load: Load, effort: Effort) -> list[dict[str, Any]]:
    """Measure calls that FastMCP's proxy passes through against those of weft, on one connection."""
    python = os.environ.get(NAMED)
    if not python:
        return []
    with upstream() as behind, gateway({"up": url(behind)}) as served, _proxy(python, url(behind)) as proxy:
        few, many = 10, effort.calls
        theirs = cpu_of(served, load, Job(port=served.port, calls=many, connections=1))
        ours = cpu_of(proxy, load, Job(port=proxy.port, calls=few, connections=1))
        found = ratio_of(*in_turn(ours, theirs, turns=max(3, effort.few_turns // 3)))
    return [{"library": "FastMCP's proxy", "version": _version(python), **found.figure("", None, unit="us").to_json()}]


def _proxy(python: str, target: str) -> Process:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    started = Process(python, str(PROXY), target, str(port), ready="Uvicorn running")
    started.port = port
    return started


def _version(python: str) -> str:
    said = "import importlib.metadata as found; print(found.version('fastmcp'))"
    return subprocess.run([python, "-c", said], capture_output=True, text=True, check=True).stdout.strip()

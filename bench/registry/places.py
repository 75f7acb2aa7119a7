"""Gateways with registries: their files in a folder, and how they are started."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.gateway.places import url
from bench.gateway.processes import Process
from bench.registry.documents import SOURCES, VERSION, server_of

REGISTRY = "registry.json"


@dataclass(frozen=True, slots=True)
class Served:
    """A gateway that is ready: every server has answered."""

    process: Process
    folder: Path
    port: int
    admin: int
    """The port for operators."""


@contextmanager
def serving(
    behind: Process, registry: Mapping[str, Any] | None, settings: Mapping[str, Any], *, servers: int = 1
) -> Generator[Served]:
    """Start weft in front of the servers of a registry; `settings` are sections of weft.yaml."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        if registry is not None:
            (folder / REGISTRY).write_text(json.dumps(registry))
        with started(behind, folder, settings, servers=servers) as served:
            yield served


@contextmanager
def started(behind: Process, folder: Path, settings: Mapping[str, Any], *, servers: int = 1) -> Generator[Served]:
    """Start weft in a folder that has the registry already, or has none."""
    urls = {
        f"{server_of(each)}@{VERSION}": {"url": url(behind, prefix=server_of(each), tools=SOURCES)}
        for each in range(servers)
    }
    config = {"servers": urls, "telemetry": {"logs": {"level": "error"}}, **settings}
    path = folder / "weft.yaml"
    path.write_text(json.dumps(config))
    command = [sys.executable, "-m", "weft.cli", "serve", "-c", str(path), "--port", "0", "--admin-port", "0"]
    with Process(*command, ready="Ctrl-C stops") as process:
        said = "".join(process.said)
        yield Served(process, folder, _port("serves MCP at", said), _port("operators at", said))


def _port(what: str, said: str) -> int:
    found = re.search(rf"{what} http://127\.0\.0\.1:(\d+)", said)
    if found is None:
        raise RuntimeError(f"weft did not say {what!r}:\n{said}")
    return int(found[1])

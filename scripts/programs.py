"""Programs that a script of this folder starts, waits for, and ends."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"


def free_port() -> int:
    """Return a port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def listening(argv: Sequence[str], port: int, *, log: Path, patience: float = 60.0) -> Generator[None]:
    """Run a program that listens on the port, from when it does until the end of the block."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        process = subprocess.Popen(argv, cwd=ROOT, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        try:
            _wait(process, port, patience=patience, log=log)
            yield
        finally:
            _end(process)


@contextmanager
def gateway(
    servers: Mapping[str, Mapping[str, object]],
    *,
    folder: Path,
    workers: int = 1,
    sections: Mapping[str, object] | None = None,
) -> Generator[str]:
    """Run `weft serve` in front of servers, with more sections of weft.yaml, and give the URL of its front door."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "weft.yaml"
    written = {"servers": {name: dict(server) for name, server in servers.items()}, **(sections or {})}
    config.write_text(yaml.safe_dump(written, sort_keys=False))
    port = free_port()
    weft = str(Path(sys.executable).parent / "weft")
    options = ["--port", str(port), "--admin-port", "0", "--workers", str(workers)]
    with listening([weft, "serve", "-c", str(config), *options], port, log=folder / "weft.log"):
        yield f"http://127.0.0.1:{port}/mcp"


def _wait(process: subprocess.Popen[bytes], port: int, *, patience: float, log: Path) -> None:
    late = time.monotonic() + patience
    while time.monotonic() < late:
        if process.poll() is not None:
            raise SystemExit(f"{_named(process)} ended with {process.returncode}:\n{log.read_text()}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"{_named(process)} does not listen on port {port} after {patience:g} s:\n{log.read_text()}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _named(process: subprocess.Popen[bytes]) -> str:
    argv = process.args
    words = [os.fspath(word) for word in argv] if isinstance(argv, list | tuple) else [str(argv)]
    return " ".join(map(str, words))

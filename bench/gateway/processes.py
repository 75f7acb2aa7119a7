"""Processes that are measured: started, asked for their CPU time and memory, and ended."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson

from bench.gateway.load import Job, Outcome

PROC = Path("/proc")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def measurable() -> bool:
    """Tell whether this system says how much CPU time a process has had, to the nanosecond."""
    return (PROC / "self" / "schedstat").exists()


class Process:
    """A process that tells its port when it is ready."""

    def __init__(self, *command: str, ready: str = r"port (\d+)") -> None:
        """Start one and wait until it prints what says that it is ready; a group of that is its port."""
        self._command = " ".join(command)
        self._child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=_environment()
        )
        self.said: list[str] = []
        self.port = 0
        self._drainer: threading.Thread | None = None
        self._wait(re.compile(ready))
        self._drainer = threading.Thread(target=self._drain, daemon=True)
        self._drainer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def _wait(self, ready: re.Pattern[str]) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self.said.append(line.decode(errors="replace"))
            if found := ready.search(self.said[-1]):
                self.port = int(found[1]) if found.groups() else 0
                return
        self.end()
        raise RuntimeError(f"{self._command} did not start:\n{''.join(self.said)}")

    def _drain(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self.said.append(line.decode(errors="replace"))

    def family(self) -> list[int]:
        """Return the ids of the process and of all that it started."""
        found, at = [self._child.pid], 0
        while at < len(found):
            for task in (PROC / str(found[at]) / "task").iterdir():
                found += [int(one) for one in (task / "children").read_text().split()]
            at += 1
        return found

    def cpu(self, *, family: bool = False) -> float:
        """Return the seconds of CPU that it has had, with its children if they are to count."""
        return sum(map(_cpu, self.family() if family else [self._child.pid]))

    def memory(self) -> list[float]:
        """Return how many MB of memory it has resident, and each of its children."""
        pages = [int((PROC / str(pid) / "statm").read_text().split()[1]) for pid in self.family()]
        return [each * PAGE_BYTES / 1e6 for each in pages]

    def end(self) -> None:
        """Stop it, and wait for its end."""
        _stop(self._child)
        if self._drainer is not None:
            self._drainer.join(timeout=5)
        # What it started may still hold the other end of the pipe: to close ours would wait for it.
        if self._drainer is None or not self._drainer.is_alive():
            _close(self._child)


class Load:
    """The process that makes the load."""

    def __init__(self) -> None:
        """Start it."""
        self._child = subprocess.Popen(
            [sys.executable, "-m", "bench.gateway.load"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _stop(self._child)
        _close(self._child)

    def run(self, job: Job) -> Outcome:
        """Have a job done.

        Raises:
            RuntimeError: a call failed.
        """
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(job.encoded())
        self._child.stdin.flush()
        told = orjson.loads(self._child.stdout.readline() or b'{"problem": "the load ended"}')
        if "problem" in told:
            raise RuntimeError(f"{job}: {told['problem']}")
        return Outcome(**told)


def module(name: str, *arguments: str) -> Process:
    """Start a module of the benchmarks."""
    return Process(sys.executable, "-m", name, *arguments)


def weft(config: Path, *arguments: str) -> Process:
    """Start a gateway."""
    command = [sys.executable, "-m", "weft.cli", "serve", "-c", str(config), "--port", "0", "--admin-port", "0"]
    return Process(*command, *arguments, ready=r"serves MCP at http://127\.0\.0\.1:(\d+)/mcp")


def tools_of(names: Sequence[str], most: int = 10) -> list[str]:
    """Return some of many names, from all over them."""
    return [names[number * len(names) // most] for number in range(most)] if len(names) > most else list(names)


def _stop(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(timeout=20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _close(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()


def _cpu(pid: int) -> float:
    tasks = (PROC / str(pid) / "task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

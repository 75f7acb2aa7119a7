"""The MCP Inspector's CLI, asked one thing after the other, and what was found."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.nodejs import environment, version

INSPECTOR: Final = "@modelcontextprotocol/inspector"
TOOL_FAILED: Final = 5
"""How the Inspector ends when a tool says that it has failed."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one check found."""

    server: str
    client: str
    check: str
    passed: bool
    seen: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, what the answer must contain, and how the Inspector must end."""

    method: str
    options: Sequence[str]
    expect: str
    ends: int = 0
    called: str = ""
    """How the check is called, where the method does not say enough."""


def call(tool: str, expect: str, *, ends: int = 0, **arguments: object) -> Asked:
    """Return the call of a tool, with arguments as a person types them."""
    typed = [f"{name}={value}" for name, value in arguments.items()]
    options = ["--tool-name", tool, "--tool-arg", *typed]
    return Asked("tools/call", options, expect, ends, f"tools/call {tool} {' '.join(typed[:2])}")


def inspect(npm: Path, server: str, label: str, target: Sequence[str], asked: Iterable[Asked]) -> Iterator[Found]:
    """Ask a server with the Inspector that is installed in a folder."""
    program = str(npm / "node_modules" / ".bin" / "mcp-inspector")
    client = f"Inspector {version(npm, INSPECTOR)}, {label}"
    for one in asked:
        argv = [program, "--cli", *target, "--method", one.method, *one.options]
        done = subprocess.run(argv, env=environment(npm), capture_output=True, text=True, timeout=60, check=False)
        passed = done.returncode == one.ends and one.expect in done.stdout
        seen = (done.stdout if done.returncode == 0 else done.stderr + done.stdout)[:2000]
        yield Found(server, client, one.called or one.method, passed, seen)

"""How MCP clients are pointed at a gateway."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weft.cli.remote import URL


def ways_to(url: str, *, tool: str, arguments: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield who can connect and what to write where, with a tool to try it on."""
    servers = {"weft": {"url": url}}
    remote = {"weft": {"command": "npx", "args": ["-y", "mcp-remote", url]}}
    code = {"weft": {"type": "http", "url": url}}
    call = json.dumps({"tool": tool, "arguments": arguments}, ensure_ascii=False)
    typed = " ".join(shlex.quote(f"{name}={value}") for name, value in arguments.items())
    yield "Claude Desktop (claude_desktop_config.json)", json.dumps({"mcpServers": remote})
    yield "Claude Code", f"claude mcp add --transport http weft {url}"
    yield "VS Code (.vscode/mcp.json)", json.dumps({"servers": code})
    yield "Cursor (.cursor/mcp.json)", json.dumps({"mcpServers": servers})
    yield (
        "MCP Inspector",
        f"npx -y @modelcontextprotocol/inspector --cli {url} --transport http --method tools/list",
    )
    yield "weft", f"{own_command()} call {tool} {typed}{at(url)}"
    yield "curl", f"curl -s {url}/tools/call -H 'Content-Type: application/json' -d {shlex.quote(call)}"


def own_command() -> str:
    """Return what to type for weft from here: its name, or its path where the shell would not find it."""
    program = Path(sys.argv[0])
    if program.name != "weft" or shutil.which("weft") is not None:
        return "weft"
    return shlex.quote(os.path.relpath(program) if program.is_relative_to(Path.cwd()) else str(program))


def at(url: str) -> str:
    """Return the option that commands of weft need to reach a gateway, if they need any."""
    return "" if url == URL else f" --url {url}"

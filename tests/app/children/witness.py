"""A legacy MCP server on stdin and stdout that starts fast, and writes down all that it sees, and when."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SEEN = Path(sys.argv[1])
asked: dict[str, Any] = {}
"""The calls that wait for an answer, by the ids of the questions."""


def note(**told: Any) -> None:
    """Write a line down, so that a reader never sees half of it."""
    with SEEN.open("ab", buffering=0) as file:
        file.write(json.dumps({"pid": os.getpid(), "at": time.monotonic(), **told}).encode() + b"\n")


def send(**message: Any) -> None:
    """Write a message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(id_: Any, said: str) -> None:
    """Answer a call."""
    send(id=id_, result={"content": [{"type": "text", "text": said}]})


def call(id_: Any, name: str, arguments: dict[str, Any]) -> None:
    """Do what a tool does; `wait` never answers."""
    if name == "whisper":
        sys.stderr.write(f"{arguments['text']}\n")
        sys.stderr.flush()
    if name == "ask":
        asked[f"ask-{id_}"] = id_
        form: dict[str, Any] = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
        send(id=f"ask-{id_}", method="elicitation/create", params=form)
    elif name == "die":
        sys.stderr.write("the last words\n")
        sys.stderr.flush()
        os._exit(9)
    elif name != "wait":
        text(id_, f"{name} of {os.getpid()}")


def take(message: dict[str, Any]) -> None:
    """Take one message."""
    id_, method = message.get("id"), message.get("method")
    params: dict[str, Any] = message.get("params") or {}
    if method is None:
        text(asked.pop(str(id_)), json.dumps(message.get("result", {}).get("content")))
    elif method == "initialize":
        can: dict[str, Any] = {"tools": {}}
        send(id=id_, result={"protocolVersion": "2025-06-18", "capabilities": can, "serverInfo": {"name": "witness"}})
    elif method == "tools/list":
        names = ("ping", "wait", "ask", "whisper", "die")
        send(id=id_, result={"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]})
    elif method == "tools/call":
        call(id_, params["name"], params["arguments"])
    elif id_ is not None:
        send(id=id_, error={"code": -32601, "message": "Method not found"})


fds = {fd.name: str(fd.readlink()) for fd in list(Path("/proc/self/fd").iterdir()) if fd.exists()}
sleeper = subprocess.Popen(["/bin/sleep", "600"]) if "with-a-child" in sys.argv else None
note(
    env=dict(os.environ),
    fds=fds,
    group=os.getpgid(0),
    session=os.getsid(0),
    argv=sys.argv,
    child=sleeper and sleeper.pid,
)
for line in sys.stdin:
    note(line=line)
    take(json.loads(line))

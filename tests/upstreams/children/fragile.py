"""A child that speaks just enough MCP to be a server, and has the faults that its arguments name."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

FAULTS = set(sys.argv[2:])
STARTS = Path(sys.argv[1])
can: dict[str, Any] = {}
asking: list[Any] = []
"""The calls that wait for an answer of the client, which is asked with their ids."""


def send(message: dict[str, Any]) -> None:
    """Write a message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(said: str) -> dict[str, Any]:
    """Return a result of one text."""
    return {"result": {"content": [{"type": "text", "text": said}]}}


def called(call: Any, name: str, arguments: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer to a call, or None when it comes later or never."""
    match name:
        case "die":
            os._exit(7)
        case "who":
            return {"result": {"content": [], "structuredContent": {"pid": os.getpid(), "can": can}}}
        case "ask":
            form = {"message": arguments.get("text"), "requestedSchema": {"type": "object"}}
            send({"id": f"ask {call}", "method": "elicitation/create", "params": form})
            asking.append(call)
        case "wait":
            progress = {"progressToken": meta.get("progressToken"), "progress": 0}
            send({"method": "notifications/progress", "params": progress})
        case "log":
            send({"method": "notifications/message", "params": {"level": "info", "data": "sawing"}})
            return text("logged")
        case _:
            return text(str(os.getpid()))
    return None


def told(answer: dict[str, Any]) -> None:
    """Take the client's answer to the question of a call, and answer the call with it."""
    call = next((call for call in asking if f"ask {call}" == answer["id"]), None)
    if call is not None:
        asking.remove(call)
        error = answer.get("error")
        send({"id": call, **({"error": error} if error else text(answer["result"]["content"]["name"]))})


def answered(id_: Any, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer to a request: its result or its error member."""
    match method:
        case "initialize":
            can.update(params["capabilities"])
            capabilities = {"tools": {"listChanged": True}, "resources": {}, "logging": {}}
            hello = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": {"name": "fragile"}}
            return {"result": hello}
        case "tools/list":
            started = len(STARTS.read_text().split())
            return {"result": {"tools": [{"name": name} for name in ("pid", "die", f"start{started}")]}}
        case "resources/list":
            return {"result": {"resources": []}}
        case "tools/call":
            return called(id_, params["name"], params["arguments"], params.get("_meta", {}))
        case "logging/setLevel":
            return {"result": {}}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


def main() -> None:
    """Serve, unless a fault comes first."""
    with STARTS.open("a") as starts:
        starts.write(f"{os.getpid()}\n")
    if "crashes" in FAULTS or ("crashes later" in FAULTS and len(STARTS.read_text().split()) > 1):
        sys.exit(3)
    if "silent" in FAULTS or ("silent at first" in FAULTS and len(STARTS.read_text().split()) == 1):
        time.sleep(600)
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "server/discover" and "ends when discovered" in FAULTS:
            sys.exit(1)
        if "id" in message and "method" not in message:
            told(message)
        elif "id" in message:
            answer = answered(message["id"], message["method"], message.get("params") or {})
            if answer is not None:
                send({"id": message["id"], **answer})


main()

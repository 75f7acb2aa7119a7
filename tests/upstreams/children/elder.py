"""A hand-written server of the legacy era only; its argument says how it takes what it does not know."""

from __future__ import annotations

import json
import sys
from typing import Any

VERSION = "2024-11-05"


def say(message: dict[str, Any]) -> None:
    """Write a message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def unknown(message: dict[str, Any], manner: str) -> None:
    """Do what servers do about a method that they do not know."""
    match manner:
        case "dies":
            sys.exit(f"KeyError: {message['method']!r}")
        case "babbles":
            sys.stdout.write("Traceback (most recent call last):\n  oh dear\n")
            sys.stdout.flush()
        case "refuses":
            say({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
        case "refuses without id":
            say({"id": None, "error": {"code": -32600, "message": "Invalid Request"}})
        case _:  # It is silent.
            pass


def answer(message: dict[str, Any], manner: str) -> None:
    """Answer a request."""
    match message["method"]:
        case "initialize":
            info = {"name": "elder", "version": "0.1"}
            result: dict[str, Any] = {"protocolVersion": VERSION, "capabilities": {"tools": {}}, "serverInfo": info}
            say({"id": message["id"], "result": result})
        case "tools/list":
            say({"id": message["id"], "result": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}})
        case "tools/call" if "_meta" not in message["params"]:
            text = json.dumps(message["params"].get("arguments"))
            say({"id": message["id"], "result": {"content": [{"type": "text", "text": text}]}})
        case _:
            unknown(message, manner)


def main() -> None:
    """Serve until the end of input; nothing counts before the handshake."""
    ready = False
    for line in sys.stdin:
        message = json.loads(line)
        ready = ready or message["method"] == "initialize"
        if "id" in message:
            answer(message, sys.argv[1]) if ready else unknown(message, sys.argv[1])


main()

"""A shop over stdio whose tools write into a ledger: `chaos_shop.py LEDGER`. It honours keys, as good shops do.

Every line of the ledger is on the disk before the answer is sent. The same key has its effect once; and what was
undone is not done any more, when the request for it was under way for longer than the one to undo it.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import zlib
from typing import Any

UNDO = {"reserve": "release", "charge": "refund", "ship": "recall", "mail": "unmail"}
TOOLS = (*UNDO, *UNDO.values())
KEY = "weft/idempotencyKey"


def refused(order: str) -> bool:
    """Tell whether the last step of an order is refused, whoever asks: one of five is."""
    return zlib.crc32(order.encode()) % 5 == 0


class Ledger:
    """A file that several processes add to."""

    def __init__(self, path: str) -> None:
        """Name the file."""
        self._path = path
        self._read = 0
        self._keys = set[str]()
        self._undone = set[tuple[str, str]]()

    def enter(self, tool: str, key: str, order: str) -> str:
        """Write down a call, and return what it came to: done, again, late or refused."""
        with open(self._path, "a+b") as file:  # noqa: PTH123 - this starts often, and pathlib takes its time
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(self._read)
            for line in file:
                self._learn(json.loads(line))
            what = self._what(tool, key, order)
            entry = {"tool": tool, "key": key, "order": order, "what": what}
            self._learn(entry)
            file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
            self._read = file.tell()
        return what

    def _learn(self, entry: dict[str, str]) -> None:
        if entry["what"] == "done":
            self._keys.add(entry["key"])
            self._undone.add((entry["tool"], entry["order"]))

    def _what(self, tool: str, key: str, order: str) -> str:
        if key in self._keys:
            return "again"
        if (UNDO.get(tool), order) in self._undone:
            return "late"
        return "refused" if tool == "mail" and refused(order) else "done"


def result(ledger: Ledger, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a request gives, or None when there is no such method."""
    if method == "initialize":
        info = {"name": "shop", "version": "1.0.0"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        schema = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
        return {"tools": [{"name": name, "inputSchema": schema, "outputSchema": schema} for name in TOOLS]}
    if method == "tools/call":
        order = params["arguments"]["id"]
        what = ledger.enter(params["name"], params["_meta"][KEY], order)
        failed = what in ("refused", "late")
        told: dict[str, Any] = {"content": [{"type": "text", "text": json.dumps({"id": order})}], "isError": failed}
        return told if failed else {**told, "structuredContent": {"id": order}}
    return {} if method == "ping" else None


def main() -> None:
    """Serve until the end of input."""
    ledger = Ledger(sys.argv[1])
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        found = result(ledger, message["method"], message.get("params", {}))
        answer = {"error": {"code": -32601, "message": "Method not found"}} if found is None else {"result": found}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

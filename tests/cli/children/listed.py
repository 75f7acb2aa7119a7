"""An MCP server of the legacy era that lists the tools of a JSON file, and has none that works."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def answer(method: str) -> dict[str, Any]:
    """Return the result of a request."""
    if method == "initialize":
        info = {"name": "listed", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    return {"tools": json.loads(Path(sys.argv[1]).read_text())} if method == "tools/list" else {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        known = request["method"] in ("initialize", "tools/list", "ping")
        error = {"code": -32601, "message": "unknown method"}
        told = {"result": answer(request["method"])} if known else {"error": error}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **told}) + "\n")
        sys.stdout.flush()

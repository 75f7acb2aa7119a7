"""FastMCP's proxy in front of one server, for an interpreter that has it: `python fastmcp_proxy.py URL PORT`."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def main() -> None:
    """Serve until killed."""
    url, port = sys.argv[1], int(sys.argv[2])
    server: Any = import_module("fastmcp.server")
    proxy = server.create_proxy(url, name="proxy")
    app = proxy.http_app(path="/mcp", json_response=True, stateless_http=True)
    uvicorn: Any = import_module("uvicorn")
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="info", access_log=False)


if __name__ == "__main__":
    main()

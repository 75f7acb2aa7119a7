"""Weft as a client: wires to MCP servers, over HTTP and to child processes."""

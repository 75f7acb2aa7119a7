"""Nine real MCP servers over documents and orders of an invented city, and a registry that composes their tools."""

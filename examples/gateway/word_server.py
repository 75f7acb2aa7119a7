"""An MCP server of one's own: Python functions, served over stdio."""

import weft as w
from weft.app.serving import serve_tools


@w.python_tool(annotations={"readOnlyHint": True, "openWorldHint": False})
async def longest(texts: list[str]) -> str:
    """Return the longest of some texts."""
    return max(texts, key=len)


if __name__ == "__main__":
    serve_tools(longest, name="words")

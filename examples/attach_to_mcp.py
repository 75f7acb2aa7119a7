"""Attach: a server of the package `mcp`, with a tool of its own, and a group of weft's behind it.

Prints:
    add: Add two numbers.
    texts: Small things to do with texts.
    {'upper': 'LOOM'}
    {'result': 5}
"""

import asyncio

from mcp import Client
from mcp.server.mcpserver import MCPServer

import weft as w

server: MCPServer = MCPServer("workshop")
texts = w.group("texts", description="Small things to do with texts.")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@texts.action(reads_only=True)
def upper(text: str) -> dict[str, str]:
    """Write a text in capitals."""
    return {"upper": text.upper()}


@texts.action(reads_only=True)
def length(text: str) -> int:
    """Count the characters of a text."""
    return len(text)


w.attach(server, texts)


async def main() -> None:
    async with Client(server) as client:
        for tool in (await client.list_tools()).tools:
            print(f"{tool.name}: {(tool.description or '').splitlines()[0]}")
        print((await client.call_tool("texts", {"action": "upper", "text": "loom"})).structured_content)
        print((await client.call_tool("add", {"a": 2, "b": 3})).structured_content)


if __name__ == "__main__":
    asyncio.run(main())

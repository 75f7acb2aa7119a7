"""Grouped tools as tools of a FastMCP, so that its middleware, its mounting and its own lists know them."""

from __future__ import annotations

import sys
from typing import Any

from weft.doors.requesters import Requester
from weft.groups.authoring.builder import GroupedTool
from weft.groups.toolset import ToolSet


def add_to_fastmcp(server: Any, tools: ToolSet) -> bool:
    """Add tools to a server if it is a FastMCP that takes tools of other kinds than its own; tell whether it is."""
    if not any(one.__name__ == "FastMCP" and one.__module__.startswith("fastmcp.") for one in type(server).__mro__):
        return False
    # They are there when a FastMCP is; weft itself does without them.
    kinds, wire = sys.modules.get("fastmcp.tools"), sys.modules.get("mcp_types")
    if not (hasattr(kinds, "Tool") and hasattr(kinds, "ToolResult") and hasattr(wire, "CallToolResult")):
        return False
    kind = _kind(kinds, wire)
    for made in [_tool(kind, one) for one in tools]:
        server.add_tool(made)
    return True


def _kind(kinds: Any, wire: Any) -> Any:
    """Return the class of FastMCP's tools that call a group."""
    tool: Any = kinds.Tool

    class GroupTool(tool):
        """A grouped tool, as FastMCP runs it."""

        _group: Any = None

        async def run(self, arguments: dict[str, Any]) -> Any:
            async with Requester(_request()) as caller:
                result = await self._group.call(arguments, caller=caller)
            return kinds.ToolResult.from_mcp_result(wire.CallToolResult.model_validate(result))

    return GroupTool


def _tool(kind: Any, group: GroupedTool) -> Any:
    told = group.definition
    made = kind(
        name=told["name"],
        title=told.get("title"),
        description=told["description"],
        parameters=told["inputSchema"],
        annotations=told["annotations"],
        icons=told.get("icons"),
        meta=told.get("_meta"),
    )
    made._group = group
    return made


def _request() -> Any:
    """Return the request that is answered; None when a program calls the server without one."""
    context: Any = getattr(sys.modules.get("fastmcp.server.dependencies"), "get_context", None)
    try:
        return context().request_context
    except RuntimeError:
        return None

"""MCP: the door for its clients, over HTTP and stdio, in every version of the protocol."""

from weft.doors.mcp.app import McpDoor
from weft.doors.mcp.peers import Peers
from weft.doors.mcp.serves import Event, Serves
from weft.doors.mcp.stdio import StdioDoor

__all__ = ["Event", "McpDoor", "Peers", "Serves", "StdioDoor"]

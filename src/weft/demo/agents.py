"""The two agents of the demo's registry, and what each of them meets at the same gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.errors import ToolFailed, UpstreamRefused
from weft.gateway.descriptions import VERSION
from weft.upstreams.results import value_of

if TYPE_CHECKING:
    from weft.upstreams.client import McpClient

AGENTS = ("researcher@1.0.0", "support@2.1.0")
SHARED = "internal_docs"
"""Both depend on it, each on another version."""
CHARGE = {"charge_id": "C1"}
"""What is to be refunded; nobody has charged it."""
REFUND = "payment_refund"
"""Only one of them depends on it."""
MISSING = "no_such_tool"


@dataclass(frozen=True, slots=True)
class Met:
    """What an agent met.

    `tools` are those of its list, with their versions; `found` is what the shared one gave, and `told` what it was told
    when it called another, by name.
    """

    agent: str
    tools: dict[str, str]
    found: list[dict[str, Any]]
    told: dict[str, str]


async def meet(clients: Mapping[str, McpClient], topic: str, *, deadline: float) -> list[Met]:
    """Return what each agent meets through its own client; they call the shared tool at the same moment."""
    tools = {agent: await client.list_tools(deadline=deadline) for agent, client in clients.items()}
    calls = (client.call_tool(SHARED, {"query": topic}, deadline=deadline) for client in clients.values())
    found = dict(zip(clients, await asyncio.gather(*calls), strict=True))
    return [
        Met(
            agent,
            {tool["name"]: tool.get("_meta", {}).get(VERSION, "") for tool in tools[agent]},
            value_of(found[agent], tool=SHARED),
            {name: await _told(client, name, deadline) for name in (REFUND, MISSING)},
        )
        for agent, client in clients.items()
    ]


async def _told(client: McpClient, tool: str, deadline: float) -> str:
    """Return what a tool says to the refund: its own words, or those of a gateway that does not know it."""
    try:
        came = await client.call_tool(tool, CHARGE, deadline=deadline)
        return str(value_of(came, tool=tool))
    except UpstreamRefused as error:
        return str(error.rpc_message)
    except ToolFailed as error:
        return str(error.content)

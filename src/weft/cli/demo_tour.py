"""The tour of `weft demo`: what is started, who calls what, and what came of it."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli.output import note
from weft.cli.remote import Remote, connected

if TYPE_CHECKING:
    from weft.demo.agents import Met
    from weft.demo.gateway import Open
    from weft.demo.orders import Ordered
    from weft.upstreams.client import McpClient

TOOL = "research_pipeline"
CALLING = 30.0
COMPACT = "compact"
"""The view in which groups stand for their tools."""
GROUP = "knowledge"
WRONG = "internal_dogs"


@dataclass(frozen=True, slots=True)
class Run:
    """One call of the pipeline through the gateway, as its client saw it."""

    report: dict[str, Any]
    warnings: list[str]
    trace_id: str
    ms: float
    spans: dict[str, Any]


@dataclass(slots=True)
class Tour:
    """What the demo saw."""

    url: str
    seconds: float
    servers: dict[str, Any]
    tools: list[dict[str, Any]]
    composed: list[str]
    runs: list[Run] = field(default_factory=list[Run])
    agents: list[Met] = field(default_factory=list["Met"])
    orders: dict[str, Ordered] = field(default_factory=dict[str, "Ordered"])
    undoing: dict[str, Any] = field(default_factory=dict[str, Any])
    """The spans of the order that was refused."""
    compact: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The list of tools in which groups stand for the others."""
    asked: dict[str, Any] = field(default_factory=dict[str, Any])
    """A call of one of the groups, and what came of it."""


async def tour(topic: str, *, quiet: bool) -> Tour:
    """Run the whole demo, and return what it saw."""
    from weft.demo.gateway import demo_config, own_folder, served

    if not quiet:
        # Said only now: from here on Ctrl-C ends it in good order.
        note(click.style("Starting nine MCP servers and a gateway ...", dim=True))
    began = time.monotonic()
    with own_folder() as folder:
        async with served(demo_config(folder)) as one:
            # A client's first question may wait for slow servers for seconds only; a busy machine takes longer.
            await one.gateway.gateway.ready()
            seen = await _guided(one, began, topic)
            if not quiet:
                note(click.style("Placing three orders, one of them at a gateway that is then killed ...", dim=True))
            await _order(seen, one, folder)
            await _group(seen, one, topic)
            return seen


async def _guided(one: Open, began: float, topic: str) -> Tour:
    async with connected(_at(one.url)) as client:
        tools = await client.list_tools(deadline=_soon())
        seen = Tour(one.url, time.monotonic() - began, one.gateway.gateway.report()["upstreams"], tools, _composed())
        seen.runs.append(await _research(client, one, topic))
        await client.call_tool("news_mood", {"mood": "fail"}, deadline=_soon())
        seen.runs.append(await _research(client, one, topic))
    seen.agents += await _agents(one.url, topic)
    return seen


async def _order(seen: Tour, one: Open, folder: Path) -> None:
    from weft.demo.orders import Shop, second_gateway

    async with connected(_at(one.url)) as client, second_gateway(folder) as second:
        shop = Shop(one, client, lambda url: connected(_at(url)))
        seen.orders["well"] = await shop.well()
        seen.orders["refused"] = refused = await shop.refused()
        seen.undoing = await _spans(one, refused.trace_id or "")
        seen.orders["killed"] = await shop.cut_off(second)


async def _group(seen: Tour, one: Open, topic: str) -> None:
    from weft.upstreams.results import value_of

    asked: dict[str, Any] = {"action": "internal_docs", "query": topic, "_select": ["doc_name"]}
    async with connected(_at(f"{one.url}/{COMPACT}")) as client:
        seen.compact = await client.list_tools(deadline=_soon())
        came = await client.call_tool(GROUP, asked, deadline=_soon())
        wrong = await client.call_tool(GROUP, {"action": WRONG}, deadline=_soon())
    told = wrong["content"][0]["text"]
    seen.asked = {"arguments": asked, "value": value_of(came, tool=GROUP), "refused": told}


async def _agents(url: str, topic: str) -> list[Met]:
    from weft.demo.agents import AGENTS, meet

    async with AsyncExitStack() as stack:
        clients = {
            agent: await stack.enter_async_context(connected(Remote(url, None, (), agent=agent))) for agent in AGENTS
        }
        return await meet(clients, topic, deadline=_soon())


async def _research(client: McpClient, one: Open, topic: str) -> Run:
    from weft.upstreams.results import value_of

    began = time.monotonic()
    came = await client.call_tool(TOOL, {"query": topic}, deadline=_soon())
    took = (time.monotonic() - began) * 1000
    report = value_of(came, tool=TOOL)
    meta = came["_meta"]
    spans = await _spans(one, meta["weft/traceId"])
    return Run(report, meta.get("weft/warnings", []), meta["weft/traceId"], took, spans)


async def _spans(one: Open, trace_id: str) -> dict[str, Any]:
    from weft.cli.trace import calls_of

    calls = await asyncio.to_thread(calls_of, one.admin, trace_id)
    return calls[-1]["spans"]


def _composed() -> list[str]:
    from weft.app import open_registry
    from weft.demo.gateway import REGISTRY

    tools = [tool for tool in open_registry(REGISTRY).document.tools if not tool.internal]
    made = [tool.name for tool in tools if tool.source is None or tool.source.tool != tool.name]
    return list(dict.fromkeys(made))


def _at(url: str) -> Remote:
    return Remote(url, None, ())


def _soon() -> float:
    return asyncio.get_running_loop().time() + CALLING

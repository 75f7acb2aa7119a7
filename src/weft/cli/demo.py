"""`weft demo`: real MCP servers behind a real gateway, composed, called and traced."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from weft.cli.demo_shown import shown, told, typed
from weft.cli.demo_tour import TOOL, tour
from weft.cli.output import as_json, result

if TYPE_CHECKING:
    from weft.demo.gateway import Open

EXAMPLES = '\b\nExample:\n  weft demo\n  weft demo --topic "street lamps"\n  weft demo --serve'


@click.command("demo", epilog=EXAMPLES)
@click.option("--topic", default="bees in the city", show_default=True, help="What to research.")
@click.option("--serve", is_flag=True, help="Keep the gateway up, and print how to connect.")
@click.option("--port", type=click.IntRange(0, 65535), default=15000, show_default=True, help="With --serve.")
@click.option("--admin-port", type=click.IntRange(0, 65535), default=15001, show_default=True, help="With --serve.")
@click.option("--json", "json_", is_flag=True, help="Print what the demo saw as JSON.")
def command(topic: str, serve: bool, port: int, admin_port: int, json_: bool) -> None:
    """Start nine MCP servers and a gateway, run a research pipeline over them with an MCP client, print the trace.

    It runs twice, the second time with a source that fails. Then two agents ask for tools, and each gets its own. Last
    come three orders: one goes well, one is undone, one is finished after its gateway was killed; and all tools as two
    groups, so that a model reads less. It ends by itself; it writes to a temporary folder only, and nothing leaves this
    machine. With --serve it stays up until Ctrl-C.
    """
    if serve:
        asyncio.run(_serve(topic, port, admin_port))
        return
    seen = asyncio.run(tour(topic, quiet=json_))
    for line in [as_json(told(seen))] if json_ else shown(seen, topic):
        result(line)


async def _serve(topic: str, port: int, admin: int) -> None:
    from weft.demo.gateway import DRAIN, demo_config, opened, own_folder
    from weft.doors.listener import serve
    from weft.telemetry.logs import configure

    with own_folder() as folder:
        config = demo_config(folder, port=port, admin=admin)
        configure(level=config.telemetry.logs.level)
        async with opened(config) as one:
            await serve(*one.listeners, drain=DRAIN, on_started=lambda: _show_ways(one, topic))


def _show_ways(one: Open, topic: str) -> None:
    from weft.cli.connecting import at, own_command, ways_to
    from weft.demo.agents import AGENTS, SHARED
    from weft.demo.orders import order

    result(f"The demo's gateway is at {click.style(one.url, bold=True)}; Ctrl-C ends it. To connect:")
    for who, what in ways_to(one.url, tool=TOOL, arguments={"query": topic}):
        result(f"\n{who}:\n  {what}")
    result(f"\nViews: {one.url}/research, {one.url}/orders, {one.url}/compact (all tools, as two).")
    result(f"Operators: {one.admin}/traces, {one.admin}/upstreams.")
    weft, where = own_command(), at(one.url)
    result("\nAs an agent, which sees the tools that it depends on:")
    for agent in AGENTS:
        result(f"  {weft} tools --agent {agent}{where}")
        result(f"  {weft} call {SHARED} query=bees --agent {agent}{where}")
    result(f"\nTo see an order undone: {weft} call shipping_refuse refuse=true{where}")
    result(f"  {weft} call order_saga {typed(order(1))}{where}")
    result(f"\nTo see a source fail: {weft} call news_mood mood=fail{where}")

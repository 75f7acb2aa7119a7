"""`weft demo`: real MCP servers behind a real gateway, composed, called and traced."""

from __future__ import annotations

import asyncio
import shlex
import textwrap
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import click

from weft.cli.output import as_json, bad, good, note, plain, plural, result
from weft.cli.remote import Remote, connected

if TYPE_CHECKING:
    from weft.config import Config
    from weft.demo.agents import Met
    from weft.demo.gateway import Open
    from weft.upstreams.client import McpClient

TOOL = "research_pipeline"
WIDTH = 96
CALLING = 30.0
EXAMPLES = '\b\nExample:\n  weft demo\n  weft demo --topic "street lamps"\n  weft demo --serve'


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


@click.command("demo", epilog=EXAMPLES)
@click.option("--topic", default="bees in the city", show_default=True, help="What to research.")
@click.option("--serve", is_flag=True, help="Keep the gateway up, and print how to connect.")
@click.option("--port", type=click.IntRange(0, 65535), default=15000, show_default=True, help="With --serve.")
@click.option("--admin-port", type=click.IntRange(0, 65535), default=15001, show_default=True, help="With --serve.")
@click.option("--json", "json_", is_flag=True, help="Print what the demo saw as JSON.")
def command(topic: str, serve: bool, port: int, admin_port: int, json_: bool) -> None:
    """Start nine MCP servers and a gateway, run a research pipeline over them with an MCP client, print the trace.

    It runs twice, the second time with a source that fails. Then two agents ask for tools, and each gets its own. It
    ends by itself; nothing is written, nothing leaves this machine. With --serve it stays up until Ctrl-C.
    """
    from weft.demo.gateway import demo_config

    if serve:
        asyncio.run(_serve(demo_config(port=port, admin=admin_port), topic))
        return
    tour = asyncio.run(_tour(topic, quiet=json_))
    for line in [as_json(_told(tour))] if json_ else _shown(tour, topic):
        result(line)


# With an end.


async def _tour(topic: str, *, quiet: bool) -> Tour:
    from weft.demo.gateway import demo_config, served

    if not quiet:
        # Said only now: from here on Ctrl-C ends it in good order.
        note(click.style("Starting nine MCP servers and a gateway ...", dim=True))
    began = time.monotonic()
    async with served(demo_config()) as one:
        # A client's first question may wait for slow servers for seconds only; a busy machine takes longer.
        await one.gateway.gateway.ready()
        return await _guided(one, began, topic)


async def _guided(one: Open, began: float, topic: str) -> Tour:
    async with connected(Remote(one.url, None, ())) as client:
        tools = await client.list_tools(deadline=_soon())
        tour = Tour(one.url, time.monotonic() - began, one.gateway.gateway.report()["upstreams"], tools, _composed())
        tour.runs.append(await _research(client, one, topic))
        await client.call_tool("news_mood", {"mood": "fail"}, deadline=_soon())
        tour.runs.append(await _research(client, one, topic))
    tour.agents += await _agents(one.url, topic)
    return tour


async def _agents(url: str, topic: str) -> list[Met]:
    from weft.demo.agents import AGENTS, meet

    async with AsyncExitStack() as stack:
        clients = {
            agent: await stack.enter_async_context(connected(Remote(url, None, (), agent=agent))) for agent in AGENTS
        }
        return await meet(clients, topic, deadline=_soon())


async def _research(client: McpClient, one: Open, topic: str) -> Run:
    from weft.cli.trace import calls_of
    from weft.upstreams.results import value_of

    began = time.monotonic()
    came = await client.call_tool(TOOL, {"query": topic}, deadline=_soon())
    took = (time.monotonic() - began) * 1000
    report = value_of(came, tool=TOOL)
    meta = came["_meta"]
    calls = await asyncio.to_thread(calls_of, one.admin, meta["weft/traceId"])
    return Run(report, meta.get("weft/warnings", []), meta["weft/traceId"], took, calls[-1]["spans"])


def _composed() -> list[str]:
    from weft.app import open_registry
    from weft.demo.gateway import REGISTRY

    tools = [tool for tool in open_registry(REGISTRY).document.tools if not tool.internal]
    made = [tool.name for tool in tools if tool.source is None or tool.source.tool != tool.name]
    return list(dict.fromkeys(made))


def _soon() -> float:
    return asyncio.get_running_loop().time() + CALLING


def _told(tour: Tour) -> dict[str, Any]:
    runs = [
        {"value": one.report, "warnings": one.warnings, "traceId": one.trace_id, "ms": round(one.ms, 3)}
        | {"trace": one.spans}
        for one in tour.runs
    ]
    tools = [tool["name"] for tool in tour.tools]
    told = {"url": tour.url, "servers": tour.servers, "tools": tools, "composed": tour.composed, "runs": runs}
    return told | {"agents": [asdict(met) for met in tour.agents]}


def _shown(tour: Tour, topic: str) -> Iterator[str]:
    well, failing = tour.runs
    yield from _beginning(tour)
    yield _heading(f"1. weft call {TOOL} {shlex.quote(f'query={topic}')}")
    yield from _tree(well.spans)
    yield from _report(well)
    yield _heading("2. The same, after the news server was told to fail: weft call news_mood mood=fail")
    yield from _tree(failing.spans, only="__news")
    for warning in failing.warnings:
        yield f"  {click.style('warning', fg='yellow', bold=True)}: {plain(warning)}"
    yield from _report(failing)
    yield _heading("3. Two agents at the same URL: weft tools --agent NAME@VERSION")
    yield from _met(tour.agents)
    yield from _next()


def _beginning(tour: Tour) -> Iterator[str]:
    width = max(map(len, tour.servers))
    for key, server in tour.servers.items():
        mark = good if server["state"] == "ready" else bad
        told = server.get("problem") or plural(server["tools"], "tool")
        yield f"  {mark(plain(key).ljust(width))}  {plain(str(told))}"
    ready = f"Ready after {tour.seconds:.1f} s: {plural(len(tour.servers), 'server')} behind {tour.url}"
    yield f"{ready}, {plural(len(tour.tools), 'tool')}."
    yield f"{len(tour.composed)} of them are made of the others, by weft/demo/registry.yaml:"
    by_name = {tool["name"]: tool for tool in tour.tools}
    for name in tour.composed:
        about = textwrap.shorten(str(by_name[name].get("description", "")), WIDTH - 22, placeholder=" ...")
        yield f"  {click.style(name.ljust(18), bold=True)}  {plain(about)}"


def _tree(spans: dict[str, Any], *, only: str | None = None) -> Iterator[str]:
    from weft.cli.drawing.tree import tree

    if only is not None:
        spans = next(span for span in _below(spans) if span["step"] == only)
    for line in tree(spans):
        yield f"  {line}"
    yield ""


def _below(span: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield span
    for child in span.get("children", ()):
        yield from _below(child)


def _report(run: Run) -> Iterator[str]:
    sources: list[dict[str, str]] = run.report["sources"]
    yield f"  From {plural(len(sources), 'document')}, in {run.ms:.0f} ms:"
    for line in textwrap.wrap(run.report["summary"] or "Nothing was found.", WIDTH):
        yield f"    {plain(line)}"
    for source in sources:
        yield click.style(f"    - {plain(source['title'])} ({plain(source['url'])})", dim=True)


def _met(agents: list[Met]) -> Iterator[str]:
    from weft.demo.agents import CHARGE, MISSING, REFUND, SHARED

    yield "  The tools of each:"
    for met in agents:
        yield from _of(met, ", ".join(f"{name}@{version}".rstrip("@") for name, version in met.tools.items()))
    yield f"  Both call {SHARED} at the same moment:"
    for met in agents:
        fields = f" with {', '.join(met.found[0])}" if met.found else ""
        yield from _of(met, f"{met.tools.get(SHARED, '')}: {plural(len(met.found), 'document')}{fields}")
    given = " ".join(f"{name}={value}" for name, value in CHARGE.items())
    yield f"  Both call {REFUND} {given}, and a tool that does not exist:"
    for met in agents:
        for tool in (REFUND, MISSING):
            yield from _of(met, f"{tool.ljust(len(REFUND))}  {met.told[tool]}")


def _of(met: Met, what: str) -> Iterator[str]:
    agent = plain(met.agent).ljust(16)
    first, *more = textwrap.wrap(plain(what), WIDTH - len(agent)) or [""]
    yield f"    {click.style(agent, bold=True)}  {first}"
    for line in more:
        yield f"    {' ' * len(agent)}  {line}"


def _next() -> Iterator[str]:
    from weft.cli.connecting import own_command
    from weft.demo.gateway import REGISTRY

    weft = own_command()
    yield _heading("Next")
    yield f"  {weft} demo --serve       keep it up, and point Claude, VS Code, Cursor or the MCP Inspector at it"
    yield f"  {weft} graph {TOOL} --registry {shlex.quote(str(REGISTRY))}"
    yield f"  {weft} init               a project of your own, that works at once"


def _heading(text: str) -> str:
    return f"\n{click.style(plain(text), bold=True)}\n"


# Without an end.


async def _serve(config: Config, topic: str) -> None:
    from weft.demo.gateway import DRAIN, opened
    from weft.doors.listener import serve
    from weft.telemetry.logs import configure

    configure(level=config.telemetry.logs.level)
    async with opened(config) as one:
        await serve(*one.listeners, drain=DRAIN, on_started=lambda: _show_ways(one, topic))


def _show_ways(one: Open, topic: str) -> None:
    from weft.cli.connecting import at, own_command, ways_to
    from weft.demo.agents import AGENTS, SHARED

    result(f"The demo's gateway is at {click.style(one.url, bold=True)}; Ctrl-C ends it. To connect:")
    for who, what in ways_to(one.url, tool=TOOL, arguments={"query": topic}):
        result(f"\n{who}:\n  {what}")
    result(f"\nViews: {one.url}/research, {one.url}/orders. Operators: {one.admin}/traces, {one.admin}/upstreams.")
    weft, where = own_command(), at(one.url)
    result("\nAs an agent, which sees the tools that it depends on:")
    for agent in AGENTS:
        result(f"  {weft} tools --agent {agent}{where}")
        result(f"  {weft} call {SHARED} query=bees --agent {agent}{where}")
    result(f"\nTo see a source fail: {weft} call news_mood mood=fail{where}")

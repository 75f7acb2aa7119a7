"""What `weft demo` prints of its tour."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from weft.cli.demo_tour import COMPACT, GROUP, TOOL, WRONG
from weft.cli.output import bad, good, plain, plural

if TYPE_CHECKING:
    from weft.cli.demo_tour import Run, Tour
    from weft.cli.tools_tokens import Weighed
    from weft.demo.agents import Met
    from weft.demo.orders import Ordered

SAGA = "order_saga"
WIDTH = 96


def told(tour: Tour) -> dict[str, Any]:
    """Return what the demo saw, for programs."""
    runs = [
        {"value": one.report, "warnings": one.warnings, "traceId": one.trace_id, "ms": round(one.ms, 3)}
        | {"trace": one.spans}
        for one in tour.runs
    ]
    tools = [tool["name"] for tool in tour.tools]
    seen = {"url": tour.url, "servers": tour.servers, "tools": tools, "composed": tour.composed, "runs": runs}
    before, after = _weighed(tour)
    groups = {"before": before.to_json(), "after": after.to_json(), "call": tour.asked}
    return seen | {"agents": [asdict(met) for met in tour.agents], "saga": _sagas(tour), "groups": groups}


def _sagas(tour: Tour) -> dict[str, Any]:
    found = {name: asdict(one) for name, one in tour.orders.items()}
    for one in found.values():
        one["traceId"] = one.pop("trace_id")
    found["refused"]["trace"] = tour.undoing
    return found


def shown(tour: Tour, topic: str) -> Iterator[str]:
    """Yield what the demo saw, for people."""
    well, failing = tour.runs
    yield from _beginning(tour)
    yield heading(f"1. weft call {TOOL} {shlex.quote(f'query={topic}')}")
    yield from drawn(well.spans)
    yield from _report(well)
    yield heading("2. The same, after the news server was told to fail: weft call news_mood mood=fail")
    yield from drawn(failing.spans, only="__news")
    for warning in failing.warnings:
        yield f"  {click.style('warning', fg='yellow', bold=True)}: {plain(warning)}"
    yield from _report(failing)
    yield heading("3. Two agents at the same URL: weft tools --agent NAME@VERSION")
    yield from _met(tour.agents)
    yield from _ordered(tour)
    yield from _grouped(tour)
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


def drawn(spans: dict[str, Any], *, only: str | None = None) -> Iterator[str]:
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


def _ordered(tour: Tour) -> Iterator[str]:
    well, refused, cut = (tour.orders[name] for name in ("well", "refused", "killed"))
    yield heading(f"4. An order: weft call {SAGA} {typed(well.order)}")
    yield from _steps(well.saga)
    yield f"  Its result: {' '.join(f'{name}={value}' for name, value in (well.result or {}).items())}"
    yield heading("5. Another one, while the carrier takes no parcels: weft call shipping_refuse refuse=true")
    yield from drawn(tour.undoing)
    yield from _steps(refused.saga)
    yield from _left(refused)
    yield from _killed(cut)


def _killed(cut: Ordered) -> Iterator[str]:
    killed = cut.killed or {}
    yield heading(f"6. A third one, at a second gateway with the same store, and kill -9 {killed['pid']} meanwhile")
    yield "  How far it had come:"
    yield from _steps(killed, wide=2)
    yield from _wrapped(f"What its client was told: {plain(killed['told'])}")
    yield f"  Asked for again at the first gateway, which had finished it {killed['seconds']:.1f} s after the kill:"
    yield from _steps(cut.saga, wide=2)
    yield from _left(cut)


def _grouped(tour: Tour) -> Iterator[str]:
    yield heading(f"7. All of these tools as two, for a model to read less: weft tools --view {COMPACT} --tokens")
    before, after = _weighed(tour)
    for weighed, what in ((before, plural(len(before.weights), "tool")), (after, plural(len(after.weights), "group"))):
        yield f"  {what.ljust(10)} {weighed.bytes:7,} bytes {weighed.tokens:6,} tokens"
    for one in after.weights:
        actions = plural(one.group.actions, "action") if one.group is not None else ""
        yield f"    {click.style(one.name.ljust(9), bold=True)}  {actions}"
    asked = tour.asked
    yield from _wrapped(f"weft call {GROUP} {typed(asked['arguments'])} --view {COMPACT}")
    for found in asked["value"]:
        yield f"    {plain(found['doc_name'])}"
    wrong, right = asked["refused"].partition("?")[:2]
    yield f"  With action={WRONG} a model is told: {plain(wrong + right)}"


def _weighed(tour: Tour) -> tuple[Weighed, Weighed]:
    from weft.cli.tokens import token_counter
    from weft.cli.tools_tokens import weigh

    by = token_counter()
    return weigh(tour.tools, by=by), weigh(tour.compact, by=by)


def _steps(record: dict[str, Any], *, wide: int = 0) -> Iterator[str]:
    for step in record["steps"]:
        again = f"  after {plural(step['attempt'], 'attempt')}" if step["attempt"] > 1 else ""
        yield f"  {' ' * wide}{step['id'].ljust(18)} {step['status']}{again}"


def _left(one: Ordered) -> Iterator[str]:
    item = one.left["stock"][0]
    found = [f"{charge['charge_id']} {charge['status']}" for charge in one.left["charges"]]
    found += [f"{parcel['shipment_id']} {parcel['status']}" for parcel in one.left["shipments"]] or ["no parcel"]
    yield f"  What is left of it: {plain(', '.join(found))}; {item['available']} of {plain(item['sku'])} in stock"


def _wrapped(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")


def typed(arguments: dict[str, Any]) -> str:
    """Return arguments as one types them."""
    return " ".join(shlex.quote(f"{name}={_word(value)}") for name, value in arguments.items())


def _word(value: Any) -> Any:
    return value if isinstance(value, str) else json.dumps(value)


def _next() -> Iterator[str]:
    from weft.cli.connecting import own_command
    from weft.demo.gateway import REGISTRY

    weft = own_command()
    yield heading("Next")
    yield f"  {weft} demo --serve       keep it up, and point Claude, VS Code, Cursor or the MCP Inspector at it"
    yield f"  {weft} graph {TOOL} --registry {shlex.quote(str(REGISTRY))}"
    yield f"  {weft} init               a project of your own, that works at once"


def heading(text: str) -> str:
    return f"\n{click.style(plain(text), bold=True)}\n"

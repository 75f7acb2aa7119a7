"""How long calls take: through compositions, beside servers that are dead or slow, and on one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import weft as w
from bench import research
from bench.figure import Figure
from bench.gateway.effort import Effort
from bench.gateway.load import Job, answer
from bench.gateway.pairs import in_turn, ratio_of, times_of
from bench.gateway.places import gateway, upstream, url, yardstick
from bench.gateway.processes import Load

SLOW = 20
SOURCES = {"web": "web_search", "arxiv": "arxiv_search", "internal": "internal_docs"}
SERVERS = 20
HANGS = 5.0


def the_research_pipeline(load: Load, effort: Effort) -> Figure:
    """Measure the pipeline through the gateway against its slowest source, called directly, and the work by hand."""
    with upstream() as behind:
        urls = {name: url(behind, prefix=tool, delay_ms=SLOW) for name, tool in SOURCES.items()}
        made = research.composition(*(w.tool(tool, server=name) for name, tool in SOURCES.items()))
        with gateway(urls, registry={"schemaVersion": "1.0", "tools": [made.to_ir()]}) as served:
            _check_research(served.port)
            calls = max(5, effort.calls // 25)
            through = Job(port=served.port, tools=["research"], calls=calls, connections=1)
            direct = Job(
                port=behind.port,
                path=url(behind, prefix="web_search", delay_ms=SLOW).partition(str(behind.port))[2],
                tools=["web_search"],
                calls=calls,
                connections=1,
                works=True,
            )
            ours, theirs = in_turn(times_of(load, through), times_of(load, direct), turns=effort.few_turns)
    found = ratio_of([one.p50_ms for one in ours], [one.p50_ms for one in theirs])
    name = f"research pipeline, sources of {SLOW} ms, time / slowest source + by hand"
    return found.figure(name, 1.1, unit="ms")


def _check_research(port: int) -> None:
    found = asyncio.run(answer(port, "research"))
    expected = asyncio.run(research.by_hand("q"))
    assert found["structuredContent"] == {"result": expected}, "the pipeline and the work by hand differ"


def beside_a_dead_and_a_slow_server(load: Load, effort: Effort) -> Iterator[Figure]:
    """Measure calls of 18 healthy servers beside a dead one and one that hangs, against all 20 healthy."""
    names = [f"s{number}" for number in range(SERVERS)]
    *healthy, dead, slow = names
    with ExitStack() as stack:
        behind, dying = stack.enter_context(upstream()), stack.enter_context(upstream())
        urls = {name: url(behind, prefix=name) for name in names}
        troubled = {**urls, dead: url(dying, prefix=dead), slow: url(behind, prefix=slow, delay_ms=int(HANGS * 1000))}
        well, ill = stack.enter_context(gateway(urls)), stack.enter_context(gateway(troubled))
        # Somebody calls the two all the while: the dead one often, the other as often as it lets go of a call.
        beside = [(f"{dead}_0", 0.02), *[(f"{slow}_0", HANGS)] * 8]
        job = Job(
            port=well.port,
            tools=[f"{name}_{number}" for number in (0, 5) for name in healthy],
            calls=effort.calls,
            connections=8,
            pace=0.008,
            beside=beside,
        )
        asyncio.run(answer(ill.port, f"{dead}_0"))
        dying.end()
        sides = (times_of(load, replace(job, port=ill.port)), times_of(load, job))
        ours, theirs = in_turn(*sides, turns=effort.turns)
    median = ratio_of([one.p50_ms for one in ours], [one.p50_ms for one in theirs])
    yield median.figure("18 of 20 servers, one dead, one hanging: p50 / all healthy", 1.2, unit="ms")
    tail = ratio_of([one.p99_ms for one in ours], [one.p99_ms for one in theirs])
    yield tail.figure("the same: p99 / all healthy", 1.2, unit="ms")


def on_one_connection(load: Load, effort: Effort) -> Figure:
    """Measure how long a call takes on the only connection, through weft against through the yardstick."""
    with upstream() as behind, gateway({"up": url(behind)}) as served, yardstick(url(behind)) as bare:
        job = Job(port=served.port, calls=effort.calls // 5, connections=1)
        sides = (times_of(load, job), times_of(load, replace(job, port=bare.port)))
        ours, theirs = in_turn(*sides, turns=effort.turns)
        direct = load.run(replace(job, port=behind.port, path="/mcp/tool/10/0"))
    found = ratio_of([one.p50_ms for one in ours], [one.p50_ms for one in theirs])
    directly = round(direct.p50_ms, 3)
    return found.figure("tools/call on one connection, time / bare proxy", None, unit="ms", directly_ms=directly)

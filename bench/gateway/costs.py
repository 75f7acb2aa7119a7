"""What a call costs weft in CPU time, against the yardstick and against itself among other things."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

from bench.figure import Figure
from bench.gateway.effort import Effort
from bench.gateway.load import Job
from bench.gateway.pairs import Ratio, cpu_of, in_turn, ratio_of
from bench.gateway.places import child, gateway, upstream, url, yardstick
from bench.gateway.processes import Load, Process, tools_of
from bench.gateway.upstream import tool_names
from bench.paired import SAME

TEN = tuple(tool_names("tool", 10))


def _ratio(ours: Callable[[], float], theirs: Callable[[], float], effort: Effort) -> Ratio:
    return ratio_of(*in_turn(ours, theirs, turns=effort.turns))


def quiet(load: Load, effort: Effort, tries: int = 3) -> tuple[Ratio, bool]:
    """Measure the yardstick against another process of itself until that gives 1; tell whether it did."""
    with upstream() as behind, yardstick(url(behind)) as one, yardstick(url(behind)) as other:
        jobs = [Job(port=each.port, tools=TEN, calls=effort.calls) for each in (one, other)]
        ours, theirs = cpu_of(one, load, jobs[0]), cpu_of(other, load, jobs[1])
        same = _ratio(ours, theirs, effort)
        while not SAME[0] <= same.ratio <= SAME[1] and tries > 1:
            tries -= 1
            same = _ratio(ours, theirs, effort)
        return same, SAME[0] <= same.ratio <= SAME[1]


def against_the_yardstick(load: Load, effort: Effort) -> Iterator[Figure]:
    """Measure calls of tools that are passed through: of both eras, and to a child over stdio."""
    with ExitStack() as stack:
        behind = stack.enter_context(upstream())
        bare = stack.enter_context(yardstick(url(behind)))
        served = stack.enter_context(gateway({"up": url(behind)}))
        job = Job(port=served.port, tools=TEN, calls=effort.calls)
        theirs = cpu_of(bare, load, Job(port=bare.port, tools=TEN, calls=effort.calls))
        modern = _ratio(cpu_of(served, load, job), theirs, effort)
        yield modern.figure("tools/call passed through, CPU / bare proxy", 1.5, unit="us")
        sessions = Job(port=served.port, tools=TEN, calls=effort.calls, era="legacy")
        legacy = _ratio(cpu_of(served, load, sessions), theirs, effort)
        yield legacy.figure("the same in a session of the legacy era", None, unit="us")
        piped = stack.enter_context(gateway({}, commands={"up": child(10)}))
        over = Job(port=piped.port, tools=TEN, calls=effort.calls)
        stdio = _ratio(cpu_of(piped, load, over), theirs, effort)
        yield stdio.figure("the same to a child over stdio", None, unit="us")


def among_many_tools(load: Load, effort: Effort) -> Figure:
    """Measure a call among 5,000 tools against one among 10."""
    with upstream() as behind, ExitStack() as stack:

        def cost(tools: int) -> Callable[[], float]:
            served = stack.enter_context(gateway({"up": url(behind, tools=tools)}))
            called = tools_of(tool_names("tool", tools))
            return cpu_of(served, load, Job(port=served.port, tools=called, calls=effort.calls))

        found = _ratio(cost(5000), cost(10), effort)
    return found.figure("tools/call among 5,000 tools, CPU / among 10", 1.05, unit="us")


def with_two_workers(load: Load, effort: Effort) -> Figure:
    """Measure a call with two workers, all their processes together, against one."""
    with upstream() as behind, ExitStack() as stack:
        alone: Process = stack.enter_context(gateway({"up": url(behind)}))
        two: Process = stack.enter_context(gateway({"up": url(behind)}, "--workers", "2"))
        sides = [
            cpu_of(each, load, Job(port=each.port, tools=TEN, calls=effort.calls), family=True) for each in (two, alone)
        ]
        found = _ratio(sides[0], sides[1], effort)
    return found.figure("tools/call with two workers, CPU of all / with one", 1.1, unit="us")


def with_two_bare_proxies(load: Load, effort: Effort) -> Figure:
    """Measure what two processes cost that share a load and nothing else: two yardsticks against one."""
    with upstream() as behind, ExitStack() as stack:
        alone, one, other = (stack.enter_context(yardstick(url(behind))) for _ in range(3))
        shared = Job(port=one.port, second_port=other.port, tools=TEN, calls=effort.calls)
        load.run(shared)

        def both() -> float:
            before = one.cpu() + other.cpu()
            outcome = load.run(shared)
            return (one.cpu() + other.cpu() - before) / outcome.calls * 1e6

        found = _ratio(both, cpu_of(alone, load, Job(port=alone.port, tools=TEN, calls=effort.calls)), effort)
    return found.figure("for comparison: two bare proxies, CPU of both / one", None, unit="us")

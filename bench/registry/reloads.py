"""Reloads under load: the registry is replaced ten times a second while tools are called."""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figure import Figure
from bench.gateway.effort import Effort
from bench.gateway.load import Connection, percentile
from bench.gateway.pairs import in_turn, ratio_of
from bench.gateway.places import upstream
from bench.registry.asking import Asking, Client, Heard, calls, reload
from bench.registry.costs import is_answer
from bench.registry.documents import VERSION, agent_of, document, tools_of_agent
from bench.registry.places import REGISTRY, Served, started

EVERY = 0.1
"""Seconds from one replacement to the next."""

MOST = 0.11
"""More than this and it was not ten times a second."""

CONNECTIONS, PACE = 8, 0.02
"""400 calls a second: a machine of two cores has room for them beside ten reloads."""

TOOLS, AGENTS = 100, 20
RUNTIME = {"inputValidation": "warn", "undeclaredDependency": "deny"}


@dataclass(slots=True)
class Registry:
    """A registry in two versions, and a link to the one that counts: as a ConfigMap is replaced."""

    folder: Path
    replaced: int = 0
    pauses: list[float] = field(default_factory=list[float])
    """Seconds from one version in service to the next."""

    def __post_init__(self) -> None:
        for number, words in enumerate(("Finds things", "Finds other things")):
            made = document(tools=TOOLS, agents=AGENTS, words=words)
            (self.folder / f"version{number}.json").write_text(json.dumps(made))
        self.swap()

    def swap(self) -> None:
        """Let the link point to the other version."""
        link = self.folder / "link"
        link.symlink_to(f"version{self.replaced % 2}.json")
        link.replace(self.folder / REGISTRY)
        self.replaced += 1

    def rewrite(self) -> None:
        """Put the other version in the place of the file, as an editor does."""
        made = self.folder / "made"
        made.write_bytes((self.folder / f"version{self.replaced % 2}.json").read_bytes())
        made.replace(self.folder / REGISTRY)
        self.replaced += 1


async def _swapping(registry: Registry, port: int) -> None:
    """Swap the versions and have each taken into service, one after the other, ten times a second."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
    due = before = loop.time()
    serving = 0
    try:
        while True:
            registry.swap()
            generation = await reload(connection)
            if generation <= serving:
                raise RuntimeError(f"generation {generation} is still served after a reload")
            if serving:
                registry.pauses.append(loop.time() - before)
            serving, before = generation, loop.time()
            due = max(due + EVERY, before)
            await asyncio.sleep(due - before)
    finally:
        connection.transport.abort()


async def _rewriting(registry: Registry) -> None:
    """Rewrite the file and tell nobody: weft watches it."""
    while True:
        registry.rewrite()
        await asyncio.sleep(EVERY)


def reloads(client: Client, effort: Effort) -> Iterator[Figure]:
    """Measure calls while the registry is replaced, against the same without; a call that fails counts."""
    with TemporaryDirectory() as name, upstream() as behind:
        registry = Registry(Path(name))
        with started(behind, registry.folder, {"registry": {"validation": {"runtime": RUNTIME}}}) as served:
            asking = _steady(served, effort)
            client.run(asking)
            ours, theirs = in_turn(
                lambda: client.hear(asking, lambda: _swapping(registry, served.admin)),
                lambda: client.hear(asking),
                turns=effort.few_turns,
            )
            swapped = registry.replaced
            watched = [client.hear(asking, lambda: _rewriting(registry)) for _ in range(effort.few_turns // 2)]
    pause = statistics.median(registry.pauses)
    yield _dropped("calls dropped or wrong during reloads", ours, {"reloads": len(registry.pauses)})
    yield Figure("the same: a new registry in service every", pause, MOST, "s")
    name = "calls dropped or wrong while the file is rewritten ten times a second"
    yield _dropped(name, watched, {"rewritten": registry.replaced - swapped})
    tail = ratio_of(*([percentile(each.times, 0.99) * 1000 for each in side] for side in (ours, theirs)))
    yield tail.figure("p99 of a call during reloads / without", None, unit="ms")


def _steady(served: Served, effort: Effort) -> Asking:
    headers = {"x-agent-name": agent_of(0), "x-agent-version": VERSION}
    requests = calls(tools_of_agent(0, 1)[:-1], headers, CONNECTIONS)
    return Asking(port=served.port, requests=requests, right=is_answer, times=effort.calls, pace=PACE)


def _dropped(name: str, heard: list[Heard], told: dict[str, float]) -> Figure:
    failed, wrong = sum(len(one.failed) for one in heard), sum(len(one.wrong) for one in heard)
    detail = {"calls": sum(len(one.times) for one in heard), "failed": failed, "wrong": wrong, **told}
    return Figure(name, failed + wrong, 0.0, "calls", detail)

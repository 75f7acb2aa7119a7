"""A process of weft that a test kills: it runs a durable workflow of ten steps, or finishes those of others.

As with sagas, every writing to the store and every sending to and receiving from a tool is a point, and has a number.
Which steps were written as ended is noted beside the ledger of the tools, before the point that comes after a commit.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import weft as w
from tests.saga.process import LEASE, Mortal, Points, Site, Tools, opened
from tests.saga.worlds import Customer
from weft.errors import WorkflowFailed
from weft.ir.document import Document
from weft.ir.normalise import made
from weft.patterns.contract import Op
from weft.patterns.kept import Kept
from weft.patterns.workflow import Workflow
from weft.patterns.workflow_durable import DurableRuns
from weft.patterns.workflow_record import OPEN_WORKFLOWS
from weft.plan.compiler import compile_document
from weft.plan.snapshot import Snapshot
from weft.ports import Change, Put, Store
from weft.run.engine import Engine
from weft.run.workflow_recovery import WorkflowRecovery

AFTER: dict[str, list[str]] = {
    "one": [],
    "two": ["one"],
    "three": ["one"],
    "four": ["one"],
    "five": ["two", "three", "four"],
    "six": ["five"],
    "seven": ["five"],
    "eight": ["six"],
    "nine": ["seven"],
    "mail": ["eight", "nine"],
}
"""The steps, each with those that it waits for; the last is the one that may refuse."""
STEPS = list(AFTER)


def flow() -> Op[Any, Any]:
    """Return the workflow; each step has something that undoes it."""
    steps = [
        {"id": step, "tool": step, "parameters": {"id": "{{input.id}}"}, "depends_on": after}
        for step, after in AFTER.items()
    ]
    undo = {step: {"tool": f"undo_{step}", "parameters": {"id": "{{output.id}}"}} for step in STEPS}
    body = {"steps": steps, "undo": undo, "store": "runs", "error_handling": {"failure_strategy": "rollback"}}
    return Op(made(Workflow, body))


class Noted(Mortal):
    """A store that notes which steps have been written as ended."""

    def __init__(self, store: Store, points: Points, site: Site) -> None:
        super().__init__(store, points)
        self._file = site.folder / "ended"

    async def batch(self, changes: Sequence[Change]) -> list[int] | None:
        self._points.pass_by()
        done = await self.inner.batch(changes)
        if done is not None:
            steps = [one.key.rpartition("|")[2] for one in changes if isinstance(one, Put) and "-step|" in one.key]
            with self._file.open("a", encoding="utf-8") as file:
                file.writelines(f"{step}\n" for step in steps)
        self._points.pass_by()
        return done


class Weft:
    """An engine and a recovery, as a gateway has them."""

    def __init__(self, site: Site, store: Store, points: Points) -> None:
        tools = Tools(site, points)
        self.store = Noted(store, points, site)

        def compile(document: Document, kept: Kept) -> Snapshot:
            return compile_document(document, tools, problems=[], stores=lambda name: self.store, kept=kept)

        kept = Kept()
        kept.of(DurableRuns).lease = LEASE
        self.engine = Engine(compile(w.compile(w.composition("flow", "It.", flow())).document, kept))
        self.recovery = WorkflowRecovery(
            [self.store], compile, lambda who, tool, origin: Customer(who), detach=self.engine.detach, every=0.2
        )

    async def call(self) -> str:
        """Run the workflow, and return how it ended."""
        try:
            await self.engine.run("flow", {"id": "o1"}, caller=Customer())
        except WorkflowFailed as error:
            return error.workflow["status"]
        return "succeeded"

    async def recover(self, begun: Event | None) -> None:
        """Finish what others began; not before they did, and until nothing is left."""
        while True:
            over = begun is None or begun.is_set()
            await self.recovery.once()
            if over and not [key async for key, _ in self.store.inner.scan(OPEN_WORKFLOWS)]:
                return
            await asyncio.sleep(LEASE / 10)


def begin(site: Site, last: int, out: Path | None = None) -> None:
    """Run the workflow, in a process of its own, and write how many points there were."""
    points = Points(last)

    async def main() -> None:
        async with opened(site) as store:
            await Weft(site, store, points).call()

    asyncio.run(main())
    if out is not None:
        out.write_text(str(points.count), encoding="utf-8")


def recover(site: Site, begun: Event | None, last: int = 0) -> None:
    """Finish what others began, in a process of its own."""

    async def main() -> None:
        async with opened(site) as store:
            await Weft(site, store, Points(last)).recover(begun)

    asyncio.run(main())


def freeze(site: Site, last: int, out: Path) -> None:
    """Run the workflow and stop at a point as SIGSTOP does; woken up, write how the caller sees it end."""
    points = Points(last, signal.SIGSTOP)

    async def main() -> str:
        async with opened(site) as store:
            return await Weft(site, store, points).call()

    out.write_text(asyncio.run(main()), encoding="utf-8")

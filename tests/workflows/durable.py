"""Instances of weft that run durable workflows on a shop whose tools remember every call and every effect."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.saga.worlds import ALICE, Customer, Frail, Instance, Shop, shared_store
from weft.ir.normalise import made
from weft.patterns.contract import Call, Op
from weft.patterns.workflow import Workflow
from weft.patterns.workflow_durable import DurableRuns
from weft.patterns.workflow_journal import read_run
from weft.patterns.workflow_plan import RunTold, StepTold, Watch, WorkflowPlan
from weft.patterns.workflow_record import OPEN_WORKFLOWS, WORKFLOWS, WorkflowRecord
from weft.ports import Change, Principal, Store
from weft.run.workflow_recovery import WorkflowRecovery
from weft.testing.clock import FakeClock

LEASE = 10.0


def workflow(*steps: dict[str, Any] | str, **more: Any) -> Op[Any, Any]:
    """Return a durable workflow; a step that is only named calls the tool of that name, after the one before it."""
    body: list[dict[str, Any]] = []
    for step in steps:
        if not isinstance(step, str):
            body.append(step)
            continue
        after = {"depends_on": [body[-1]["id"]]} if body else {}
        body.append({"id": step, "tool": step, "parameters": {"id": "{{input.id}}"}, **after})
    return Op(made(Workflow, {"steps": body, "store": "sagas", **more}))


class Following:
    """Hears of one run."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.steps: list[tuple[str, str]] = []
        self.told: RunTold | None = None

    def step(self, told: StepTold) -> None:
        self.steps.append((told.id, told.status))

    def ended(self, told: RunTold) -> None:
        self.told = told


class Doomed(Frail):
    """A store of an instance that is killed right after a commit."""

    def __init__(self, store: Store, last: int = 0) -> None:
        super().__init__(store)
        self._last = last
        self.died = asyncio.Event()

    async def batch(self, changes: Sequence[Change]) -> list[int] | None:
        await self._before("batch")
        done = await self.inner.batch(changes)
        if self.commits == self._last:
            self.dead = True
            self.died.set()
        await self._after()
        return done


class Weft(Instance):
    """One process of weft, with a recovery of workflows and somebody who follows every run."""

    store: Doomed

    def __init__(self, shop: Shop, store: Doomed, op: Op[Any, Any] | None = None, *, seed: int = 1) -> None:
        super().__init__(shop, store, None, seed=seed)
        self.kept.of(DurableRuns).lease = LEASE
        self.watch = self.kept.of(Watch)
        self.followed: list[Following] = []
        self.away: Any = None
        self.watch.resume = self._resume
        self.origins: list[Any] = []
        if op is not None:
            self.load(op)
        self.workflows = WorkflowRecovery(
            [store],
            self.compile,
            self._caller,
            detach=self.engine.detach,
            watch=self.watch,
            awaited=lambda error: self.away is not None and isinstance(error, self.away),
            clock=self.clock,
            limits=lambda: self.limits,
            signals=self.signals,
            rng=self.rng,
        )

    def name_runs(self, *ids: str) -> None:
        """Follow the next runs under these ids."""
        left = list(ids)
        self.watch.begin = lambda plan, call, value: self._follow(left.pop(0))

    async def _resume(self, plan: WorkflowPlan, call: Call, value: Any, id: str) -> Following:
        return self._follow(id)

    def _caller(self, principal: Principal, tool: str, origin: Any) -> Customer:
        self.origins.append(origin)
        return Customer(principal)

    def _follow(self, id: str) -> Following:
        self.followed.append(Following(id))
        return self.followed[-1]


class Town:
    """A clock, a shop and a store that instances share."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.shop = Shop(self.clock)
        self.store = shared_store(self.clock)
        self.instances: list[Weft] = []
        """All that there ever were: what nobody holds is collected, and ends otherwise than the dead do."""

    def weft(self, op: Op[Any, Any] | None = None, last: int = 0) -> Weft:
        """Return one more instance, with a client of the store that is its own; it may be killed after a commit."""
        self.instances.append(Weft(self.shop, Doomed(self.store, last), op, seed=len(self.instances)))
        return self.instances[-1]

    async def killed_after(self, commit: int, op: Op[Any, Any]) -> None:
        """Run a workflow in an instance that is killed when it has written so often."""
        weft = self.weft(op, commit)
        task = asyncio.create_task(weft.call())
        await weft.store.died.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def record(self) -> WorkflowRecord:
        """Return the only run that there is."""
        keys = [key async for key, _ in self.store.scan(WORKFLOWS)]
        assert len(keys) == 1, keys
        record = await read_run(self.store, keys[0])
        assert record is not None
        return record

    async def open(self) -> Sequence[str]:
        """Return the runs that have not ended."""
        return [key async for key, _ in self.store.scan(OPEN_WORKFLOWS)]

    async def kept(self) -> Sequence[str]:
        """Return the kinds of all keys in the store, specs apart."""
        kinds = [key.split("|")[1] async for key, _ in self.store.scan("v1|")]
        return sorted(kind for kind in kinds if not kind.endswith("-spec"))

    async def pass_lease(self) -> None:
        """Let so much time pass that nobody holds a lease that is not renewed."""
        await self.clock.sleep(LEASE + 1)


__all__ = ["ALICE", "LEASE", "Following", "Town", "Weft", "workflow"]

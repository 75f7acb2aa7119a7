"""Recovery of workflows: any instance that shares the store goes on with the runs whose owner is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from random import Random
from typing import TypeAlias

from weft.errors import Problem, StoreError, WeftError
from weft.ir.document import Document
from weft.ir.walk import walk
from weft.patterns.kept import Kept
from weft.patterns.saga_entry import new_owner
from weft.patterns.saga_journal import Away, Fenced, Lost, head_key, spec_key
from weft.patterns.saga_record import decode
from weft.patterns.workflow import Workflow
from weft.patterns.workflow_durable import DurableRun, DurableRuns
from weft.patterns.workflow_journal import WorkflowJournal
from weft.patterns.workflow_ledger import PutOff
from weft.patterns.workflow_plan import Watch, WorkflowPlan
from weft.patterns.workflow_record import OPEN_WORKFLOWS, WORKFLOW_LEASES, WorkflowState, steps_key
from weft.ports import Caller, Clock, Delete, Json, Principal, Signals, Store
from weft.run.call import CHANCE, SILENCE, Detach, Place, Root
from weft.run.clock import MonotonicClock
from weft.run.limits import Limits
from weft.run.recovery import FIRST_PAUSE, LONGEST_PAUSE, Compile

RunnerOf: TypeAlias = "Callable[[Principal, str, Json], Caller | None]"
"""Makes a caller of the principal that began a run, of the run's tool (`name@version`), and of its origin."""
Waiting: TypeAlias = "tuple[str, WorkflowState, int]"
"""A run that nobody works on: its key, its state, and the version of that."""
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)
"""What reading a record raises that is not one."""


class WorkflowRecovery:
    """Looks for runs that nobody works on, and finishes them: of two that look, one wins."""

    def __init__(
        self,
        stores: Iterable[Store],
        compile: Compile,
        caller: RunnerOf,
        *,
        detach: Detach,
        watch: Watch | None = None,
        ready: Callable[[], Awaitable[object]] | None = None,
        awaited: Callable[[WeftError], bool] | None = None,
        clock: Clock | None = None,
        limits: Callable[[], Limits] = Limits,
        signals: Signals = SILENCE,
        rng: Random = CHANCE,
        every: float = 5.0,
        concurrent: int = 16,
    ) -> None:
        """Make one; `watch` knows who follows a run, and `limits` tells what holds now.

        It first looks when `ready` returns, then `every` so many seconds, and finishes `concurrent` runs at once.
        `awaited` tells of an error that it is only about a server that is away and may come back: a run waits for it,
        as often as it may be taken over.
        """
        self._stores = list(stores)
        self._compile = compile
        self._caller = caller
        self._detach = detach
        self._watch = watch or Watch()
        self._ready = ready
        self._awaited = awaited
        self._clock = clock or MonotonicClock()
        self._limits = limits
        self._signals = signals
        self._rng = rng
        self._every = every
        self._places = asyncio.Semaphore(concurrent)
        self._under_way: dict[str, asyncio.Task[bool]] = {}
        self._told = set[tuple[str, str]]()

    async def run(self) -> None:
        """Look again and again, until cancelled; runs under way are then left to others."""
        try:
            while True:
                await self._look()
                # Instances that started together do not look together for ever.
                await self._clock.sleep(self._every * (0.75 + self._rng.random() / 2))
        finally:
            tasks = list(self._under_way.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def once(self) -> int:
        """Look once, and go on with every run that nobody works on, to its end; return how many those were."""
        return sum(await asyncio.gather(*await self._look()))

    async def _look(self) -> list[asyncio.Task[bool]]:
        """Begin to go on with every run that nobody works on."""
        if self._ready is not None:
            await self._ready()
        begun: list[asyncio.Task[bool]] = []
        for store in self._stores:
            try:
                waiting = await self._waiting(store)
            except StoreError as error:
                self._tell("recovery_away", store.name, error.message, store=store.name)
                continue
            self._told = {one for one in self._told if one[0] != store.name}
            plans: dict[str, WorkflowPlan | str] = {}
            for one in waiting:
                at = f"{store.name}|{one[0]}"
                if at not in self._under_way:
                    task = asyncio.create_task(self._recover(store, plans, one))
                    self._under_way[at] = task
                    task.add_done_callback(lambda _, at=at: self._under_way.pop(at, None))
                    begun.append(task)
        return begun

    async def _waiting(self, store: Store) -> list[Waiting]:
        """Return the runs that have not ended and have no owner; of those that are stuck, those that were cancelled."""
        # States first: a run that is begun between the two readings has a lease, and is not looked at.
        found = [(head_key(key), stored) async for key, stored in store.scan(OPEN_WORKFLOWS)]
        held = {head_key(key) async for key, _ in store.scan(WORKFLOW_LEASES)} if found else set[str]()
        waiting: list[Waiting] = []
        for key, stored in found:
            if key in held:
                continue
            try:
                state = WorkflowState.of_json(decode(stored.value))
            except UNREADABLE as error:
                self._stands(key, f"its record cannot be read: {error}")
                continue
            if state.stuck is None or state.cancelled:
                waiting.append((key, state, stored.version))
        return waiting

    async def _recover(self, store: Store, plans: dict[str, WorkflowPlan | str], run: Waiting) -> bool:
        async with self._places:
            try:
                journal = await self._taken(store, run)
                return False if journal is None else await self._go_on(journal, plans)
            except Lost:
                self._stands(run[0], "its record is gone from the store")
            except (StoreError, Fenced):
                pass  # What was not written was not done; whoever looks next goes on.
            return False

    async def _taken(self, store: Store, run: Waiting) -> WorkflowJournal | None:
        try:
            return await WorkflowJournal.take_over(store, *run, owner=new_owner(), clock=self._clock, rng=self._rng)
        except UNREADABLE as error:
            self._stands(run[0], f"its record cannot be read: {error}")
            return None

    async def _go_on(self, journal: WorkflowJournal, plans: dict[str, WorkflowPlan | str]) -> bool:
        """Go on with a run, which is one's own now; tell whether that was so to its end."""
        head, state = journal.head, journal.state
        if state.stuck is not None:
            return await self._give_up(journal)
        if state.recoveries > head.max_recoveries:
            return await self._stuck(journal, f"it was taken over {head.max_recoveries} times and came no further")
        if head.spec not in plans:
            plans[head.spec] = await self._plan(journal)
        plan = plans[head.spec]
        if isinstance(plan, str):
            return await self._stuck(journal, plan)
        self._signals.count("workflow_recoveries")
        self._signals.event("workflow_recovered", run=head.id, tool=head.tool, attempt=state.recoveries)
        try:
            await self._run(journal, plan)
        except PutOff as put_off:
            self._tell("workflow_waiting", journal.key, put_off.error.message, run=head.id, step=put_off.step)
            await self._park(journal)
            return False
        except (Away, StoreError):
            await self._park(journal)
            return False
        except WeftError:
            return True  # So it ended, and so it stands in its record.
        return True

    async def _run(self, journal: WorkflowJournal, plan: WorkflowPlan) -> None:
        head, limits = journal.head, self._limits()
        caller = self._caller(head.principal, head.tool, head.origin)
        root = Root(self._clock, limits, self._detach, caller, rng=self._rng, signals=self._signals)
        place = Place(root, self._clock.now() + limits.timeout, False)
        value = decode(head.input)
        resume = self._watch.resume
        follower = None if resume is None else await resume(plan, place, value, head.id)
        spent = max(await journal.store.now() - head.created, 0.0)
        await DurableRun(plan, journal, place, value, follower=follower, spent=spent, awaited=self._awaited).run()

    async def _park(self, journal: WorkflowJournal) -> None:
        pause = min(FIRST_PAUSE * 2 ** max(journal.state.recoveries - 1, 0), LONGEST_PAUSE)
        await journal.park(pause * (1 - self._rng.random() / 2))

    async def _plan(self, journal: WorkflowJournal) -> WorkflowPlan | str:
        """Return the workflow as it was when the run began, for the upstreams of today; or why there is none."""
        found = await journal.store.get(spec_key(journal.key, journal.head.spec))
        if found is None:
            return "the spec it runs by is gone from the store"
        kept = Kept()
        try:
            told = decode(found.value)
            # The snapshot is held until the plan is: nothing else has it.
            _snapshot = self._compile(Document.model_validate(told["document"]), kept)
        except (WeftError, ValueError, KeyError, TypeError) as error:
            return f"the spec it runs by cannot be compiled any more: {error}"
        plan = kept.of(DurableRuns).plans.get(told["place"])
        return "the spec it runs by has no such workflow" if plan is None else plan

    async def _stuck(self, journal: WorkflowJournal, reason: str) -> bool:
        if journal.state.cancelled:
            return await self._give_up(journal)
        journal.state.stuck = reason
        await journal.write()
        await journal.park(0)
        self._stands(journal.key, reason, journal.head.id, journal.head.tool)
        return True

    async def _give_up(self, journal: WorkflowJournal) -> bool:
        """End a run that somebody cancelled and nobody can go on with; what it did stands."""
        state = journal.state
        state.error = {"code": "WorkflowCancelled", "message": f"it was stuck: {state.stuck}", "retryable": "no"}
        state.status, state.stuck = "cancelled", None
        keys = [key async for key, _ in journal.store.scan(steps_key(journal.key))]
        await journal.end([Delete(key) for key in keys])
        return True

    def _stands(self, key: str, reason: str, id: str = "", tool: str = "") -> None:
        self._tell("workflow_stuck", key, reason, run=id or key, tool=tool)

    def _tell(self, event: str, about: str, reason: str, **facts: str) -> None:
        # What cannot be written down as stuck is met again each time; it is told once.
        if (about, reason) not in self._told:
            self._told.add((about, reason))
            self._signals.event(event, **facts, reason=reason)


def volatile_workflows(document: Document, stores: Callable[[str | None], Store]) -> Iterator[Problem]:
    """Report workflows that name a store which forgets everything at a crash: their runs end with the process."""
    for index, tool in enumerate(document.tools):
        for loc, node in () if tool.spec is None else walk(tool.spec, ("tools", index, "spec")):
            if not isinstance(node, Workflow) or node.store is None or (store := stores(node.store)).durable:
                continue
            yield Problem(
                code="StoreNotDurable",
                severity="warning",
                message=f"store '{store.name}' forgets the runs of the workflow when the process ends",
                loc=(*loc, "store"),
                value=repr(store.name),
                expected="a durable store (type: sqlite, postgres or redis)",
            )

"""Recovery of workflows: any instance that shares the store goes on with the runs whose owner is gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from random import Random
from typing import Any, TypeAlias

from weft.errors import Problem, StoreError, WeftError
from weft.ir.document import Document
from weft.ir.walk import walk
from weft.patterns.saga_journal import Away
from weft.patterns.saga_record import decode
from weft.patterns.workflow import Workflow
from weft.patterns.workflow_durable import DurableRun, DurableRuns
from weft.patterns.workflow_journal import WorkflowJournal
from weft.patterns.workflow_ledger import PutOff
from weft.patterns.workflow_plan import Watch, WorkflowPlan
from weft.patterns.workflow_record import OPEN_WORKFLOWS, WORKFLOW_LEASES, WorkflowState, steps_key
from weft.ports import Caller, Clock, Delete, Json, Principal, Signals, Store
from weft.run.awaiting import NobodyAwaited
from weft.run.call import CHANCE, SILENCE, Detach, Place, Root
from weft.run.clock import MonotonicClock
from weft.run.limits import Limits
from weft.run.looking import Looking, Sought
from weft.run.recompiling import Compile, recompiled

RunnerOf: TypeAlias = "Callable[[Principal, str, Json], Caller | None]"
"""Makes a caller of the principal that began a run, of the run's tool (`name@version`), and of its origin."""


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
        self._compile = compile
        self._caller = caller
        self._detach = detach
        self._watch = watch or Watch()
        self._awaited = awaited
        self._clock = clock or MonotonicClock()
        self._limits = limits
        self._signals = signals
        self._rng = rng
        sought = Sought(
            open=OPEN_WORKFLOWS,
            leases=WORKFLOW_LEASES,
            journal=WorkflowJournal,
            waits=_waits,
            go_on=self._go_on,
            stands=self._stands,
        )
        self._looking = Looking(
            stores,
            sought,
            ready=ready or NobodyAwaited().ready,
            clock=self._clock,
            signals=signals,
            rng=rng,
            every=every,
            concurrent=concurrent,
        )

    async def run(self) -> None:
        """Look again and again, until cancelled; runs under way are then left to others."""
        await self._looking.run()

    async def once(self) -> int:
        """Look once, and go on with every run that nobody works on, to its end; return how many those were."""
        return await self._looking.once()

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
            told = {"run": head.id, "step": put_off.step, "reason": put_off.error.message}
            self._looking.tell("workflow_waiting", journal.key, **told)
            await self._looking.park(journal)
            return False
        except (Away, StoreError):
            await self._looking.park(journal)
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

    async def _plan(self, journal: WorkflowJournal) -> WorkflowPlan | str:
        """Return the workflow as it was when the run began; or why there is none."""
        found = await recompiled(journal, self._compile)
        if isinstance(found, str):
            return found
        plan = found.kept.of(DurableRuns).plans.get(found.place)
        return "the spec it runs by has no such workflow" if plan is None else plan

    async def _stuck(self, journal: WorkflowJournal, reason: str) -> bool:
        if journal.state.cancelled:
            return await self._give_up(journal)
        journal.state.stuck = reason
        await journal.write()
        await journal.park(0)
        self._signals.event("workflow_stuck", run=journal.head.id, tool=journal.head.tool, reason=reason)
        return True

    async def _give_up(self, journal: WorkflowJournal) -> bool:
        """End a run that somebody cancelled and nobody can go on with; what it did stands."""
        state = journal.state
        state.error = {"code": "WorkflowCancelled", "message": f"it was stuck: {state.stuck}", "retryable": "no"}
        state.status, state.stuck = "cancelled", None
        keys = [key async for key, _ in journal.store.scan(steps_key(journal.key))]
        await journal.end([Delete(key) for key in keys])
        return True

    def _stands(self, key: str, reason: str) -> None:
        # What cannot be written down as stuck is met again each time.
        self._looking.tell("workflow_stuck", key, run=key, tool="", reason=reason)


def _waits(told: Any) -> WorkflowState | None:
    """Return the state of a run, unless it is stuck and nobody has cancelled it."""
    state = WorkflowState.of_json(told)
    return state if state.stuck is None or state.cancelled else None


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

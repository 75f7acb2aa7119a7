"""Workflows with a store: a run is written as it goes, and outlives its caller and its process."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from weakref import WeakValueDictionary

from weft.errors import ExecutionFailed, StoreError, WeftError
from weft.expr.jcs import hash_of
from weft.patterns.contract import Call, Compiler, Value
from weft.patterns.keys import principal_of
from weft.patterns.retry import copied
from weft.patterns.saga_entry import FIRST_LOOK, LONGEST_LOOK, new_owner
from weft.patterns.saga_journal import Away, Fenced, Lost, Specs
from weft.patterns.saga_lease import Lease
from weft.patterns.saga_record import Head, encode
from weft.patterns.workflow_journal import WorkflowJournal, read_run
from weft.patterns.workflow_plan import Follower, Named, Stopping, Watch, WorkflowPlan
from weft.patterns.workflow_record import WorkflowState, run_key
from weft.patterns.workflow_run import WorkflowRun
from weft.patterns.workflow_written import Written
from weft.ports import Store

LEASE = 15.0
RETENTION = 7 * 24 * 3600.0
MAX_RECOVERIES = 10


class DurableRuns:
    """The runs of this process that outlive it, and the plans that they may go by; kept beyond reloads."""

    def __init__(self) -> None:
        self.live: dict[tuple[str, str], Live] = {}
        self.plans: WeakValueDictionary[str, WorkflowPlan] = WeakValueDictionary()
        """By the names of their places, as long as somebody has them."""
        self.specs = Specs()
        self.lease = LEASE
        self.retention = RETENTION


class DurableRun:
    """One run in the hands of its owner."""

    def __init__(
        self,
        plan: WorkflowPlan,
        journal: WorkflowJournal,
        call: Call,
        value: Value,
        *,
        follower: Follower | None = None,
        spent: float | None = None,
        awaited: Callable[[WeftError], bool] | None = None,
    ) -> None:
        """Make one; `spent` is how long ago another owner began it.

        `awaited` tells of an error that it is only about a server that is away and may come back.
        """
        self.journal = journal
        self._call = call
        self._lease = Lease(journal, call.root.clock, self._lost)
        self._ledger = Written(journal, self._lease, taken_over=spent is not None, awaited=awaited)
        self._run = WorkflowRun(plan, value, call, ledger=self._ledger, follower=follower, spent=spent or 0.0)
        journal.on_cancel = self._cancel
        if follower is not None and isinstance(follower, Stopping):
            follower.runs_on(self._cancel)

    async def run(self) -> Value:
        """Run to the end, and return what the workflow gives.

        Raises:
            WeftError: it failed.
            Fenced: somebody else goes on with it.
            Lost: its record is gone.
            PutOff: it waits for a server.
            Away: the store is away; nothing was done that is not written.
        """
        if self.journal.state.cancelled:
            self._cancel()
        self._lease.hold()
        try:
            return await self._run.run()
        except asyncio.CancelledError:
            with suppress(Fenced, Lost, Away):
                await self._ledger.settle()
            await self.journal.park(0)
            raise
        finally:
            self._lease.let_go()
            status = self.journal.state.status
            if status not in ("running", "rolling_back"):
                self._call.root.signals.count("workflows", status=status)

    def _cancel(self) -> None:
        told = ExecutionFailed("somebody asked for that", code="WorkflowCancelled")
        self._run.stop(told)

    def _lost(self, why: Exception) -> None:
        self._run.abandon(why)


class Live:
    """A run of this process, and how many wait for it."""

    def __init__(self, run: DurableRun) -> None:
        self.run = run
        self.waiting = 0
        self.task = asyncio.create_task(run.run())


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableEntry:
    """Where calls come to the durable workflow of one place."""

    plan: WorkflowPlan
    store: Store
    place: str
    spec: bytes
    spec_hash: str
    runs: DurableRuns
    watch: Watch

    @classmethod
    def of(cls, c: Compiler, store: str, plan: WorkflowPlan) -> DurableEntry:
        """Return the entry of a workflow that is being compiled."""
        place, runs = c.place(), c.kept(DurableRuns)
        runs.plans[place] = plan
        spec = {"place": place, "document": c.documented()}
        return cls(
            plan=plan,
            store=c.store(store),
            place=place,
            spec=encode(spec),
            spec_hash=hash_of(spec),
            runs=runs,
            watch=c.kept(Watch),
        )

    async def run(self, value: Value, call: Call) -> Value:
        """Begin a run, or join the one that an earlier attempt of the same call began."""
        follower = None if self.watch.begin is None else self.watch.begin(self.plan, call, value)
        id = self._id(follower, value, call)
        key = run_key(principal_of(call.root), id)
        call.note(run=id)
        live = self.runs.live.get((self.store.name, key))
        if live is None:
            live = await self._begin(id, key, value, call, follower)
        return await (self._wait(live, call) if live is not None else self._follow(key, call, value))

    def _id(self, follower: Follower | None, value: Value, call: Call) -> str:
        if follower is not None and isinstance(follower, Named):
            return follower.run_id
        if call.keys is None:
            return uuid.uuid4().hex
        # Whatever repeats the call has keys that stay the same: its next attempt finds the run of the first.
        return call.keys.next(f"workflow|{self.place}|{principal_of(call.root).id}", value)

    async def _begin(self, id: str, key: str, value: Value, call: Call, follower: Follower | None) -> Live | None:
        """Write a new run and begin it; None when there is one of that id."""
        root, runs = call.root, self.runs
        now = root.clock.now()
        head = Head(
            id=id,
            tool=self.place.partition("|")[0],
            place=self.place,
            spec=self.spec_hash,
            principal=principal_of(root),
            input=encode(value),
            # Nobody else can have an id that was made up.
            fingerprint="" if call.keys is None else hash_of(value),
            created=await self.store.now(),
            max_recoveries=MAX_RECOVERIES,
            lease=runs.lease,
            retention=runs.retention,
            origin=None if self.watch.origin is None else self.watch.origin(call),
        )
        spec = self.spec if runs.specs.missing(self.store, self.spec_hash, now) else None
        state = WorkflowState(new_owner())
        journal = await WorkflowJournal.begin(self.store, key, head, state, spec=spec, clock=root.clock, rng=root.rng)
        if journal is None:
            return None
        if spec is not None:
            runs.specs.written(self.store, self.spec_hash, now)
        live = Live(DurableRun(self.plan, journal, call, value, follower=follower))
        at = (self.store.name, key)
        runs.live[at] = live
        live.task.add_done_callback(lambda _: runs.live.pop(at, None))
        return live

    async def _wait(self, live: Live, call: Call) -> Value:
        """Wait for a run of this process; it goes on when the caller does not wait any longer."""
        live.waiting += 1
        journal = live.run.journal
        try:
            value = await asyncio.shield(live.task)
        except Fenced:
            return await self._follow(journal.key, call)
        except Lost:
            raise _gone(journal.head.id) from None
        except Away as away:
            told = f"{away.error.message}; run '{journal.head.id}' goes on when the store is back"
            reason = told.removeprefix(f"Store '{away.error.store}': ")
            raise StoreError(away.error.store, reason, sent=True, code=away.error.code) from away
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            told = f"Run '{journal.head.id}' was stopped here, and goes on elsewhere"
            raise ExecutionFailed(told, code="WorkflowInProgress", hint="ask for it again later") from None
        finally:
            live.waiting -= 1
            if not live.waiting and not live.task.done():
                self._left(live, call)
        return value if not live.waiting else copied(value)

    def _left(self, live: Live, call: Call) -> None:
        head = live.run.journal.head

        def dropped() -> None:
            call.root.signals.event("workflow_handed_over", run=head.id, tool=head.tool)

        call.root.detach(_to_its_end(live.task), dropped)

    async def _follow(self, key: str, call: Call, *given: Value) -> Value:
        """Look again and again how a run stands that goes on elsewhere; the deadline of the call ends it."""
        pause = FIRST_LOOK
        while True:
            record = await read_run(self.store, key)
            if record is None or record.state is None:
                raise _gone("" if record is None else record.head.id)
            if given and record.head.fingerprint not in ("", hash_of(given[0])):
                told = f"Run '{record.head.id}' was begun with another input"
                raise ExecutionFailed(told, code="WorkflowIdReused", hint="give each run an id of its own")
            if record.ended:
                return record.outcome()
            if record.state.stuck is not None:
                told = f"Run '{record.head.id}' is stuck: {record.state.stuck}"
                raise ExecutionFailed(told, code="WorkflowStuck")
            await call.root.clock.sleep(pause)
            pause = min(pause * 2, LONGEST_LOOK)


async def _to_its_end(task: asyncio.Task[Value]) -> None:
    """Wait for a run whose callers are gone; what became of it is in its record."""
    try:
        await task
    except (WeftError, Fenced, Lost, Away):
        return


def _gone(id: str) -> ExecutionFailed:
    told = f"The record of run '{id}' is gone from the store, and nobody knows how far it came"
    return ExecutionFailed(told, code="WorkflowLost")

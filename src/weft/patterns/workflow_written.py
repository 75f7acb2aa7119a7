"""The ledger of a run that outlives its process: few commits, and nothing done that is not written."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from weft.errors import LimitExceeded, StoreError, WeftError
from weft.patterns.keys import Keys
from weft.patterns.saga_journal import Away
from weft.patterns.saga_lease import Lease
from weft.patterns.workflow_journal import WorkflowJournal
from weft.patterns.workflow_plan import Done, RunTold, Stage, StepTold, WorkflowPlan
from weft.patterns.workflow_record import bounded_error, encode_begun, encode_step, steps_key, steps_of
from weft.ports import Change, Delete, Put


class Written:
    """Writes each step when it has ended, those that end together in one commit, and the last one with the end.

    Of somebody who is cancelled while it waits for a writing, that is written with the next one.

    Raises, from whatever it writes:
        Fenced, Lost: somebody else goes on with the run, or its record is gone.
        Away: the store cannot say.
    """

    durable = True

    def __init__(
        self,
        journal: WorkflowJournal,
        lease: Lease,
        *,
        taken_over: bool = False,
        awaited: Callable[[WeftError], bool] | None = None,
    ) -> None:
        self._journal = journal
        self._lease = lease
        self._taken_over = taken_over
        self._awaited = awaited
        self._prefix = steps_key(journal.key)
        self._indexes = set[int]()
        self._order = 0
        self._orders = dict[int, int]()
        self._left = -1
        self._waiting: list[Change] = []
        self._asked = self._done = 0
        """How many writings were asked for, and how many of those are done."""
        self._lock = asyncio.Lock()
        self._branches = True

    @property
    def id(self) -> str:
        return self._journal.head.id

    @property
    def turned(self) -> tuple[str, WeftError] | None:
        return self._journal.state.turned

    async def restored(self, plan: WorkflowPlan) -> Sequence[Done]:
        self._left = len(plan.stages)
        first = sum(not (stage.waits.hard or stage.waits.first) for stage in plan.stages)
        self._branches = first > 1 or any(len(after) > 1 for after in plan.dependants)
        if not self._taken_over:
            return ()
        try:
            stored = [one.value async for _, one in self._journal.store.scan(self._prefix)]
        except StoreError as error:
            raise Away(error) from error
        found = steps_of(stored, {stage.id: stage for stage in plan.stages})
        for order, done in found:
            self._note(done.stage.index, order)
        self._order = max(self._orders.values(), default=0)
        self._left -= len(found)
        return [done for _, done in found]

    def keys(self, stage: Stage, item: int | None = None) -> Keys:
        base = f"{self._journal.key}|{stage.id}|{'' if item is None else item}"
        return Keys(hashlib.sha256(base.encode()).hexdigest(), self._journal.state.recoveries + 1)

    def puts_off(self, error: WeftError) -> bool:
        state, head = self._journal.state, self._journal.head
        return self._awaited is not None and state.recoveries < head.max_recoveries and self._awaited(error)

    async def sure(self) -> None:
        await self._lease.sure()

    async def begun(self, stage: Stage) -> None:
        if stage.once:
            self._put(stage.index, encode_begun(stage, self._next(stage.index)))
            await self._write()
        await self._lease.sure()

    async def ended(self, done: Done) -> None:
        index = done.stage.index
        self._put(index, encode_step(done, self._next(index)))
        self._left -= 1
        if done.status == "succeeded":
            self._journal.state.recoveries = 0
        # Why a step is skipped can be found out again, unless a person said so; the last one is written with the end.
        if self._left and (done.status != "skipped" or done.stage.step.kind == "elicit"):
            await self._write()

    async def turn_back(self, step: str, error: WeftError, partly: Sequence[Done]) -> None:
        state = self._journal.state
        if state.status != "rolling_back":
            for done in partly:
                # What is too large to be kept is undone in this life of the run, or not at all.
                with suppress(LimitExceeded):
                    self._put(done.stage.index, encode_step(done, self._next(done.stage.index)))
            state.status, state.failed, state.error = "rolling_back", step, bounded_error(error.to_json())
            await self._write()

    async def undone(self, done: Done, told: StepTold) -> None:
        index = done.stage.index
        self._put(index, encode_step(done, self._orders.get(index, 0), told.status, told.error))
        self._journal.state.recoveries = 0
        await self._write()

    async def closed(self, told: RunTold) -> None:
        async with self._lock:
            journal, before = self._journal, replace(self._journal.state)
            journal.state.end(told)
            try:
                await journal.end([Delete(f"{self._prefix}{index}") for index in sorted(self._indexes)])
            except BaseException as error:
                journal.state = before
                if isinstance(error, StoreError):
                    raise Away(error) from error
                raise

    async def settle(self) -> None:
        """Write what waits, before somebody else goes on with the run."""
        if self._waiting:
            await self._write()

    # The writing.

    def _note(self, index: int, order: int) -> None:
        self._indexes.add(index)
        self._orders[index] = order

    def _next(self, index: int) -> int:
        self._order += 1
        self._note(index, self._order)
        return self._order

    def _put(self, index: int, value: bytes) -> None:
        self._waiting.append(Put(f"{self._prefix}{index}", value))

    async def _write(self) -> None:
        """Write all that waits; what comes while that is under way is written after it, together."""
        self._asked = wanted = self._asked + 1
        if self._branches:
            # What ends in the same moment goes into the same commit.
            await asyncio.sleep(0)
        async with self._lock:
            if self._done >= wanted:
                return
            changes, self._waiting = self._waiting, []
            asked = self._asked
            try:
                await self._journal.write(changes)
            except BaseException as error:
                # Whoever writes next, writes these as well.
                self._waiting = [*changes, *self._waiting]
                if isinstance(error, StoreError):
                    raise Away(error) from error
                raise
            self._done = asked

"""How a saga runs: forward step by step, and when that fails, back over what was done. Every move is written first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal, NoReturn

from weft.errors import ExecutionFailed, LimitExceeded, ToolFailed, WeftError
from weft.patterns.contract import Call, Step, Value
from weft.patterns.copies import bounded
from weft.patterns.keys import Keys
from weft.patterns.saga_acting import Acting, Way
from weft.patterns.saga_journal import Away, Journal, ServerAway
from weft.patterns.saga_lease import Lease
from weft.patterns.saga_patience import PATIENCE, Patience, is_busy, is_unsent
from weft.patterns.saga_plan import SagaPlan, SagaStage, is_unknown, to_undo, with_key
from weft.patterns.saga_record import State, StepRecord, decode, encode, key_for

MAX_RECORD = 900_000
JITTER = 0.5


class Runner:
    """Runs one saga for its owner, from wherever it stands."""

    def __init__(
        self,
        plan: SagaPlan,
        journal: Journal,
        call: Call,
        *,
        deadline: float | None = None,
        awaited: Callable[[WeftError], bool] | None = None,
    ) -> None:
        """Make one; `deadline`, on the clock of the call, ends forward work.

        `awaited` tells of an error that it is only about a server that is away and may come back.
        """
        self.plan = plan
        self.journal = journal
        self.value: Value = None
        """What a saga that was completed gives."""
        self._call = call
        self._deadline = deadline
        self._awaited = awaited
        self._acting = Acting(call, plan.timeout)
        self._lease = Lease(journal, call.root.clock, self._acting.interrupt)
        self._tried: dict[str, int] = {}
        """How often each compensation was tried and failed."""
        self._waiting: dict[str, dict[str, Any] | None] = {}
        """The steps that wait, with the errors that they had before."""
        self._given: Value = decode(journal.head.input)
        self._results: list[Value] = []

    async def run(self, *, again: bool = False) -> State:
        """Run until the saga has ended, or is stuck; return how it stands. `again`: another owner began it.

        Raises:
            Fenced: somebody else goes on with it.
            Lost: its record is gone.
            ServerAway: it waits for a server, as far as it may.
            StoreError: the store is away; nothing was done that is not written.
        """
        state = self.journal.state
        self._lease.hold()
        try:
            if state.status in ("RUNNING", "FORWARD_ONLY"):
                await self._forward(again)
            if state.status == "COMPENSATING":
                await self._backward()
        except asyncio.CancelledError:
            await self.journal.park(0)
            raise
        except Away as away:
            raise away.error from None
        finally:
            self._lease.let_go()
        self._call.root.signals.count("sagas", status="STUCK" if state.stuck is not None else state.status)
        return state

    def leave(self) -> None:
        """Go back because nobody waits any more; after the pivot there is only forward."""
        if self.journal.state.status == "RUNNING":
            left = ExecutionFailed("the caller went away", code="CallerLeft")
            left.retryable = "unknown-outcome"
            self._acting.interrupt(left)

    # Forward.

    async def _forward(self, again: bool) -> None:
        state = self.journal.state
        for index, (stage, record) in enumerate(zip(self.plan.stages, state.steps, strict=True)):
            if record.status == "DONE":
                assert record.output is not None
                self._results.append(decode(record.output))
                continue
            begun = record.status == "STARTED"
            if record.status == "PENDING":
                # A step is begun together with the end of the one before it, unless an operator begins it again.
                if (problem := self._begin(index)) is not None:
                    return await self._failed(index, problem)
                await self.journal.write()
            elif again and not stage.safe and state.status == "RUNNING":
                told = "its owner was gone before it answered: nobody knows whether it was done"
                return await self._failed(index, ExecutionFailed(told, code="OutcomeUnknown"), "UNKNOWN")
            elif again:
                record.attempt += state.recoveries
            # What another owner had begun may have been done, unless the tool itself now says no to the same key.
            doubtful, again = again and begun, False
            made = record.attempt
            try:
                result = await self._attempt(index)
            except WeftError as error:
                # Before the pivot only what may have been done is tried again.
                doubtful = doubtful or record.attempt > made
                if self._waits(error) and (stage.whole or stage.safe or state.status == "FORWARD_ONLY"):
                    record.attempt = made - (state.recoveries if doubtful else 0)
                    await self._put_off(index, error, doubtful=doubtful)
                unsure = is_unknown(error, stage) or (doubtful and not isinstance(error, ToolFailed))
                return await self._failed(index, error, "UNKNOWN" if unsure else "FAILED")
            if (problem := self._done(index, result)) is not None:
                return await self._failed(index, problem, "UNKNOWN")
            if index + 1 < len(state.steps):
                if (problem := self._begin(index + 1)) is not None:
                    return await self._failed(index + 1, problem)
                await self.journal.write()
        return await self._complete()

    def _begin(self, index: int) -> WeftError | None:
        """Mark a step as started, with its input; return why it cannot be."""
        stage, record = self.plan.stages[index], self.journal.state.steps[index]
        if self.journal.state.status == "RUNNING":
            if isinstance(self._acting.why, WeftError):
                return self._acting.why
            if self._deadline is not None and self._call.root.clock.now() >= self._deadline:
                return self._acting.timed_out()
        try:
            if stage.read is not None:
                record.input = encode(bounded(stage.read(self._given, self._before(index), self._results)))
        except WeftError as error:
            return error
        record.status = "STARTED"
        record.attempt += 1
        return None

    async def _put_off(self, index: int, error: WeftError, *, doubtful: bool) -> NoReturn:
        """Leave a step, to which nothing was sent, to whoever takes the saga over."""
        stage, record = self.plan.stages[index], self.journal.state.steps[index]
        if stage.whole and not doubtful:
            # As if it had not been begun: it may be repeated, whatever its tool says about that.
            record.status, record.attempt = "PENDING", record.attempt - 1
        record.error = error.to_json()
        await self.journal.write()
        raise ServerAway(stage.id, error)

    def _waits(self, error: WeftError) -> bool:
        """Tell whether a saga that was taken over waits for the server of a step; not when it did so often enough."""
        state = self.journal.state
        if self._awaited is None or state.recoveries >= self.journal.head.max_recoveries:
            return False
        return self._awaited(error) or is_busy(error) or (state.status != "RUNNING" and is_unsent(error))

    def _is_held_up(self, error: WeftError) -> bool:
        """Tell whether what has to be done at last was not even sent, and is waited for: here, or by who comes next."""
        return is_unsent(error) if self._awaited is None else self._waits(error)

    async def _tell_waiting(self, record: StepRecord, error: WeftError) -> None:
        """Write and tell, once, why a step waits."""
        if record.id not in self._waiting:
            self._waiting[record.id], record.error = record.error, error.to_json()
            await self.journal.write()
            self._tell("saga_waiting", step=record.id, reason=error.message)

    def _before(self, index: int) -> Value:
        return self._results[index - 1] if index else self._given

    def _done(self, index: int, result: Value) -> WeftError | None:
        """Mark a step as done; return why its result cannot be kept."""
        state, record = self.journal.state, self.journal.state.steps[index]
        written = encode(result)
        size = len(self.journal.head.input) + len(written)
        size += sum(len(one.input or b"") + len(one.output or b"") for one in state.steps)
        if size > MAX_RECORD:
            told = f"the results of the steps up to '{record.id}' have {size} bytes; keep large ones with a claim check"
            return LimitExceeded("SagaRecordLimit", MAX_RECORD, told)
        record.status, record.output, record.error = "DONE", written, None
        state.recoveries = 0
        self._results.append(result)
        if self.plan.stages[index].pivot:
            state.status = "FORWARD_ONLY"
        return None

    async def _complete(self) -> None:
        state = self.journal.state
        self.value = self._results[-1]
        if (output := self.plan.output) is not None:
            try:
                self.value = bounded(output(self._given, self._results[-1], self._results))
                state.result = encode(self.value)
            except WeftError as error:
                return await self._failed(len(state.steps) - 1, error)
        state.status = "COMPLETED"
        return await self.journal.end()

    async def _attempt(self, index: int) -> Value:
        """Do a step; after the pivot, and for a pivot that may be repeated, again and again."""
        stage, record = self.plan.stages[index], self.journal.state.steps[index]
        key = key_for(self.journal.key, stage.id, "do")
        value = self._before(index) if record.input is None else decode(record.input)
        value = with_key(stage, value, key)
        root = self._call.root
        onward = self.journal.state.status == "FORWARD_ONLY"
        pauses = self.plan.backoff.delays(root.rng, JITTER)
        patience: Patience | None = None
        left = self.plan.attempts - 1
        while True:
            try:
                return await self._perform(stage.action, value, Keys(key, record.attempt), "do")
            except WeftError as error:
                if self._is_held_up(error) if onward else stage.whole and is_busy(error):
                    # Nothing was sent, which is no attempt: who took the saga over parks it, who began it waits.
                    patience = patience or self._patience(onward)
                    if self._awaited is not None or not await self._waited(record, error, patience):
                        raise
                    continue
                if not left or not (onward or (stage.pivot and stage.safe and is_unknown(error, stage))):
                    raise
            left -= 1
            record.attempt += 1
            await root.clock.sleep(next(pauses))

    def _patience(self, onward: bool) -> Patience:
        """Return how long is tried what was not sent: long, but before the pivot only for the time that a step has."""
        root = self._call.root
        until = root.clock.now() + PATIENCE if onward else self._call.lasting(None, self.plan.timeout).deadline
        if not onward and self._deadline is not None:
            until = min(until, self._deadline)
        return Patience(root.clock, root.rng, until)

    async def _waited(self, record: StepRecord, error: WeftError, patience: Patience) -> bool:
        """Pause before a step is tried again; tell whether there is time for that."""
        if self.journal.state.status == "FORWARD_ONLY":
            await self._tell_waiting(record, error)
        if not await patience.wait(error):
            return False
        if self.journal.state.status == "RUNNING":
            self._acting.check_wanted()
        return True

    async def _failed(self, index: int, error: WeftError, became: Literal["FAILED", "UNKNOWN"] | None = None) -> None:
        """Turn back, or say that the saga is stuck; `became` is None for a step that was not begun."""
        state, stage, record = self.journal.state, self.plan.stages[index], self.journal.state.steps[index]
        state.failed, state.error = stage.id, error.to_json()
        if became is not None:
            record.status, record.error = became, state.error
        if state.status == "FORWARD_ONLY":
            return await self._stuck(f"step '{stage.id}' comes after the pivot and failed: {error.message}")
        if became == "UNKNOWN" and stage.pivot and stage.undo is None:
            return await self._stuck(f"nobody knows whether the pivot '{stage.id}' was done: {error.message}")
        # What is undone has recoveries of its own, however many went before.
        state.status, state.recoveries = "COMPENSATING", 0
        self._tell("saga_compensating", step=stage.id, reason=error.message)
        return None

    async def _stuck(self, reason: str) -> None:
        self.journal.state.stuck = reason
        await self.journal.write()
        await self.journal.park(0)
        self._tell("saga_stuck", reason=reason)

    # Back.

    async def _backward(self) -> None:
        state = self.journal.state
        patience, patient = self._patience(onward=True), True
        while (away := await self._undo_all(patient=patient)) is not None:
            if self._awaited is not None:
                await self.journal.write()
                raise away
            patient = await patience.wait(away.error)
        left = [record.id for record in state.steps if record.status == "COMP_FAILED"]
        if left:
            state.status = "COMPENSATION_FAILED"
            return await self._stuck(f"could not undo {', '.join(repr(one) for one in left)}")
        state.status = "COMPENSATED"
        await self.journal.end()
        self._tell("saga_compensated", step=state.failed)
        return None

    async def _undo_all(self, *, patient: bool) -> ServerAway | None:
        """Undo what is not undone yet, the last first; return what is to be waited for, if anything is.

        What comes before waits too: compensations are in reverse order, unless one has failed for good.
        """
        state = self.journal.state
        for index in range(len(state.steps) - 1, -1, -1):
            stage, record = self.plan.stages[index], state.steps[index]
            if record.status not in ("DONE", "UNKNOWN", "COMPENSATING"):
                continue
            if stage.undo is None:
                record.kept = True
                continue
            record.status = "COMPENSATING"
            await self.journal.write()
            try:
                await self._undo(stage, stage.undo, record, patient=patient)
            except WeftError as error:
                if patient and self._is_held_up(error):
                    if self._awaited is None:
                        await self._tell_waiting(record, error)
                    return ServerAway(stage.id, error)
                # The others are undone all the same; nobody is told that all is well.
                record.status, record.error = "COMP_FAILED", error.to_json()
                self._tell("saga_compensation_failed", step=stage.id, reason=error.message)
            else:
                record.status, record.error = "COMPENSATED", self._waiting.pop(record.id, record.error)
                state.recoveries = 0
        return None

    async def _undo(self, stage: SagaStage, undo: Step, record: StepRecord, *, patient: bool) -> None:
        key = key_for(self.journal.key, stage.id, "undo")
        journal = self.journal
        value = to_undo(journal.key, decode(journal.head.input), stage, record, journal.state.steps)
        root = self._call.root
        pauses = self.plan.backoff.delays(root.rng, JITTER)
        for attempt in range(self._tried.get(stage.id, 0) + 1, self.plan.attempts + 1):
            try:
                await self._perform(undo, value, Keys(key, attempt), "undo")
                return
            except WeftError as error:
                # What was not sent is no attempt.
                if attempt == self.plan.attempts or (patient and self._is_held_up(error)):
                    raise
                self._tried[stage.id] = attempt
            await root.clock.sleep(next(pauses))

    # Both.

    async def _perform(self, step: Step, value: Value, keys: Keys, way: Way) -> Value:
        self._acting.check_owner()
        await self._lease.sure()
        bound = self._deadline if way == "do" and self.journal.state.status == "RUNNING" else None
        return await self._acting.perform(step, value, keys, way, bound)

    def _tell(self, what: str, **facts: str | None) -> None:
        head = self.journal.head
        self._call.root.signals.event(what, saga=head.id, tool=head.tool, tenant=head.principal.tenant, **facts)

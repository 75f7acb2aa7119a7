"""How a saga runs: forward step by step, and when that fails, back over what was done. Every move is written first."""

from __future__ import annotations

import asyncio
from typing import Literal

from weft.errors import ExecutionFailed, LimitExceeded, TimedOut, ToolFailed, WeftError
from weft.patterns.contract import Call, Step, Value, perform, type_name
from weft.patterns.copies import bounded
from weft.patterns.keys import Keys
from weft.patterns.saga_journal import Away, Fenced, Journal, Lost
from weft.patterns.saga_lease import Lease
from weft.patterns.saga_plan import SagaPlan, SagaStage, is_unknown, standing
from weft.patterns.saga_record import State, StepRecord, decode, encode, key_for
from weft.ports import is_object

MAX_RECORD = 900_000
JITTER = 0.5


class Runner:
    """Runs one saga for its owner, from wherever it stands."""

    def __init__(self, plan: SagaPlan, journal: Journal, call: Call, *, deadline: float | None = None) -> None:
        """Make one; `deadline`, on the clock of the call, ends forward work."""
        self.plan = plan
        self.journal = journal
        self.value: Value = None
        """What a saga that was completed gives."""
        self._call = call
        self._deadline = deadline
        self._lease = Lease(journal, call.root.clock, self.interrupt)
        self._why: Exception | None = None
        self._acting: asyncio.Task[object] | None = None
        self._cut = False
        """Whether the action under way was cancelled from here."""
        self._given: Value = decode(journal.head.input)
        self._results: list[Value] = []

    async def run(self, *, again: bool = False) -> State:
        """Run until the saga has ended, or is stuck; return how it stands. `again`: another owner began it.

        Raises:
            Fenced: somebody else goes on with it.
            Lost: its record is gone.
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

    def interrupt(self, why: Exception) -> None:
        """End the action that is under way, if any, and begin no other."""
        if self._why is None:
            self._why = why
            if self._acting is not None:
                self._cut = self._acting.cancel()

    def leave(self) -> None:
        """Go back because nobody waits any more; after the pivot there is only forward."""
        if self.journal.state.status == "RUNNING":
            left = ExecutionFailed("the caller went away", code="CallerLeft")
            left.retryable = "unknown-outcome"
            self.interrupt(left)

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
            try:
                result = await self._attempt(index)
            except WeftError as error:
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
            if isinstance(self._why, WeftError):
                return self._why
            if self._deadline is not None and self._call.root.clock.now() >= self._deadline:
                return self._timed_out()
        try:
            if stage.read is not None:
                record.input = encode(bounded(stage.read(self._given, self._before(index), self._results)))
        except WeftError as error:
            return error
        record.status = "STARTED"
        record.attempt += 1
        return None

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
        record.status, record.output = "DONE", written
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
        value = _with_key(stage, value, key)
        root = self._call.root
        pauses = self.plan.backoff.delays(root.rng, JITTER)
        for left in range(self.plan.attempts - 1, -1, -1):
            try:
                return await self._perform(stage.action, value, Keys(key, record.attempt), "do")
            except WeftError as error:
                onward = self.journal.state.status == "FORWARD_ONLY"
                if not left or not (onward or (stage.pivot and stage.safe and is_unknown(error, stage))):
                    raise
            record.attempt += 1
            await root.clock.sleep(next(pauses))
        raise AssertionError("the last attempt returns or raises")

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
        state.status = "COMPENSATING"
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
                await self._undo(stage, stage.undo, record)
            except WeftError as error:
                # The others are undone all the same; nobody is told that all is well.
                record.status, record.error = "COMP_FAILED", error.to_json()
                self._tell("saga_compensation_failed", step=stage.id, reason=error.message)
            else:
                record.status = "COMPENSATED"
                state.recoveries = 0
        left = [record.id for record in state.steps if record.status == "COMP_FAILED"]
        if left:
            state.status = "COMPENSATION_FAILED"
            return await self._stuck(f"could not undo {', '.join(repr(one) for one in left)}")
        state.status = "COMPENSATED"
        await self.journal.end()
        self._tell("saga_compensated", step=state.failed)
        return None

    async def _undo(self, stage: SagaStage, undo: Step, record: StepRecord) -> None:
        key = key_for(self.journal.key, stage.id, "undo")
        value = self._to_undo(stage, record, key)
        root = self._call.root
        pauses = self.plan.backoff.delays(root.rng, JITTER)
        for attempt in range(1, self.plan.attempts + 1):
            try:
                await self._perform(undo, value, Keys(key, attempt), "undo")
                return
            except WeftError:
                if attempt == self.plan.attempts:
                    raise
            await root.clock.sleep(next(pauses))

    def _to_undo(self, stage: SagaStage, record: StepRecord, key: str) -> Value:
        """Return what a compensation is given: the action's output, its input when the outcome is unknown."""
        steps = self.journal.state.steps
        outputs: list[Value] = [None if one.output is None else decode(one.output) for one in steps]
        index = steps.index(record)
        given: Value = decode(self.journal.head.input)
        before = outputs[index - 1] if index else given
        taken = before if record.input is None else decode(record.input)
        if stage.read_undo is None:
            return taken if record.output is None else outputs[index]
        about = {
            "input": taken,
            "output": outputs[index],
            "outcome": "unknown" if record.output is None else "done",
            "idempotencyKey": key,
            "actionKey": key_for(self.journal.key, stage.id, "do"),
        }
        return bounded(stage.read_undo(given, about, outputs))

    # Both.

    async def _perform(self, step: Step, value: Value, keys: Keys, way: Literal["do", "undo"]) -> Value:
        """Make a call of a time of its own, which only what is outside of the saga can cut short."""
        if isinstance(self._why, Fenced | Lost):
            raise self._why
        await self._lease.sure()
        root = self._call.root
        caller = root.context
        place = self._call.apart(standing(caller)) if way == "undo" and caller is not None else self._call.apart()
        bound = self._deadline if way == "do" and self.journal.state.status == "RUNNING" else None
        place = (place if bound is None else place.until(bound)).keyed(keys)
        task = asyncio.current_task()
        assert task is not None
        self._acting = task if way == "do" else None
        try:
            async with root.clock.timeout_at(place.deadline):
                result = await perform(step, value, place)
        except TimeoutError:
            if bound is not None and root.clock.now() >= bound:
                raise self._timed_out() from None
            raise TimedOut(f"'{step.name}' did not answer before its deadline") from None
        except asyncio.CancelledError:
            if not self._cut or self._why is None or task.uncancel() > 0:
                raise
            self._cut = False
            raise self._why from None
        finally:
            self._acting = None
        if self._cut:
            self._cut = False
            await _swallow(task)
        return result

    def _timed_out(self) -> TimedOut:
        assert self.plan.timeout is not None
        return TimedOut(f"Saga timeout: it was not done after {round(self.plan.timeout * 1000)}ms")

    def _tell(self, what: str, **facts: str | None) -> None:
        head = self.journal.head
        self._call.root.signals.event(what, saga=head.id, tool=head.tool, tenant=head.principal.tenant, **facts)


async def _swallow(task: asyncio.Task[object]) -> None:
    """Take back a cancellation that came when the action had just ended: what was done is done."""
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        if task.uncancel() > 0:
            raise
        return
    task.uncancel()


def _with_key(stage: SagaStage, value: Value, key: str) -> Value:
    if stage.key_argument is None:
        return value
    if not is_object(value):
        told = f"step '{stage.id}' takes its key as {stage.key_argument!r}, and its input is {type_name(value)}"
        raise ExecutionFailed(told, hint="give it an object")
    return {**value, stage.key_argument: key}

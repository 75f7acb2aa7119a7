"""How a call comes to a saga: it begins one, joins one that runs, or is told how an earlier one ended."""

from __future__ import annotations

import asyncio
import os
import platform
import uuid
from dataclasses import dataclass
from typing import Any, Literal

from weft.errors import ExecutionFailed, SagaFailed, StoreError, WeftError, shown
from weft.expr.jcs import hash_of
from weft.expr.paths import MISSING as NOTHING
from weft.patterns.contract import Call, Root, Value, type_name
from weft.patterns.keys import MISSING, KeySpace, principal_of
from weft.patterns.saga_journal import Fenced, Journal, Lost, Specs, read
from weft.patterns.saga_plan import SagaPlan
from weft.patterns.saga_record import ENDED, Head, Record, State, StepRecord, decode, encode, failure, ref_of
from weft.patterns.saga_run import Runner
from weft.ports import Store

FIRST_LOOK = 0.05
LONGEST_LOOK = 1.0
MAX_ID = 512
LARGEST_ID = 10**MAX_ID
NO_RECORD = (KeyError, TypeError, ValueError, AttributeError)
"""What reading raises that finds something else than a record."""
MARK = "weft/sagas"
MOST_MARKED = 100


class Running:
    """The sagas that run in this process, by store and key; kept beyond reloads."""

    def __init__(self) -> None:
        self.live: dict[tuple[str, str], Live] = {}


class Live:
    """A saga that runs in this process, and how many wait for it."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.waiting = 0
        self.task = asyncio.create_task(runner.run())


def new_owner() -> str:
    """Return a name for a new owner of a saga, which no other has."""
    return f"{platform.node()}:{os.getpid()}:{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Where calls come to the sagas of one place."""

    plan: SagaPlan
    store: Store
    space: KeySpace
    place: str
    tool: str
    spec: bytes
    spec_hash: str
    find_id: Any
    """Finds the id in the input; None when ids are made up."""
    on_duplicate: Literal["join", "error"]
    max_recoveries: int
    lease: float
    retention: float
    running: Running
    specs: Specs

    async def run(self, value: Value, call: Call) -> Value:
        """Begin the saga of an input, or join it."""
        named = self._id(value, call)
        principal = principal_of(call.root)
        id, key = str(named), self.space.key(principal, [named])
        call.note(saga=id)
        live = self.running.live.get((self.store.name, key))
        if live is None:
            live = await self._begin(id, key, value, call)
            if live is not None:
                return await self._wait(live, call)
        return await self._join(id, key, value, call)

    def _id(self, value: Value, call: Call) -> str | int:
        if self.find_id is None:
            # A retry around the saga has keys that stay the same: its next attempt finds the saga of the first.
            return str(uuid.uuid4()) if call.keys is None else call.keys.next(f"saga|{self.place}", value)
        found = self.find_id(value)
        if found is NOTHING or found is MISSING:
            told = "the input has nothing at the path of the saga's id"
            raise ExecutionFailed(told, code="KeyPathMissing", hint="name a path that every input has")
        if isinstance(found, str) and 0 < len(found) <= MAX_ID:
            return found
        if isinstance(found, int) and not isinstance(found, bool) and abs(found) < LARGEST_ID:
            return found
        rule = f"a text of 1 to {MAX_ID} characters or a whole number of as many digits"
        raise ExecutionFailed(f"the id of a saga is {rule}, not {_told(found)}", code="SagaIdInvalid")

    async def _begin(self, id: str, key: str, value: Value, call: Call) -> Live | None:
        """Write a new saga and run it; None when there is one of that id."""
        root, stages = call.root, self.plan.stages
        now = root.clock.now()
        steps = [StepRecord(stage.id) for stage in stages]
        steps[0].status, steps[0].attempt = "STARTED", 1
        if (read_first := stages[0].read) is not None:
            steps[0].input = encode(read_first(value, value, []))
        head = Head(
            id=id,
            tool=self.tool,
            place=self.place,
            spec=self.spec_hash,
            principal=principal_of(root),
            input=encode(value),
            fingerprint=hash_of(value),
            created=await self.store.now(),
            max_recoveries=self.max_recoveries,
            lease=self.lease,
            retention=self.retention,
        )
        spec = self.spec if self.specs.missing(self.store, self.spec_hash, now) else None
        state = State(new_owner(), steps)
        journal = await Journal.begin(self.store, key, head, state, spec=spec, clock=root.clock, rng=root.rng)
        if journal is None:
            return None
        if spec is not None:
            self.specs.written(self.store, self.spec_hash, now)
        deadline = None if self.plan.timeout is None else now + self.plan.timeout
        live = Live(Runner(self.plan, journal, call, deadline=deadline))
        at = (self.store.name, key)
        self.running.live[at] = live
        live.task.add_done_callback(lambda _: self.running.live.pop(at, None))
        return live

    async def _wait(self, live: Live, call: Call) -> Value:
        """Wait for a saga of this process; it goes on when the caller does not wait any longer."""
        live.waiting += 1
        runner, head = live.runner, live.runner.journal.head
        try:
            state = await _ended(live, call.root)
        except Fenced:
            return await self._follow(head.id, runner.journal.key, call)
        except Lost:
            raise _lost(runner.journal.key, head, call) from None
        except StoreError as error:
            told = f"{error.message}; saga '{head.id}' goes on when the store is back"
            raise StoreError(
                error.store, told.removeprefix(f"Store '{error.store}': "), sent=True, code=error.code
            ) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise _in_progress(head.id, "it was stopped here, and goes on elsewhere") from None
        finally:
            live.waiting -= 1
            if not live.waiting and not live.task.done():
                self._left(live, call)
        call.note(status=state.status)
        if state.status == "COMPLETED":
            return runner.value if live.waiting == 0 else _value(state)
        raise failure(head, state, self.plan.names)

    def _left(self, live: Live, call: Call) -> None:
        if self.plan.on_disconnect == "compensate":
            live.runner.leave()
        head = live.runner.journal.head

        def dropped() -> None:
            call.root.signals.event("saga_handed_over", saga=head.id, tool=head.tool)

        call.root.detach(_to_its_end(live.task), dropped)

    async def _join(self, id: str, key: str, value: Value, call: Call) -> Value:
        """Take part in a saga that another call began."""
        record = await self._read(id, key)
        if record is not None and record.head.fingerprint != hash_of(value):
            told = f"Saga '{id}' was begun with another input"
            raise ExecutionFailed(told, code="SagaIdReused", hint="give each saga an id of its own")
        if self.on_duplicate == "error" and record is not None and not record.ended:
            if record.state is not None:
                _mark(call.root, key, id, record.state.status)
            raise _in_progress(id, "it runs already")
        live = self.running.live.get((self.store.name, key))
        call.note(duplicate="replay" if record is not None and record.ended else "join")
        return await (self._wait(live, call) if live is not None else self._follow(id, key, call))

    async def _follow(self, id: str, key: str, call: Call) -> Value:
        """Look again and again how a saga stands that runs elsewhere; the deadline of the call ends it."""
        pause = FIRST_LOOK
        while True:
            record = await self._read(id, key)
            if record is None:
                raise ExecutionFailed(f"Saga '{id}' is not there any more", code="SagaLost")
            if record.state is None:
                raise _lost(key, record.head, call)
            _mark(call.root, key, id, record.state.status)
            if (outcome := self._outcome(record, record.state, call)) is not None:
                return outcome[0]
            await call.root.clock.sleep(pause)
            pause = min(pause * 2, LONGEST_LOOK)

    async def _read(self, id: str, key: str) -> Record | None:
        try:
            return await read(self.store, key)
        except NO_RECORD as error:
            # Nobody may act as if there were none.
            told = f"what is stored of saga '{id}' cannot be read: nothing is done, since nobody knows how far it came"
            hint = f"a newer weft may have written it; `weft saga show {ref_of(key)}` says more"
            raise ExecutionFailed(told, code="RecordUnreadable", hint=hint) from error

    def _outcome(self, record: Record, state: State, call: Call) -> tuple[Value] | None:
        if state.status not in ENDED and state.stuck is None:
            return None
        call.note(status=state.status)
        if state.status == "COMPLETED":
            return (_value(state),)
        raise failure(record.head, state, self.plan.names)


def _told(found: Value) -> str:
    """Return what stands where an id belongs; a long one by its length."""
    if isinstance(found, str):
        return shown(found) if len(found) <= MAX_ID else f"one of {len(found)} characters"
    return "a longer one" if isinstance(found, int) and not isinstance(found, bool) else type_name(found)


async def _ended(live: Live, root: Root) -> State:
    """Return how a saga of this process ended; however long it was waited for, the caller is told how it stands."""
    try:
        return await asyncio.shield(live.task)
    finally:
        journal = live.runner.journal
        _mark(root, journal.key, journal.head.id, journal.state.status)


def _mark(root: Root, key: str, id: str, status: str) -> None:
    """Tell the caller of a saga that is its own; one call may have several, and each more than once."""
    told: Any = {"ref": ref_of(key), "id": id, "status": status}
    before: Any = (root.marks or {}).get(MARK, [])
    others = [one for one in before if one["ref"] != told["ref"]]
    if len(others) < MOST_MARKED:
        root.mark(MARK, [*others, told])


async def _to_its_end(task: asyncio.Task[State]) -> None:
    """Wait for a saga whose callers are gone; what became of it is in its record."""
    try:
        await task
    except (WeftError, Fenced, Lost):
        return


def _value(state: State) -> Value:
    """Return what a completed saga gave: as its output says, else the result of its last step."""
    written = state.result if state.result is not None else state.steps[-1].output
    return None if written is None else decode(written)


def _in_progress(id: str, why: str) -> ExecutionFailed:
    return ExecutionFailed(f"Saga '{id}' is in progress: {why}", code="SagaInProgress", hint="ask for it again later")


def _lost(key: str, head: Head, call: Call) -> SagaFailed:
    _mark(call.root, key, head.id, "LOST")
    call.root.signals.event("saga_stuck", saga=head.id, tool=head.tool, reason="its record is gone from the store")
    told = f"Saga '{head.id}' is stuck: its record is gone from the store, and nobody knows how far it came"
    return SagaFailed(told, saga={"id": head.id, "status": "LOST", "steps": []}, cause={}, code="SagaLost")

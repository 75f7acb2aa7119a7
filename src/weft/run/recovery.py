"""Recovery: any instance that shares the store goes on with the sagas whose owner is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TypeAlias

from weft.errors import StoreError, WeftError
from weft.ir.document import Document
from weft.patterns.kept import Kept
from weft.patterns.saga_entry import new_owner
from weft.patterns.saga_journal import Fenced, Journal, Lost, ServerAway, head_key
from weft.patterns.saga_plan import Plans, SagaPlan
from weft.patterns.saga_record import LEASES, OPEN, SPECS, State, decode
from weft.patterns.saga_run import Runner
from weft.plan.snapshot import Snapshot
from weft.ports import Caller, Clock, Principal, Signals, Store
from weft.run.awaiting import NobodyAwaited, Servers, is_away
from weft.run.call import CHANCE, SILENCE, Detach, Place, Root
from weft.run.clock import MonotonicClock
from weft.run.limits import Limits
from weft.run.unreadable import UNREADABLE, why_unreadable

Compile: TypeAlias = "Callable[[Document, Kept], Snapshot]"
"""Compiles a stored document against the upstreams of today; what patterns keep goes into the `Kept` that is given."""
CallerOf: TypeAlias = "Callable[[Principal, str], Caller | None]"
"""Makes a caller of the principal that began a saga, and of the saga's tool (`name@version`)."""

Planned: TypeAlias = "tuple[SagaPlan, Document]"
"""A saga as it was when it began, for the upstreams of today, and the document that it is from."""

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 300.0


class Recovery:
    """Looks for sagas that nobody works on, and finishes them: of two that look, one wins."""

    def __init__(
        self,
        stores: Iterable[Store],
        compile: Compile,
        caller: CallerOf,
        *,
        detach: Detach,
        clock: Clock | None = None,
        limits: Callable[[], Limits] = Limits,
        servers: Servers | None = None,
        signals: Signals = SILENCE,
        rng: Random = CHANCE,
        every: float = 5.0,
        concurrent: int = 16,
    ) -> None:
        """Make one; `detach` is where work goes that outlives a step, such as the taps of a wire tap: the engine's.

        `limits` tells what holds now. It first looks when the servers are ready, and waits for those that are away, as
        often as a saga may be taken over. It looks `every` so many seconds, and finishes `concurrent` sagas at once.
        """
        self._stores = list(stores)
        self._compile = compile
        self._caller = caller
        self._detach = detach
        self._clock = clock or MonotonicClock()
        self._limits = limits
        self._servers = servers or NobodyAwaited()
        self._signals = signals
        self._rng = rng
        self._every = every
        self._places = asyncio.Semaphore(concurrent)
        self._under_way: dict[str, asyncio.Task[bool]] = {}
        self._away = set[str]()
        self._told = set[tuple[str, str]]()
        self._waits = set[str]()

    async def run(self) -> None:
        """Look again and again, until cancelled; sagas under way are then left to others."""
        await self._servers.ready()
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
        """Look once, and go on with every saga that nobody works on, to its end; return how many those were."""
        await self._servers.ready()
        return sum(await asyncio.gather(*await self._look()))

    async def _look(self) -> list[asyncio.Task[bool]]:
        """Begin to go on with every saga that nobody works on."""
        begun: list[asyncio.Task[bool]] = []
        for store in self._stores:
            try:
                waiting = await self._waiting(store)
            except StoreError as error:
                if store.name not in self._away:
                    self._away.add(store.name)
                    self._signals.event("recovery_away", store=store.name, reason=error.message)
                continue
            self._away.discard(store.name)
            plans: dict[str, Planned | str] = {}
            for key, state, version in waiting:
                at = f"{store.name}|{key}"
                if at not in self._under_way:
                    task = asyncio.create_task(self._recover(store, plans, (key, state, version)))
                    self._under_way[at] = task
                    task.add_done_callback(lambda _, at=at: self._under_way.pop(at, None))
                    begun.append(task)
        return begun

    async def _waiting(self, store: Store) -> Sequence[tuple[str, State, int]]:
        """Return the sagas that have not ended, are not stuck, and have no owner."""
        # States first: a saga that is begun between the two readings has a lease, and is not looked at.
        found = [(key, stored) async for key, stored in store.scan(OPEN)]
        held = {head_key(key) async for key, _ in store.scan(LEASES)} if found else set[str]()
        waiting: list[tuple[str, State, int]] = []
        for key, stored in found:
            name = head_key(key)
            if name in held:
                continue
            try:
                state = State.of_json(decode(stored.value))
            except UNREADABLE as error:
                self._alert(name, f"its record cannot be read: {why_unreadable(error)}")
                continue
            if state.stuck is None:
                waiting.append((name, state, stored.version))
        return waiting

    async def _recover(self, store: Store, plans: dict[str, Planned | str], saga: tuple[str, State, int]) -> bool:
        async with self._places:
            try:
                journal = await self._taken(store, saga)
                return False if journal is None else await self._go_on(journal, plans)
            except StoreError:
                return False  # What was not written was not done; whoever looks next goes on.

    async def _taken(self, store: Store, saga: tuple[str, State, int]) -> Journal | None:
        try:
            return await Journal.take_over(store, *saga, owner=new_owner(), clock=self._clock, rng=self._rng)
        except Lost:
            self._alert(saga[0], "its head is gone from the store")
        except UNREADABLE as error:
            self._alert(saga[0], f"its record cannot be read: {why_unreadable(error)}")
        return None

    async def _go_on(self, journal: Journal, plans: dict[str, Planned | str]) -> bool:
        """Go on with a saga, which is one's own now; tell whether that was so to its end."""
        head, state = journal.head, journal.state
        if state.recoveries > head.max_recoveries:
            return await self._stuck(journal, f"it was taken over {head.max_recoveries} times and came no further")
        if head.spec not in plans:
            plans[head.spec] = await self._plan(journal.store, head.spec)
        planned = plans[head.spec]
        if isinstance(planned, str):
            return await self._stuck(journal, planned)
        plan, document = planned
        if (step := _in_doubt(journal, plan)) is not None and self._servers.unheard(document):
            # Whether that step may be repeated is for its tool to say.
            return await self._wait(journal, step, "a server that it needs has not been there yet")
        self._signals.count("saga_recoveries")
        self._signals.event("saga_recovered", saga=head.id, tool=head.tool, attempt=state.recoveries)
        caller = self._caller(head.principal, head.tool)
        limits = self._limits()
        root = Root(self._clock, limits, self._detach, caller, rng=self._rng, signals=self._signals)
        place = Place(root, self._clock.now() + limits.timeout, False)
        try:
            deadline = None if plan.timeout is None else await self._deadline(journal, plan.timeout)
            runner = Runner(plan, journal, place, deadline=deadline, awaited=lambda one: is_away(one, self._servers))
            await runner.run(again=True)
        except Fenced:
            return False
        except ServerAway as away:
            return await self._wait(journal, away.step, away.error.message)
        except Lost:
            self._alert(journal.key, "its record is gone from the store", head.id, head.tool)
        except StoreError:
            await self._park(journal)
            return False
        self._waits.discard(journal.key)
        return True

    async def _wait(self, journal: Journal, step: str, reason: str) -> bool:
        """Let go of a saga until a server that is away may be back; that is told once."""
        if journal.key not in self._waits:
            self._waits.add(journal.key)
            self._signals.event("saga_waiting", saga=journal.head.id, tool=journal.head.tool, step=step, reason=reason)
        await self._park(journal)
        return False

    async def _park(self, journal: Journal) -> None:
        pause = min(FIRST_PAUSE * 2 ** max(journal.state.recoveries - 1, 0), LONGEST_PAUSE)
        await journal.park(pause * (1 - self._rng.random() / 2))

    async def _deadline(self, journal: Journal, timeout: float) -> float:
        """Return when, on the clock of this process, the time that a saga had from its beginning is over."""
        return self._clock.now() + timeout - (await journal.store.now() - journal.head.created)

    async def _plan(self, store: Store, spec: str) -> Planned | str:
        """Return the saga as it was when it began; or why there is none."""
        found = await store.get(SPECS + spec)
        if found is None:
            return "the spec it runs by is gone from the store"
        try:
            told = decode(found.value)
            place, written = told["place"], told["document"]
        except UNREADABLE as error:
            return f"the spec it runs by cannot be read: {why_unreadable(error)}"
        kept = Kept()
        try:
            document = Document.model_validate(written)
            # The snapshot is held until the plan is: nothing else has it.
            _snapshot = self._compile(document, kept)
        except (WeftError, ValueError) as error:
            return f"the spec it runs by cannot be compiled any more: {error}"
        plan = kept.of(Plans).by_place.get(place)
        return "the spec it runs by has no such saga" if plan is None else (plan, document)

    async def _stuck(self, journal: Journal, reason: str) -> bool:
        journal.state.stuck = reason
        try:
            await journal.write()
        except (Fenced, Lost):
            return False
        await journal.park(0)
        self._alert(journal.key, reason, journal.head.id, journal.head.tool)
        return True

    def _alert(self, key: str, reason: str, id: str = "", tool: str = "") -> None:
        # What cannot be written down as stuck is met again each time; it is told once.
        if (key, reason) not in self._told:
            self._told.add((key, reason))
            self._signals.event("saga_stuck", saga=id or key, tool=tool, reason=reason)


def _in_doubt(journal: Journal, plan: SagaPlan) -> str | None:
    """Return the step of which nobody knows whether it was done, if there is still time to wait for its server."""
    state = journal.state
    if state.status != "RUNNING" or state.recoveries >= journal.head.max_recoveries:
        return None
    pairs = zip(plan.stages, state.steps, strict=False)
    return next((stage.id for stage, record in pairs if record.status == "STARTED" and not stage.safe), None)

"""Recovery: any instance that shares the store goes on with the sagas whose owner is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, TypeAlias

from weft.errors import StoreError
from weft.ir.document import Document
from weft.patterns.saga_journal import Journal, Lost, ServerAway
from weft.patterns.saga_plan import Plans, SagaPlan
from weft.patterns.saga_record import LEASES, OPEN, State
from weft.patterns.saga_run import Runner
from weft.ports import Caller, Clock, Principal, Signals, Store
from weft.run.awaiting import NobodyAwaited, Servers, is_away
from weft.run.call import CHANCE, SILENCE, Detach, Place, Root
from weft.run.clock import MonotonicClock
from weft.run.limits import Limits
from weft.run.looking import Looking, Sought
from weft.run.recompiling import Compile, recompiled

CallerOf: TypeAlias = "Callable[[Principal, str], Caller | None]"
"""Makes a caller of the principal that began a saga, and of the saga's tool (`name@version`)."""

Planned: TypeAlias = "tuple[SagaPlan, Document]"
"""A saga as it was when it began, for the upstreams of today, and the document that it is from."""


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
        self._compile = compile
        self._caller = caller
        self._detach = detach
        self._clock = clock or MonotonicClock()
        self._limits = limits
        self._servers = servers or NobodyAwaited()
        self._signals = signals
        self._rng = rng
        sought = Sought(open=OPEN, leases=LEASES, journal=Journal, waits=_waits, go_on=self._go_on, stands=self._stands)
        self._looking = Looking(
            stores,
            sought,
            ready=self._servers.ready,
            clock=self._clock,
            signals=signals,
            rng=rng,
            every=every,
            concurrent=concurrent,
        )

    async def run(self) -> None:
        """Look again and again, until cancelled; sagas under way are then left to others."""
        await self._looking.run()

    async def once(self) -> int:
        """Look once, and go on with every saga that nobody works on, to its end; return how many those were."""
        return await self._looking.once()

    async def _go_on(self, journal: Journal, plans: dict[str, Planned | str]) -> bool:
        """Go on with a saga, which is one's own now; tell whether that was so to its end."""
        head, state = journal.head, journal.state
        if state.recoveries > head.max_recoveries:
            return await self._stuck(journal, f"it was taken over {head.max_recoveries} times and came no further")
        if head.spec not in plans:
            plans[head.spec] = await self._plan(journal)
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
        except ServerAway as away:
            return await self._wait(journal, away.step, away.error.message)
        except Lost:
            self._alert(journal, "its record is gone from the store")
        except StoreError:
            await self._looking.park(journal)
            return False
        return True

    async def _wait(self, journal: Journal, step: str, reason: str) -> bool:
        """Let go of a saga until a server that is away may be back; that is told once."""
        head = journal.head
        self._looking.tell("saga_waiting", journal.key, saga=head.id, tool=head.tool, step=step, reason=reason)
        await self._looking.park(journal)
        return False

    async def _deadline(self, journal: Journal, timeout: float) -> float:
        """Return when, on the clock of this process, the time that a saga had from its beginning is over."""
        return self._clock.now() + timeout - (await journal.store.now() - journal.head.created)

    async def _plan(self, journal: Journal) -> Planned | str:
        """Return the saga as it was when it began; or why there is none."""
        found = await recompiled(journal, self._compile)
        if isinstance(found, str):
            return found
        plan = found.kept.of(Plans).by_place.get(found.place)
        return "the spec it runs by has no such saga" if plan is None else (plan, found.document)

    async def _stuck(self, journal: Journal, reason: str) -> bool:
        journal.state.stuck = reason
        await journal.write()
        await journal.park(0)
        self._alert(journal, reason)
        return True

    def _alert(self, journal: Journal, reason: str) -> None:
        self._signals.event("saga_stuck", saga=journal.head.id, tool=journal.head.tool, reason=reason)

    def _stands(self, key: str, reason: str) -> None:
        # What cannot be written down as stuck is met again each time.
        self._looking.tell("saga_stuck", key, saga=key, tool="", reason=reason)


def _waits(told: Any) -> State | None:
    """Return the state of a saga, unless it is stuck: then an operator says when to go on."""
    state = State.of_json(told)
    return state if state.stuck is None else None


def _in_doubt(journal: Journal, plan: SagaPlan) -> str | None:
    """Return the step of which nobody knows whether it was done, if there is still time to wait for its server."""
    state = journal.state
    if state.status != "RUNNING" or state.recoveries >= journal.head.max_recoveries:
        return None
    pairs = zip(plan.stages, state.steps, strict=False)
    return next((stage.id for stage, record in pairs if record.status == "STARTED" and not stage.safe), None)

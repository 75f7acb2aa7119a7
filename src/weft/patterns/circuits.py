"""Circuits: the state of all circuit breakers of a process, for the calls they guard and for operators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Final, Protocol, TypeVar

from weft.errors import NotFound, StoreError
from weft.expr.jcs import hash_of
from weft.patterns.circuit_state import UNBORN, CircuitRules, CircuitState, Moves, Outcome, Permit, Phase, Refusal
from weft.patterns.keys import key_part
from weft.patterns.outages import Outage, Outages
from weft.ports import Clock, Signals, Store, Stored

T = TypeVar("T")

MANY: Final = 10_000
TRIES: Final = 32
RESYNC: Final = 5.0
"""After how many seconds a store is asked for its time again."""
DAY: Final = 86_400.0

EVENTS: Final[dict[Phase, str]] = {
    "open": "circuit_opened",
    "half_open": "circuit_half_opened",
    "closed": "circuit_closed",
}
Change = Callable[[CircuitState, float, Moves], T]


class Around(Protocol):
    """What a circuit needs of a root call."""

    @property
    def clock(self) -> Clock: ...
    @property
    def signals(self) -> Signals: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitReport:
    """A circuit, for operators: `left` seconds until it lets a probe through, when it is open and not held open."""

    name: str
    scope: str
    """Whose it is, when tenants or callers have circuits of their own."""
    store: str | None
    phase: Phase
    forced: bool
    failures: int
    left: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the report as the admin listener gives it."""
        told: dict[str, Any] = {
            "name": self.name,
            "state": self.phase,
            "forced": self.forced,
            "failures": self.failures,
        }
        told |= {"scope": self.scope} if self.scope else {}
        told |= {"store": self.store} if self.store is not None else {}
        return told | ({"resetSeconds": round(self.left, 3)} if self.left is not None else {})


class Circuit:
    """One circuit, of this process alone."""

    def __init__(self, name: str, rules: CircuitRules, scope: str = "") -> None:
        self.name = name
        self.rules = rules
        self.scope = scope
        self.store: Store | None = None
        self.state = CircuitState()

    async def enter(self, around: Around, lease: float) -> Permit | Refusal:
        """Let a call through or not; `lease` is how long it may take at most."""
        if self.state.phase == "closed":
            return Permit(self.state.epoch, self.state.generation)
        return self._now(around, lambda state, now, moves: state.admit(self.rules, now, lease, moves))

    async def leave(self, permit: Permit, outcome: Outcome, around: Around) -> None:
        """Take the outcome of a call that was let through."""
        self.leave_at_once(permit, outcome, around)

    def leave_at_once(self, permit: Permit, outcome: Outcome, around: Around) -> None:
        """Take the outcome of a call without waiting for anything."""
        if permit.probe is not None or outcome != "success" or self.rules.failure_rate is not None:
            self._now(around, lambda state, now, moves: state.report(self.rules, permit, outcome, now, moves))

    async def change(self, around: Around, change: Change[T]) -> T:
        """Change the state, or look at it."""
        return self._now(around, change)

    def _now(self, around: Around, change: Change[T]) -> T:
        moves: Moves = []
        result = change(self.state, around.clock.now(), moves)
        tell(self.name, self.scope, moves, around.signals)
        return result


class SharedCircuit(Circuit):
    """One circuit of all processes that share a store; while the store is away, each has its own."""

    def __init__(
        self, name: str, rules: CircuitRules, scope: str = "", *, store: Store, outage: Outage, key: str
    ) -> None:
        super().__init__(name, rules, scope)
        self.store = self._store = store
        self._outage = outage
        self._key = key
        self._ahead = 0.0
        self._synced: float | None = None
        self._chance = Random()
        self._background = set[asyncio.Task[None]]()

    async def enter(self, around: Around, lease: float) -> Permit | Refusal:
        """Let a call through or not."""
        try:
            return await self._shared(around, lambda state, now, moves: state.admit(self.rules, now, lease, moves))
        except StoreError as error:
            self._outage.began(around.signals, error)
            return await super().enter(around, lease)

    async def leave(self, permit: Permit, outcome: Outcome, around: Around) -> None:
        """Take the outcome of a call: also that of one that is cancelled while it is written."""
        if permit.epoch == self.state.epoch:
            super().leave_at_once(permit, outcome, around)
        elif permit.probe is not None or outcome == "failure" or self.rules.failure_rate is not None:
            await asyncio.shield(self._begin(permit, outcome, around))

    def leave_at_once(self, permit: Permit, outcome: Outcome, around: Around) -> None:
        """Take the outcome of a call in the background."""
        if permit.epoch == self.state.epoch:
            super().leave_at_once(permit, outcome, around)
        elif permit.probe is not None or outcome == "failure" or self.rules.failure_rate is not None:
            self._begin(permit, outcome, around)

    async def change(self, around: Around, change: Change[T]) -> T:
        """Change the state, or look at it.

        Raises:
            StoreError: the store cannot be used.
        """
        return await self._shared(around, change)

    def _begin(self, permit: Permit, outcome: Outcome, around: Around) -> asyncio.Task[None]:
        task = asyncio.create_task(self._left(permit, outcome, around))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _left(self, permit: Permit, outcome: Outcome, around: Around) -> None:
        try:
            await self._shared(around, lambda state, now, moves: state.report(self.rules, permit, outcome, now, moves))
        except StoreError as error:
            self._outage.began(around.signals, error)

    async def _shared(self, around: Around, change: Change[T]) -> T:
        """Change what the store has: read, change, write if it is still the same, else again."""
        for turn in range(TRIES):
            stored = await self._store.get(self._key)
            now = await self._time(around.clock)
            state = None if stored is None else CircuitState.of_bytes(stored.value)
            if stored is not None and state is None:
                around.signals.count("circuit_undecodable", circuit=self.name)
            state = state or CircuitState(epoch=UNBORN)
            moves: Moves = []
            result = change(state, now, moves)
            if state.epoch == UNBORN:
                state.epoch = self._chance.getrandbits(52) + 1
            if state.changed and await self._written(state, stored) is None:
                await around.clock.sleep(self._chance.random() * 0.005 * min(turn, 8))
                continue
            if self._outage.out:
                self._outage.ended(around.signals)
            tell(self.name, self.scope, moves, around.signals)
            return result
        raise StoreError(self._store.name, f"circuit {self.name!r} is changed by too many at once", code="StoreBusy")

    async def _written(self, state: CircuitState, before: Stored | None) -> int | None:
        if before is None:
            return await self._store.put_if_absent(self._key, state.to_bytes(), ttl=self._life(state))
        return await self._store.cas(self._key, state.to_bytes(), before.version, ttl=self._life(state))

    def _life(self, state: CircuitState) -> float | None:
        """Return how long a state is kept that nobody touches: much longer than it could still say something."""
        return None if state.forced else self.rules.failure_window + 2 * self.rules.longest() + DAY

    async def _time(self, clock: Clock) -> float:
        """Return the time by the store's clock, which all processes share."""
        now = clock.now()
        if self._synced is None or now - self._synced > RESYNC:
            self._ahead = await self._store.now() - clock.now()
            self._synced = now
        return now + self._ahead


def tell(name: str, scope: str, moves: Moves, signals: Signals) -> None:
    """Tell of each transition, once."""
    for move in moves:
        facts = {"scope": scope} if scope else {}
        signals.event(EVENTS[move.to], circuit=name, was=move.was, **facts)
        signals.count("circuit_transitions", circuit=name, to=move.to)


@dataclass(frozen=True, slots=True)
class _Operator:
    """Somebody who changes a circuit without calling anything."""

    clock: Clock
    signals: Signals


class Circuits:
    """All circuits of a process, by name; they stay over reloads as long as their rules do."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Circuit] = {}

    def circuit(
        self, name: str, rules: CircuitRules, *, store: Store | None = None, outages: Outages, scope: str = ""
    ) -> Circuit:
        """Return the circuit of a name: the same as before, unless its rules have changed or it is kept elsewhere."""
        found = self._known.get((name, scope))
        if found is not None and found.rules == rules and found.store is store:
            return found
        if found is None and len(self._known) >= MANY:
            self._make_room()
        made = self._known[name, scope] = _made(name, rules, store, outages, scope)
        return made

    def named(self, name: str) -> list[Circuit]:
        """Return the circuits of a name, in all its scopes."""
        return [one for one in self._sorted() if one.name == name]

    def _make_room(self) -> None:
        """Forget the oldest that says nothing, of those that tenants and callers have for themselves."""
        oldest = next((key for key, one in self._known.items() if one.state.phase == "closed"), next(iter(self._known)))
        del self._known[oldest]

    async def list(self, clock: Clock, signals: Signals) -> list[CircuitReport]:
        """Return how every circuit stands; of one whose store is away, how it stands in this process."""
        return [await _report(one, _Operator(clock, signals)) for one in self._sorted()]

    async def reset(self, name: str, clock: Clock, signals: Signals) -> list[CircuitReport]:
        """Close the circuit of a name, also one that was forced open, in all its scopes.

        Raises:
            NotFound: there is no such circuit.
            StoreError: its store cannot be used.
        """
        return await self._changed(name, _Operator(clock, signals), CircuitState.reset)

    async def force_open(self, name: str, clock: Clock, signals: Signals) -> list[CircuitReport]:
        """Open the circuit of a name, in all its scopes, until it is reset.

        Raises:
            NotFound: there is no such circuit.
            StoreError: its store cannot be used.
        """
        return await self._changed(name, _Operator(clock, signals), CircuitState.force_open)

    async def _changed(
        self, name: str, operator: _Operator, change: Callable[[CircuitState, float, Moves], None]
    ) -> list[CircuitReport]:
        meant = self.named(name)
        if not meant:
            raise NotFound("Circuit", name, {one.name for one in self._sorted()})
        for one in meant:
            await one.change(operator, change)
        return [await _report(one, operator) for one in meant]

    def _sorted(self) -> list[Circuit]:
        return [self._known[key] for key in sorted(self._known)]


def _made(name: str, rules: CircuitRules, store: Store | None, outages: Outages, scope: str) -> Circuit:
    if store is None:
        return Circuit(name, rules, scope)
    parts = ("v1", "circuit", scope, name, hash_of(asdict(rules))[:32])
    key = "|".join(map(key_part, parts))
    outage = outages.of("circuitBreaker", store.name, "each process has circuits of its own")
    return SharedCircuit(name, rules, scope, store=store, outage=outage, key=key)


async def _report(circuit: Circuit, operator: _Operator) -> CircuitReport:
    def look(state: CircuitState, now: float, _moves: Moves) -> CircuitReport:
        is_timed = state.phase == "open" and not state.forced
        left = max(0.0, state.since + circuit.rules.open_for(state.openings) - now) if is_timed else None
        return CircuitReport(
            name=circuit.name,
            scope=circuit.scope,
            store=None if circuit.store is None else circuit.store.name,
            phase=state.phase,
            forced=state.forced,
            failures=state.failures(circuit.rules, now),
            left=left,
        )

    try:
        return await circuit.change(operator, look)
    except StoreError:
        return look(circuit.state, operator.clock.now(), [])

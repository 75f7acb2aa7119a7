"""Tenants that use the same tools in the same world, or each in a world of its own; and who touched what."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, NamedTuple

import weft as w
from tests.patterns.gateways import FaultyStore, caller
from weft.errors import ToolFailed, UpstreamDied, UpstreamUnavailable, WeftError
from weft.patterns.circuits import Circuits
from weft.patterns.contract import Op
from weft.patterns.kept import Kept
from weft.patterns.saga_record import SPECS
from weft.plan.compiler import compile_document
from weft.ports import Change, Invoke, Principal, Stored, ToolRef, ToolType
from weft.run.engine import Engine
from weft.run.journal import Sagas
from weft.run.limits import Limits
from weft.run.trace import Trace
from weft.stores.memory import MemoryStore
from weft.testing import FakeClock
from weft.testing.world import Heard

Whose = Literal["caller", "tenant"]
DEADLINE = 20.0
PAUSES = (*(0.0,) * 20, 30.0, 95.0)
"""Seconds before a call: 0 is at the same moment as the one before, all others are longer than any call takes."""
HOW = ("well", "well", "well", "refused", "away", "dies", "slow")
TOOLS = ("look", "pay", "put", "get", "drop", "file", "reserve", "release", "charge", "refund", "instead")
P = w.path({})
RULES: dict[str, Any] = {"failure_threshold": 2, "failure_window": 120, "reset_timeout": 60}
LOOK, PAY = w.tool("look"), w.tool("pay")


def _saga(whose: Whose) -> Op[Any, Any]:
    steps = [
        w.saga_step(tool, w.tool(tool), id=tool, compensate=w.tool(undo), retry_safe=True)
        for tool, undo in (("reserve", "release"), ("charge", "refund"))
    ]
    return w.saga(*steps, id=P.key, store="s", scope=whose, max_attempts=2, backoff=w.fixed("100ms"))


def _of(whose: Whose) -> dict[str, Op[Any, Any]]:
    given: dict[str, Any] = {"scope": whose, "store": "s"}
    breaker = w.circuit_breaker(PAY, name=f"in the store, {whose}", fallback=w.tool("instead"), **RULES, **given)
    local = w.circuit_breaker(PAY, name=f"of a process, {whose}", scope=whose, **RULES)
    paid = w.idempotent(PAY, key=P.key, fingerprint=P.key, ttl=300, **given)
    retried = w.retry(paid, 2, backoff=w.fixed("200ms"), retry_unknown=True)
    return {
        "cache": w.cache(LOOK, key=P.key, ttl=60, stale_while_revalidate=60, stale_if_error=200, **given),
        "idempotent": paid,
        "strict": w.idempotent(PAY, key=P.key, ttl=300, on_duplicate="error", **given),
        "breaker": breaker,
        "local_breaker": local,
        "throttle": w.throttle(LOOK, 2, "100s", name=f"store {whose}", on_exceeded="reject", **given),
        "local_throttle": w.throttle(LOOK, 1, "5s", scope=whose, name=f"process {whose}"),
        "places": w.throttle(LOOK, concurrency=1, name=f"places {whose}", on_exceeded="reject", **given),
        "saga": _saga(whose),
        "all": w.timeout(w.cache(retried, key=P.key, ttl=60, **given), "15s"),
    }


STATELESS: dict[str, Op[Any, Any]] = {
    # What these keep is of one call, so that it is its caller's.
    "letter": w.dead_letter(PAY, "file", max_attempts=2, store="s"),
    "claim": w.claim_check(LOOK, store="put", retrieve="get", release="drop", retrieve_at_end=True, ref_path="$.ref"),
}
COMPOSITIONS: dict[str, tuple[Whose, Op[Any, Any]]] = {
    **{f"{name}_{whose}": (whose, op) for whose in ("caller", "tenant") for name, op in _of(whose).items()},
    **{name: ("caller", op) for name, op in STATELESS.items()},
}
NAMES = tuple(COMPOSITIONS)


@dataclass(frozen=True)
class Ask:
    """One call: so many seconds after the one before, for whom, of which tool, with which key; and how it goes."""

    pause: float
    who: Principal
    tool: str
    key: Any
    how: str

    @property
    def owner(self) -> tuple[str, str]:
        """Whose state it may touch: that of this tool, for this caller or this tenant."""
        whose = COMPOSITIONS[self.tool][0]
        return self.tool, self.who.id if whose == "caller" else f"all of {self.who.tenant}"


class Sent(NamedTuple):
    """A call that came to a tool of the market."""

    tool: str
    arguments: Any
    key: str | None
    asked: Ask


NOW: ContextVar[Ask] = ContextVar("NOW")
"""For which call something is done; what goes on in the background has it from who began it."""


class Market:
    """Tools whose every answer tells for which tenant it is, and how many that tenant has had."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._counts = Counter[tuple[str, str]]()
        self._left: dict[str, Any] = {}
        self.sent: list[Sent] = []

    def bind(self, ref: ToolRef) -> Invoke | None:
        async def invoke(arguments: Any, call: Any) -> Any:
            asked = NOW.get()
            key = None if call.keys is None else call.keys.next(f":{ref.name}", arguments)
            self.sent.append(Sent(ref.name, arguments, key, asked))
            assert call.root.context.principal == asked.who, "a tool is called for whoever asked"
            count = self._counts[asked.who.tenant, ref.name] = self._counts[asked.who.tenant, ref.name] + 1
            return await self._answer(ref.name, arguments, {"of": mark(asked.who.tenant), "n": count}, asked.how)

        return invoke

    async def _answer(self, tool: str, arguments: Any, answer: dict[str, Any], how: str) -> Any:
        if tool == "put":
            answer["ref"] = f"{answer['of']} {answer['n']}"
            self._left[answer["ref"]] = arguments
        elif tool == "get":
            return self._left[arguments]
        elif tool in ("look", "pay", "charge"):
            await self._behave(tool, how)
        return answer

    async def _behave(self, tool: str, how: str) -> None:
        match how:
            case "refused":
                raise ToolFailed(tool, "no")
            case "away":
                raise UpstreamUnavailable(tool, "refused")
            case "dies":
                raise UpstreamDied(tool, "gone")
            case "slow":
                await self._clock.sleep(3)
            case _:
                pass

    def describe(self, ref: ToolRef) -> ToolType | None:
        return ToolType() if ref.name in TOOLS else None

    def names(self) -> list[str]:
        return list(TOOLS)


def mark(tenant: str) -> str:
    """Return what stands in everything that is a tenant's, and in nothing that is another's."""
    return f"<{tenant.encode().hex()}>"


class Watched(FaultyStore):
    """A store that keeps whose calls used which keys."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(MemoryStore("s", clock=clock))
        self.users: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        self.rooms: defaultdict[str, set[str]] = defaultdict(set)
        """The tenants that have keys which begin so, up to where the tenant stands."""

    @property
    def durable(self) -> bool:
        return True

    @property
    def shared(self) -> bool:
        return True

    def _used(self, key: str) -> None:
        # How a saga is written is kept by its hash, for whoever runs it.
        if (asked := NOW.get(None)) is not None and not key.startswith(SPECS):
            self.users[key].add(asked.owner)
            self.rooms["|".join(key.split("|")[:3])].add(asked.who.tenant)

    async def get(self, key: str) -> Stored | None:
        self._used(key)
        return await super().get(key)

    async def exists(self, key: str) -> bool:
        self._used(key)
        return await super().exists(key)

    async def set(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        self._used(key)
        return await super().set(key, value, ttl=ttl)

    async def put_if_absent(self, key: str, value: bytes, *, ttl: float | None = None) -> int | None:
        self._used(key)
        return await super().put_if_absent(key, value, ttl=ttl)

    async def cas(self, key: str, value: bytes, version: int, *, ttl: float | None = None) -> int | None:
        self._used(key)
        return await super().cas(key, value, version, ttl=ttl)

    async def delete(self, key: str) -> bool:
        self._used(key)
        return await super().delete(key)

    async def delete_if(self, key: str, version: int) -> bool:
        self._used(key)
        return await super().delete_if(key, version)

    async def incr(self, key: str, by: int = 1, *, ttl: float | None = None) -> int:
        self._used(key)
        return await super().incr(key, by, ttl=ttl)

    async def batch(self, changes: Sequence[Change]) -> list[int] | None:
        for change in changes:
            self._used(change.key)
        return await super().batch(changes)

    async def everything(self) -> AsyncIterator[tuple[str, Stored]]:
        """Yield all that is stored."""
        async for one in super().scan(""):
            yield one


DOCUMENT = w.compile(*(w.composition(name, "It.", op) for name, (_, op) in COMPOSITIONS.items())).document


class World:
    """A gateway with a store, in which some tenants make their calls."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.market = Market(self.clock)
        self.store = Watched(self.clock)
        self.signals = Heard()
        self.kept = Kept()
        snapshot = compile_document(DOCUMENT, self.market, problems=[], stores=lambda name: self.store, kept=self.kept)
        limits = Limits(timeout=DEADLINE)
        self._engine = Engine(snapshot, clock=self.clock, limits=limits, signals=self.signals)
        self.seen: defaultdict[str, list[Any]] = defaultdict(list)
        """What each tenant saw, call by call."""

    async def run(self, asks: Sequence[Ask], tenant: str | None = None) -> None:
        """Make all calls, or those of one tenant, each at its moment."""
        moment, timed = self.clock.now(), list[tuple[float, Ask]]()
        for ask in asks:
            moment += ask.pause
            timed.append((moment, ask))
        for when, group in groupby(timed, key=lambda one: one[0]):
            await self.clock.sleep(max(0.0, when - self.clock.now()))
            own = [ask for _, ask in group if tenant in (None, ask.who.tenant)]
            for ask, told in zip(own, await asyncio.gather(*map(self._ask, own)), strict=True):
                self.seen[ask.who.tenant].append((ask.tool, ask.key, told))
        await self._engine.close()

    async def _ask(self, ask: Ask) -> Any:
        NOW.set(ask)
        asked = {"key": ask.key}
        try:
            result = await self._engine.run(ask.tool, asked, caller=caller(ask.who.subject, ask.who.tenant))
        except WeftError as error:
            return error.code, error.message, _notes(error.trace)
        value = {**result.value, "id": "its own"} if "deadLettered" in result.value else result.value
        return value, result.warnings, _notes(result.trace)

    async def left(self) -> list[Any]:
        """Return what an operator sees afterwards."""
        sagas = await Sagas([self.store], clock=self.clock).list(ended=True)
        circuits = await self.kept.of(Circuits).list(self.clock, self.signals)
        letters = [one.arguments for one in self.market.sent if one.tool == "file"]
        return [
            *((row["tenant"], row["tool"], row["id"], row["status"]) for row in sagas),
            *((one.scope, one.name, one.phase, one.failures) for one in circuits),
            *((one["tenant"], one["principal"], one["error"], one["originalInput"]) for one in letters),
        ]

    async def stored(self) -> list[tuple[str, bytes]]:
        """Return all that is stored."""
        return [(key, stored.value) async for key, stored in self.store.everything()]


def _notes(trace: object) -> list[Any]:
    assert isinstance(trace, Trace)
    return [(depth, span.name, span.outcome, span.notes) for depth, span in trace.root.walk()]

"""A shop whose tools remember every call and every effect, and instances of weft that run sagas on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import weft as w
from weft.errors import StoreError, ToolFailed
from weft.ir.document import Document
from weft.patterns.contract import Op
from weft.patterns.kept import Kept
from weft.plan.compiler import compile_document
from weft.plan.snapshot import Snapshot
from weft.ports import Change, Invoke, Principal, Store, Stored, ToolRef, ToolType
from weft.run.engine import Engine
from weft.run.journal import Sagas
from weft.run.limits import Limits
from weft.run.recovery import Recovery
from weft.stores.memory import MemoryStore
from weft.testing.clock import FakeClock
from weft.testing.world import Heard

UNDO = {"reserve": "release", "charge": "refund", "ship": "recall", "mail": "unmail"}
ALICE = Principal(subject="alice", tenant="acme", method="key", strength="proven")


class Seen(NamedTuple):
    """One call of a tool."""

    tool: str
    arguments: Any
    key: str
    attempt: int
    who: str


class Customer:
    """A client."""

    capabilities: Mapping[str, Any] = {}
    info: Mapping[str, Any] = {}
    log_level: str | None = None
    meta: Mapping[str, Any] = {}
    wants_progress = False
    relays_input = False

    def __init__(self, principal: Principal = ALICE) -> None:
        self.principal = principal

    def progress(self, params: dict[str, Any]) -> None: ...

    def log(self, params: dict[str, Any]) -> None: ...

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        raise AssertionError("nobody asks")


@dataclass
class Shop:
    """Tools that honour keys: the same key has its effect once. `does` says how a tool behaves, call by call."""

    clock: FakeClock
    does: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    always: dict[str, Any] = field(default_factory=dict[str, Any])
    hints: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    calls: list[Seen] = field(default_factory=list[Seen])
    effects: dict[str, Seen] = field(default_factory=dict[str, Seen])
    honest: bool = False
    """Whether a tool that has done something does not say no to the same key later."""

    def bind(self, ref: ToolRef) -> Invoke | None:
        async def invoke(arguments: Any, call: Any) -> Any:
            keys = call.keys
            key = "" if keys is None else keys.next(f":{ref.name}", arguments)
            who = "" if call.root.context is None else type(call.root.context).__name__
            seen = Seen(ref.name, arguments, key, 0 if keys is None else keys.attempt, who)
            self.calls.append(seen)
            plan = self.does.get(ref.name)
            given = plan.pop(0) if plan else self.always.get(ref.name)
            if callable(given):
                given = given(arguments)
            if self.honest and isinstance(given, ToolFailed) and key in self.effects:
                given = None
            if isinstance(given, Exception):
                raise given
            if isinstance(given, Slow):
                self._effect(seen)
                await self.clock.sleep(given.seconds)
            elif isinstance(given, Broken):
                self._effect(seen)
                raise given.error
            else:
                self._effect(seen)
            return {"did": ref.name, "for": arguments}

        return invoke

    def _effect(self, seen: Seen) -> None:
        self.effects.setdefault(seen.key or f"#{len(self.calls)}", seen)

    def describe(self, ref: ToolRef) -> ToolType | None:
        return ToolType(annotations=self.hints.get(ref.name))

    def names(self) -> list[str]:
        return [*UNDO, *UNDO.values()]

    @property
    def called(self) -> list[str]:
        """The tools that were called, in order."""
        return [seen.tool for seen in self.calls]

    def balance(self) -> dict[str, int]:
        """Return how often each action was done and not undone."""
        done = [seen.tool for seen in self.effects.values()]
        return {tool: done.count(tool) - done.count(undo) for tool, undo in UNDO.items()}


@dataclass(frozen=True)
class Slow:
    """Does it, and answers late."""

    seconds: float


@dataclass(frozen=True)
class Broken:
    """Does it, and fails all the same."""

    error: Exception


class Frail:
    """A store of which operations fail as told: `fault` is given the name of each operation and its number."""

    def __init__(self, store: Store, fault: Callable[[str, int], Exception | None] | None = None) -> None:
        self.inner = store
        self.fault = fault
        self.count = 0
        self.commits = 0
        self.dead = False
        self.thawed: asyncio.Event | None = None
        """Set while the process is stopped: nothing goes on until it is."""
        self.name, self.durable, self.shared = store.name, True, True

    async def _before(self, what: str) -> None:
        await self._after()
        self.count += 1
        if what in ("batch", "set", "cas", "delete", "put_if_absent", "delete_if"):
            self.commits += 1
        error = None if self.fault is None else self.fault(what, self.count)
        if error is not None:
            raise error

    async def _after(self) -> None:
        if self.dead:
            await asyncio.Event().wait()
        if self.thawed is not None:
            await self.thawed.wait()

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def get(self, key: str) -> Stored | None:
        await self._before("get")
        return await self.inner.get(key)

    async def exists(self, key: str) -> bool:
        await self._before("exists")
        return await self.inner.exists(key)

    async def set(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        await self._before("set")
        return await self.inner.set(key, value, ttl=ttl)

    async def put_if_absent(self, key: str, value: bytes, *, ttl: float | None = None) -> int | None:
        await self._before("put_if_absent")
        return await self.inner.put_if_absent(key, value, ttl=ttl)

    async def cas(self, key: str, value: bytes, version: int, *, ttl: float | None = None) -> int | None:
        await self._before("cas")
        return await self.inner.cas(key, value, version, ttl=ttl)

    async def delete(self, key: str) -> bool:
        await self._before("delete")
        return await self.inner.delete(key)

    async def delete_if(self, key: str, version: int) -> bool:
        await self._before("delete_if")
        return await self.inner.delete_if(key, version)

    async def incr(self, key: str, by: int = 1, *, ttl: float | None = None) -> int:
        await self._before("incr")
        return await self.inner.incr(key, by, ttl=ttl)

    async def scan(self, prefix: str) -> AsyncIterator[tuple[str, Stored]]:
        await self._before("scan")
        async for one in self.inner.scan(prefix):
            yield one

    async def batch(self, changes: Sequence[Change]) -> list[int] | None:
        await self._before("batch")
        done = await self.inner.batch(changes)
        await self._after()
        return done

    async def now(self) -> float:
        return await self.inner.now()


class Instance:
    """One process of weft: its own engine, recovery and store client; the store and the shop are shared."""

    def __init__(self, shop: Shop, store: Store, op: Op[Any, Any] | None = None, *, seed: int = 1) -> None:
        self.shop = shop
        self.store = store
        self.clock = shop.clock
        self.signals = Heard()
        self.kept = Kept()
        self.rng = Random(seed)
        self.limits = Limits()
        self.granted = True
        self.engine = Engine(
            Snapshot(Document(), {}), clock=self.clock, limits=self.limits, rng=self.rng, signals=self.signals
        )
        if op is not None:
            self.load(op)
        self.recovery = Recovery(
            [store],
            self.compile,
            lambda principal, tool: Customer(principal),
            detach=self.engine.detach,
            clock=self.clock,
            limits=lambda: self.limits,
            signals=self.signals,
            rng=self.rng,
        )
        self.sagas = Sagas([store], clock=self.clock)

    def load(self, op: Op[Any, Any], name: str = "order", **others: Op[Any, Any]) -> None:
        """Serve a composition, and others that it names; what runs goes on with what it began with."""
        compositions = [w.composition(key, "It.", one) for key, one in {name: op, **others}.items()]
        self.engine.snapshot = self.compile(w.compile(*compositions).document, self.kept)

    def compile(self, document: Document, kept: Kept) -> Snapshot:
        """Compile a document against the shop."""
        return compile_document(document, self.shop, problems=[], stores=lambda name: self.store, kept=kept)

    async def call(self, value: Any = None, *, who: Principal = ALICE, tool: str = "order", **given: Any) -> Any:
        """Call the composition and return its value."""
        value = {"id": "o1"} if value is None else value
        return (await self.engine.run(tool, value, caller=Customer(who), **given)).value

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the facts of every event of a name."""
        return self.signals.named(name)

    def kill(self) -> None:
        """End it as kill -9 does: nothing is written, nothing is called any more."""
        assert isinstance(self.store, Frail)
        self.store.dead = True


def shared_store(clock: FakeClock) -> MemoryStore:
    """Return a store for several instances."""
    return MemoryStore("sagas", clock=clock)


def step(tool: str, **more: Any) -> Any:
    """Return a step that a tool does, and its counterpart undoes."""
    given: dict[str, Any] = {"id": tool, "compensate": w.tool(UNDO[tool]), **more}
    return w.saga_step(tool, w.tool(tool), **given)


def order(*steps: Any, **more: Any) -> Op[Any, Any]:
    """Return the saga of an order."""
    given: dict[str, Any] = {"id": w.path({}).id, "store": "sagas", "lease": 10, "backoff": w.fixed(1.0), **more}
    return w.saga(*(steps or [step(tool) for tool in UNDO]), **given)


def away(sent: bool = False) -> StoreError:
    """Return the error of a store that cannot be reached."""
    return StoreError("sagas", "connection refused", sent=sent)

"""FakeWorld: runs compositions against canned answers, on a clock that jumps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from weft.app import Upstreams
from weft.dsl.compositions import Composition, compile, composition
from weft.ir.document import Document
from weft.patterns.contract import Op
from weft.patterns.kept import Kept
from weft.plan.compiler import compile_document
from weft.ports import Invoke, Store, ToolRef, ToolType, Upstream
from weft.run.engine import Engine, Result
from weft.run.limits import Limits
from weft.stores.memory import MemoryStore
from weft.testing.canned import Answer, Canned
from weft.testing.clock import FakeClock

DEFAULT_STORE = "default"


@dataclass(slots=True)
class Heard:
    """Signals that a test can look at: how often each was counted, and every event with its facts, in order."""

    counts: Counter[str] = field(default_factory=Counter[str])
    """By name alone, and by name with labels: `retries` and `retries{outcome=ok}`."""
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])

    def count(self, name: str, **labels: str) -> None:
        """Count something."""
        self.counts[name] += 1
        if labels:
            told = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
            self.counts[f"{name}{{{told}}}"] += 1

    def event(self, name: str, **facts: object) -> None:
        """Note something that happened."""
        self.events.append((name, facts))

    def named(self, name: str) -> list[dict[str, Any]]:
        """Return the facts of every event of a name."""
        return [facts for told, facts in self.events if told == name]


@dataclass(slots=True)
class FakeWorld:
    """Runs compositions against canned answers.

    `calls` holds every call made: (tool, arguments). `chance` makes the named tools fail at random, by the seed, which
    all other chance in the world follows too. A store that `stores` does not have is made when it is first named: it is
    in memory, on the world's clock, and stays from one run to the next, as does what patterns keep (`kept`). `signals`
    hears what they tell of.
    """

    tools: Mapping[str, Answer] = field(default_factory=dict[str, Any])
    types: Mapping[str, ToolType] = field(default_factory=dict[str, ToolType])
    limits: Limits = field(default_factory=Limits)
    seed: int = 0
    chance: Mapping[str, float] = field(default_factory=dict[str, float])
    clock: FakeClock = field(default_factory=FakeClock)
    calls: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    stores: Mapping[str, Store] = field(default_factory=dict[str, Store])
    signals: Heard = field(default_factory=Heard)
    kept: Kept = field(default_factory=Kept)
    rng: Random = field(init=False, repr=False, compare=False)
    _made: dict[str, Store] = field(init=False, repr=False, compare=False, default_factory=dict[str, Store])
    _canned: Canned = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        # One for all runs: what was answered in turn, or came by chance, is not answered again in the next.
        self._canned = Canned(self.tools, types=self.types, chance=self.chance, seed=self.seed, note=self._note)

    @property
    def pauses(self) -> list[float]:
        """Every pause that was made, in order, in seconds."""
        return self.clock.pauses

    async def run(self, what: Op[Any, Any] | str, input: Any = None, *, document: Document | None = None) -> Any:
        """Run an operation, or a tool of a document by name, and return its value."""
        return (await self.trace(what, input, document=document)).value

    async def trace(
        self, what: Op[Any, Any] | str, input: Any = None, *, document: Document | None = None,
        timeout: float | None = None,
    ) -> Result:  # fmt: skip
        """Run as `run` does and return value, warnings and trace."""
        name, engine = self._engine(what, document)
        try:
            return await engine.run(name, input, timeout=timeout)
        finally:
            await engine.close()

    def engine(self, document: Document, *others: Upstream) -> Engine:
        """Return an engine for a document in this world; `others` have the tools that are not canned."""
        real = [_Real(other, self) for other in others]
        snapshot = compile_document(document, Upstreams([self._canned, *real]), stores=self.store, kept=self.kept)
        return Engine(snapshot, clock=self.clock, limits=self.limits, rng=self.rng, signals=self.signals)

    def store(self, name: str | None = None) -> Store:
        """Return the store of a name, or the default one: as given, else one in memory, the same each time."""
        name = name or DEFAULT_STORE
        found = self.stores[name] if name in self.stores else self._made.get(name)
        if found is None:
            found = self._made[name] = MemoryStore(name, clock=self.clock)
        return found

    def _engine(self, what: Op[Any, Any] | str, document: Document | None) -> tuple[str, Engine]:
        if isinstance(what, str):
            if document is None:
                raise TypeError("world.run takes a document with the name of a tool")
            return what, self.engine(document)
        top = what if isinstance(what, Composition) else composition("it", "What the test runs.", what)
        compiled = compile(top)
        return top.name, self.engine(compiled.document, compiled.local)

    def _note(self, tool: str, arguments: Any) -> None:
        self.calls.append((tool, arguments))


class _Real:
    """Tools that are not canned: their calls are noted, and no fake time passes while they work."""

    def __init__(self, upstream: Upstream, world: FakeWorld) -> None:
        self._upstream = upstream
        self._world = world
        self.describe = upstream.describe
        self.names = upstream.names

    def bind(self, ref: ToolRef) -> Invoke | None:
        found = self._upstream.bind(ref)
        if found is None:
            return None
        world = self._world

        async def invoke(arguments: Any, call: Any) -> Any:
            world.calls.append((ref.name, arguments))
            with world.clock.held():
                return await found(arguments, call)

        return invoke

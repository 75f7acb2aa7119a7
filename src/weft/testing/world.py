"""FakeWorld: runs compositions against canned answers, on a clock that jumps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.app import Upstreams
from weft.dsl.compositions import Composition, compile, composition
from weft.ir.document import Document
from weft.patterns.contract import Op
from weft.plan.compiler import compile_document
from weft.ports import Invoke, ToolRef, ToolType, Upstream
from weft.run.engine import Engine, Result
from weft.run.limits import Limits
from weft.testing.canned import Answer, Canned
from weft.testing.clock import FakeClock


@dataclass(slots=True)
class FakeWorld:
    """Runs compositions against canned answers.

    `calls` holds every call made: (tool, arguments). `chance` makes the named tools fail at random, by the seed.
    """

    tools: Mapping[str, Answer] = field(default_factory=dict[str, Any])
    types: Mapping[str, ToolType] = field(default_factory=dict[str, ToolType])
    limits: Limits = field(default_factory=Limits)
    seed: int = 0
    chance: Mapping[str, float] = field(default_factory=dict[str, float])
    clock: FakeClock = field(default_factory=FakeClock)
    calls: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    _canned: Canned = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
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
        return Engine(
            compile_document(document, Upstreams([self._canned, *real])), clock=self.clock, limits=self.limits
        )

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

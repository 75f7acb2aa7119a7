"""Breakers in worlds of their own, for the tests of circuits."""

from __future__ import annotations

import asyncio
from typing import Any

import weft as w
from tests.patterns.gateways import gateway, outcome
from tests.patterns.stepped import Gate, SharedStore, SteppedClock, settle
from weft.patterns.circuits import Circuits
from weft.run.engine import Engine
from weft.testing import FakeWorld, down

PAY = w.tool("pay")
MINIMAL: dict[str, Any] = {"failure_threshold": 3, "failure_window": 60, "reset_timeout": 30}


def breaker(inner: Any = PAY, **given: Any) -> Any:
    settings: dict[str, Any] = {"name": "payments", **MINIMAL, **given}
    return w.circuit_breaker(inner, **settings)


class Tool:
    """A tool that answers as it is told to, from now on."""

    def __init__(self, answer: Any = "paid") -> None:
        self.answer = answer
        self.calls = 0

    def __call__(self, _arguments: Any) -> Any:
        self.calls += 1
        return self.answer


class Setting:
    """A breaker in a world of its own, on a clock that the test moves."""

    def __init__(self, tool: Any = None, *, op: Any = None, clock: SteppedClock | None = None, **given: Any) -> None:
        self.tool = Tool() if tool is None else tool
        self.clock = clock or SteppedClock()
        stores = given.pop("stores", {})
        tools = {"pay": self.tool, **given.pop("tools", {})}
        self.world = FakeWorld(tools=tools, clock=self.clock, stores=stores)
        self.engine: Engine = gateway(self.world, breaker(**given) if op is None else op)

    async def call(self, **given: Any) -> Any:
        return await outcome(self.engine.execute("it", 1, **given))

    async def fail(self, times: int = 3, error: Any = None) -> None:
        before, self.tool.answer = self.tool.answer, error or down()
        for _ in range(times):
            await self.call()
        self.tool.answer = before

    @property
    def moves(self) -> list[str]:
        """The transitions that were told, in order."""
        return [name.removeprefix("circuit_") for name, _ in self.world.signals.events if name.startswith("circuit_")]

    async def state(self) -> str:
        (report,) = await self.circuits.list(self.clock, self.world.signals)
        return report.phase

    @property
    def circuits(self) -> Circuits:
        return self.world.kept.of(Circuits)


async def two_processes(tool: Any, clock: SteppedClock, **given: Any) -> tuple[SharedStore, list[Setting]]:
    store = SharedStore(clock)
    return store, [Setting(tool, clock=clock, stores={"s": store}, store="s", **given) for _ in range(2)]


async def opened(one: Setting, gate: Gate) -> None:
    """Open a circuit whose tool is a gate, and let its time pass."""
    for _ in range(3):
        task = asyncio.create_task(one.call())
        await settle()
        await gate.open(down())
        await task
    await one.clock.advance(30)


def around(one: Setting) -> Any:
    class Around:
        clock = one.clock
        signals = one.world.signals

    return Around()

"""Whatever fails, dies, hangs or goes away, in whatever order: a saga ends all done or all undone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.saga.worlds import UNDO, Broken, Frail, Instance, Shop, Slow, away, order, shared_store, step
from weft.errors import StoreError, ToolFailed, UpstreamDied, UpstreamUnavailable
from weft.testing.clock import FakeClock

T = TypeVar("T")
TOOLS = list(UNDO)
LEASE = 10
MISHAPS = {
    "refuses": lambda: ToolFailed("it", "no"),
    "is away": lambda: UpstreamUnavailable("it", "refused"),
    "does it and dies": lambda: Broken(UpstreamDied("it", "gone")),
    "takes its time": lambda: Slow(4),
    "hangs": lambda: Slow(200),
}


class Unsteady(Frail):
    """A store of one instance: away, or deaf to its own answers, as the machine says."""

    def __init__(self, world: Sagas, *given: Any) -> None:
        super().__init__(*given, fault=self._away)
        self._world = world

    def _away(self, what: str, count: int) -> StoreError | None:
        return away() if self._world.outage else None

    async def batch(self, changes: Any) -> list[int] | None:
        done = await super().batch(changes)
        if self._world.deaf > 0:
            self._world.deaf -= 1
            raise away(sent=True)
        return done


class Sagas(RuleBasedStateMachine):
    """Two instances, a store and a shop; calls of a few sagas, and everything that can go wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.outage = False
        self.deaf = 0
        self.calls: list[asyncio.Task[Any]] = []
        self.stopped: list[Frail] = []

    @initialize(safe=st.booleans(), pivot=st.sampled_from([None, *TOOLS[1:3]]), leaving=st.booleans())
    def open(self, safe: bool, pivot: str | None, leaving: bool) -> None:
        self.clock = FakeClock()
        self.shop = Shop(self.clock, honest=True)
        self.store = shared_store(self.clock)
        self.pivot = pivot
        steps = [step(tool, retry_safe=safe, pivot=tool == pivot) for tool in TOOLS]
        disconnect = "compensate" if leaving else "continue"
        self.op = order(*steps, on_disconnect=disconnect, max_recovery_attempts=1000)
        self.instances = [self._instance(n) for n in range(2)]

    def _instance(self, seed: int) -> Instance:
        return Instance(self.shop, Unsteady(self, self.store), self.op, seed=seed)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @rule(n=st.integers(0, 1), id=st.sampled_from("ab"))
    def call(self, n: int, id: str) -> None:
        async def begin() -> None:
            self.calls.append(asyncio.create_task(self.instances[n].call({"id": id}, timeout=120)))
            await asyncio.sleep(0)

        self.run(begin())

    @rule(tool=st.sampled_from([*TOOLS, *UNDO.values()]), what=st.sampled_from(sorted(MISHAPS)))
    def mishap(self, tool: str, what: str) -> None:
        self.shop.does.setdefault(tool, []).append(MISHAPS[what]())

    @rule(seconds=st.sampled_from([0.01, 1, 5, LEASE + 2]))
    def wait(self, seconds: float) -> None:
        self.run(self.clock.sleep(seconds))

    @rule(n=st.integers(0, 1))
    def kill(self, n: int) -> None:
        self.instances[n].kill()
        self.instances[n] = self._instance(n)

    @rule(n=st.integers(0, 1))
    def stop(self, n: int) -> None:
        store = self.instances[n].store
        assert isinstance(store, Frail)
        if store.thawed is None:
            store.thawed = asyncio.Event()
            self.stopped.append(store)

    @precondition(lambda self: self.stopped)
    @rule()
    def go_on(self) -> None:
        store = self.stopped.pop()
        assert store.thawed is not None
        store.thawed.set()
        store.thawed = None
        self.run(asyncio.sleep(0))

    @rule(n=st.integers(0, 1))
    def sleep_while_another_takes_over(self, n: int) -> None:
        self.stop(n)
        self.wait(LEASE + 2)
        self.recover(1 - n)
        while self.stopped:
            self.go_on()

    @rule(n=st.integers(0, 1))
    def recover(self, n: int) -> None:
        async def begin() -> None:
            self.calls.append(asyncio.create_task(self.instances[n].recovery.once()))
            await self.clock.sleep(0.01)

        self.run(begin())

    @rule()
    def toggle_outage(self) -> None:
        self.outage = not self.outage

    @rule(times=st.integers(1, 2))
    def lose_answers(self, times: int) -> None:
        self.deaf += times

    @precondition(lambda self: any(not call.done() for call in self.calls))
    @rule()
    def leave(self) -> None:
        next(call for call in self.calls if not call.done()).cancel()
        self.run(asyncio.sleep(0))

    @invariant()
    def one_key_for_each_step(self) -> None:
        seen: dict[tuple[str, str], set[str]] = {}
        for call in self.shop.calls if hasattr(self, "shop") else ():
            seen.setdefault((order_of(call.arguments), call.tool), set()).add(call.key)
        assert all(len(keys) == 1 for keys in seen.values()), seen

    def teardown(self) -> None:
        if not hasattr(self, "shop"):
            self.loop.close()
            return
        try:
            self.outage, self.deaf = False, 0
            self.shop.does.clear()
            self.run(self.settle())
            for id in "ab":
                self.check(id)
        finally:
            self.run(self.end())
            self.loop.close()

    async def settle(self) -> None:
        """Let one new instance finish everything, with an operator to help."""
        last = self._instance(9)
        await last.recovery.once()
        while self.stopped:
            # Whoever was stopped goes on beside the one that took over.
            store = self.stopped.pop()
            assert store.thawed is not None
            store.thawed.set()
            store.thawed = None
            await self.clock.sleep(1)
        for one in self.instances:
            one.kill()
        for _ in range(20):
            await self.clock.sleep(LEASE + 2)
            await last.recovery.once()
            rows = await last.sagas.list()
            for row in rows:
                assert row["status"] != "LOST"
                if "stuck" in row:
                    await last.sagas.retry(row["ref"])
            if not rows:
                break
        assert await last.sagas.list() == []
        self.ended = {row["id"]: row["status"] for row in await last.sagas.list(ended=True)}

    def check(self, id: str) -> None:
        done = [seen.tool for seen in self.shop.effects.values() if order_of(seen.arguments) == id]
        became = self.ended.get(id)
        note(f"{id}: {became}, {done}")
        if became == "COMPLETED":
            assert done == TOOLS
        elif became == "COMPENSATED":
            actions, undos = [tool for tool in done if tool in UNDO], [tool for tool in done if tool not in UNDO]
            assert {UNDO[tool] for tool in actions} <= set(undos)
            assert len(set(done)) == len(done)
            # Those that were done are undone in reverse; an operator's second try may come late.
        else:
            assert (became, done) == (None, [])

    async def end(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        while not all(task.done() for task in left):
            for task in left:
                task.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(*left, *self.calls, return_exceptions=True)


def order_of(arguments: Any) -> str:
    """Return the id of the order that a tool was called for."""
    while "id" not in arguments:
        arguments = arguments["for"]
    return arguments["id"]


@pytest.mark.req("STA-41", "STA-44")
class TestSagas(Sagas.TestCase):
    settings = settings(max_examples=150, stateful_step_count=30, deadline=None, print_blob=True)

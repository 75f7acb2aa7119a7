"""Any order of readers, answers, faults and waiting: what a cache gives is never another's, nor too old."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.patterns.caches import cached
from tests.patterns.gateways import gateway, outcome
from tests.patterns.stepped import Gate, SharedStore, SteppedClock, notes, settle
from weft.errors import WeftError
from weft.run.limits import Limits
from weft.testing import FakeWorld, down, refusal

TTL, STALE, STALE_ERROR, TIMEOUT = 60, 30, 90, 40
KEYS = ["cats", "dogs"]


class CacheMachine(RuleBasedStateMachine):
    """One cache, or two on one store, and a tool whose every answer says for which key and when it was given."""

    processes = 1

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock, self.gate = SteppedClock(), Gate()
        self.store = SharedStore(self.clock)
        if self.processes == 1:
            self.store.__class__ = _OwnStore
        self.readers: dict[asyncio.Task[Any], tuple[str, float, int]] = {}
        self.given: dict[str, list[float]] = {key: [] for key in KEYS}
        """When an answer was given for each key, which is its value."""
        self.fresh: dict[str, float] = {}
        """Until when the last answer for a key is fresh for certain."""
        self.down = False
        self.episode = 0
        """Which stretch of time this is, with or without the store."""
        self.seen: dict[int, int] = {}
        """In which stretch each call of the tool began."""
        limits = Limits(timeout=TIMEOUT)
        tools: dict[str, Any] = {"search": self.gate}
        self.worlds = [
            FakeWorld(tools=tools, clock=self.clock, stores={"s": self.store}, limits=limits)
            for _ in range(self.processes)
        ]

    @initialize(stale=st.booleans(), stale_error=st.booleans())
    def begin(self, stale: bool, stale_error: bool) -> None:
        self.stale = STALE if stale else 0
        self.stale_error = STALE_ERROR if stale_error else 0
        op = cached(store="s", stale_while_revalidate=self.stale or None, stale_if_error=self.stale_error or None)
        self.engines = [gateway(world, op) for world in self.worlds]

    def teardown(self) -> None:
        async def end() -> None:
            self.store.heal()
            for _ in range(500):
                if not self.gate.waiting and not self.readers:
                    break
                if self.gate.waiting:
                    await self.gate.open(0)
                await self.clock.advance(1)
                self.readers = {task: begun for task, begun in self.readers.items() if not task.done()}
            assert not self.readers, "somebody waits for ever"
            await self.clock.advance(200)
            assert asyncio.all_tasks() == {asyncio.current_task()}

        self.runner.run(end())
        self.runner.close()

    @rule(key=st.sampled_from(KEYS), process=st.integers(0, 1))
    def read(self, key: str, process: int) -> None:
        async def go() -> None:
            engine, calls, now = self.engines[process % self.processes], self.gate.calls, self.clock.now()
            task = asyncio.create_task(outcome(engine.run("it", {"q": key})))
            self.readers[task] = (key, now, self.episode)
            await settle()
            if now < self.fresh.get(key, 0) and not self.down:
                assert task.done(), "what is fresh is given at once"
                assert notes(task.result())["cache"] == "hit"
                assert self.gate.calls == calls
            self.look()

        self.runner.run(go())

    def look(self) -> None:
        """Look at what those got who have an answer."""
        now = self.clock.now()
        for task, (key, begun, _) in list(self.readers.items()):
            if not task.done():
                continue
            del self.readers[task]
            if task.cancelled() or isinstance(result := task.result(), WeftError):
                continue
            value, came = result.value, notes(result)["cache"]
            assert value["q"] == key, "nobody gets the answer to another question"
            assert value["at"] in self.given[key], "nor one that nobody gave"
            age = begun - value["at"]
            most = {"hit": TTL, "stale": TTL + self.stale, "stale-error": TTL + self.stale_error}.get(came, 0)
            assert age < most if came in ("hit", "stale") else age <= max(most, now - begun)

    @precondition(lambda self: self.gate.waiting)
    @rule(data=st.data(), good=st.sampled_from(["yes", "yes", "down", "refused"]))
    def answer(self, data: st.DataObject, good: str) -> None:
        which = data.draw(st.integers(0, self.gate.waiting - 1))
        key, now = self.gate.given[which]["q"], self.clock.now()
        bad: dict[str, Any] = {"down": down(), "refused": refusal("no")}
        if good == "yes":
            self.given[key].append(now)
            # Who began without the store does not keep what it gets, and may lead others who would.
            began = {episode for asked, _, episode in self.readers.values() if asked == key}
            began.add(self.seen[id(self.gate.given[which])])
            if not self.down and began == {self.episode} and self.processes == 1:
                self.fresh[key] = now + TTL
        answer = bad.get(good) or {"q": key, "at": now}
        self.runner.run(self.gate.open(answer, which=which))
        self.look()

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def go_away(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(list(self.readers)))

        async def go() -> None:
            task.cancel()
            await settle()

        self.runner.run(go())
        self.look()

    @rule(seconds=st.sampled_from([0.1, 0.3, 1, 2.5, 10, 29, 30, 31, 59, 60, 61, 100]))
    def wait(self, seconds: float) -> None:
        self.runner.run(self.clock.advance(seconds))
        self.look()

    @rule()
    def fail_or_heal(self) -> None:
        self.down = not self.down
        self.episode += 1
        if self.down:
            self.store.fail()
            self.fresh.clear()
        else:
            self.store.heal()

    @rule(written=st.sampled_from([b"", b"garbage", b"wc1v" + b"\0" * 20]))
    def damage(self, written: bytes) -> None:
        async def go() -> None:
            for key in [key async for key, _ in self.store.store.scan("") if not key.endswith("|lease")]:
                await self.store.store.set(key, written, ttl=1000)

        self.runner.run(go())
        self.fresh.clear()

    @rule()
    def forget(self) -> None:
        self.runner.run(self.store.store.close())
        self.fresh.clear()

    @invariant()
    def one_call_at_a_time_for_a_key(self) -> None:
        here = {id(given): self.seen.get(id(given), self.episode) for given in self.gate.given}
        self.seen = here
        for key in KEYS:
            under_way = sum(given["q"] == key for given in self.gate.given)
            assert under_way <= self.processes


class _OwnStore(SharedStore):
    """The same, of one process alone."""

    @property
    def shared(self) -> bool:
        return False


class TwoCachesMachine(CacheMachine):
    processes = 2


@pytest.mark.req("STA-11", "STA-12", "STA-14")
class TestCache(CacheMachine.TestCase):
    settings = settings(max_examples=60, stateful_step_count=50, deadline=None)


@pytest.mark.req("STA-12")
class TestTwoCaches(TwoCachesMachine.TestCase):
    settings = settings(max_examples=60, stateful_step_count=50, deadline=None)

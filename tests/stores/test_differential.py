"""Random operations on a store and on a plain model of it give the same; where time can be moved, it moves too."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.stores.stores import STORES, TIMED, Place
from weft.errors import StoreError
from weft.ports import ABSENT, ANYHOW, Change, Delete, Put, Store
from weft.testing.clock import FakeClock

T = TypeVar("T")

keys = st.sampled_from(["a", "ab", "a\x00", "a*", "é"])
values = st.sampled_from([b"", b"0", b"7", b"-3", b"x", b"\x00\xff"])
picks = st.integers(0, 9)
"""Which of the versions that a key ever had; most of the time the last."""


class Entry(NamedTuple):
    """What the model has under a key."""

    value: bytes
    version: int
    ends: float | None


class StoreAgainstModel(RuleBasedStateMachine):
    """The store must do what a dict would, and give each writing a version that its key never had."""

    kind: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock(1_000_000.0)
        self.folder = tempfile.TemporaryDirectory()
        self.place = Place(Path(self.folder.name), clock=self.clock)
        self.runner = asyncio.Runner()
        self.model: dict[str, Entry] = {}
        self.had: dict[str, list[int]] = {}
        self.store, self.entered = self.enter()

    def enter(self) -> tuple[Store, AbstractAsyncContextManager[Store]]:
        """Enter the store at its place."""
        entered = STORES[self.kind](self.place)
        return self.wait(entered.__aenter__()), entered

    def wait(self, operation: Awaitable[T]) -> T:
        """Run an operation."""

        async def run() -> T:
            return await operation

        return self.runner.run(run())

    def teardown(self) -> None:
        """Let everything go."""
        self.wait(self.entered.__aexit__(None, None, None))
        self.runner.close()
        self.folder.cleanup()

    def pick(self, key: str, which: int) -> int:
        """Return a version that a key had once, mostly the last one, or one that it never had."""
        had = self.had.get(key, [])
        if which == 0 or not had:
            return 1 << 61
        return had[-1] if which > 3 else had[which % len(had)]

    def wrote(self, key: str, value: bytes, version: int | None, ttl: float | None) -> None:
        """Write into the model."""
        assert version is not None
        assert version > 0
        assert version not in self.had.get(key, [])
        self.had.setdefault(key, []).append(version)
        self.model[key] = Entry(value, version, None if ttl is None else self.clock.time + ttl)

    def lifetime(self, ttl: float | None) -> float | None:
        """Return a lifetime that the store can be tested with."""
        return ttl if self.kind in TIMED else None

    @rule(key=keys, value=values, ttl=st.sampled_from([None, 10.0, 30.0]))
    def set(self, key: str, value: bytes, ttl: float | None) -> None:
        ttl = self.lifetime(ttl)
        self.wrote(key, value, self.wait(self.store.set(key, value, ttl=ttl)), ttl)

    @rule(key=keys, value=values, ttl=st.sampled_from([None, 10.0]))
    def put_if_absent(self, key: str, value: bytes, ttl: float | None) -> None:
        ttl = self.lifetime(ttl)
        version = self.wait(self.store.put_if_absent(key, value, ttl=ttl))
        if key in self.model:
            assert version is None
        else:
            self.wrote(key, value, version, ttl)

    @rule(key=keys, value=values, which=picks)
    def cas(self, key: str, value: bytes, which: int) -> None:
        expected = self.pick(key, which)
        version = self.wait(self.store.cas(key, value, expected))
        if key in self.model and self.model[key].version == expected:
            self.wrote(key, value, version, None)
        else:
            assert version is None

    @rule(key=keys)
    def delete(self, key: str) -> None:
        assert self.wait(self.store.delete(key)) == (self.model.pop(key, None) is not None)

    @rule(key=keys, which=picks)
    def delete_if(self, key: str, which: int) -> None:
        expected = self.pick(key, which)
        same = key in self.model and self.model[key].version == expected
        assert self.wait(self.store.delete_if(key, expected)) == same
        if same:
            del self.model[key]

    @rule(key=keys, by=st.integers(-5, 5), ttl=st.sampled_from([None, 10.0]))
    def incr(self, key: str, by: int, ttl: float | None) -> None:
        ttl = self.lifetime(ttl)
        entry = self.model.get(key)
        try:
            number = 0 if entry is None else int(entry.value)
        except ValueError:
            with pytest.raises(StoreError, match="not a whole number"):
                self.wait(self.store.incr(key, by, ttl=ttl))
            return
        assert self.wait(self.store.incr(key, by, ttl=ttl)) == number + by
        stored = self.wait(self.store.get(key))
        assert stored is not None
        self.wrote(key, b"%d" % (number + by), stored.version, ttl)
        if entry is not None:
            self.model[key] = self.model[key]._replace(ends=entry.ends)

    @rule(
        drawn=st.lists(
            st.tuples(keys, st.one_of(st.none(), values), st.sampled_from(["anyhow", "absent", "version"]), picks),
            max_size=4,
        )
    )
    def batch(self, drawn: list[tuple[str, bytes | None, str, int]]) -> None:
        changes: list[Change] = []
        for key, value, when, which in drawn:
            wanted = {"anyhow": ANYHOW, "absent": ABSENT, "version": self.pick(key, which)}[when]
            changes.append(Delete(key, wanted) if value is None else Put(key, value, when=wanted))
        there = {key: entry.version for key, entry in self.model.items()}
        hold = all(change.when in (ANYHOW, there.get(change.key, ABSENT)) for change in changes)
        versions = self.wait(self.store.batch(changes))
        if not hold:
            assert versions is None
            return
        assert versions is not None
        assert len(versions) == len(changes)
        for change, version in zip(changes, versions, strict=True):
            if isinstance(change, Put):
                self.wrote(change.key, change.value, version, None)
            else:
                assert version == 0
                self.model.pop(change.key, None)

    @precondition(lambda self: self.kind in TIMED)
    @rule(seconds=st.sampled_from([1.0, 5.0, 10.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.time += seconds
        self.model = {
            key: entry for key, entry in self.model.items() if entry.ends is None or entry.ends > self.clock.time
        }

    @rule()
    def restart(self) -> None:
        durable = self.store.durable
        self.wait(self.entered.__aexit__(None, None, None))
        self.store, self.entered = self.enter()
        if not durable:
            self.model, self.had = {}, {}

    @invariant()
    def the_same_is_there(self) -> None:
        found = self.wait(self.scanned())
        assert {key: (entry.value, entry.version) for key, entry in self.model.items()} == {
            key: (value, version) for key, (value, version, _) in found.items()
        }
        for key, (_, _, ttl) in found.items():
            ends = self.model[key].ends
            assert (ttl is None) == (ends is None)
            if ttl is not None and ends is not None:
                assert ttl == pytest.approx(ends - self.clock.time, abs=0.01)
        for key in ("a", "ab", "none"):
            stored = self.wait(self.store.get(key))
            assert (None if stored is None else stored.value) == (self.model[key].value if key in self.model else None)
            assert self.wait(self.store.exists(key)) == (key in self.model)

    async def scanned(self) -> dict[str, tuple[bytes, int, float | None]]:
        """Return everything that is stored."""
        return {key: (one.value, one.version, one.ttl) async for key, one in self.store.scan("")}


@pytest.mark.req("STA-2")
@pytest.mark.parametrize("kind", sorted(STORES))
def test_random_operations_do_what_a_model_does(kind: str):
    machine = type(f"{kind.capitalize()}AgainstModel", (StoreAgainstModel,), {"kind": kind})
    unhurried = settings(
        max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    run_state_machine_as_test(machine, settings=unhurried)

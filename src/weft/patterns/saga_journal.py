"""The journal of a saga: what is written before and after each action, by nobody but its owner.

Workflows that outlive their process have one of the same kind. A saga has a head, written once, which becomes its whole
record when it ends; while it runs, a state that is replaced under its version, so that a former owner can write no
more; and a lease, which only saves others the trouble of looking. States of sagas that have not ended have a prefix of
their own: recovery never reads those that have. Those are found by an index, which is written with their end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import Field, replace
from random import Random
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from weft.errors import StoreError, WeftError
from weft.patterns.saga_record import INDEX, Head, Record, State, decode, encode, ref_of
from weft.ports import ABSENT, Change, Clock, Delete, Put, Store, Stored

T = TypeVar("T")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
ONCE_MORE = 60.0
"""How often a spec that is surely there is written again, in seconds: a store may have been emptied meanwhile."""


class Fenced(Exception):
    """Somebody else owns the saga now: nothing more may be done for it here."""


class Lost(Exception):
    """The record is gone, which only an emptied store explains: nobody knows how far the saga came."""


class Away(Exception):
    """The store cannot say whose the saga is."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(error.message)
        self.error = error


class ServerAway(Exception):
    """The server of a step is away, and may come back: whoever takes the saga over later goes on."""

    def __init__(self, step: str, error: WeftError) -> None:
        super().__init__(error.message)
        self.step = step
        self.error = error


class Owned(Protocol):
    """The state of a saga or a workflow: how far it has come, and who works on it."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    owner: str
    fence: int
    seq: int
    recoveries: int

    def to_json(self) -> dict[str, Any]:
        """Return what is written."""
        ...


S = TypeVar("S", bound=Owned)


def beside(key: str, part: str) -> str:
    """Return the key of a part of what is kept under a key: of `v1|saga|x`, `v1|saga-open|x`."""
    version, kind, rest = key.split("|", 2)
    return f"{version}|{kind}-{part}|{rest}"


def open_key(key: str) -> str:
    """Return where the state of an unfinished saga is."""
    return beside(key, "open")


def lease_key(key: str) -> str:
    """Return where it stands that somebody works on a saga."""
    return beside(key, "lease")


def head_key(key: str) -> str:
    """Return the key of the saga that a state or a lease belongs to."""
    version, kind, rest = key.split("|", 2)
    return f"{version}|{kind.removesuffix('-open').removesuffix('-lease')}|{rest}"


def spec_key(key: str, spec: str) -> str:
    """Return where the spec is by which a saga runs."""
    version, kind, _ = key.split("|", 2)
    return f"{version}|{kind}-spec|{spec}"


class Specs:
    """Which specs are known to be in which store; kept beyond reloads."""

    def __init__(self) -> None:
        self._written: dict[tuple[str, str], float] = {}

    def missing(self, store: Store, spec: str, now: float) -> bool:
        """Tell whether a spec should be written along."""
        return now - self._written.get((store.name, spec), -ONCE_MORE) >= ONCE_MORE

    def written(self, store: Store, spec: str, now: float) -> None:
        """Note that a spec was written."""
        self._written[store.name, spec] = now


async def read(store: Store, key: str) -> Record | None:
    """Return a saga as it is stored, or None when there is none."""
    found = await read_owned(store, key, State.of_json)
    return None if found is None else Record(key, *found)


async def read_owned(store: Store, key: str, of_json: Callable[[Any], S]) -> tuple[Head, S | None, bool] | None:
    """Return the head of a saga or a workflow, its state unless that is gone, and whether it has ended."""
    found = await _look(store, key, of_json)
    # It may have ended between the two readings; then the second time says so.
    return found if found is None or found[1] is not None else await _look(store, key, of_json)


async def _look(store: Store, key: str, of_json: Callable[[Any], S]) -> tuple[Head, S | None, bool] | None:
    found = await store.get(key)
    if found is None:
        return None
    told = decode(found.value)
    head = Head.of_json(told["head"])
    if "state" in told:
        return head, of_json(told["state"]), True
    state = await store.get(open_key(key))
    return head, None if state is None else of_json(decode(state.value)), False


class OwnedJournal(Generic[S]):
    """The record of one saga or workflow, in the hands of its owner."""

    def __init__(
        self, store: Store, key: str, head: Head, state: S, versions: tuple[int, int], *, clock: Clock, rng: Random
    ) -> None:
        self.store = store
        self.key = key
        self.head = head
        self.state = state
        self._head_version, self._version = versions
        self._clock = clock
        self._rng = rng
        self._lock = asyncio.Lock()
        self.held_until = clock.now() + head.lease
        """Until when, on the clock of this process, nobody else can have taken the saga over."""

    @classmethod
    async def begin(
        cls, store: Store, key: str, head: Head, state: S, *, spec: bytes | None, clock: Clock, rng: Random
    ) -> Self | None:
        """Write a new saga; None when there is one of that key.

        Raises:
            StoreError: it could not be written, or nobody knows.
        """
        before = clock.now()
        head_text, state_text = encode({"head": head.to_json()}), encode(state.to_json())
        changes: list[Change] = [
            Put(key, head_text, when=ABSENT),
            Put(open_key(key), state_text, when=ABSENT),
            Put(lease_key(key), state.owner.encode(), ttl=head.lease),
        ]
        if spec is not None:
            changes.append(Put(spec_key(key, head.spec), spec))
        try:
            versions = await store.batch(changes)
        except StoreError as error:
            if error.retryable != "unknown-outcome":
                raise
            stored = [await store.get(key), await store.get(open_key(key))]
            if stored[0] is None or stored[1] is None or stored[1].value != state_text:
                raise
            versions = [one.version for one in stored if one is not None]
        if versions is None:
            return None
        journal = cls(store, key, head, state, (versions[0], versions[1]), clock=clock, rng=rng)
        journal.held_until = before + head.lease
        return journal

    @classmethod
    async def take_over(
        cls, store: Store, key: str, state: S, version: int, *, owner: str, clock: Clock, rng: Random
    ) -> Self | None:
        """Become the owner of a saga whose owner is gone; None when somebody else was faster.

        Raises:
            Lost: its head is gone.
        """
        stored = await store.get(key)
        if stored is None:
            raise Lost
        head = Head.of_json(decode(stored.value)["head"])
        state = replace(state, owner=owner, fence=state.fence + 1, recoveries=state.recoveries + 1)
        journal = cls(store, key, head, state, (stored.version, version), clock=clock, rng=rng)
        try:
            await journal.write()
        except (Fenced, Lost):
            return None
        return journal

    async def write(self, extra: Sequence[Change] = ()) -> None:
        """Write how far the saga has come, and what else changes with it; with that, the lease is renewed.

        A store that is away is waited for as long as the lease could last.

        Raises:
            Fenced: somebody else owns the saga.
            Lost: the record is gone.
            StoreError: the store is still away; nothing may be done that is not written.
        """
        async with self._lock:
            while True:
                self.state.seq += 1
                value = encode(self.state.to_json())
                if await self._patiently(lambda value=value: self._replace(value, extra)):
                    return

    async def renew(self) -> None:
        """Hold the lease for longer, and learn whether the saga is still one's own."""
        async with self._lock:
            before = self._clock.now()
            held = await self.store.get(open_key(self.key))
            if held is None or not self._is_mine(held):
                raise await self._why(held is None)
            await self.store.set(lease_key(self.key), self.state.owner.encode(), ttl=self.head.lease)
            self.held_until = before + self.head.lease

    async def end(self, extra: Sequence[Change] = ()) -> None:
        """Write that the saga has ended, and how, and what else changes with it.

        The record stays for as long as its retention says.

        Raises:
            Fenced, Lost, StoreError: as `write` does.
        """
        async with self._lock:
            self.state.seq += 1
            ended = encode({"head": self.head.to_json(), "state": self.state.to_json()})
            while not await self._patiently(lambda: self._close(ended, extra)):
                pass

    async def park(self, seconds: float) -> None:
        """Let go of the saga: others may take it over after some seconds, or at once. A store that is away does so."""
        try:
            if seconds > 0:
                await self.store.set(lease_key(self.key), self.state.owner.encode(), ttl=seconds)
            else:
                await self.store.delete(lease_key(self.key))
        except StoreError:
            return

    def _is_mine(self, held: Stored) -> bool:
        """Tell whether the state that is stored is as its owner left it."""
        return held.version == self._version

    async def _replace(self, value: bytes, extra: Sequence[Change]) -> bool:
        """Write the state; tell whether that was done, or must be done once more since it was changed in between."""
        # Counted from before the writing: whoever sleeps right after it has slept on the lease.
        before = self._clock.now()
        lease = Put(lease_key(self.key), self.state.owner.encode(), ttl=self.head.lease)
        versions = await self.store.batch([Put(open_key(self.key), value, when=self._version), lease, *extra])
        self.held_until = before + self.head.lease
        if versions is not None:
            self._version = versions[0]
            return True
        held = await self.store.get(open_key(self.key))
        if held is not None and held.value == value:
            # An earlier try of this very writing was done, though its answer never came.
            self._version = held.version
            return True
        if held is not None and self._is_mine(held):
            return False
        raise await self._why(held is None)

    async def _close(self, ended: bytes, extra: Sequence[Change]) -> bool:
        changes: list[Change] = [
            Put(self.key, ended, ttl=self.head.retention, when=self._head_version),
            Delete(open_key(self.key), when=self._version),
            Delete(lease_key(self.key)),
            *extra,
        ]
        if await self.store.batch(changes) is not None:
            return True
        whole = await self.store.get(self.key)
        if whole is not None and whole.value == ended:
            return True
        held = await self.store.get(open_key(self.key))
        if held is not None and self._is_mine(held):
            return False
        raise await self._why(held is None)

    async def _why(self, gone: bool) -> Exception:
        """Return why the state is not as it was left: it is somebody else's, or it is gone though nobody ended it."""
        if not gone:
            return Fenced()
        head = await self.store.get(self.key)
        return Lost() if head is None or head.version == self._head_version else Fenced()

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        deadline = self._clock.now() + self.head.lease
        pause = FIRST_PAUSE
        while True:
            try:
                return await work()
            except StoreError as error:
                if error.retryable == "no" or self._clock.now() + pause >= deadline:
                    raise
            await self._clock.sleep(pause * (1 - self._rng.random() / 2))
            pause = min(pause * 2, LONGEST_PAUSE)


class Journal(OwnedJournal[State]):
    """The record of one saga, in the hands of its owner."""

    async def end(self, extra: Sequence[Change] = ()) -> None:
        """Write that the saga has ended, and where operators find it."""
        index = Put(INDEX + ref_of(self.key), self.key.encode(), ttl=self.head.retention)
        await super().end([index, *extra])

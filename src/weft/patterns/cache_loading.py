"""How a cache answers: from what it has, from what another is loading, or by loading."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import orjson

from weft.errors import CircuitOpen, RetriesExhausted, StoreError, ToolFailed, WeftError
from weft.patterns.cache_entry import Entry, Kind, Undecodable, body_of, body_of_error, opened, sealed
from weft.patterns.cache_failures import Failures
from weft.patterns.cache_lease import Lease
from weft.patterns.contract import Call, Root, Step, Value, perform
from weft.patterns.outages import Outage
from weft.patterns.single_flight import SingleFlight, is_own
from weft.ports import Put, Signals, Store, Stored

FIRST_LOOK: Final = 0.02
LAST_LOOK: Final = 0.25
"""How soon, and then how often, a process looks for what another one is loading."""

MARK: Final = "cache"
OUTCOMES: Final = ("bypass", "miss", "hit", "stale", "stale-error")
"""How answers are got, from the newest to the oldest: of several in one call, the caller is told of the oldest."""

Rights: TypeAlias = Iterable[Callable[[Call], bool]]
Held: TypeAlias = tuple[Entry, Value]
"""What a store has, and the value in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How long what is loaded is used, and what is kept at all."""

    ttl: float
    stale: float = 0.0
    stale_error: float = 0.0
    ahead: float = 0.0
    jitter: float = 0.0
    max_bytes: int
    admits: Callable[[Value], bool] | None = None
    admits_errors: bool = False


class Loaded:
    """A result for the one who loaded it, and as many others as wait for it: no two get the same object."""

    __slots__ = ("_body", "_spare", "value")

    def __init__(self, value: Value, body: bytes | memoryview | None) -> None:
        self.value = value
        self._body = body
        self._spare = deepcopy(value) if body is None else None

    def copy(self) -> Value:
        """Return the value for somebody else."""
        return deepcopy(self._spare) if self._body is None else orjson.loads(self._body)


class Cached:
    """One cache at one place: the operation that it stands before, and the loads that are under way."""

    def __init__(
        self, inner: Step, store: Store, rules: Rules, *, outage: Outage, rights: Rights = (), label: str = ""
    ) -> None:
        """Make one; `rights` tell whether a call may call the tools that the operation calls."""
        self._inner = inner
        self._rights = tuple(rights)
        self._store = store
        self._rules = rules
        self._outage = outage
        self._label = label
        self._flights = SingleFlight[Loaded]()
        self._failures = Failures()
        self._refreshing = set[str]()

    async def get(self, key: str, value: Value, call: Call) -> Value:
        """Return the result for a key, loading it with the value if that is needed."""
        root, rules = call.root, self._rules
        if self._rights and not all(allows(call) for allows in self._rights):
            # Some may call no more than a part of what this stands before: only the tools themselves can tell.
            self._say(call, "bypass")
            return await perform(self._inner, value, call)
        try:
            stored = await self._store.get(key)
        except StoreError as error:
            self._outage.began(root.signals, error)
            return await self._miss(key, value, call, None, "bypass")
        if self._outage.out:
            self._outage.ended(root.signals)
        held = None if stored is None else self._read(stored, root.signals)
        if held is None or held[0].past(rules.stale):
            return await self._miss(key, value, call, held, "miss")
        entry, found = held
        if entry.past(0.0):
            self._say(call, "stale")
            self._refresh(key, value, call)
        else:
            self._say(call, "hit")
            if rules.ahead and entry.past(-rules.ahead):
                self._refresh(key, value, call)
        return entry.give(found)

    def _say(self, call: Call, outcome: str) -> None:
        root = call.root
        call.note(cache=outcome)
        said = None if root.marks is None else root.marks.get(MARK)
        if said is None or OUTCOMES.index(outcome) > OUTCOMES.index(said):
            root.mark(MARK, outcome)
        root.signals.count("cache_requests", cache=self._label, outcome=outcome)

    def _read(self, stored: Stored, signals: Signals) -> Held | None:
        try:
            entry = opened(stored)
            return None if entry is None else (entry, entry.load())
        except Undecodable:
            signals.count("cache_undecodable", cache=self._label)
            return None

    # -- loading -----------------------------------------------------------------------------------------------------

    async def _miss(self, key: str, value: Value, call: Call, held: Held | None, outcome: str) -> Value:
        root = call.root
        try:
            self._failures.check(key, root.clock.now())
            load = partial(self._load, key, value, call, stores=outcome == "miss")
            flown = await self._flights.do(key, load)
        except WeftError as error:
            if held is None or held[0].past(self._rules.stale_error) or not may_pass(error):
                self._say(call, outcome)
                raise
            self._say(call, "stale-error")
            entry, found = held
            root.warn(f"{error.message}; the answer of {entry.age:.0f} s ago was given instead")
            return entry.give(found)
        self._say(call, outcome)
        if flown.followed:
            call.note(shared=True)
            return flown.value.copy()
        return flown.value.value

    async def _load(
        self, key: str, value: Value, call: Call, *, stores: bool, refresh: bool = False, lease: Lease | None = None
    ) -> Loaded:
        """Run the operation and keep its result; a refresh has the lease of the key already, where one is needed."""
        if stores and not refresh and self._store.shared:
            turn = await self._turn(key, call)
            if isinstance(turn, Loaded):
                return turn
            lease = turn
        try:
            return await self._run(key, value, call, lease, stores=stores, refresh=refresh)
        finally:
            if lease is not None and lease.held:
                lease.abandon(call.root.detach)

    async def _run(
        self, key: str, value: Value, call: Call, lease: Lease | None, *, stores: bool, refresh: bool
    ) -> Loaded:
        root = call.root
        warned = root.warned
        try:
            result = await perform(self._inner, value, call)
        except WeftError as error:
            pause = 0.0 if is_own(error) else self._failures.add(key, root.clock.now(), error)
            if stores and self._rules.admits_errors and isinstance(error, ToolFailed):
                await self._keep(key, "error", body_of_error(error), root, lease)
            elif lease is not None:
                await lease.release(pause=pause if refresh else 0.0)
            raise
        body = body_of(result)
        loaded = Loaded(result, body)
        # What came with a warning is not all that there is, or not from where it should be.
        whole = root.warned == warned
        if stores and whole and (self._rules.admits is None or self._rules.admits(result)):
            await self._keep(key, "value", body, root, lease)
            self._failures.clear(key)
        elif refresh:
            # What is not kept does not become fresh: the next reader must not ask for it again at once.
            pause = self._failures.add(key, root.clock.now(), None)
            if lease is not None:
                await lease.release(pause=pause)
        elif lease is not None:
            await lease.release()
        return loaded

    async def _keep(self, key: str, kind: Kind, body: bytes | None, root: Root, lease: Lease | None) -> None:
        rules = self._rules
        if body is None or len(body) > rules.max_bytes:
            reason = "not JSON" if body is None else "too large"
            root.signals.count("cache_not_stored", cache=self._label, reason=reason)
            return
        fresh = rules.ttl * (1 + rules.jitter * (2 * root.rng.random() - 1)) if rules.jitter else rules.ttl
        life = fresh + max(rules.stale, rules.stale_error)
        entry = Put(key, sealed(kind, body, fresh=fresh, life=life), life)
        try:
            if lease is None:
                await self._store.set(entry.key, entry.value, ttl=life)
            elif not await lease.done(entry):
                root.signals.count("cache_not_stored", cache=self._label, reason="late")
        except StoreError as error:
            root.signals.count("cache_not_stored", cache=self._label, reason=error.code)

    # -- other processes ---------------------------------------------------------------------------------------------

    async def _turn(self, key: str, call: Call) -> Lease | Loaded | None:
        """Return the lease of a key, or what another process has loaded meanwhile; nothing when the store fails."""
        root, pause = call.root, FIRST_LOOK
        try:
            while True:
                lease = await Lease.take(self._store, key, root.clock, refresh=False)
                held = await self._fresh(key, root, lease)
                if held is not None:
                    return Loaded(held[0].give(held[1]), held[0].body)
                if lease is not None:
                    return lease
                await root.clock.sleep(pause * (0.5 + root.rng.random() / 2))
                pause = min(pause * 1.5, LAST_LOOK)
        except StoreError:
            return None

    async def _fresh(self, key: str, root: Root, lease: Lease | None) -> Held | None:
        """Return what is fresh in the store: then, and on any failure, a lease is given back."""
        held = None
        try:
            stored = await self._store.get(key)
            held = None if stored is None else self._read(stored, root.signals)
            if held is not None and held[0].past(0.0):
                held = None
        except BaseException:
            if lease is not None:
                lease.abandon(root.detach)
            raise
        if held is not None and lease is not None:
            await lease.release()
        return held

    # -- refreshing --------------------------------------------------------------------------------------------------

    def _refresh(self, key: str, value: Value, call: Call) -> None:
        """Load a key in the background, for the caller who found it stale, unless somebody does."""
        root = call.root
        if key in self._refreshing or key in self._flights or not self._failures.may_refresh(key, root.clock.now()):
            return
        self._refreshing.add(key)
        root.detach(self._refreshed(key, value, call.apart()), partial(self._refreshing.discard, key))

    async def _refreshed(self, key: str, value: Value, call: Call) -> None:
        root, lease = call.root, None
        try:
            async with root.clock.timeout_at(call.deadline):
                if self._store.shared:
                    lease = await Lease.take(self._store, key, root.clock, refresh=True)
                    if lease is None or await self._fresh(key, root, lease) is not None:
                        return
                load = partial(self._load, key, value, call, stores=True, refresh=True, lease=lease)
                await self._flights.do(key, load)
        except (TimeoutError, WeftError) as error:
            root.signals.count("cache_refresh_failed", cache=self._label)
            if isinstance(error, TimeoutError) or is_own(error):
                self._failures.add(key, root.clock.now(), None)
        finally:
            self._refreshing.discard(key)
            if lease is not None and lease.held:
                lease.abandon(root.detach)


def may_pass(error: WeftError) -> bool:
    """Tell whether an old answer is better than an error: not where the caller is at fault, or may not ask."""
    return error.retryable != "no" or isinstance(error, CircuitOpen | RetriesExhausted)

"""Throttle: let only so many calls through, in so much time or at the same moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field, model_validator

from weft.errors import LimitExceeded, Loc, StoreError, shown
from weft.expr.durations import Duration, given_ms
from weft.expr.jcs import hash_of
from weft.ir.nodes import Milliseconds, refuse
from weft.ir.normalise import made
from weft.ir.operations import Operation
from weft.patterns.contract import Call, Claim, Compiler, Flow, Op, Pattern, Pure, Run, Value, operand, perform
from weft.patterns.copies import Copies
from weft.patterns.keys import KeySpace, Scope, principal_of
from weft.patterns.outages import Outages
from weft.patterns.throttle_gates import Gate, Gates, Pass, Refused, SharedGate
from weft.patterns.throttle_rates import Strategy, rate_of
from weft.patterns.throttle_turns import Turns
from weft.ports import Schema, is_object

MOST = 1_000_000
A = TypeVar("A")
B = TypeVar("B")


class Throttle(Pattern):
    """Calls wait for their turn as long as their deadline allows, or are refused at once.

    Throttles of one name share their limits, whoever calls: `scope` parts callers or tenants. Without a `store` each
    process has limits of its own; with one, all that share it have the same.
    """

    aliases: ClassVar[Mapping[str, str]] = {"calls": "rate", "window": "windowMs", "onLimit": "onExceeded"}

    inner: Operation
    name: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    rate: Annotated[int, Field(ge=1, le=MOST)] | None = None
    window_ms: Milliseconds = 1000
    strategy: Strategy = "sliding_window"
    burst: Annotated[int, Field(ge=1, le=MOST)] | None = None
    concurrency: Annotated[int, Field(ge=1, le=10_000)] | None = None
    on_exceeded: Literal["wait", "reject"] = "wait"
    scope: Scope = "public"
    store: Annotated[str, Field(min_length=1, max_length=256)] | None = None

    @classmethod
    def spell(cls, value: Any) -> Any:
        """Take the window in seconds, and a burst as the sign of a token bucket."""
        if not is_object(value):
            return value
        given = dict(value)
        for key in ("perSeconds", "per_seconds"):
            if isinstance(seconds := given.get(key), int | float) and seconds is not True and "windowMs" not in given:
                del given[key]
                given["windowMs"] = round(seconds * 1000) if math.isfinite(seconds) else seconds
        if given.get("burst") is not None:
            given.setdefault("strategy", "token_bucket")
        return given

    @model_validator(mode="after")
    def _limits(self) -> Throttle:
        if self.rate is None and self.concurrency is None:
            raise refuse("MissingKey", "a throttle limits something", expected="rate, concurrency or both")
        if self.burst is not None and self.strategy != "token_bucket":
            told = f"{self.strategy} has no burst"
            raise refuse("Impossible", told, value=shown(self.burst), expected="strategy token_bucket", at=("burst",))
        return self

    def compile(self, c: Compiler) -> Run | Pure:
        inner = c.branch(self.inner, "inner")
        enter, name, waits = self._enters(c), self.name or "throttle", self.on_exceeded == "wait"

        async def run(value: Value, call: Call) -> Value:
            root = call.root
            patience = call.deadline - root.clock.now() if waits else 0.0
            try:
                waited, leave = await enter(call, patience)
            except Refused as refused:
                root.signals.count("throttled", throttle=name, outcome="refused")
                call.note(throttle="refused")
                raise self._error(name, refused) from None
            if waited > 0:
                root.signals.count("throttled", throttle=name, outcome="waited")
                call.note(throttle="waited", waitedMs=round(waited * 1000))
            try:
                return await perform(inner, value, call)
            finally:
                leave()

        return run

    def _enters(self, c: Compiler) -> Callable[[Call, float], Any]:
        """Return how a call passes: through the gate in the store, while that can be used, else through the local."""
        seconds, places = self.window_ms / 1000, self.concurrency
        rate = None if self.rate is None else rate_of(self.strategy, self.rate, seconds, self.burst)
        gates, rules = c.kept(Gates), hash_of(self._rules())[:16]
        space = KeySpace("throttle", c.place() if self.name is None else f"{self.name} {rules}", self.scope)

        async def local(call: Call, patience: float) -> tuple[float, Pass]:
            key = space.prefix(principal_of(call.root))
            gate = gates.of(key, lambda: Gate(rate, places), call.root.clock.now())
            return await gate.enter(call.root, patience), gate.leave

        if self.store is None:
            return local
        store, turns = c.store(self.store), c.kept(Turns)
        outage = c.kept(Outages).of("throttle", store.name, "each process has limits of its own")

        async def shared(call: Call, patience: float) -> tuple[float, Pass]:
            key = space.prefix(principal_of(call.root))
            gate = SharedGate(store, key, rate, places, seconds, turn=turns.of(f"{store.name}|{key}"))
            try:
                passed = await gate.enter(call, patience)
            except StoreError as error:
                outage.began(call.root.signals, error)
                return await local(call, patience)
            outage.ended(call.root.signals)
            return passed

        return shared

    def _rules(self) -> dict[str, Any]:
        return self.model_dump(include={"rate", "window_ms", "strategy", "burst", "concurrency", "scope", "store"})

    def _error(self, name: str, refused: Refused) -> LimitExceeded:
        if refused.by == "places":
            limit, told = self.concurrency or 0, f"{shown(name)} lets {self.concurrency} calls through at once"
        else:
            limit, told = self.rate or 0, f"{shown(name)} lets {self.rate} calls through in {self.window_ms / 1000:g} s"
        error = LimitExceeded("Throttled", limit, told)
        error.retry_after = refused.wait
        return error

    def copies(self, c: Compiler) -> Copies:
        return c.copies(self.inner)

    def flow(self, given: Schema, f: Flow) -> Schema:
        return f.operation(self.inner, given, "inner")

    def stores(self) -> Iterable[tuple[str, Loc]]:
        return () if self.store is None else [(self.store, ("store",))]

    def claims(self) -> Iterable[Claim]:
        return () if self.name is None else [Claim("throttle", self.name, self._rules(), ("name",))]


def throttle(
    inner: Op[A, B],
    rate: int | None = None,
    per: Duration | str = "1s",
    *,
    name: str | None = None,
    strategy: Strategy | None = None,
    burst: int | None = None,
    concurrency: int | None = None,
    on_exceeded: Literal["wait", "reject"] = "wait",
    scope: Scope = "public",
    store: str | None = None,
) -> Op[A, B]:
    """Let only so many calls through: `w.throttle(w.tool("search"), 10, w.seconds(1), name="search")`.

    `concurrency` is how many may run at the same moment. What would have to wait too long, or may not wait, is refused.
    """
    part = operand(inner, "w.throttle")
    given: dict[str, Any] = {
        "name": name,
        "rate": rate,
        "windowMs": None if rate is None else given_ms(per, "the window of a throttle"),
        "strategy": strategy,
        "burst": burst,
        "concurrency": concurrency,
        "onExceeded": on_exceeded,
        "scope": None if scope == "public" else scope,
        "store": store,
    }
    body = {key: value for key, value in given.items() if value is not None}
    return Op(made(Throttle, {"inner": part.node, **body}), [part])

"""Idempotent: carry a request out once, however often it is made, and give everybody the same answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeVar, cast

from pydantic import Field, ValidatorFunctionWrapHandler, WithJsonSchema, WrapValidator

from weft.errors import ExecutionFailed, Loc, shown
from weft.expr import paths
from weft.expr.durations import YEAR
from weft.expr.fields import path_text
from weft.expr.paths import compile_path
from weft.expr.shapes import any_of
from weft.ir.nodes import Milliseconds, PathText, refuse
from weft.ir.normalise import made
from weft.ir.operations import Operation
from weft.ir.seconds import LeaseSeconds, Seconds, Span, in_seconds
from weft.patterns.contract import Call, Compiler, Flow, Op, Pattern, Pure, Run, Value, operand, perform
from weft.patterns.copies import Copies
from weft.patterns.flows import at_path
from weft.patterns.idempotent_claim import OnDuplicate, OnUnknown, RecordFailures, Rules
from weft.patterns.idempotent_flight import Flight, limit_of
from weft.patterns.keys import MISSING, Keys, KeySpace, Scope, hash_of_values, principal_of
from weft.ports import Schema, is_object

A = TypeVar("A")
B = TypeVar("B")

LEASE = 30.0
FOREVER = 10 * YEAR
MAX_STORED = 1_000_000
SHORTEST_TTL = 1.0


def _ttl(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    if value.__class__ in (int, float) and value == 0:
        return 0
    seconds = handler(value)
    if seconds < SHORTEST_TTL:
        told = f"a request would be forgotten after {shown(seconds)} seconds, before its answer is there"
        raise refuse("TtlTooShort", told, value=shown(value), expected="0 for never, or at least 1 second")
    return seconds


def _policy(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    return handler(value.removeprefix("ON_DUPLICATE_").lower() if isinstance(value, str) else value)


_TTL_SCHEMA = {"anyOf": [{"const": 0}, {"type": "number", "minimum": SHORTEST_TTL, "maximum": YEAR}]}
TtlSeconds = Annotated[Seconds, WrapValidator(_ttl), WithJsonSchema(_TTL_SCHEMA)]
Policy = Annotated[OnDuplicate, WrapValidator(_policy)]


class Idempotent(Pattern):
    """Requests with the same values at the key's paths, of the same caller, are one: the first is carried out.

    cached: all others get what the first one got, and wait for it. skip: they get null at once. error: they fail.
    """

    aliases: ClassVar[Mapping[str, str]] = {"key": "keyPaths", "ttl": "ttlSeconds", "inFlightWait": "inFlightWaitMs"}

    key_paths: Annotated[list[PathText], Field(min_length=1, max_length=32)]
    inner: Operation
    store: Annotated[str, Field(min_length=1)] | None = None
    ttl_seconds: TtlSeconds = 0
    on_duplicate: Policy = "cached"
    on_unknown: OnUnknown | None = None
    record_failures: RecordFailures = "deterministic"
    fingerprint_paths: Annotated[list[PathText], Field(min_length=1, max_length=32)] | None = None
    scope: Scope = "caller"
    in_flight_wait_ms: Milliseconds | None = None
    lease_seconds: LeaseSeconds = LEASE
    max_stored_bytes: Annotated[int, Field(ge=1024, le=64 << 20)] = MAX_STORED

    @classmethod
    def spell(cls, value: Any) -> Any:
        """Take one path where a list of them belongs."""
        if not is_object(value):
            return value
        names = ("keyPaths", "key_paths", "key", "fingerprintPaths", "fingerprint_paths")
        return {key: [one] if key in names and isinstance(one, str) else one for key, one in value.items()}

    def compile(self, c: Compiler) -> Run | Pure:
        inner = c.branch(self.inner, "inner")
        rules = self._rules(c)
        space = KeySpace("idempotent", c.place(), self.scope)
        values = _values(self.key_paths)
        payload = _fingerprint(self.fingerprint_paths)
        flights: dict[str, Flight] = {}
        rights = c.rights(self.inner)

        def check_rights(call: Call) -> None:
            """Refuse what another call got to one that may not call the tools itself (any more)."""
            if rights and not all(allows(call) for allows in rights):
                told = "What this request led to may not be given to this caller"
                raise ExecutionFailed(told, code="StepDenied", hint="ask who runs the gateway")

        def began(key: str, payload: str, value: Value, call: Call) -> Flight:
            keys = Keys(key, 1 if call.keys is None else call.keys.attempt)
            flight = Flight(rules, key, payload, lambda: perform(inner, value, call.keyed(keys)), call)
            flights[key] = flight

            def ended(_: object) -> None:
                if flights.get(key) is flight:
                    del flights[key]

            flight.task.add_done_callback(ended)
            return flight

        async def run(value: Value, call: Call) -> Value:
            key = space.key(principal_of(call.root), values(value), self.key_paths)
            asked = payload(value)
            while True:
                flight = flights.get(key)
                if flight is None or flight.is_dying:
                    outcome = await began(key, asked, value, call).join(call)
                    if outcome.role in ("replay", "follower"):
                        check_rights(call)
                    return outcome.give(call)
                if flight.payload != asked:
                    raise flight.reused()
                if (told := flight.duplicate()) is not None:
                    return told.give(call)
                check_rights(call)
                outcome = await flight.join(call, limit_of(call, rules.wait))
                if outcome.is_shared:
                    return outcome.share(call)

        return run

    def _rules(self, c: Compiler) -> Rules:
        ttl = self.ttl_seconds or None
        return Rules(
            store=c.store(self.store),
            ttl=ttl,
            keep=ttl or FOREVER,
            lease=self.lease_seconds,
            wait=None if self.in_flight_wait_ms is None else self.in_flight_wait_ms / 1000,
            on_duplicate=self.on_duplicate,
            on_unknown=self.on_unknown or ("retry" if c.repeatable(self.inner) else "error"),
            record_failures=self.record_failures,
            max_stored=self.max_stored_bytes,
        )

    def copies(self, c: Compiler) -> Copies:
        return c.copies(self.inner)

    def flow(self, given: Schema, f: Flow) -> Schema:
        for name, listed in (("keyPaths", self.key_paths), ("fingerprintPaths", self.fingerprint_paths or ())):
            for index, path in enumerate(listed):
                at_path(given, path, f, name, index)
        result = f.operation(self.inner, given, "inner")
        return any_of([result, {"type": "null"}]) if self.on_duplicate == "skip" else result

    def stores(self) -> Iterable[tuple[str, Loc]]:
        return () if self.store is None else [(self.store, ("store",))]


def _values(listed: list[str]) -> Callable[[Value], list[Any]]:
    finds = [compile_path(text).find for text in listed]

    def values(value: Value) -> list[Any]:
        return [MISSING if (one := find(value)) is paths.MISSING else one for find in finds]

    return values


def _fingerprint(listed: list[str] | None) -> Callable[[Value], str]:
    """Return what tells two payloads apart: all of the value, or what stands at some paths of it."""
    if listed is None:
        return lambda value: hash_of_values([value])
    values = _values(listed)
    return lambda value: hash_of_values([[] if one is MISSING else [one] for one in values(value)])


def idempotent(
    inner: Op[A, B],
    *,
    key: object,
    store: str | None = None,
    ttl: Span | None = None,
    on_duplicate: OnDuplicate = "cached",
    on_unknown: OnUnknown | None = None,
    record_failures: RecordFailures | None = None,
    fingerprint: object = None,
    scope: Scope | None = None,
    in_flight_wait: Span | None = None,
    lease: Span | None = None,
    max_stored_bytes: int | None = None,
) -> Op[A, B]:
    """Carry requests out once: `w.idempotent(w.tool("pay"), key=p.order_id, store="requests", ttl=w.hours(24))`.

    `key` and `fingerprint` are a path or several; without `ttl` a request is remembered for ever.
    """
    operation = operand(inner, "w.idempotent")
    given: dict[str, Any] = {
        "keyPaths": _paths(key),
        "inner": operation.node,
        "store": store,
        "ttlSeconds": None if ttl is None else in_seconds(ttl),
        "onDuplicate": on_duplicate,
        "onUnknown": on_unknown,
        "recordFailures": record_failures,
        "fingerprintPaths": None if fingerprint is None else _paths(fingerprint),
        "scope": scope,
        "inFlightWaitMs": None if in_flight_wait is None else round(in_seconds(in_flight_wait) * 1000),
        "leaseSeconds": None if lease is None else in_seconds(lease),
        "maxStoredBytes": max_stored_bytes,
    }
    return Op(made(Idempotent, {name: one for name, one in given.items() if one is not None}), [operation])


def _paths(given: object) -> list[str]:
    several = cast("Sequence[object]", given) if isinstance(given, list | tuple) else (given,)
    return [path_text(one) for one in several]

"""Circuit breaker: leave alone for a while what fails too often."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import Field, model_validator

from weft.errors import CircuitOpen, Loc, WeftError, shown
from weft.expr.comparisons import Predicate
from weft.expr.shapes import any_of
from weft.ir.nodes import refuse
from weft.ir.normalise import made
from weft.ir.operations import Operation
from weft.ir.predicates import FieldPredicate
from weft.ir.seconds import Seconds, Span, in_seconds
from weft.patterns.circuit_judging import Judge, is_about_errors
from weft.patterns.circuit_state import CircuitRules, Outcome, Permit, Refusal
from weft.patterns.circuits import Circuit, Circuits
from weft.patterns.contract import (
    Call,
    Claim,
    Compiler,
    Flow,
    Op,
    Pattern,
    Pure,
    Root,
    Run,
    Step,
    Value,
    operand,
    perform,
)
from weft.patterns.copies import Copies, either
from weft.patterns.flows import check_predicate
from weft.patterns.keys import Scope, principal_of
from weft.patterns.outages import Outages
from weft.ports import Schema

A = TypeVar("A")
B = TypeVar("B")

MARGIN: Final = 1.0
"""How much longer than its call a probe may hold its place."""
MAX_COUNT: Final = 1_000_000
MAX_PROBES: Final = 100


class CircuitBreaker(Pattern):
    """Opens after `failureThreshold` failures within the window, and then calls nothing for `resetTimeoutSeconds`.

    After that it is half open: a few calls are let through as probes. One that fails opens it again,
    `successThreshold` that succeed close it. Circuits of one name are one circuit.
    """

    aliases: ClassVar[Mapping[str, str]] = {
        "failureWindow": "failureWindowSeconds",
        "resetTimeout": "resetTimeoutSeconds",
        "maxResetTimeout": "maxResetTimeoutSeconds",
    }

    name: Annotated[str, Field(min_length=1, max_length=128)]
    inner: Operation
    store: Annotated[str, Field(min_length=1)] | None = None
    failure_threshold: Annotated[int, Field(ge=1, le=MAX_COUNT)]
    failure_window_seconds: Seconds
    reset_timeout_seconds: Seconds
    success_threshold: Annotated[int, Field(ge=1, le=MAX_PROBES)] = 1
    fallback: Operation | None = None
    failure_if: FieldPredicate | None = None
    failure_rate: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    minimum_calls: Annotated[int, Field(ge=1, le=MAX_COUNT)] | None = None
    half_open_max_concurrent: Annotated[int, Field(ge=1, le=MAX_PROBES)] = 1
    max_reset_timeout_seconds: Seconds | None = None
    is_error_is_failure: bool = True
    scope: Scope = "public"

    @model_validator(mode="after")
    def _possible(self) -> CircuitBreaker:
        longest = self.max_reset_timeout_seconds
        if longest is not None and longest < self.reset_timeout_seconds:
            told = f"maxResetTimeoutSeconds {longest} is less than resetTimeoutSeconds {self.reset_timeout_seconds}"
            wanted = f"at least {self.reset_timeout_seconds}"
            raise refuse("Impossible", told, value=shown(longest), expected=wanted, at=("maxResetTimeoutSeconds",))
        if self.minimum_calls is not None and self.failure_rate is None:
            told, wanted = "minimumCalls says nothing without failureRate", "failureRate beside it"
            raise refuse("Impossible", told, value=shown(self.minimum_calls), expected=wanted, at=("minimumCalls",))
        return self

    def rules(self) -> CircuitRules:
        """Return what circuits of one name must agree on."""
        return CircuitRules(
            failure_threshold=self.failure_threshold,
            failure_window=self.failure_window_seconds,
            reset_timeout=self.reset_timeout_seconds,
            success_threshold=self.success_threshold,
            half_open_max_concurrent=self.half_open_max_concurrent,
            failure_rate=self.failure_rate,
            minimum_calls=self.minimum_calls or 1,
            max_reset_timeout=self.max_reset_timeout_seconds,
        )

    def claims(self) -> Iterable[Claim]:
        settings = self.model_dump(mode="json", exclude={"inner", "fallback", "failure_if", "is_error_is_failure"})
        return [Claim("circuit", self.name, settings, ("name",))]

    def stores(self) -> Iterable[tuple[str, Loc]]:
        return () if self.store is None else [(self.store, ("store",))]

    def compile(self, c: Compiler) -> Run | Pure:
        inner = c.branch(self.inner, "inner")
        fallback = None if self.fallback is None else c.branch(self.fallback, "fallback")
        judge = Judge(self.failure_if, refusals_count=self.is_error_is_failure)
        find, fixed = self._finder(c)
        name = self.name

        async def run(value: Value, call: Call) -> Value:
            root = call.root
            circuit = fixed or find(root)
            permit = await circuit.enter(root, call.deadline - root.clock.now() + MARGIN)
            if isinstance(permit, Refusal):
                return await _refused(name, permit, fallback, value, call)
            if permit.probe is not None:
                call.note(circuit="half_open")
            return await _guarded(circuit, permit, judge, partial(perform, inner, value, call), call)

        return run

    def _finder(self, c: Compiler) -> tuple[Callable[[Root], Circuit], Circuit | None]:
        """Return what finds the circuit for a call, and the one circuit if all calls have the same."""
        circuits, outages, rules = c.kept(Circuits), c.kept(Outages), self.rules()
        store = None if self.store is None else c.store(self.store)

        def find(root: Root) -> Circuit:
            principal = principal_of(root)
            who = principal.tenant if self.scope == "tenant" else principal.id
            return circuits.circuit(self.name, rules, store=store, outages=outages, scope=f"{self.scope} {who}")

        if self.scope != "public":
            return find, None
        return find, circuits.circuit(self.name, rules, store=store, outages=outages)

    def copies(self, c: Compiler) -> Copies:
        return either(c.copies(one) for one in (self.inner, self.fallback) if one is not None)

    def flow(self, given: Schema, f: Flow) -> Schema:
        result = f.operation(self.inner, given, "inner")
        if self.failure_if is not None and not is_about_errors(self.failure_if):
            check_predicate(self.failure_if, result, f, "failureIf")
        return result if self.fallback is None else any_of([result, f.operation(self.fallback, given, "fallback")])


async def _guarded(
    circuit: Circuit, permit: Permit, judge: Judge, work: Callable[[], Awaitable[Value]], call: Call
) -> Value:
    root, result, failed = call.root, None, None
    try:
        result = await work()
    except WeftError as error:
        failed = error
    except BaseException as error:
        # A call that is stopped at its deadline was too slow; one that its caller stops says nothing.
        late = isinstance(error, asyncio.CancelledError) and root.clock.now() >= call.deadline
        circuit.leave_at_once(permit, "failure" if late else "neutral", root)
        raise
    outcome: Outcome = "neutral"
    try:
        outcome = judge.of_result(result) if failed is None else judge.of_error(failed)
    finally:
        await circuit.leave(permit, outcome, root)
    if failed is not None:
        raise failed
    return result


async def _refused(name: str, refusal: Refusal, fallback: Step | None, value: Value, call: Call) -> Value:
    call.root.signals.count("circuit_refused", circuit=name)
    call.note(circuit=refusal.phase)
    error = _circuit_open(name, refusal)
    if fallback is None:
        raise error
    call.note(fallback=True)
    try:
        result = await perform(fallback, value, call)
    except WeftError as failed:
        told = f"it stood in for what circuit '{name}' keeps from being called"
        failed.hint = told if failed.hint is None else f"{failed.hint}; {told}"
        failed.retry_after = error.retry_after if failed.retry_after is None else failed.retry_after
        failed.add(cause=error.to_json())
        raise failed from error
    call.root.mark("fallback", True)
    call.root.warn(f"Circuit '{name}' is {_PHASES[refusal.phase]}: the fallback answered")
    return result


_PHASES: Final = {"open": "OPEN", "half_open": "HALF_OPEN", "closed": "CLOSED"}


def _circuit_open(name: str, refusal: Refusal) -> CircuitOpen:
    """Return the error of a call that was not let through, with the time that is left, not the whole one."""
    told = f"Circuit '{name}' is {_PHASES[refusal.phase]}. Requests are being rejected."
    if refusal.left is None:
        return CircuitOpen(f"{told} An operator holds it open", hint="weft circuit reset closes it")
    error = CircuitOpen(f"{told} Reset timeout: {math.ceil(refusal.left * 10) / 10:g}s")
    error.retry_after = refusal.left
    return error


def circuit_breaker(
    inner: Op[A, B],
    *,
    name: str,
    failure_threshold: int,
    failure_window: Span,
    reset_timeout: Span,
    success_threshold: int | None = None,
    fallback: Op[A, B] | None = None,
    failure_if: Predicate[Any] | FieldPredicate | None = None,
    store: str | None = None,
    failure_rate: float | None = None,
    minimum_calls: int | None = None,
    half_open_max_concurrent: int | None = None,
    max_reset_timeout: Span | None = None,
    is_error_is_failure: bool | None = None,
    scope: Scope | None = None,
) -> Op[A, B]:
    """Leave a tool alone that fails too often, and let a fallback answer meanwhile.

    `w.circuit_breaker(w.tool("pay"), name="payments", failure_threshold=5, failure_window=w.minutes(1),
    reset_timeout=w.seconds(30), fallback=w.tool("queue_for_later"))`
    """
    parts = [operand(inner, "w.circuit_breaker")]
    body: dict[str, Any] = {"name": name, "inner": parts[0].node, "failureThreshold": failure_threshold}
    spans = {
        "failureWindowSeconds": failure_window,
        "resetTimeoutSeconds": reset_timeout,
        "maxResetTimeoutSeconds": max_reset_timeout,
    }
    others = {
        "store": store,
        "successThreshold": success_threshold,
        "failureIf": failure_if.to_json() if isinstance(failure_if, Predicate) else failure_if,
        "failureRate": failure_rate,
        "minimumCalls": minimum_calls,
        "halfOpenMaxConcurrent": half_open_max_concurrent,
        "isErrorIsFailure": is_error_is_failure,
        "scope": scope,
    }
    if fallback is not None:
        parts.append(operand(fallback, "w.circuit_breaker"))
        body["fallback"] = fallback.node
    body |= {name: in_seconds(span) for name, span in spans.items() if span is not None}
    body |= {name: value for name, value in others.items() if value is not None}
    return Op(made(CircuitBreaker, body), parts)

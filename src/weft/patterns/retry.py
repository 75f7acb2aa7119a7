"""Retry: run a step again, with growing pauses, while it may still succeed."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from random import Random
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar

from pydantic import Field

from weft.errors import BudgetSpent, WeftError
from weft.expr.comparisons import Predicate
from weft.expr.durations import Duration, given_ms
from weft.ir.nodes import Milliseconds
from weft.ir.normalise import made
from weft.ir.operations import Operation
from weft.ir.predicates import FieldPredicate
from weft.patterns.attempts import attempt_at
from weft.patterns.backoff import Backoff, ExponentialBackoff, Jitter
from weft.patterns.contract import Call, Compiler, Flow, Op, Pattern, Pure, Run, Value, operand
from weft.patterns.copies import Copies
from weft.patterns.keys import Keys
from weft.patterns.retry_rules import RetryBudget, Tokens, asked_to_wait, exhausted, final, rule
from weft.ports import Schema, is_array, is_object

MAX_ATTEMPTS = 20
MIN_ATTEMPT = 0.01
"""With less time than this left, in seconds, another attempt is not begun."""
A = TypeVar("A")
B = TypeVar("B")
Condition: TypeAlias = "FieldPredicate | Predicate[Any]"


class Retry(Pattern):
    """Attempts follow each other until one succeeds, an error is final, or there is no time or budget for another.

    All attempts have the same idempotency keys. Without `retryIf`, what is known not to have been done is repeated;
    what may have been done is, when every tool inside says that this does no harm, or when `retryUnknown` does.
    """

    aliases: ClassVar[Mapping[str, str]] = {"attemptTimeout": "attemptTimeoutMs"}

    inner: Operation
    max_attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)] = 3
    backoff: Backoff = Backoff.model_construct(
        {"exponential"}, exponential=ExponentialBackoff.model_construct({"initial_delay_ms"}, initial_delay_ms=200)
    )
    retry_if: FieldPredicate | None = None
    jitter: Jitter = 0.0
    attempt_timeout_ms: Milliseconds | None = None
    retry_unknown: bool | None = None
    budget: RetryBudget = RetryBudget.model_construct(set())

    def compile(self, c: Compiler) -> Run | Pure:
        attempt = attempt_at(c.branch(self.inner, "inner"), self.attempt_timeout_ms)
        may_repeat = rule(self.retry_if, repeatable=c.repeatable(self.inner), retry_unknown=self.retry_unknown)
        attempts, tokens, place = self.max_attempts, Tokens(self.budget), c.place()
        pause_after = self._pauses()

        async def run(value: Value, call: Call) -> Value:
            tokens.call()
            keys = _keys(call, place, value)
            given = copied(value) if attempts > 1 else value
            failures: list[WeftError] = []
            while True:
                number = len(failures) + 1
                try:
                    result = await attempt(value, call.keyed(keys.again(number)))
                except BudgetSpent:
                    raise
                except WeftError as error:
                    failures.append(error)
                else:
                    if call.traced:
                        call.note(attempts=number)
                    return result
                call.note(attempts=number)
                if not may_repeat(failures[-1], number):
                    raise final(failures)
                pause = max(pause_after(number, call.root.rng), asked_to_wait(failures[-1]))
                ended = "attempts" if number == attempts else _ended(pause, tokens, call)
                call.root.signals.count("retries", outcome=ended or "again")
                if ended is not None:
                    raise exhausted(failures, attempts, ended)
                if pause:
                    await call.root.clock.sleep(pause)
                value = copied(given) if number + 1 < attempts else given

        return run

    def _pauses(self) -> Callable[[int, Random], float]:
        delay, jitter = self.backoff.chosen.delay, self.jitter
        return lambda attempt, rng: delay(attempt) * (1 - jitter * rng.random()) if jitter else delay(attempt)

    def copies(self, c: Compiler) -> Copies:
        return c.copies(self.inner)

    def flow(self, given: Schema, f: Flow) -> Schema:
        return f.operation(self.inner, given, "inner")


def _keys(call: Call, place: str, value: Value) -> Keys:
    """Return what makes the upstreams' keys: the same for each attempt, and for each of the pattern around it."""
    above = call.keys
    # Not by the call's own chance: two processes that were forked would have the same.
    return Keys(secrets.token_hex(16) if above is None else above.next(place, value))


def _ended(pause: float, tokens: Tokens, call: Call) -> str | None:
    """Return what keeps another attempt from being made; if nothing does, take it from the budget."""
    now = call.root.clock.now()
    if now + pause + MIN_ATTEMPT > call.deadline:
        return "deadline"
    return None if tokens.take(now) else "budget"


def copied(value: Value) -> Value:
    """Return a JSON value that shares nothing with the given one which could be changed."""
    if is_object(value):
        return {key: copied(item) if item.__class__ in _HOLDERS else item for key, item in value.items()}
    if is_array(value):
        return [copied(item) if item.__class__ in _HOLDERS else item for item in value]
    return value


_HOLDERS = frozenset({list, dict})


def retry(
    inner: Op[A, B],
    max_attempts: int = 3,
    *,
    backoff: Backoff | None = None,
    retry_if: Condition | None = None,
    jitter: float | None = None,
    attempt_timeout: Duration | str | None = None,
    retry_unknown: bool | None = None,
) -> Op[A, B]:
    """Run a step again while it may still succeed: `w.retry(w.tool("search"), 3, backoff=w.exponential("200ms"))`.

    `max_attempts` counts the first. `retry_if` asks about the error: `w.holds(w.path({}).code, w.eq("ToolFailed"))`.
    """
    part = operand(inner, "w.retry")
    body: dict[str, Any] = {"inner": part.node, "maxAttempts": max_attempts}
    if backoff is not None:
        body["backoff"] = backoff
    if retry_if is not None:
        body["retryIf"] = retry_if.to_json() if isinstance(retry_if, Predicate) else retry_if
    if jitter is not None:
        body["jitter"] = jitter
    if attempt_timeout is not None:
        body["attemptTimeoutMs"] = given_ms(attempt_timeout, "a timeout")
    if retry_unknown is not None:
        body["retryUnknown"] = retry_unknown
    return Op(made(Retry, body), [part])

"""What retry goes by: which errors leave sense in another attempt, and how many all calls together may make."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from weft.errors import (
    CircuitOpen,
    ExecutionFailed,
    InputError,
    LimitExceeded,
    RetriesExhausted,
    TimedOut,
    ToolFailed,
    UpstreamAuth,
    UpstreamMessageTooLarge,
    UpstreamProtocolError,
    UpstreamRefused,
    WeftError,
)
from weft.ir.nodes import Node
from weft.ir.predicates import FieldPredicate
from weft.ports import Json

CAUSES = 5
REFILL = 60.0
"""In how many seconds an empty budget has its least again."""
SAVED = 100.0
"""How many retries a budget saves up at most."""
NEVER = (InputError, UpstreamAuth, CircuitOpen, LimitExceeded)
"""What another attempt cannot help, or would make worse."""
NEVER_RPC = frozenset({-32600, -32601, -32602})
UNCERTAIN = (UpstreamProtocolError, UpstreamMessageTooLarge)
"""Errors after which the tool may have run, though nobody offers to try again."""


class AttemptTimedOut(TimedOut):
    """The time limit of one attempt: whoever sets one wants another attempt after it."""


def rule(
    wanted: FieldPredicate | None, *, repeatable: bool, retry_unknown: bool | None
) -> Callable[[WeftError, int], bool]:
    """Return what tells whether an error leaves sense, and does no harm, in another attempt."""
    asked = None if wanted is None else wanted.compile()
    unknown, late = repeatable or retry_unknown is True, retry_unknown is not False

    def may_repeat(error: WeftError, attempt: int) -> bool:
        if _never(error) or (_open(error) and not unknown and not (late and isinstance(error, AttemptTimedOut))):
            return False
        if asked is not None:
            return asked(error_object(error, attempt))
        return error.retryable != "no" and not isinstance(error, RetriesExhausted)

    return may_repeat


def _never(error: WeftError) -> bool:
    if isinstance(error, UpstreamRefused):
        return error.rpc_code in NEVER_RPC
    return isinstance(error, NEVER) or (isinstance(error, ExecutionFailed) and error.retryable == "no")


def _open(error: WeftError) -> bool:
    """Tell whether the work may have been done in spite of the error."""
    return error.retryable == "unknown-outcome" or isinstance(error, UNCERTAIN)


def error_object(error: WeftError, attempt: int) -> dict[str, Json]:
    """Return the error as `retryIf` reads it."""
    told: dict[str, Json] = {**error.to_json(), "attempt": attempt}
    status = getattr(error, "status", None)
    if isinstance(status, int):
        told["status"] = status
    if isinstance(error, ToolFailed):
        told |= {"isError": True, "content": error.content}
    if isinstance(error, UpstreamRefused):
        told["rpcCode"] = error.rpc_code
    return told


def asked_to_wait(error: WeftError) -> float:
    """Return the seconds that an upstream asked to wait for, if it did so in earnest."""
    asked = error.retry_after
    return asked if asked is not None and math.isfinite(asked) and asked > 0 else 0.0


def final(failures: list[WeftError]) -> WeftError:
    """Return the error that ends the attempts as it is; unless an earlier one may have done the work, it says all."""
    last = failures[-1]
    if any(map(_open, failures[:-1])):
        last.retryable = "unknown-outcome"
    return last


_ENDED = {"deadline": "there is no time for another", "budget": "too many calls are repeated already"}


def exhausted(failures: list[WeftError], attempts: int, reason: str) -> RetriesExhausted:
    """Return the error of attempts that all failed; `reason` is what ran out."""
    last, count = failures[-1], len(failures)
    if reason == "attempts":
        told = f"Max retries ({attempts}) exhausted. Last error: {last.message}"
    else:
        told = f"Retries ended after {count} of {attempts} attempts: {_ENDED[reason]}. Last error: {last.message}"
    error = RetriesExhausted(told, causes=failures[: -CAUSES - 1 : -1], attempts=count, reason=reason)
    error.retry_after = last.retry_after
    if any(map(_open, failures)):
        error.retryable = "unknown-outcome"
    error.__cause__ = last
    return error


class RetryBudget(Node):
    """How many retries all calls together may cause: `ratio` for each call, and `min` whatever happens."""

    ratio: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.2
    min: Annotated[int, Field(ge=0, le=1000)] = 10


class Tokens:
    """A token bucket: each call puts a part of a retry in, each retry takes one out, and time fills up the least."""

    def __init__(self, budget: RetryBudget) -> None:
        self._ratio, self._least = budget.ratio, float(budget.min)
        self._most = max(self._least, SAVED)
        self._left = self._least
        self._since: float | None = None

    def call(self) -> None:
        """Note a call, which may have a retry in time."""
        self._left = min(self._left + self._ratio, self._most)

    def take(self, now: float) -> bool:
        """Take a retry out, if there is one."""
        since, self._since = self._since, now
        if since is not None and self._left < self._least:
            self._left = min(self._least, self._left + max(0.0, now - since) * self._least / REFILL)
        # Many parts of one do not add up to it exactly.
        if self._left < 1 - 1e-9:
            return False
        self._left -= 1
        return True

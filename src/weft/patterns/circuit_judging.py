"""What an outcome says about the health of whoever was called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from weft.errors import (
    CircuitOpen,
    DeadlineExceeded,
    ExecutionFailed,
    InfrastructureError,
    LimitExceeded,
    RetriesExhausted,
    StoreError,
    ToolFailed,
    UpstreamAuth,
    UpstreamRefused,
    WeftError,
)
from weft.ir.predicates import FieldPredicate
from weft.patterns.circuit_state import Outcome
from weft.patterns.contract import Value
from weft.ports import is_array

_TAXONOMY: Final = frozenset({"$.code", "$.retryable", "$.origin"})
_CALLERS_FAULT: Final = frozenset({-32600, -32601, -32602})
"""JSON-RPC: the request, the method or the arguments are wrong."""


def is_about_errors(predicate: FieldPredicate) -> bool:
    """Tell whether a condition asks what kind of error something is: `$.code` and such, compared with text."""
    given: object = predicate.value
    values: list[object] = given if is_array(given) else [given]
    return predicate.field in _TAXONOMY and all(isinstance(value, str) for value in values)


class Judge:
    """Tells failures from successes, and both from what says nothing about the one who was called.

    What `failureIf` holds for has failed, a result or an error. Other errors are judged by what they are, unless
    `failureIf` asks just that: then only those fail for which it holds.
    """

    def __init__(self, failure_if: FieldPredicate | None, *, refusals_count: bool) -> None:
        self._holds = None if failure_if is None else _safely(failure_if.compile())
        self._chooses = failure_if is not None and is_about_errors(failure_if)
        self._refusals: Outcome = "failure" if refusals_count else "success"

    def of_result(self, result: Value) -> Outcome:
        """Judge a result."""
        return "failure" if self._holds is not None and self._holds(result) else "success"

    def of_error(self, error: WeftError) -> Outcome:
        """Judge an error."""
        if self._holds is not None and self._holds(error.to_json()):
            return "failure"
        if self._chooses:
            return "neutral"
        return self._refusals if isinstance(error, ToolFailed) else _judged(error)


def _judged(error: WeftError) -> Outcome:
    if isinstance(error, RetriesExhausted):
        return "failure" if not error.causes else _judged_cause(error.causes[0])
    if isinstance(error, UpstreamRefused):
        return "neutral" if error.rpc_code in _CALLERS_FAULT else "failure"
    if isinstance(error, CircuitOpen | LimitExceeded | StoreError | UpstreamAuth):
        return "neutral"
    if isinstance(error, DeadlineExceeded):
        return "failure"
    if not isinstance(error, InfrastructureError) or error.origin != "upstream":
        return "neutral"
    status: object = getattr(error, "status", None)
    wrong = isinstance(status, int) and 400 <= status < 500 and status not in (408, 429)
    return "neutral" if wrong else "failure"


def _judged_cause(error: WeftError) -> Outcome:
    return "failure" if isinstance(error, ToolFailed) else _judged(error)


def _safely(holds: Callable[[Value], bool]) -> Callable[[Value], bool]:
    def safe(value: Value) -> bool:
        try:
            return holds(value)
        except Exception as error:
            raise ExecutionFailed(f"failureIf cannot be decided: {error}", code="PredicateFailed") from error

    return safe

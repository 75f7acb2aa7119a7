"""What idempotency keeps of a request: who works on it, what came of it, and errors that come back as they were."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from weft.errors import (
    ExecutionFailed,
    InputError,
    RetriesExhausted,
    SagaFailed,
    ToolFailed,
    UpstreamMessageTooLarge,
    UpstreamProtocolError,
    UpstreamRefused,
    WeftError,
)
from weft.patterns.single_flight import is_own
from weft.ports import is_object

State = Literal["running", "done", "failed", "large", "unknown"]
Verdict = Literal["answer", "passing", "unknown"]
"""What an error says of the work: no is its answer, it was not done and may be tried again, or nobody knows."""

FORMAT = 1
RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
OUTCOME_UNKNOWN = "OutcomeUnknown"


@dataclass(frozen=True, slots=True)
class Record:
    """One request: `fence` grows with each taking over, `body` is the result, the error, or why it was not kept."""

    state: State
    owner: str
    fence: int
    payload: str
    """The fingerprint of what the request was made with."""
    body: Any = None

    def encode(self) -> bytes:
        """Return the record as bytes.

        Raises:
            ValueError: the result is not JSON.
        """
        told = [FORMAT, self.state, self.owner, self.fence, self.payload, self.body]
        return json.dumps(told, separators=(",", ":"), allow_nan=False).encode()


def decode(data: bytes) -> Record:
    """Return the record that was encoded.

    Raises:
        ExecutionFailed: it is none, or a newer weft wrote it: nobody may act as if there were none.
    """
    try:
        written, state, owner, fence, payload, body = json.loads(data)
        if written == FORMAT:
            return Record(state, owner, fence, payload, body)
    except (ValueError, TypeError):
        pass
    raise ExecutionFailed("what is stored of an earlier request cannot be read", code="RecordUnreadable")


def copied(value: Any) -> Any:
    """Return a JSON value that shares nothing with the one given; what is not JSON is shared."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return value


def verdict(error: BaseException) -> Verdict:
    """Return what an error says of the work that ended with it."""
    if not isinstance(error, WeftError) or error.retryable == "unknown-outcome" or error.code == OUTCOME_UNKNOWN:
        return "unknown"
    if isinstance(error, RetriesExhausted) and error.causes:
        return "unknown" if any(verdict(one) == "unknown" for one in error.causes) else verdict(error.causes[0])
    if isinstance(error, UpstreamProtocolError | UpstreamMessageTooLarge):
        return "unknown"  # The tool may have run: only its answer was lost.
    answers = isinstance(error, ToolFailed | UpstreamRefused | ExecutionFailed | InputError)
    if error.retryable == "yes" or not answers or is_own(error):
        return "passing"
    return "answer"


def error_json(error: WeftError) -> dict[str, Any]:
    """Return an error as it is kept."""
    told = {**error.to_json(), "retryAfter": error.retry_after}
    if error.facts is not None:
        told["facts"] = dict(error.facts)
    if isinstance(error, ToolFailed):
        told |= {"kind": "ToolFailed", "tool": error.tool, "content": error.content}
    elif isinstance(error, UpstreamRefused):
        rpc = {"code": error.rpc_code, "message": error.rpc_message, "data": error.rpc_data}
        told |= {"kind": "UpstreamRefused", "server": error.server, "method": error.method, "rpc": rpc}
    elif isinstance(error, InputError | SagaFailed):
        told |= {"kind": "SagaFailed" if isinstance(error, SagaFailed) else "InputError"}
    return told


def error_of(told: Mapping[str, Any]) -> WeftError:
    """Return the error that was kept: the same code, sentence and content."""
    error = _MAKE.get(told.get("kind", ""), _execution)(told)
    error.message, error.code, error.hint = told["message"], told["code"], told.get("hint")
    error.args = (error.message,)
    error.retryable, error.origin, error.retry_after = told["retryable"], told["origin"], told.get("retryAfter")
    error.path = tuple(told["path"])
    error.facts = told.get("facts")
    return error


def _execution(told: Mapping[str, Any]) -> WeftError:
    return ExecutionFailed(told["message"])


def _tool(told: Mapping[str, Any]) -> WeftError:
    return ToolFailed(told["tool"], told["content"])


def _refused(told: Mapping[str, Any]) -> WeftError:
    rpc = told["rpc"]
    return UpstreamRefused(told["server"], told["method"], rpc if is_object(rpc) else {})


def _input(told: Mapping[str, Any]) -> WeftError:
    return InputError(told["message"])


def _saga(told: Mapping[str, Any]) -> WeftError:
    return SagaFailed(told["message"], saga=told["saga"], cause=told["cause"])


_MAKE: Mapping[str, Callable[[Mapping[str, Any]], WeftError]] = {
    "ToolFailed": _tool,
    "UpstreamRefused": _refused,
    "InputError": _input,
    "SagaFailed": _saga,
}

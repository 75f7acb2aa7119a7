"""Every error weft raises, and the problems it finds in what people write.

    WeftError
    ├── InputError                 somebody wrote something wrong: a document, an expression, a name
    │   ├── DocumentInvalid        carries every Problem found in one run
    │   ├── ExpressionInvalid      a path, predicate, CEL condition, template, schema or duration
    │   │   └── InvalidJsonPath
    │   ├── Frozen                 something is added to a grouped tool that is in use
    │   └── NotFound               no tool, composition or step has that name
    ├── ExecutionFailed            a composition cannot go on with the value it was given
    │   ├── SagaFailed             a saga went back, or can go neither on nor back
    │   └── WorkflowFailed         a workflow ended before all its steps were done
    ├── ToolFailed                 the tool ran and said no: the model must see it
    ├── UpstreamRefused            the server refused the request: a JSON-RPC error, passed on as it is
    └── InfrastructureError        may be retried by rule
        ├── UpstreamUnavailable    refused, unreachable: the request was not taken
        │   └── SessionGone        a legacy session that the server has forgotten
        ├── UpstreamDied           gone with the request in flight: it may have done the work
        ├── UpstreamProtocolError  it answered, and the answer is not one
        ├── UpstreamMessageTooLarge
        ├── UpstreamAuth           it does not accept weft's credentials
        ├── DeadlineExceeded       late
        │   └── TimedOut           a time limit that a composition sets itself
        ├── CircuitOpen            a circuit breaker lets nothing through
        ├── RetriesExhausted       every attempt failed
        ├── StoreError             a store cannot be reached, is busy, or refuses
        └── LimitExceeded          something is larger than its limit
            └── BudgetSpent        a budget that all branches of a root call share: no pattern may swallow it

Nothing is classified by its message: `code`, `retryable`, `retry_after`, `origin` and `path` say what happened.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

Retryable = Literal["yes", "no", "unknown-outcome"]
Origin = Literal["caller", "gateway", "store", "upstream"]
Severity = Literal["error", "warning"]
Loc: TypeAlias = tuple[str | int, ...]
"""A place in a document: the keys and indexes that lead to it."""

SHOWN = 80
MOST_COMPARED = 200
"""With how many names a mistyped one is compared at length."""


def nearest(name: object, known: Iterable[str]) -> str | None:
    """Return the known name that a mistyped one most likely meant."""
    if not isinstance(name, str):
        return None
    choices = list(known)
    folded = {choice.casefold().replace("_", "").replace("-", ""): choice for choice in choices}
    same = folded.get(name.casefold().replace("_", "").replace("-", ""))
    if same is not None and same != name:
        return same
    if len(choices) > MOST_COMPARED:
        # To compare with thousands takes a second, and whoever mistypes has mostly begun rightly.
        near = [one for one in choices if one[:1] == name[:1] and abs(len(one) - len(name)) < 4]
        choices = sorted(near, key=lambda one: -_common(one, name))[:MOST_COMPARED]
    return next(iter(difflib.get_close_matches(name[:SHOWN], choices, n=1, cutoff=0.6)), None)


def _common(one: str, other: str) -> int:
    """Return how many characters two names have in common at their beginning."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def shown(value: object) -> str:
    """Return a value as an error may show it: escaped, at most 80 characters."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def json_pointer(loc: Sequence[str | int]) -> str:
    """Return a place as a JSON Pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in loc)


def said_by(error: BaseException) -> str:
    """Return what an exception of other people's code says, also when it has trouble saying it."""
    name = type(error).__name__
    if isinstance(error, SystemExit):
        return f"it called sys.exit({'' if error.code is None else repr(error.code)})"
    try:
        text = str(error)
    except Exception:
        return f"{name}, whose text cannot be shown"
    return f"{name}: {text}" if text else name


class WeftError(Exception):
    """Anything that weft itself reports; `code` is stable, the sentence may improve."""

    code: str = "WeftError"
    retryable: Retryable = "no"
    origin: Origin = "gateway"
    retry_after: float | None = None
    facts: Mapping[str, Any] | None = None
    """What patterns on its way had to add: `deadLetterError`, `cause`."""
    marks: Mapping[str, Any] | None = None
    """What the call that it ended tells beside it, as it would beside a result."""

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.path: tuple[str, ...] = ()
        self.trace: object = None
        self.code = code or type(self).code

    def within(self, step: str) -> None:
        """Record, from the inside out, the step through which this error passes."""
        self.path = (step, *self.path)

    def add(self, **facts: Any) -> None:
        """Add to what is told of this error."""
        self.facts = {**(self.facts or {}), **facts}

    def to_json(self) -> dict[str, Any]:
        """Return the error as the object that predicates, traces and doors read."""
        told: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
            "origin": self.origin,
            "path": list(self.path),
        }
        if self.retry_after is not None:
            told["retryAfterMs"] = round(self.retry_after * 1000)
        if self.hint is not None:
            told["hint"] = self.hint
        return told if self.facts is None else {**told, **self.facts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with a document: where, what, what was expected, what was probably meant."""

    code: str
    message: str
    loc: Loc = ()
    pointer: str = ""
    value: str | None = None
    expected: str | None = None
    suggestion: str | None = None
    severity: Severity = "error"
    file: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = self.pointer or "/"
        if self.file is not None:
            position = "".join(f":{number}" for number in (self.line, self.column) if number is not None)
            place = f"{self.file}{position} {place}"
        return _detailed(f"{place}: {self.severity}: {self.message} [{self.code}]", self)

    def to_json(self) -> dict[str, Any]:
        """Return the problem as `weft validate --json` prints it, without what is unknown."""
        told = {
            "severity": self.severity,
            "code": self.code,
            "pointer": self.pointer,
            "message": self.message,
            "value": self.value,
            "expected": self.expected,
            "suggestion": self.suggestion,
            "file": self.file,
            "line": self.line,
            "column": self.column,
        }
        return {name: value for name, value in told.items() if value is not None}

    def moved(self, *loc: str | int) -> Problem:
        """Return the same problem, found below a longer place."""
        return replace(self, loc=(*loc, *self.loc))


def _detailed(sentence: str, of: Problem | ExpressionInvalid) -> str:
    """Return a sentence with what was given, what was expected and what was probably meant."""
    parts = [sentence]
    if of.value is not None and of.value not in of.message:
        parts.append(f"got {of.value}")
    if of.expected is not None:
        parts.append(f"expected {of.expected}")
    if of.suggestion is not None:
        parts.append(f"did you mean {of.suggestion!r}?")
    return "; ".join(parts)


def errors_in(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems that are errors: those that no document may have."""
    return [problem for problem in problems if problem.severity == "error"]


class InputError(WeftError):
    """Somebody wrote something that weft cannot take."""

    code = "InputError"
    origin: Origin = "caller"


class DocumentInvalid(InputError):
    """A document with errors in it; `problems` has every one of them, warnings too."""

    code = "DocumentInvalid"

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in errors_in(problems)) or "invalid document")
        self.problems = problems


class ExpressionInvalid(InputError):
    """A small language's text that does not compile; `position` is an offset in characters."""

    code = "ExpressionInvalid"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        value: object = None,
        expected: str | None = None,
        suggestion: str | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.value = None if value is None else shown(value)
        self.expected = expected
        self.suggestion = suggestion
        self.position = position

    def __str__(self) -> str:
        return _detailed(self.message, self)


class InvalidJsonPath(ExpressionInvalid):
    """A path that is not RFC 9535, or one that weft refuses."""

    code = "InvalidJsonPath"

    def __init__(
        self,
        path: str,
        reason: str,
        *,
        code: str | None = None,
        expected: str | None = None,
        position: int | None = None,
    ) -> None:
        text = path if len(path) <= SHOWN else path[: SHOWN - 3] + "..."
        told = f"Invalid JSONPath '{text}': {reason}"
        super().__init__(told, code=code, value=path, expected=expected, position=position)

    def __str__(self) -> str:
        return self.message  # it has the path already


class Frozen(InputError):
    """A grouped tool is in use: whoever has read its definition would not know of what is added."""

    code = "Frozen"

    def __init__(self, tool: str, what: str) -> None:
        told = f"Tool '{tool}' is in use already, and can get no more {what}"
        super().__init__(told, hint="do it before its definition is read, it is attached, or it is called first")
        self.tool = tool


class NotFound(InputError):
    """Nothing is registered under that name."""

    code = "NotFound"

    def __init__(self, what: str, name: str, known: Iterable[str] = ()) -> None:
        close = nearest(name, known)
        super().__init__(f"{what} not found: {name}", hint=f"did you mean {close!r}?" if close else None)
        self.name = name


class ExecutionFailed(WeftError):
    """A composition cannot go on with the value that it was given."""

    code = "ExecutionFailed"


class SagaFailed(ExecutionFailed):
    """A saga did not get to its end; `saga` says what became of each step, `cause` is the error of the one that failed.

    To begin it again is pointless: the same saga fails with the same error.
    """

    code = "SagaFailed"

    def __init__(
        self,
        message: str,
        *,
        saga: Mapping[str, Any],
        cause: Mapping[str, Any],
        code: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.saga = saga
        self.cause = cause

    @property
    def clean(self) -> bool:
        """Whether nothing is left of what the saga did."""
        steps: Sequence[Mapping[str, Any]] = self.saga["steps"]
        return self.saga["status"] == "COMPENSATED" and not any(step.get("notCompensated") for step in steps)

    def to_json(self) -> dict[str, Any]:
        """Return the error with the table of steps."""
        return {**super().to_json(), "saga": dict(self.saga), "cause": dict(self.cause)}


class WorkflowFailed(ExecutionFailed):
    """A workflow did not get to its end; `workflow` says what became of each step, `cause` is the first error."""

    code = "WorkflowFailed"

    def __init__(self, message: str, *, workflow: Mapping[str, Any], cause: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.workflow = workflow
        self.cause = cause

    def to_json(self) -> dict[str, Any]:
        """Return the error with the table of steps."""
        return {**super().to_json(), "workflow": dict(self.workflow), "cause": dict(self.cause)}


class ToolFailed(WeftError):
    """The tool ran and said no; `content` is what it said, for the model to read."""

    code = "ToolFailed"
    origin: Origin = "upstream"

    def __init__(self, tool: str, content: Any) -> None:
        super().__init__(f"Tool '{tool}' failed: {content if isinstance(content, str) else shown(content)}")
        self.tool = tool
        self.content = content


class UpstreamRefused(WeftError):
    """The server answered with a JSON-RPC error, whose code, message and data are passed on as they came."""

    code = "UpstreamRefused"
    origin: Origin = "upstream"

    def __init__(self, server: str, method: str, error: Mapping[str, Any]) -> None:
        self.rpc_code: Any = error.get("code")
        self.rpc_message: Any = error.get("message")
        self.rpc_data: Any = error.get("data")
        super().__init__(f"Upstream '{server}' refused {method}: {self.rpc_message} ({shown(self.rpc_code)})")
        self.server = server
        self.method = method


class InfrastructureError(WeftError):
    """Something between weft and the work broke; a rule may retry it."""

    code = "InfrastructureError"
    retryable: Retryable = "yes"


class UpstreamUnavailable(InfrastructureError):
    """The server that has the tool cannot be reached; only `sent=True` says that it may have done the work."""

    code = "UpstreamUnavailable"
    origin: Origin = "upstream"

    def __init__(
        self,
        server: str,
        reason: str,
        *,
        sent: bool = False,
        status: int | None = None,
        retry_after: float | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(f"Upstream '{server}' is unavailable: {reason}", code=code)
        self.server = server
        self.status = status
        self.retry_after = retry_after
        self.retryable = "unknown-outcome" if sent else "yes"


class SessionGone(UpstreamUnavailable):
    """The server has forgotten the session of a legacy client, and did not look at the request."""

    code = "SessionGone"


class UpstreamDied(InfrastructureError):
    """The server went away before it answered; only `sent=False` says that it cannot have done the work."""

    code = "UpstreamDied"
    origin: Origin = "upstream"

    def __init__(self, server: str, reason: str, *, sent: bool = True) -> None:
        super().__init__(f"Upstream '{server}' died: {reason}")
        self.server = server
        self.retryable = "unknown-outcome" if sent else "yes"


class UpstreamProtocolError(InfrastructureError):
    """The server answered, and the answer is not one: the tool may have run, and asking again would not help."""

    code = "UpstreamProtocolError"
    retryable: Retryable = "no"
    origin: Origin = "upstream"

    def __init__(self, server: str, reason: str, *, status: int | None = None) -> None:
        super().__init__(f"Upstream '{server}' broke the protocol: {reason}")
        self.server = server
        self.status = status


class UpstreamMessageTooLarge(InfrastructureError):
    """A message of the server is over the limit; the tool may have run, and its answer would be as large again."""

    code = "UpstreamMessageTooLarge"
    retryable: Retryable = "no"
    origin: Origin = "upstream"

    def __init__(self, server: str, what: str, *, limit: int) -> None:
        super().__init__(f"Upstream '{server}' sent too much: {what} (limit {limit} bytes)")
        self.server = server
        self.limit = limit


class UpstreamAuth(InfrastructureError):
    """The server does not accept weft's own credentials; the caller's have nothing to do with it."""

    code = "UpstreamAuth"
    retryable: Retryable = "no"
    origin: Origin = "upstream"

    def __init__(self, server: str, reason: str, *, status: int | None = None) -> None:
        super().__init__(f"Upstream '{server}' refused weft's credentials: {reason}")
        self.server = server
        self.status = status


class DeadlineExceeded(InfrastructureError):
    """The call, or a part with a time limit of its own, took too long."""

    code = "DeadlineExceeded"
    retryable: Retryable = "unknown-outcome"


class TimedOut(DeadlineExceeded):
    """A time limit that a composition sets for a part of itself has passed; whether that part did its work is open."""

    code = "Timeout"


class CircuitOpen(InfrastructureError):
    """A circuit breaker lets nothing through; `retry_after` says for how long. To try again at once is pointless."""

    code = "CircuitOpen"
    retryable: Retryable = "no"


class RetriesExhausted(InfrastructureError):
    """Every attempt failed, or there is no time for another; `causes` are the errors, the last one first."""

    code = "RetriesExhausted"
    retryable: Retryable = "no"

    def __init__(
        self,
        message: str,
        *,
        causes: Sequence[WeftError] = (),
        attempts: int = 0,
        reason: str = "attempts",
        code: str | None = None,
    ) -> None:
        """Make the error; `reason` is what ran out: `attempts`, the `deadline` or the `budget`."""
        super().__init__(message, code=code)
        self.causes = tuple(causes)
        self.attempts = attempts or len(self.causes)
        self.reason = reason

    def to_json(self) -> dict[str, Any]:
        """Return the error with its causes."""
        causes = [one.to_json() for one in self.causes]
        return {**super().to_json(), "attempts": self.attempts, "reason": self.reason, "causes": causes}


class StoreError(InfrastructureError):
    """A store cannot be reached in time, is busy, or refuses; `StoreUnavailable`, `StoreBusy`, `StoreFull` and such.

    With `sent` it may have done what was asked: whoever needs to know must read again.
    """

    code = "StoreUnavailable"
    origin: Origin = "store"

    def __init__(
        self, store: str, reason: str, *, sent: bool = False, code: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(f"Store '{store}': {reason}", code=code, hint=hint)
        self.store = store
        self.retryable = "unknown-outcome" if sent else "yes"


class LimitExceeded(InfrastructureError):
    """A limit was reached; its name is the error's code."""

    code = "LimitExceeded"
    retryable: Retryable = "no"

    def __init__(self, name: str, limit: int | float, what: str) -> None:
        super().__init__(f"{name}: {what} (limit {limit})", code=name)
        self.limit = limit


class BudgetSpent(LimitExceeded):
    """A budget that all branches of a root call share is spent; dropping a branch would not bring it back."""

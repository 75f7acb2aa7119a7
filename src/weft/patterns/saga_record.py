"""What is written of a saga: who began it and with what, how far each step has come, and how it ended."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import orjson

from weft.errors import SagaFailed
from weft.ports import Principal

Status = Literal[
    "RUNNING", "FORWARD_ONLY", "COMPENSATING", "COMPLETED", "COMPENSATED", "COMPENSATION_FAILED", "ABANDONED"
]
StepStatus = Literal["PENDING", "STARTED", "DONE", "FAILED", "UNKNOWN", "COMPENSATING", "COMPENSATED", "COMP_FAILED"]
ENDED: frozenset[Status] = frozenset({"COMPLETED", "COMPENSATED", "ABANDONED"})
FORMAT = 1

HEADS = "v1|saga|"
OPEN = "v1|saga-open|"
LEASES = "v1|saga-lease|"
SPECS = "v1|saga-spec|"
INDEX = "v1|saga-ended|"
"""What the keys begin with: of each saga, of those that have not ended, of those that somebody works on, of specs, and
of where those are that have ended, by their refs."""

HALF = 6
"""So many characters of a ref are of the saga's id, and twice as many of all that names it: nobody's is another's."""


def encode(value: Any) -> bytes:
    """Return a value as JSON; also one with numbers that are too long for the fast way."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, default=_fragment).encode("ascii")


def _fragment(value: object) -> Any:
    if isinstance(value, orjson.Fragment):
        return json.loads(bytes(value.contents))  # pyright: ignore[reportArgumentType]  (always bytes here)
    raise TypeError(f"{type(value).__name__} is not JSON")


def decode(data: bytes) -> Any:
    """Return the value of a JSON text; unlike the fast way, this keeps long numbers whole."""
    return json.loads(data)


def key_for(saga: str, step: str, way: Literal["do", "undo"]) -> str:
    """Return the idempotency key of a step: the same in every attempt, after every restart, on every machine."""
    return hashlib.sha256(f"{saga}|{step}|{way}".encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What never changes of a saga."""

    id: str
    tool: str
    place: str
    """Which saga of which tool it is, as `Compiler.place` tells it."""
    spec: str
    """The hash of what it runs by, whatever the registry says meanwhile."""
    principal: Principal
    input: bytes
    fingerprint: str
    created: float
    max_recoveries: int
    lease: float
    retention: float
    origin: Any = None
    """What else must be known of who began a workflow, by whoever goes on with it."""

    def to_json(self) -> dict[str, Any]:
        """Return what is written."""
        told = {} if self.origin is None else {"origin": self.origin}
        return {
            "v": FORMAT,
            "id": self.id,
            "tool": self.tool,
            "place": self.place,
            "spec": self.spec,
            "principal": self.principal.to_json(),
            "input": orjson.Fragment(self.input),
            "fingerprint": self.fingerprint,
            "created": self.created,
            "maxRecoveries": self.max_recoveries,
            "lease": self.lease,
            "retention": self.retention,
            **told,
        }

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> Head:
        """Return what `to_json` wrote."""
        return cls(
            id=told["id"],
            tool=told["tool"],
            place=told["place"],
            spec=told["spec"],
            principal=Principal.of_json(told["principal"]),
            input=encode(told["input"]),
            fingerprint=told["fingerprint"],
            created=told["created"],
            max_recoveries=told["maxRecoveries"],
            lease=told["lease"],
            retention=told["retention"],
            origin=told.get("origin"),
        )


@dataclass(slots=True)
class StepRecord:
    """How far one step has come; its input is written where it is not just the result before it."""

    id: str
    status: StepStatus = "PENDING"
    attempt: int = 0
    input: bytes | None = None
    output: bytes | None = None
    error: dict[str, Any] | None = None
    kept: bool = False
    """It had its effect, and there is nothing that would undo it."""

    def to_json(self) -> dict[str, Any]:
        """Return what is written."""
        told: dict[str, Any] = {"id": self.id, "status": self.status, "attempt": self.attempt}
        if self.input is not None:
            told["input"] = orjson.Fragment(self.input)
        if self.output is not None:
            told["output"] = orjson.Fragment(self.output)
        if self.error is not None:
            told["error"] = self.error
        if self.kept:
            told["notCompensated"] = True
        return told

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> StepRecord:
        """Return what `to_json` wrote."""
        return cls(
            told["id"],
            told["status"],
            told["attempt"],
            encode(told["input"]) if "input" in told else None,
            encode(told["output"]) if "output" in told else None,
            told.get("error"),
            told.get("notCompensated", False),
        )


@dataclass(slots=True)
class State:
    """How far a saga has come, and who works on it; `fence` is higher with each new owner."""

    owner: str
    steps: list[StepRecord]
    status: Status = "RUNNING"
    fence: int = 1
    seq: int = 0
    recoveries: int = 0
    stuck: str | None = None
    """Why nobody goes on with it until an operator says so."""
    failed: str | None = None
    error: dict[str, Any] | None = None
    result: bytes | None = None
    abandoned: str | None = None
    """Why an operator gave it up; `error` stays what it was."""

    def to_json(self) -> dict[str, Any]:
        """Return what is written."""
        told: dict[str, Any] = {
            "v": FORMAT,
            "status": self.status,
            "owner": self.owner,
            "fence": self.fence,
            "seq": self.seq,
            "recoveries": self.recoveries,
            "steps": [step.to_json() for step in self.steps],
        }
        facts = {"stuck": self.stuck, "failed": self.failed, "error": self.error, "abandoned": self.abandoned}
        told |= {key: value for key, value in facts.items() if value is not None}
        if self.result is not None:
            told["result"] = orjson.Fragment(self.result)
        return told

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> State:
        """Return what `to_json` wrote.

        Raises:
            ValueError: it has a status that this version of weft does not know.
        """
        if told["status"] not in get_args(Status):
            raise ValueError(f"unknown status {told['status']!r}")
        return cls(
            told["owner"],
            [StepRecord.of_json(step) for step in told["steps"]],
            told["status"],
            told["fence"],
            told["seq"],
            told["recoveries"],
            told.get("stuck"),
            told.get("failed"),
            told.get("error"),
            encode(told["result"]) if "result" in told else None,
            told.get("abandoned"),
        )


@dataclass(frozen=True, slots=True)
class Record:
    """A saga as it is stored: `key` names it, `ended` says that nothing will change any more."""

    key: str
    head: Head
    state: State | None
    """None: it has not ended, and how far it came is gone."""
    ended: bool = field(default=False)

    def to_json(self) -> dict[str, Any]:
        """Return what operators are shown."""
        head = self.head
        told: dict[str, Any] = {
            "ref": ref_of(self.key),
            "id": head.id,
            "tool": head.tool,
            "tenant": head.principal.tenant,
            "principal": head.principal.id,
            "created": head.created,
            "input": decode(head.input),
        }
        if self.state is None:
            return {**told, "status": "LOST", "stuck": "its record is gone from the store"}
        shown = json.loads(encode(self.state.to_json()))
        return {**told, **{key: value for key, value in shown.items() if key not in ("v", "seq")}}


def ref_of(key: str) -> str:
    """Return what names one saga for operators: short, and never that of another caller's saga of the same id.

    It begins as the hash of the id does, which is the last part of a key: sagas of one id stand together in the index.
    """
    return key.rpartition("|")[2][:HALF] + hashlib.sha256(key.encode()).hexdigest()[: 2 * HALF]


def failure(head: Head, state: State, names: Mapping[str, str] | None = None) -> SagaFailed:
    """Return the error that a saga ended with: the step's own, in the seed's words, and what became of each step."""
    names = names or {}
    error = state.error or {}
    reason = error.get("message", "it was given up")
    if state.status == "ABANDONED":
        told, code = f"Saga '{head.id}' was abandoned: {state.abandoned or reason}", "SagaAbandoned"
    elif state.failed is None:
        told, code = f"Saga '{head.id}' failed, compensation required: {reason}", "SagaFailed"
    else:
        named = names.get(state.failed, state.failed)
        told, code = f"Saga step '{named}' failed, compensation required: {reason}", "SagaStepFailed"
    left = [step.id for step in state.steps if step.status in ("COMP_FAILED", "COMPENSATING") or step.kept]
    if state.stuck is not None:
        code = "SagaStuck"
        told += f"; the saga is stuck: {state.stuck}"
    steps = [_row(step, names) for step in state.steps]
    saga = {"id": head.id, "status": state.status, "failed": state.failed, "steps": steps}
    hint = f"saga '{head.id}' is {state.status}" + (f"; not undone: {', '.join(left)}" if left else "")
    return SagaFailed(told, saga=saga, cause=error, code=code, hint=hint)


def _row(step: StepRecord, names: Mapping[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {"id": step.id, "name": names.get(step.id, step.id), "status": step.status}
    if step.error is not None:
        row["error"] = step.error
    if step.kept:
        row["notCompensated"] = True
    return row

"""What is written of a workflow that outlives its process: how it stands, and each step that has ended."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import orjson

from weft.errors import ExecutionFailed, LimitExceeded, WeftError, WorkflowFailed
from weft.patterns.contract import Value
from weft.patterns.idempotent_records import error_of
from weft.patterns.keys import KeySpace
from weft.patterns.saga_journal import beside
from weft.patterns.saga_record import FORMAT, Head, decode, encode
from weft.patterns.workflow_plan import Done, Made, RunStatus, RunTold, Stage
from weft.ports import Principal

WORKFLOWS = "v1|workflow|"
OPEN_WORKFLOWS = "v1|workflow-open|"
WORKFLOW_LEASES = "v1|workflow-lease|"
"""What the keys begin with: of each run, of those that have not ended, of those that somebody works on."""
MAX_RECORD = 900_000
LONGEST_ERROR = 8_000
"""Of an error that has more bytes than this, only the beginning of its sentence is written."""
BEGUN = "begun"

Status = Literal["rolling_back"] | RunStatus
STATUSES: tuple[str, ...] = ("rolling_back", *get_args(RunStatus))
_SPACE = KeySpace("workflow", "", "tenant")


def run_key(principal: Principal, id: str) -> str:
    """Return the key of a run, by who began it and its id; of the principal only the tenant matters."""
    return _SPACE.prefix(principal) + hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()


def steps_key(key: str) -> str:
    """Return what the keys of all steps of a run begin with."""
    return f"{beside(key, 'step')}|"


def bounded_error(error: Mapping[str, Any]) -> dict[str, Any]:
    """Return an error as it is written, which must not be what a store has no room for."""
    if len(encode(error)) <= LONGEST_ERROR:
        return dict(error)
    told = {key: error[key] for key in ("code", "retryable", "origin") if key in error}
    return {**told, "message": f"{str(error.get('message', ''))[: LONGEST_ERROR // 8]}..", "path": []}


@dataclass(slots=True)
class WorkflowState:
    """How a run stands, and who works on it; what became of its steps is only here when it has ended."""

    owner: str
    status: Status = "running"
    fence: int = 1
    seq: int = 0
    recoveries: int = 0
    stuck: str | None = None
    """Why nobody goes on with it."""
    cancelled: bool = False
    """Whether somebody wants it to stop."""
    failed: str | None = None
    """At which step it turned back; empty where that was no step's fault."""
    error: dict[str, Any] | None = None
    duration: float | None = None
    steps: list[dict[str, Any]] | None = None
    result: bytes | None = None
    """What it gave, if that was small enough."""

    def to_json(self) -> dict[str, Any]:
        """Return what is written."""
        told: dict[str, Any] = {
            "v": FORMAT,
            "status": self.status,
            "owner": self.owner,
            "fence": self.fence,
            "seq": self.seq,
            "recoveries": self.recoveries,
        }
        for key in ("stuck", "failed", "error", "duration", "steps"):
            if (value := getattr(self, key)) is not None:
                told[key] = value
        if self.cancelled:
            told["cancelled"] = True
        if self.result is not None:
            told["result"] = orjson.Fragment(self.result)
        return told

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> WorkflowState:
        """Return what `to_json` wrote.

        Raises:
            ValueError: it has a status that this version of weft does not know.
        """
        if told["status"] not in STATUSES:
            raise ValueError(f"unknown status {told['status']!r}")
        return cls(
            told["owner"],
            told["status"],
            told["fence"],
            told["seq"],
            told["recoveries"],
            told.get("stuck"),
            told.get("cancelled", False),
            told.get("failed"),
            told.get("error"),
            told.get("duration"),
            told.get("steps"),
            encode(told["result"]) if "result" in told else None,
        )

    @property
    def turned(self) -> tuple[str, WeftError] | None:
        """At which step a run turned back, and why; None while it goes forward."""
        if self.status != "rolling_back" or self.error is None:
            return None
        return self.failed or "", error_of({"hint": None, "path": [], **self.error})

    def end(self, told: RunTold) -> None:
        """Take down how the run ended, as much of it as there is room for."""
        self.status, self.duration = told.status, round(told.duration, 6)
        self.failed = self.stuck = None
        self.error = None if told.error is None else _failure_json(told.error)
        self.steps = [_brief(step.to_json()) for step in told.steps]
        if len(encode(self.steps)) > MAX_RECORD // 2:
            self.steps = [{"id": step.id, "status": step.status} for step in told.steps]
        result = encode(told.output) if told.status in ("succeeded", "partial") else None
        left = MAX_RECORD - len(encode(self.steps))
        self.result = result if result is not None and len(result) <= left else None


def _brief(step: dict[str, Any]) -> dict[str, Any]:
    return {**step, "error": bounded_error(step["error"])} if "error" in step else step


def _failure_json(error: WeftError) -> dict[str, Any]:
    # The table of steps stands beside it.
    told = {key: value for key, value in error.to_json().items() if key != "workflow"}
    cause = told.pop("cause", None)
    return {**bounded_error(told), **({} if cause is None else {"cause": bounded_error(cause)})}


@dataclass(frozen=True, slots=True)
class WorkflowRecord:
    """A run as it is stored; `state` is None when it has not ended, and how far it came is gone."""

    key: str
    head: Head
    state: WorkflowState | None
    ended: bool = False

    def outcome(self) -> Value:
        """Return what a run that has ended gave.

        Raises:
            WeftError: how it failed, or that its result was not kept.
        """
        head, state = self.head, self.state
        assert state is not None
        if state.status in ("succeeded", "partial"):
            if state.result is None:
                told = f"Run '{head.id}' ended as {state.status}; what it gave was too large to be kept"
                raise ExecutionFailed(told, code="WorkflowResultGone", hint="keep large results with a claim check")
            return decode(state.result)
        error = state.error or {"message": f"Run '{head.id}' ended as {state.status}"}
        workflow = {"status": state.status, "duration_ms": (state.duration or 0) * 1000, "steps": state.steps or []}
        failed = WorkflowFailed(error["message"], workflow=workflow, cause=error.get("cause", {}))
        failed.code, failed.hint = error.get("code", failed.code), error.get("hint")
        failed.retryable = error.get("retryable", failed.retryable)
        raise failed


def encode_step(done: Done, order: int, undone: str | None = None, error: dict[str, Any] | None = None) -> bytes:
    """Return a step that has ended as it is written; `order` counts the steps in the order in which they ended.

    Raises:
        LimitExceeded: what it gave is too large for a store.
    """
    told: dict[str, Any] = {"id": done.stage.id, "status": done.status, "n": order}
    for key, value in (("because", done.because), ("lost", done.lost or None), ("attempts", done.attempts or None)):
        if value is not None:
            told[key] = value
    if done.error is not None:
        told["error"] = bounded_error(done.error)
    if done.status == "succeeded":
        told["output"] = done.output
    if done.made:
        # Of a step that is done once, the output stands there already.
        each = done.stage.each is not None
        told["made"] = [
            [one.parameters, one.output, one.item, one.index] if each else [one.parameters] for one in done.made
        ]
    if undone is not None:
        told["undone"] = [undone, None if error is None else bounded_error(error)]
    written = encode(told)
    if undone is not None and len(written) > MAX_RECORD:
        return encode({key: value for key, value in told.items() if key not in ("output", "made")})
    if len(written) > MAX_RECORD:
        reason = f"the result of step '{done.stage.id}' has {len(written)} bytes; keep large ones with a claim check"
        raise LimitExceeded("WorkflowRecordLimit", MAX_RECORD, reason)
    return written


def encode_begun(stage: Stage, order: int) -> bytes:
    """Return a step that must not be begun twice, as it is written before that."""
    return encode({"id": stage.id, "status": BEGUN, "n": order})


def steps_of(stored: Sequence[bytes], stages: Mapping[str, Stage]) -> list[tuple[int, Done]]:
    """Return the steps that were written, with their numbers, in the order in which they ended."""
    found = [decode(value) for value in stored]
    return [(told["n"], _step(told, stages[told["id"]])) for told in sorted(found, key=lambda told: told["n"])]


def _step(told: Mapping[str, Any], stage: Stage) -> Done:
    if told["status"] == BEGUN:
        lost = ExecutionFailed(
            f"the owner of the run was gone before step '{stage.id}' answered: nobody knows whether it was done",
            code="OutcomeUnknown",
        )
        lost.retryable = "unknown-outcome"
        return Done(stage, "failed", error=lost.to_json())
    output: Value = told.get("output")
    made = tuple(Made(*one) if len(one) > 1 else Made(one[0], output) for one in told.get("made", ()))
    undone, error = told.get("undone", (None, None))
    return Done(
        stage,
        told["status"],
        output,
        made,
        told.get("attempts", 0),
        error if undone is not None else told.get("error"),
        told.get("because"),
        told.get("lost", False),
        undone,
    )

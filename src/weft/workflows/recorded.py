"""A run as it is recorded: who ran what, when, for how long and how it ended. Never a value of a call."""

from __future__ import annotations

import base64
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

import orjson

from weft.ports import Principal, is_object

Ended = Literal["succeeded", "partial", "failed", "cancelled", "rolled_back", "rollback_failed"]
RunStatus = Literal["running", "interrupted"] | Ended
ENDED: Final[tuple[str, ...]] = get_args(Ended)
STATUSES: Final[tuple[str, ...]] = ("running", "interrupted", *ENDED)
MOST_STEPS: Final = 2000
"""Of how many steps a record tells; all are counted."""
LONGEST_CODE: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """What became of one step; `started_ms` counts from the beginning of the run, `error` is a code."""

    id: str
    status: str
    started_ms: float | None = None
    duration_ms: float | None = None
    attempts: int = 0
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what is known of it."""
        told = {
            "started_ms": self.started_ms,
            "duration_ms": self.duration_ms,
            "attempts": self.attempts or None,
            "error": self.error,
        }
        return {"id": self.id, "status": self.status, **{key: one for key, one in told.items() if one is not None}}

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> RecordedStep:
        """Return the step that is told of; of an error only the code is taken, since its text may hold values."""
        return cls(
            id=told["id"],
            status=told["status"],
            started_ms=told.get("started_ms"),
            duration_ms=told.get("duration_ms"),
            attempts=told.get("attempts") or 0,
            error=code_of(told.get("error")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of a template, or of a document that somebody sent (then without `template`)."""

    run_id: str
    tenant: str
    principal: str
    """Who began it: `Principal.id`."""
    name: str
    template: str | None = None
    status: RunStatus = "running"
    started: float = 0.0
    """Seconds since 1970."""
    duration_ms: float | None = None
    input_bytes: int = 0
    steps: tuple[RecordedStep, ...] = ()
    step_counts: Mapping[str, int] | None = None
    """How many steps have each status, once it has ended."""
    error: str | None = None
    """The code of the error that ended it."""
    owner: str = ""
    """Which process works on it."""
    at: str = ""
    """Where it stands among the runs of its tenant."""

    def ended(
        self,
        status: Ended,
        *,
        duration_ms: float,
        steps: Iterable[RecordedStep | Mapping[str, Any]] = (),
        error: object = None,
    ) -> Run:
        """Return the run as it is once it has ended; `error` is a code, or the JSON of an error."""
        told = [one if isinstance(one, RecordedStep) else RecordedStep.of_json(one) for one in steps]
        return replace(
            self,
            status=status,
            duration_ms=round(duration_ms, 3),
            steps=tuple(told),
            step_counts=Counter(one.status for one in told),
            error=code_of(error),
        )

    def row(self) -> dict[str, Any]:
        """Return what a list shows of it: the steps only counted."""
        told: dict[str, Any] = {
            "run_id": self.run_id,
            "template": self.template,
            "name": self.name,
            "tenant": self.tenant,
            "principal": self.principal,
            "status": self.status,
            "started": self.started,
            "duration_ms": self.duration_ms,
            "input_bytes": self.input_bytes,
            "error": self.error,
        }
        if self.step_counts is not None:
            told["step_counts"] = dict(self.step_counts)
        return told

    def to_json(self) -> dict[str, Any]:
        """Return all that is known of it."""
        return {**self.row(), "steps": [step.to_json() for step in self.steps]}

    def record(self) -> bytes:
        """Return it as a store keeps it; of a very long workflow only the first steps one by one."""
        steps = [step.to_json() for step in self.steps[:MOST_STEPS]]
        return orjson.dumps({**self.row(), "steps": steps, "owner": self.owner, "at": self.at})

    @classmethod
    def of_record(cls, data: bytes) -> Run:
        """Return the run that `record` wrote."""
        told = orjson.loads(data)
        known: dict[str, Any] = {name: told[name] for name in cls.__slots__ if name in told}  # newer ones may tell more
        known["steps"] = tuple(RecordedStep.of_json(step) for step in told["steps"])
        return cls(**known)


def new_run(
    principal: Principal, name: str, *, template: str | None = None, started: float, input_bytes: int = 0
) -> Run:
    """Return a run that begins, under an id that nobody can guess."""
    chance = base64.b32encode(secrets.token_bytes(15)).decode().lower()
    return Run(
        run_id=f"run_{chance}",
        tenant=principal.tenant,
        principal=principal.id,
        name=name,
        template=template,
        started=started,
        input_bytes=input_bytes,
    )


def code_of(error: object) -> str | None:
    """Return the code of an error, given as its JSON or as the code itself."""
    code = error.get("code", "Error") if is_object(error) else error
    return None if code is None else str(code)[:LONGEST_CODE]

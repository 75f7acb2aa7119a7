"""A workflow, compiled: its steps, what each waits for, how it is undone; and what is told of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from weft.errors import WeftError
from weft.expr.interpolation import Interpolated
from weft.patterns.attempts import Attempt
from weft.patterns.backoff import Backoff
from weft.patterns.contract import Call, Step, Value
from weft.patterns.workflow_names import Waits
from weft.ports import Json

StepStatus = Literal["waiting", "running", "succeeded", "failed", "skipped", "cancelled", "undone", "undo_failed"]
RunStatus = Literal["running", "succeeded", "partial", "failed", "rolled_back", "rollback_failed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """How a step is taken back."""

    step: Step
    parameters: Interpolated


@dataclass(frozen=True, slots=True, kw_only=True)
class EachItem:
    """Over what a step is done, one item at a time."""

    items: Interpolated
    name: str
    at_once: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A step, compiled."""

    index: int
    id: str
    key: str
    step: Step
    parameters: Interpolated
    may_copy: bool
    """Whether its parameters may hold a part of what is known twice."""
    waits: Waits
    names: tuple[str, ...]
    """Under which names others read its result."""
    when: Callable[[Mapping[str, Value]], bool] | None
    attempt: Attempt
    retries: int
    may_repeat: Callable[[WeftError, int], bool]
    each: EachItem | None
    undo: Undoing | None
    once: bool
    """Whether, after a crash in its middle, it counts as failed rather than being done again."""
    optional: bool
    """Whether the workflow is well without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gives:
    """What a workflow gives: one value, or the parts of an object or a list, each filled on its own."""

    form: Literal["value", "object", "list"]
    parts: tuple[tuple[str, Interpolated], ...]
    """By the keys of the object or the numbers of the items; one value is a part without a name."""


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class WorkflowPlan:
    """A workflow, compiled; a run goes by this from beginning to end, also after the registry has changed."""

    name: str
    stages: tuple[Stage, ...]
    dependants: tuple[tuple[int, ...], ...]
    """Of each step, those that wait for it."""
    output: Gives | None
    """What the workflow gives; None for all results."""
    at_once: int
    timeout: float | None
    keeps_going: bool
    rolls_back: bool
    backoff: Backoff
    uses_context: bool


@dataclass(slots=True)
class StepTold:
    """What is told of one step; times are seconds since the run began."""

    id: str
    status: StepStatus = "waiting"
    began: float | None = None
    ended: float | None = None
    attempts: int = 0
    items: int | None = None
    error: dict[str, Any] | None = None
    because: str | None = None
    """Why it was skipped, or could not be undone."""
    lost: bool = False
    """Whether it was skipped for want of one that failed."""

    def to_json(self) -> dict[str, Any]:
        """Return what callers and recorders are shown."""
        told: dict[str, Any] = {"id": self.id, "status": self.status}
        if self.began is not None:
            told["started_ms"] = round(self.began * 1000, 3)
        if self.began is not None and self.ended is not None:
            told["duration_ms"] = round((self.ended - self.began) * 1000, 3)
        for key, value in (
            ("attempts", self.attempts or None),
            ("items", self.items),
            ("error", self.error),
            ("because", self.because),
        ):
            if value is not None:
                told[key] = value
        return told


@dataclass(frozen=True, slots=True)
class Made:
    """One call of a step: what it was given and what it gave, for whoever takes it back."""

    parameters: Value
    output: Value
    item: Value = None
    index: int | None = None
    """Which item it was for, where that is not its place among the calls: some of the others failed."""


@dataclass(frozen=True, slots=True)
class Done:
    """A step that has ended, one way or another."""

    stage: Stage
    status: Literal["succeeded", "failed", "skipped"]
    output: Value = None
    made: tuple[Made, ...] = ()
    """Its calls, where something may have to be undone."""
    attempts: int = 0
    error: dict[str, Any] | None = None
    because: str | None = None
    lost: bool = False
    undone: StepStatus | None = None
    """What became of it when it was taken back, where that was in an earlier life of the run."""


@dataclass(slots=True)
class RunTold:
    """What is told of a run that has ended."""

    name: str
    status: RunStatus = "running"
    duration: float = 0.0
    steps: list[StepTold] = field(default_factory=list[StepTold])
    results: dict[str, Value] = field(default_factory=dict[str, Value])
    output: Value = None
    error: WeftError | None = None
    failed: str | None = None
    """At which step it failed; empty where that was no step's fault."""

    def to_json(self) -> dict[str, Any]:
        """Return what became of the run and each of its steps, without any value."""
        return {
            "status": self.status,
            "duration_ms": round(self.duration * 1000, 3),
            "steps": [step.to_json() for step in self.steps],
        }


class Follower(Protocol):
    """Somebody who follows one run; it must not block and must not raise."""

    def step(self, told: StepTold) -> None:
        """Hear that a step began, is tried again, or ended."""
        ...

    def ended(self, told: RunTold) -> None:
        """Hear that the run has ended."""
        ...


@runtime_checkable
class Named(Protocol):
    """A follower that has an id for the run already: a durable run is stored under it."""

    @property
    def run_id(self) -> str:
        """The id."""
        ...


@runtime_checkable
class Stopping(Protocol):
    """A follower that may want a durable run of its own process to stop at once."""

    def runs_on(self, stop: Callable[[], object]) -> None:
        """Hear that the run is written, and goes on whoever waits for it; and how its owner is told to stop."""
        ...


class Watch:
    """Who is asked, whenever a workflow begins, whether somebody follows it; kept beyond reloads."""

    def __init__(self) -> None:
        self.begin: Callable[[WorkflowPlan, Call, Value], Follower | None] | None = None
        self.resume: Callable[[WorkflowPlan, Call, Value, str], Awaitable[Follower | None]] | None = None
        """Asked for a run, by its id, that another process began and this one goes on with."""
        self.origin: Callable[[Call], Json] | None = None
        """Tells of a durable run what must be known of its caller beside the principal, to go on in its name."""

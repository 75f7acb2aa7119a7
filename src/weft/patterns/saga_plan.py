"""A saga, compiled: its steps, how each is undone, and what an error says about whether a step was done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast
from weakref import WeakValueDictionary

from weft.errors import ExecutionFailed, SagaFailed, UpstreamMessageTooLarge, UpstreamProtocolError, WeftError
from weft.patterns.backoff import Backoff
from weft.patterns.bindings import Read
from weft.patterns.contract import Step, Value, type_name
from weft.patterns.copies import bounded
from weft.patterns.saga_record import StepRecord, decode, key_for
from weft.ports import Caller, is_object


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaStage:
    """A step, compiled."""

    id: str
    name: str
    action: Step
    undo: Step | None
    read: Read | None
    """How its input is read, unless that is the result just before."""
    read_undo: Read | None
    """How the input of its compensation is read, unless that is the action's output."""
    pivot: bool
    safe: bool
    """Its action may be issued again under the same key."""
    whole: bool
    """Its action is one call, of which nothing is left when it says that it failed."""
    key_argument: str | None


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class SagaPlan:
    """A saga, compiled; it runs by this from beginning to end, also after the registry has changed."""

    stages: tuple[SagaStage, ...]
    output: Read | None
    timeout: float | None
    attempts: int
    backoff: Backoff
    on_disconnect: Literal["continue", "compensate"]

    @property
    def names(self) -> dict[str, str]:
        """What people call each step, by its id."""
        return {stage.id: stage.name for stage in self.stages}


class Plans:
    """The sagas that were compiled, by the names of their places, as long as somebody has them."""

    def __init__(self) -> None:
        self.by_place: WeakValueDictionary[str, SagaPlan] = WeakValueDictionary()


def is_unknown(error: WeftError, stage: SagaStage) -> bool:
    """Tell whether a step that failed with an error may have had its effect, or a part of it."""
    if isinstance(error, SagaFailed):
        return not error.clean
    if error.retryable == "unknown-outcome" or isinstance(error, UpstreamProtocolError | UpstreamMessageTooLarge):
        return True
    return not stage.whole


def with_key(stage: SagaStage, value: Value, key: str) -> Value:
    """Return the input of a step with its key in it, where its tool takes that as an argument."""
    if stage.key_argument is None:
        return value
    if not is_object(value):
        told = f"step '{stage.id}' takes its key as {stage.key_argument!r}, and its input is {type_name(value)}"
        raise ExecutionFailed(told, hint="give it an object")
    return {**value, stage.key_argument: key}


def to_undo(saga: str, given: Value, stage: SagaStage, record: StepRecord, steps: list[StepRecord]) -> Value:
    """Return what a compensation is given: the action's output, its input when the outcome is unknown."""
    outputs: list[Value] = [None if one.output is None else decode(one.output) for one in steps]
    index = steps.index(record)
    before = outputs[index - 1] if index else given
    taken = before if record.input is None else decode(record.input)
    if stage.read_undo is None:
        return taken if record.output is None else outputs[index]
    about = {
        "input": taken,
        "output": outputs[index],
        "outcome": "unknown" if record.output is None else "done",
        "idempotencyKey": key_for(saga, stage.id, "undo"),
        "actionKey": key_for(saga, stage.id, "do"),
    }
    return bounded(stage.read_undo(given, about, outputs))


class _Standing:
    """A caller, for what undoes its saga: that it has lost a right since then does not stand in the way."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def __getattr__(self, name: str) -> Any:
        return getattr(self._caller, name)


def standing(caller: Caller) -> Caller:
    """Return the caller as one whose rights were checked when the saga began, and are not checked again."""
    return cast(Caller, _Standing(caller))

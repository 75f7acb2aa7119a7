"""How a workflow ends: what it gives, what it failed with, and how what it did is taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.errors import ExecutionFailed, WeftError, WorkflowFailed
from weft.patterns.contract import Call, Root, Value
from weft.patterns.copies import bounded
from weft.patterns.workflow_doing import undo_step
from weft.patterns.workflow_ledger import Ledger, PutOff
from weft.patterns.workflow_plan import Done, Gives, RunTold, StepTold, WorkflowPlan
from weft.patterns.workflow_scope import is_lost


def output_of(plan: WorkflowPlan, told: RunTold, scope: dict[str, Value], root: Root) -> Value:
    """Return what a workflow gives."""
    gives = plan.output
    if gives is None:
        return told.results
    lost = {name for stage in plan.stages if is_lost(told.steps[stage.index]) for name in stage.names}
    made: dict[str, Value] = {}
    for name, part in gives.parts:
        try:
            made[name] = part.render(scope)
        except ExecutionFailed as error:
            excused = plan.keeps_going or any(one.head in lost for one in part.references)
            if not excused or error.code != "UnresolvedReference":
                raise
            # What succeeded is told all the same.
            made[name] = None
            root.warn(f"{_lacking(gives, name)}: {error.message}")
    value: Value = made if gives.form == "object" else [*made.values()] if gives.form == "list" else made[""]
    return bounded(value) if sum(len(part.references) for _, part in gives.parts) > 1 else value


def _lacking(gives: Gives, name: str) -> str:
    if gives.form == "value":
        return "There is no output"
    return f"The output has no '{name}'" if gives.form == "object" else f"The output has no item {name}"


def failure(told: RunTold, step: str, error: WeftError, *, stopped: bool) -> WorkflowFailed:
    """Return the error that a workflow ends with: the step's own, and what became of each step."""
    undone = [one.id for one in told.steps if one.status == "undone"]
    left = [one.id for one in told.steps if one.status == "undo_failed"]
    tail = f"; undone: {', '.join(undone)}" if undone else ""
    tail += f"; could not be undone: {', '.join(left)}" if left else ""
    at = f" at step '{step}'" if step else ""
    became = "was cancelled" if stopped else f"failed{at}"
    message = f"Workflow '{told.name}' {became}: {error.message}{tail}"
    failed = WorkflowFailed(message, workflow=told.to_json(), cause=error.to_json())
    kept = any(one.status in ("succeeded", "undo_failed", "cancelled") for one in told.steps)
    failed.retryable = error.retryable if not kept or error.retryable == "no" else "unknown-outcome"
    failed.hint = error.hint
    failed.code = error.code if stopped else failed.code
    failed.__cause__ = error
    return failed


async def roll_back(
    told: RunTold,
    done: Sequence[Done],
    scope: dict[str, Value],
    call: Call,
    *,
    ledger: Ledger,
    tell: Callable[[StepTold], object],
) -> None:
    """Undo what was done, the last first; what cannot be undone does not keep the rest from it."""
    told.status = "rolled_back"
    for one in reversed(done):
        step = told.steps[one.stage.index]
        if one.stage.undo is None:
            step.because = "nothing undoes it"
            continue
        if one.undone is not None:
            # So it was in an earlier life of the run.
            told.status = "rollback_failed" if one.undone == "undo_failed" else told.status
            continue
        await ledger.sure()
        try:
            await undo_step(one, scope, call, ledger)
        except WeftError as error:
            if ledger.puts_off(error):
                raise PutOff(step.id, error) from error
            step.status, step.error = "undo_failed", error.to_json()
            told.status = "rollback_failed"
            call.root.warn(f"Step '{step.id}' could not be undone: {error.message}")
        else:
            if one.status == "failed":
                of = "" if step.items is None else f" of {step.items}"
                step.because = f"what it had done was undone: {len(one.made)}{of} items"
            else:
                step.status = "undone"
        await ledger.undone(one, step)
        tell(step)

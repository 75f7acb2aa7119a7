"""What a caller is told of a run that has ended."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

from weft.errors import DeadlineExceeded, ExecutionFailed, WeftError
from weft.expr.schemas import compile_schema
from weft.gateway.following import Recording
from weft.patterns.workflow_plan import RunTold
from weft.ports import Schema
from weft.workflows.recorded import Run


def outcome(told: RunTold, run: Run, error: WeftError | None, *, warnings: list[str], trace_id: str) -> dict[str, Any]:
    """Return the result of a request to run something."""
    failed = [
        {"step": step.id, **(step.error or {})} for step in told.steps if step.status in ("failed", "undo_failed")
    ]
    if error is not None and not (failed and told.failed):
        failed.append({"step": None, **error.to_json()})
    return {
        "success": run.status == "succeeded",
        "status": run.status,
        "results": told.results,
        "output": told.output,
        "errors": failed,
        "warnings": warnings,
        "duration": go_duration(told.duration),
        "duration_ms": round(told.duration * 1000, 3),
        "steps_executed": sum(1 for step in told.steps if step.began is not None and step.status != "skipped"),
        "steps": [step.to_json() for step in told.steps],
        "run_id": run.run_id,
        "trace_id": trace_id,
    }


def as_ended(recording: Recording, error: WeftError | None) -> tuple[RunTold, Run]:
    """Return what is told of a run that has ended, and its record; `error` is what its call ended with."""
    told = recording.told or RunTold(recording.run.name, "failed")
    if told.status in ("succeeded", "partial") and recording.gives is not None:
        told = _as_promised(told, recording.gives)
    # A run that its deadline ended was cancelled from where it stands.
    late = isinstance(error, DeadlineExceeded) and told.status == "cancelled"
    status = "failed" if late or told.status == "running" else told.status
    told = replace(told, status=status, error=error or told.error)
    ended = recording.run.ended(
        status,
        duration_ms=told.duration * 1000,
        steps=[step.to_json() for step in told.steps],
        error=None if told.error is None else cause_of(told.error),
    )
    return told, ended


def _as_promised(told: RunTold, gives: Schema) -> RunTold:
    """Return a run that went well, unless it gave what its document does not say."""
    try:
        found = islice(compile_schema(gives).problems(told.output), 3)
        wrong = [f"{one.pointer or 'the output'}: {one.message}" for one in found]
    except WeftError as error:
        # Whatever it cannot be told from, the run has ended.
        wrong = [error.message]
    if not wrong:
        return told
    sentence = f"the output is not what the outputSchema says: {'; '.join(wrong)}"
    unfit = ExecutionFailed(sentence, code="InvalidOutput", hint="mend the composition, or its outputSchema")
    return replace(told, status="failed", output=None, error=unfit, failed="")


def cause_of(error: WeftError) -> dict[str, Any]:
    """Return the error that ended a run: of a workflow that failed, what it failed of."""
    return dict(getattr(error, "cause", None) or error.to_json())


def go_duration(seconds: float) -> str:
    """Return a duration as Go writes it: `1.5s`, `12.3ms`."""
    if seconds >= 60:
        minutes, left = divmod(round(seconds, 3), 60)
        hours, minutes = divmod(int(minutes), 60)
        return f"{f'{hours}h' if hours else ''}{minutes}m{left:g}s"
    return f"{round(seconds, 3):g}s" if seconds >= 1 else f"{round(seconds * 1000, 3):g}ms"

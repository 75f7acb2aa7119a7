"""What a caller is told of a run that has ended."""

from __future__ import annotations

from typing import Any

from weft.errors import WeftError
from weft.patterns.workflow_plan import RunTold
from weft.workflows.recorded import Run


def outcome(told: RunTold, run: Run, error: WeftError | None, *, warnings: list[str], trace_id: str) -> dict[str, Any]:
    """Return the result of a request to run something."""
    failed = [
        {"step": step.id, **(step.error or {})} for step in told.steps if step.status in ("failed", "undo_failed")
    ]
    if error is not None and not failed:
        failed = [{"step": None, **error.to_json()}]
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

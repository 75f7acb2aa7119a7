"""What a step of a workflow may know, and whether it is done at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.patterns.contract import Call, Value
from weft.patterns.keys import principal_of
from weft.patterns.workflow_plan import Stage, StepTold


def why_skipped(stage: Stage, steps: Sequence[StepTold], scope: Mapping[str, Value]) -> tuple[str, bool] | None:
    """Return why a step is not done, and whether that is for want of one that failed; None when it is done."""
    waits = stage.waits
    for index in waits.needed:
        if (other := steps[index]).status != "succeeded":
            return f"it needs the result of '{other.id}', which {_became(other)}", is_lost(other)
    for index in waits.ordered:
        if is_lost(other := steps[index]):
            return f"it depends on '{other.id}', which {_became(other)}", True
    if waits.first and not any(steps[index].status == "succeeded" for index in waits.first):
        lost = any(is_lost(steps[index]) for index in waits.first)
        return "none of the steps that it waits for succeeded", lost
    if stage.when is not None and not stage.when(scope):
        return "its condition does not hold", False
    return None


def is_lost(told: StepTold) -> bool:
    """Tell whether a step failed, or was skipped for want of one that did."""
    return told.status == "failed" or told.lost


def _became(told: StepTold) -> str:
    return {"failed": "failed", "skipped": "was skipped", "cancelled": "was cancelled"}.get(told.status, "did not run")


def context_of(call: Call, id: str) -> dict[str, Any]:
    """Return what a workflow may know of its caller."""
    principal = principal_of(call.root)
    return {
        "user_id": principal.subject,
        "tenant": principal.tenant,
        "agent": principal.agent_name,
        "request_id": id,
    }

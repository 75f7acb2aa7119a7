"""Progress of what has steps, as clients are told it."""

from __future__ import annotations

from typing import Any

from weft.gateway.following import Hear
from weft.ports import Caller
from weft.run.call import OnStep, Place

TOLD = 1000
DEPTH = 2
A_LITTLE = 0.001
SAID = {"succeeded": "done", "undo_failed": "not undone"}
"""What statuses of steps are called."""


def steps_told(caller: Caller) -> OnStep:
    """Return what tells a client of each step of a composition that has ended, down to a depth that is worth it."""
    told = 0

    def tell(place: Place) -> None:
        nonlocal told
        if place.parent is None or told >= TOLD or _depth(place) > DEPTH:
            return
        told += 1
        took = (place.ended - place.began) * 1000
        name = place.name or place.step.name
        how = "done" if place.outcome == "ok" else place.outcome
        caller.progress({"progress": told, "message": f"{name}: {how} ({took:.0f} ms)"})

    return tell


def _depth(place: Place) -> int:
    """Return how deep a step is in the call, or in its saga, which is followed wherever in the call it stands."""
    depth, above = 0, place.parent
    while above is not None and depth <= DEPTH:
        depth, above = depth + 1, above.parent if above.is_span else None
    return depth


def events_told(caller: Caller) -> Hear:
    """Return what tells a client of the steps of a workflow: those that have ended, out of how many, and retries."""
    ended = set[str]()
    total, last, said = 0, 0.0, 0

    def tell(event: dict[str, Any]) -> None:
        nonlocal total, last, said
        kind: str = event["event"]
        data: dict[str, Any] = event["data"]
        if kind == "run_started":
            total = len(data["steps"])
        elif kind in ("step_retried", "step_ended") and said < TOLD:
            said += 1
            if kind == "step_ended":
                ended.add(data["id"])
            # It has to go up each time: by next to nothing where a step is tried again, or undone.
            last = max(float(len(ended)), round(last + A_LITTLE, 3))
            caller.progress({"progress": last, "total": total, "message": f"{data['id']}: {_how(kind, data)}"})

    return tell


def _how(event: str, data: dict[str, Any]) -> str:
    if event == "step_retried":
        return f"attempt {data.get('attempts', 1)} failed ({data['error'].get('code')}), it is tried again"
    status: str = data["status"]
    took = f" ({data['duration_ms']:.0f} ms)" if "duration_ms" in data else ""
    why = f", {data['because']}" if "because" in data else ""
    return f"{SAID.get(status, status)}{took}{why}"

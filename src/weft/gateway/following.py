"""Following a run: what happens in it, told to whoever listens now, and recorded for whoever asks later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

from weft.patterns.workflow_plan import RunTold, StepTold
from weft.workflows.recorded import Run

KEPT = 4096
"""How many events of one run are kept for those who come late."""


class Recording:
    """One run under way: a follower of the workflow, with the events so far."""

    def __init__(self, run: Run, *, on_end: Callable[[Recording], object] | None = None) -> None:
        self.run = run
        self.told: RunTold | None = None
        """How the run ended, once it has."""
        self.task: asyncio.Task[Any] | None = None
        """What cancels it."""
        self._events: list[dict[str, Any]] = []
        self._dropped = 0
        self._woken: asyncio.Future[None] | None = None
        self._on_end = on_end
        self._say("run_started", {"run_id": run.run_id, "name": run.name, "template": run.template})

    def step(self, told: StepTold) -> None:
        """Hear of a step."""
        kind = "step_started" if told.status == "running" and told.error is None else "step_ended"
        if told.status == "running" and told.error is not None:
            kind = "step_retried"
        self._say(kind, told.to_json())

    def ended(self, told: RunTold) -> None:
        """Hear that the run has ended."""
        self.told = told
        error = None if told.error is None else told.error.to_json()
        self._say("run_ended", {"run_id": self.run.run_id, **told.to_json(), **({"error": error} if error else {})})
        if self._on_end is not None:
            self._on_end(self)

    async def events(self, after: int = 0) -> AsyncGenerator[dict[str, Any]]:
        """Yield what happened since an event, and then what happens, until the run has ended."""
        at = max(after - self._dropped, 0)
        while True:
            while at < len(self._events):
                event = self._events[at]
                at += 1
                yield event
                if event["event"] == "run_ended":
                    return
            if self._woken is None or self._woken.done():
                self._woken = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._woken)

    def close(self, status: str) -> None:
        """End the stream of a run that ended without a word."""
        if self.told is None:
            self._say("run_ended", {"run_id": self.run.run_id, "status": status})

    def _say(self, event: str, data: dict[str, Any]) -> None:
        number = self._dropped + len(self._events) + 1
        if len(self._events) < KEPT:
            self._events.append({"id": number, "event": event, "data": data})
        elif event == "run_ended":
            self._events[-1] = {"id": number, "event": event, "data": data}
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

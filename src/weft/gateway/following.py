"""Following a run: what happens in it, told to whoever listens now, and recorded for whoever asks later."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from weft.patterns.workflow_plan import RunTold, StepTold
from weft.ports import Schema
from weft.workflows.recorded import Run

Hear: TypeAlias = Callable[[dict[str, Any]], object]
"""Is told of an event; it must not block and must not raise."""

KEPT = 4096
"""How many events of one run are kept for those who come late: the newest."""


class Recording:
    """One run under way: a follower of the workflow, with the events so far."""

    def __init__(
        self,
        run: Run,
        *,
        steps: Sequence[str] = (),
        hear: Hear | None = None,
        durable: bool = False,
        gives: Schema | None = None,
    ) -> None:
        """Begin one; `steps` are the ids of all, and `hear` is told of each event at once.

        `gives` is the schema of the output, where the document has one.
        """
        self.run = run
        self.durable = durable
        """Whether it goes on when nobody waits for it, and when this process is gone, once it is written."""
        self.gives = gives
        self.begun = False
        self.ending = False
        """Whether it is being ended: what it undoes is not to be cut short by whoever wants that, too."""
        self.on_end: Callable[[], object] | None = None
        self._hear = hear
        self.told: RunTold | None = None
        """How the workflow ended, once it has."""
        self.task: asyncio.Task[Any] | None = None
        """What cancels it, unless it goes on by itself."""
        self._stop: Callable[[], object] | None = None
        self._events = deque[dict[str, Any]](maxlen=KEPT)
        self._said = 0
        self._over = False
        self._woken: asyncio.Future[None] | None = None
        self._ended = asyncio.Event()
        told = {"run_id": run.run_id, "name": run.name, "template": run.template, "steps": list(steps)}
        self._say("run_started", told)

    @property
    def run_id(self) -> str:
        """What the run is called, also where it is journalled."""
        return self.run.run_id

    def taken(self) -> Recording | None:
        """Return this once, to the workflow that was asked for; those inside it are steps of that."""
        first, self.begun = not self.begun, True
        return self if first else None

    @property
    def goes_on(self) -> bool:
        """Whether it is written, so that somebody goes on with it whatever becomes of this process."""
        return self._stop is not None

    def runs_on(self, stop: Callable[[], object]) -> None:
        """Hear that it is written, and how its owner is told to stop."""
        self._stop = stop
        if self.ending:
            stop()

    def stop(self) -> None:
        """End the run; of one that is only being written the wish is remembered until that is done."""
        if self.ending:
            return
        self.ending = True
        if self._stop is not None:
            self._stop()
        elif not self.durable and self.task is not None:
            self.task.cancel()

    async def over(self, seconds: float) -> None:
        """Wait until the workflow has ended, with all that it undoes, for so long at most."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), seconds)

    def step(self, told: StepTold) -> None:
        """Hear of a step."""
        kind = "step_started" if told.status == "running" and told.error is None else "step_ended"
        if told.status == "running" and told.error is not None:
            kind = "step_retried"
        self._say(kind, told.to_json())

    def ended(self, told: RunTold) -> None:
        """Hear that the workflow has ended."""
        self.told = told
        self._ended.set()
        if self.on_end is not None:
            self.on_end()

    def close(self, run: Run) -> None:
        """End the stream: the run is recorded as it ended, so that whoever hears of it can also read it."""
        if not self._over:
            self._over = True
            self._say("run_ended", run.to_json())

    async def events(self, after: int = 0) -> AsyncGenerator[dict[str, Any]]:
        """Yield what happened since an event, and then what happens, until the run has ended.

        The end is told to whoever asks, also after an event that there was not.
        """
        at = min(after, self._said - 1 if self._over else self._said)
        while True:
            while at < self._said:
                first = self._said - len(self._events)
                event = self._events[max(at - first, 0)]
                at = event["id"]
                yield event
                if event["event"] == "run_ended":
                    return
            if self._woken is None or self._woken.done():
                self._woken = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._woken)

    def _say(self, event: str, data: dict[str, Any]) -> None:
        self._said += 1
        said = {"id": self._said, "event": event, "data": data}
        self._events.append(said)
        if self._hear is not None:
            self._hear(said)
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

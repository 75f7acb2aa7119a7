"""What a gateway keeps: its stores, and the loops that finish what others began and send what was not taken."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from weft.app.operating import Operating
from weft.app.stores import Stores
from weft.app.watching import Watch
from weft.config import Config
from weft.gateway.callers import Inside, Nobody
from weft.gateway.gateway import Gateway
from weft.gateway.origins import caller_of_run
from weft.gateway.policy import ToolFacts
from weft.patterns.circuits import Circuits
from weft.patterns.dead_letter_spool import Letterboxes
from weft.patterns.workflow_plan import Watch as Followers
from weft.ports import Caller, Principal, Store
from weft.run.recovery import Recovery
from weft.run.spool import DeadLetters
from weft.run.workflow_recovery import WorkflowRecovery
from weft.telemetry.signals import LoggedSignals


@dataclass(frozen=True, slots=True)
class Begun:
    """What there is once the gateway is."""

    operating: Operating
    watch: Watch
    tasks: list[asyncio.Task[None]]


class Keeping:
    """The state of one process; made before the gateway, which it serves once `begin` is called."""

    def __init__(self, config: Config) -> None:
        """Make the stores.

        Raises:
            InputError: what a store needs is not installed.
        """
        self.signals = LoggedSignals()
        self.stores = Stores(config.stores, signals=self.signals)
        self._begun: Begun | None = None

    async def open(self) -> None:
        """Open the stores.

        Raises:
            StoreError: one that is required cannot be opened.
        """
        await self.stores.open()

    def begin(self, gateway: Gateway) -> Watch:
        """Begin to finish sagas and workflows whose owner is gone, to send letters again, and to watch."""
        engine, live, signals, shelves = gateway.engine, gateway.live, self.signals, self._shelves()
        clock, limits, detach = engine.clock, engine.limits, engine.detach
        recovery = Recovery(
            shelves, live.compile, caller_of, detach=detach, clock=clock, limits=limits, signals=signals
        )
        letters = DeadLetters(
            live.kept.of(Letterboxes), caller_of, detach=detach, clock=clock, limits=limits, signals=signals
        )
        operating = Operating(
            shelves,
            letters,
            live.kept.of(Circuits),
            recover=recovery.once,
            clock=clock,
            signals=signals,
        )
        workflows = WorkflowRecovery(
            shelves,
            live.compile,
            caller_of_run,
            detach=detach,
            watch=live.kept.of(Followers),
            clock=clock,
            limits=lambda: engine.limits,
            signals=signals,
        )
        watch = Watch(self.stores.all(), shelves, operating.circuits)
        signals.on_event = watch.heard
        tasks = [
            asyncio.create_task(recovery.run(), name="saga recovery"),
            asyncio.create_task(workflows.run(), name="workflow recovery"),
            asyncio.create_task(letters.run(), name="dead letters"),
            asyncio.create_task(watch.run(), name="state watch"),
        ]
        self._begun = Begun(operating, watch, tasks)
        return watch

    async def end(self) -> None:
        """Stop all that was begun; what is under way is left to others."""
        if self._begun is None:
            return
        for task in self._begun.tasks:
            task.cancel()
        await asyncio.gather(*self._begun.tasks, return_exceptions=True)
        await self._begun.operating.close()

    async def close(self) -> None:
        """Let the stores go."""
        await self.stores.close()

    @property
    def operating(self) -> Operating:
        """What operators can ask, once it has begun."""
        assert self._begun is not None, "begun"
        return self._begun.operating

    @property
    def watch(self) -> Watch | None:
        """What is not well, once it has begun."""
        return None if self._begun is None else self._begun.watch

    def _shelves(self) -> list[Store]:
        return [store for store in self.stores.all().values() if store.durable or store.shared]


def caller_of(principal: Principal, tool: str) -> Caller:
    """Return who a saga or a letter of another day is finished for: its steps are judged as they were then."""
    name, _, version = tool.rpartition("@")
    return Inside(Nobody(principal=principal), {}, facts=ToolFacts(name or tool, version if name else None))

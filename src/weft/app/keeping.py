"""What a gateway keeps: its stores, and the loops that finish what others began and send what was not taken."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from weft.app.awaited import Awaited
from weft.app.operating import Operating
from weft.app.stores import Stores, apart
from weft.app.watching import Watch
from weft.config import Config
from weft.doors.peers import Peers
from weft.gateway.callers import Inside, Nobody
from weft.gateway.gateway import Gateway
from weft.gateway.origins import caller_of_run
from weft.gateway.policy import ToolFacts
from weft.patterns.circuits import Circuits
from weft.patterns.dead_letter_spool import Letterboxes
from weft.patterns.workflow_plan import Watch as Followers
from weft.ports import Caller, Principal
from weft.run.awaiting import is_away
from weft.run.recovery import Recovery
from weft.run.spool import DeadLetters
from weft.run.workflow_recovery import WorkflowRecovery
from weft.telemetry.logs import Log
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

    def begin(self, gateway: Gateway, peers: Peers | None = None) -> Watch:
        """Begin to watch; and to finish what has lost its owner, and to send letters, once the servers are ready.

        Of several workers, the first tells of stores that each has for itself.
        """
        engine, live, signals = gateway.engine, gateway.live, self.signals
        # Sagas in memory are finished and listed too, as long as the process lives.
        shelves = [*self.stores.all().values()]
        servers = Awaited(gateway)
        given: dict[str, Any] = {
            "detach": engine.detach,
            "clock": engine.clock,
            # A reload changes them.
            "limits": lambda: engine.limits,
            "servers": servers,
            "signals": signals,
        }
        recovery = Recovery(shelves, live.compile, caller_of, **given)
        letters = DeadLetters(live.kept.of(Letterboxes), caller_of, **given)
        operating = Operating(
            shelves,
            letters,
            live.kept.of(Circuits),
            recover=recovery.once,
            clock=engine.clock,
            signals=signals,
        )
        workflows = WorkflowRecovery(
            shelves,
            live.compile,
            caller_of_run,
            detach=engine.detach,
            watch=live.kept.of(Followers),
            ready=servers.ready,
            awaited=lambda error: is_away(error, servers),
            clock=engine.clock,
            limits=lambda: engine.limits,
            signals=signals,
        )
        watch = Watch(self.stores.all(), shelves, operating.circuits)
        signals.on_event = watch.heard
        if peers is not None and peers.index == 0 and peers.count > 1:
            for name, patterns in apart(engine.snapshot.document, self.stores).items():
                Log("gateway").warning(_told_apart(name, patterns, peers.count), store=name)
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


def caller_of(principal: Principal, tool: str) -> Caller:
    """Return who a saga or a letter of another day is finished for: its steps are judged as they were then."""
    name, _, version = tool.rpartition("@")
    return Inside(Nobody(principal=principal), {}, facts=ToolFacts(name or tool, version if name else None))


def _told_apart(store: str, patterns: list[str], workers: int) -> str:
    return (
        f"store '{store}' is in memory, and each of the {workers} workers has one of its own: {', '.join(patterns)} "
        f"{'remembers' if len(patterns) == 1 else 'remember'} nothing of what the others did; "
        "type: sqlite, redis or postgres is shared"
    )

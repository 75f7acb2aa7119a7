"""What a gateway keeps: its stores, and the loops that finish what others began and send what was not taken."""

from __future__ import annotations

import asyncio
from typing import Any

from weft.app.stores import Stores
from weft.config import Config
from weft.gateway.callers import Inside, Nobody
from weft.gateway.gateway import Gateway
from weft.gateway.policy import ToolFacts
from weft.patterns.circuits import Circuits
from weft.patterns.dead_letter_spool import Letterboxes
from weft.ports import Caller, Principal, Store
from weft.run.journal import Sagas
from weft.run.recovery import Recovery
from weft.run.spool import DeadLetters
from weft.telemetry.signals import LoggedSignals


class Keeping:
    """The state of one process; made before the gateway, which it serves once `begin` is called."""

    def __init__(self, config: Config) -> None:
        """Make the stores.

        Raises:
            InputError: what a store needs is not installed.
        """
        self.signals = LoggedSignals()
        self.stores = Stores(config.stores, signals=self.signals)
        self._tasks: list[asyncio.Task[None]] = []
        self._gateway: Gateway | None = None
        self._sagas = Sagas(self._shelves())
        self._letters: DeadLetters | None = None

    async def open(self) -> None:
        """Open the stores.

        Raises:
            StoreError: one that is required cannot be opened.
        """
        await self.stores.open()

    def begin(self, gateway: Gateway) -> None:
        """Begin to finish sagas whose owner is gone, and to send letters that were not taken."""
        self._gateway = gateway
        engine, live = gateway.engine, gateway.live
        recovery = Recovery(
            self._shelves(),
            live.compile,
            caller_of,
            detach=engine.detach,
            clock=engine.clock,
            limits=engine.limits,
            signals=self.signals,
        )
        self._letters = DeadLetters(
            live.kept.of(Letterboxes),
            caller_of,
            detach=engine.detach,
            clock=engine.clock,
            limits=engine.limits,
            signals=self.signals,
        )
        self._tasks = [
            asyncio.create_task(recovery.run(), name="saga recovery"),
            asyncio.create_task(self._letters.run(), name="dead letters"),
        ]

    async def end(self) -> None:
        """Stop both; what is under way is left to others."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """Let the stores go."""
        await self.stores.close()

    # What operators ask.

    @property
    def sagas(self) -> Sagas:
        """The sagas of all stores."""
        return self._sagas

    @property
    def letters(self) -> DeadLetters:
        """The letters that were not taken."""
        assert self._letters is not None, "begun"
        return self._letters

    async def circuits(self) -> list[dict[str, Any]]:
        """Return every circuit of this process."""
        gateway = self._gateway
        assert gateway is not None, "begun"
        found = await gateway.live.kept.of(Circuits).list(gateway.engine.clock, self.signals)
        return [one.to_json() for one in found]

    async def reset_circuit(self, name: str) -> list[dict[str, Any]]:
        """Close a circuit, and return it in all its scopes.

        Raises:
            NotFound: there is none of that name.
        """
        gateway = self._gateway
        assert gateway is not None, "begun"
        found = await gateway.live.kept.of(Circuits).reset(name, gateway.engine.clock, self.signals)
        return [one.to_json() for one in found]

    def _shelves(self) -> list[Store]:
        return [store for store in self.stores.all().values() if store.durable or store.shared]


def caller_of(principal: Principal, tool: str) -> Caller:
    """Return who a saga or a letter of another day is finished for: its steps are judged as they were then."""
    name, _, version = tool.rpartition("@")
    return Inside(Nobody(principal=principal), {}, facts=ToolFacts(name or tool, version if name else None))

"""What a run of a workflow is written into: nothing, or a store that outlives the process."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Protocol

from weft.errors import WeftError
from weft.patterns.keys import Keys
from weft.patterns.workflow_plan import Done, RunTold, Stage, StepTold, WorkflowPlan


class PutOff(Exception):
    """The server of a step is away and may come back: whoever takes the run over later goes on."""

    def __init__(self, step: str, error: WeftError) -> None:
        super().__init__(error.message)
        self.step = step
        self.error = error


class Ledger(Protocol):
    """The record of one run; what is not written has not happened."""

    @property
    def id(self) -> str:
        """What names the run."""
        ...

    @property
    def durable(self) -> bool:
        """Whether somebody else goes on with the run when this process is gone."""
        ...

    @property
    def turned(self) -> tuple[str, WeftError] | None:
        """At which step a run that was taken over had turned back, and why; None when it had not."""
        ...

    async def restored(self, plan: WorkflowPlan) -> Sequence[Done]:
        """Return the steps that had ended when the run was taken over, in the order in which they did."""
        ...

    def keys(self, stage: Stage, item: int | None = None) -> Keys | None:
        """Return the idempotency keys of a step, the same in every life of the run; None where nobody needs them."""
        ...

    def puts_off(self, error: WeftError) -> bool:
        """Tell whether a step that failed is rather left to whoever takes the run over later."""
        ...

    async def sure(self) -> None:
        """Return when the run is surely one's own: nothing may be done for it otherwise."""
        ...

    async def begun(self, stage: Stage) -> None:
        """Write that a step is about to be done, where that must be known; as `sure` does, else."""
        ...

    async def ended(self, done: Done) -> None:
        """Write how a step ended."""
        ...

    async def turn_back(self, step: str, error: WeftError, partly: Sequence[Done]) -> None:
        """Write that what was done is undone from now on, also by steps that did only a part."""
        ...

    async def undone(self, done: Done, told: StepTold) -> None:
        """Write that a step was undone, or that it could not be."""
        ...

    async def closed(self, told: RunTold) -> None:
        """Write how the run ended."""
        ...


class Unwritten:
    """The ledger of a run that ends with its process."""

    durable = False
    turned = None

    def __init__(self, id: str = "") -> None:
        """Make one; a run within something that is repeated has an id that is the same each time."""
        self._id = id
        self._keyed = bool(id)

    @property
    def id(self) -> str:
        """A name that is made up when somebody asks."""
        self._id = self._id or uuid.uuid4().hex
        return self._id

    async def restored(self, plan: WorkflowPlan) -> Sequence[Done]:
        return ()

    def keys(self, stage: Stage, item: int | None = None) -> Keys | None:
        # A place keeps the keys that it was given last: once one step has some, all have their own.
        self._keyed = self._keyed or stage.retries > 0
        return Keys(f"{self.id}|{stage.id}|{item}") if self._keyed else None

    def puts_off(self, error: WeftError) -> bool:
        return False

    async def sure(self) -> None:
        return

    async def begun(self, stage: Stage) -> None:
        return

    async def ended(self, done: Done) -> None:
        return

    async def turn_back(self, step: str, error: WeftError, partly: Sequence[Done]) -> None:
        return

    async def undone(self, done: Done, told: StepTold) -> None:
        return

    async def closed(self, told: RunTold) -> None:
        return

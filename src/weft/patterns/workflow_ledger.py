"""What a run of a workflow is written into: nothing, or a store that outlives the process."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Protocol

from weft.errors import WeftError
from weft.patterns.keys import Keys
from weft.patterns.workflow_plan import Done, RunTold, Stage, StepTold, WorkflowPlan


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

    async def restored(self, plan: WorkflowPlan) -> Sequence[Done]:
        """Return the steps that had ended when the run was taken over, in the order in which they did."""
        ...

    def keys(self, stage: Stage, item: int | None = None) -> Keys | None:
        """Return the idempotency keys of a step, the same in every life of the run; None where nobody needs them."""
        ...

    async def begun(self, stage: Stage) -> None:
        """Write that a step is about to be done, where that must be known."""
        ...

    async def ended(self, done: Done) -> None:
        """Write how a step ended."""
        ...

    async def turn_back(self, step: str, error: WeftError) -> None:
        """Write that what was done is undone from now on."""
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

    def __init__(self) -> None:
        self._id = ""

    @property
    def id(self) -> str:
        """A name that is made up when somebody asks."""
        self._id = self._id or uuid.uuid4().hex
        return self._id

    async def restored(self, plan: WorkflowPlan) -> Sequence[Done]:
        return ()

    def keys(self, stage: Stage, item: int | None = None) -> Keys | None:
        return Keys(f"{self.id}|{stage.id}|{item}") if stage.retries else None

    async def begun(self, stage: Stage) -> None:
        return

    async def ended(self, done: Done) -> None:
        return

    async def turn_back(self, step: str, error: WeftError) -> None:
        return

    async def undone(self, done: Done, told: StepTold) -> None:
        return

    async def closed(self, told: RunTold) -> None:
        return

"""Which steps of a workflow can be done now: those that wait for nothing that has not ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Set as AbstractSet

from weft.patterns.workflow_plan import Stage, WorkflowPlan


class Order:
    """Of one run, the steps that are ready; whoever does one takes it out."""

    def __init__(self, plan: WorkflowPlan) -> None:
        self._plan = plan
        self._left = [len(stage.waits.hard) + (1 if stage.waits.first else 0) for stage in plan.stages]
        self._first = {stage.index: len(stage.waits.first) for stage in plan.stages if stage.waits.first}
        self.ready = deque(stage.index for stage in plan.stages if not self._left[stage.index])

    def pass_on(self, stage: Stage, *, well: bool) -> None:
        """Make those ready that waited for nothing else than a step which has ended."""
        for index in self._plan.dependants[stage.index]:
            if stage.index in self._plan.stages[index].waits.first:
                left = self._first[index]
                if left <= 0:
                    continue
                # The first that succeeds is enough; of those that do not, the last decides.
                self._first[index] = 0 if well else left - 1
                if self._first[index]:
                    continue
            self._left[index] -= 1
            if not self._left[index]:
                self.ready.append(index)

    def leave_out(self, over: AbstractSet[int]) -> None:
        """Take out steps that have ended in an earlier life of the run."""
        left = [index for index in self.ready if index not in over]
        self.ready.clear()
        self.ready.extend(left)

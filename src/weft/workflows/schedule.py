"""How long a workflow would take, and how much of it would run at once, by the durations of its steps."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from weft.workflows.steps import DocumentStep


@dataclass(frozen=True, slots=True)
class Outlook:
    """How many milliseconds a workflow takes, and how many steps run at the same moment at most."""

    takes: float
    widest: int


def has_order(steps: Sequence[DocumentStep]) -> bool:
    """Tell whether the steps can be done one after another: none waits for itself."""
    try:
        TopologicalSorter({step.id: {*step.depends_on, *step.reads} for step in steps}).prepare()
    except CycleError:
        return False
    return True


def outlook(steps: Sequence[DocumentStep], durations: Mapping[str, float], *, at_once: int | None = None) -> Outlook:
    """Do all steps in thought, each as soon as it can; the steps have an order.

    Where several could begin and only some may, those that stand first in the document do. What nobody has measured
    takes no time.
    """
    missing = {step.id: _waits(step) for step in steps}
    after: dict[str, list[str]] = {step.id: [] for step in steps}
    place = {step.id: at for at, step in enumerate(steps)}
    for step in steps:
        for other in {*step.depends_on, *step.reads}:
            after[other].append(step.id)
    by_id = {step.id: step for step in steps}
    ready = [place[id] for id, left in missing.items() if not left]
    heapq.heapify(ready)
    running: list[tuple[float, int]] = []
    begun = set(ready)
    now, widest = 0.0, 0
    while ready or running:
        while ready and (at_once is None or len(running) < at_once):
            at = heapq.heappop(ready)
            heapq.heappush(running, (now + durations.get(steps[at].id, 0.0), at))
        widest = max(widest, len(running))
        now, at = heapq.heappop(running)
        for id in after[steps[at].id]:
            step, left = by_id[id], missing[id]
            # Of those of which one is enough, the first to end stands for all.
            left -= set(step.depends_on) if step.first and steps[at].id in step.depends_on else {steps[at].id}
            if not left and place[id] not in begun:
                begun.add(place[id])
                heapq.heappush(ready, place[id])
    return Outlook(now, widest)


def _waits(step: DocumentStep) -> set[str]:
    return {*step.depends_on, *step.reads}

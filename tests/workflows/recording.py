"""Runs for tests, and a store that counts what is asked of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from weft.ports import Principal
from weft.workflows.recorded import Ended, RecordedStep, Run, new_run
from weft.workflows.runs import Runs

ALICE = Principal(subject="alice", tenant="acme", method="key")


def run(name: str = "w", *, template: str | None = None, tenant: str = "acme", started: float = 1000.0) -> Run:
    """Return a run that begins."""
    principal = Principal(subject="alice", tenant=tenant, method="key")
    return new_run(principal, name, template=template, started=started, input_bytes=12)


def step(id: str, status: str = "succeeded", took: float | None = 10.0, **more: Any) -> RecordedStep:
    """Return a step of a run that has ended."""
    told: dict[str, Any] = {"attempts": 1, **more}
    return RecordedStep(id=id, status=status, duration_ms=took, **told)


async def ran(
    runs: Runs, name: str = "w", *, template: str | None = None, tenant: str = "acme", status: Ended = "succeeded"
) -> Run:
    """Record a run from its beginning to its end."""
    begun = await runs.begin(run(name, template=template, tenant=tenant))
    done = begun.ended(status, duration_ms=5.0)
    assert await runs.end(done)
    return done


class Asked:
    """Any store; counts by name what is asked of it."""

    def __init__(self, store: Any) -> None:
        self.inner = store
        self.counts = Counter[str]()

    def __getattr__(self, name: str) -> Any:
        self.counts[name] += 1
        return getattr(self.inner, name)

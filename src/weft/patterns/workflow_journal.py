"""The journal of a run that outlives its process; unlike a saga's, others may write into it that it should stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.errors import StoreError
from weft.patterns.saga_journal import OwnedJournal, open_key, read_owned
from weft.patterns.saga_record import decode, encode
from weft.patterns.workflow_record import WorkflowRecord, WorkflowState
from weft.ports import Store, Stored

TRIES = 20


class WorkflowJournal(OwnedJournal[WorkflowState]):
    """The record of one run, in the hands of its owner."""

    on_cancel: Callable[[], object] | None = None
    """Told when somebody wants the run to stop."""

    def _is_mine(self, held: Stored) -> bool:
        if super()._is_mine(held):
            return True
        state = WorkflowState.of_json(decode(held.value))
        if (state.owner, state.fence) != (self.state.owner, self.state.fence):
            return False
        # A wish was written into it, or something of one's own by somebody who was cancelled and never knew.
        self._version = held.version
        if state.cancelled and not self.state.cancelled:
            self.state.cancelled = True
            if self.on_cancel is not None:
                self.on_cancel()
        return True


async def cancel(store: Store, key: str) -> bool:
    """Ask whoever works on a run to stop it; tell whether it had not ended.

    The owner sees it when it writes the next time, at the latest after a third of its lease; where there is none,
    whoever takes the run over sees it at once.
    """
    for _ in range(TRIES):
        held = await store.get(open_key(key))
        if held is None:
            return False
        state = WorkflowState.of_json(decode(held.value))
        if state.cancelled:
            return True
        wish = encode(replace(state, cancelled=True).to_json())
        if await store.cas(open_key(key), wish, held.version) is not None:
            return True
    raise StoreError(store.name, "the record of the run is always being changed", code="StoreBusy")


async def is_open(store: Store, key: str) -> bool:
    """Tell whether there is a run that has not ended."""
    return await store.exists(open_key(key))


async def read_run(store: Store, key: str) -> WorkflowRecord | None:
    """Return a run as it is stored, or None when there is none."""
    found = await read_owned(store, key, WorkflowState.of_json)
    return None if found is None else WorkflowRecord(key, *found)

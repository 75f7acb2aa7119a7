"""Runs by their journals: in whichever store one is written, whoever works on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from weft.patterns.workflow_journal import cancel, is_open
from weft.patterns.workflow_record import run_key
from weft.ports import Principal, Store


class Journals:
    """The journals in some stores."""

    def __init__(self, stores: Callable[[], Iterable[Store]]) -> None:
        self._stores = stores

    async def cancel(self, principal: Principal, run_id: str) -> bool:
        """Ask whoever works on a run to stop it; tell whether there is one that has not ended."""
        key = run_key(principal, run_id)
        for store in self._stores():
            if await cancel(store, key):
                return True
        return False

    async def has(self, principal: Principal, run_id: str) -> bool:
        """Tell whether there is a run that has not ended: somebody goes on with it sooner or later."""
        key = run_key(principal, run_id)
        for store in self._stores():
            if await is_open(store, key):
                return True
        return False

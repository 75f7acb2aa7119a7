"""Outages: a store that cannot be used is told of once, and so is its return; not with every call in between."""

from __future__ import annotations

from weft.errors import StoreError
from weft.ports import Signals


class Outage:
    """Whether one kind of pattern can use one store."""

    __slots__ = ("_instead", "_pattern", "_store", "out")

    def __init__(self, pattern: str, store: str, instead: str) -> None:
        self._pattern = pattern
        self._store = store
        self._instead = instead
        self.out = False

    def began(self, signals: Signals, error: StoreError) -> None:
        """Tell that the store cannot be used, and what happens instead."""
        signals.count("store_bypassed", pattern=self._pattern, store=self._store)
        if not self.out:
            self.out = True
            signals.event(
                "store_outage", pattern=self._pattern, store=self._store, instead=self._instead, reason=error.message
            )

    def ended(self, signals: Signals) -> None:
        """Tell that the store can be used again."""
        if self.out:
            self.out = False
            signals.event("store_back", pattern=self._pattern, store=self._store)


class Outages:
    """The outages of all stores, for as long as the process lives."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Outage] = {}

    def of(self, pattern: str, store: str, instead: str) -> Outage:
        """Return that of a kind of pattern and a store; `instead` is what the pattern does without it."""
        found = self._known.get((pattern, store))
        if found is None:
            found = self._known[pattern, store] = Outage(pattern, store, instead)
        return found

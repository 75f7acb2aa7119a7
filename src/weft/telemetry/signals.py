"""What the machinery of state says, for operators: numbers become metrics, events become lines of the log."""

from __future__ import annotations

from collections import Counter

from weft.telemetry.logs import Log

GRAVE = frozenset({"saga_stuck", "store_away", "store_flushed", "dead_letter_lost", "circuit_opened"})
"""Events that somebody should look at."""


class LoggedSignals:
    """Counts by name and labels, and logs events; `counts` is for the metrics to read."""

    def __init__(self) -> None:
        self.counts = Counter[tuple[str, tuple[tuple[str, str], ...]]]()
        self._log = Log("state")

    def count(self, name: str, **labels: str) -> None:
        """Count something."""
        self.counts[name, tuple(sorted(labels.items()))] += 1

    def event(self, name: str, **facts: object) -> None:
        """Log an event, and count it."""
        self.counts["events", (("event", name),)] += 1
        (self._log.warning if name in GRAVE else self._log.info)(name.replace("_", " "), **facts)

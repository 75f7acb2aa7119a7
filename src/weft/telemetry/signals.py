"""What the machinery of state says, for operators: numbers become metrics, events become lines of the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from weft.telemetry.logs import Log
from weft.telemetry.metrics import OTHER

MOST: Final = 5000
"""How many series there are at most: what comes later is counted without its labels."""

EVENT: Final = "state_events"

COUNTED: Final = {
    "cache_requests": "Calls of a cache, by how each was answered.",
    "cache_not_stored": "Results that a cache did not keep, by the reason.",
    "cache_refresh_failed": "Stale entries that could not be made anew.",
    "cache_undecodable": "Cache entries that could not be read, and were made anew.",
    "circuit_refused": "Calls that an open circuit kept away.",
    "circuit_transitions": "Circuits that opened, half opened or closed.",
    "circuit_undecodable": "States of circuits that could not be read, and began anew.",
    "claim_corrupt": "Claim checks whose content is not what was checked in.",
    "claim_orphaned": "Claim checks that were not deleted after their use, and expire.",
    "dead_letters": "Letters of calls that failed for good: delivered, or spooled for later.",
    "dead_letter_lost": "Letters that nobody took and no store keeps.",
    "dead_letters_redriven": "Letters that were sent again, by whether they were taken.",
    "fenced_write": "Writings of somebody whose lease was over, which were refused.",
    "idempotent_replays": "Calls that were answered with the result of an earlier one.",
    "idempotent_takeovers": "Calls whose first runner was gone.",
    "idempotent_unknown": "Calls of which nobody knows whether they were done.",
    "idempotent_unrecorded": "Calls that were done and whose result could not be written down.",
    "lease_lost": "Leases that could not be renewed in time.",
    "retries": "Attempts that failed: tried again, or why not.",
    "saga_recoveries": "Sagas that were taken over from an owner that was gone.",
    "sagas": "Sagas that ended or got stuck, by their status.",
    EVENT: "Events of stores and patterns; the log has a line of each.",
    "store_bypassed": "Calls that did without a store that is away.",
    "store_errors": "Operations of stores that failed, by the code of the error.",
    "throttle_places_left": "Places of a throttle that could not be given back, and fall free by themselves.",
    "throttled": "Calls that a throttle let wait, or refused.",
    "timeouts": "Steps that took longer than their timeout.",
    "timeouts_abandoned": "Steps that went on after their timeout, and that nobody waits for any more.",
    "workflow_recoveries": "Runs of workflows that were taken over from an owner that was gone.",
    "workflows": "Runs of workflows with a store that ended, by their status.",
}
"""What is counted, by the name under which patterns and stores count it: `weft_<name>_total` is its metric."""

GRAVE: Final = frozenset(
    {
        "circuit_opened",
        "dead_letter_lost",
        "dead_letter_spooled",
        "recovery_away",
        "saga_abandoned",
        "saga_compensation_failed",
        "saga_stuck",
        "spool_away",
        "store_away",
        "store_evicts",
        "store_failing",
        "store_flushed",
        "store_may_lose",
        "store_on_network",
        "store_outage",
        "workflow_stuck",
    }
)
"""Events that somebody should look at."""

CALM: Final = frozenset(
    {
        "circuit_closed",
        "circuit_half_opened",
        "claim_orphaned",
        "saga_compensated",
        "saga_compensating",
        "saga_handed_over",
        "saga_recovered",
        "saga_retried",
        "saga_waiting",
        "store_back",
        "store_working",
        "workflow_handed_over",
        "workflow_recovered",
        "workflow_waiting",
    }
)
"""Events that are only told."""


class LoggedSignals:
    """Counts by name and labels, and logs events; `figures` is for the metrics to read."""

    def __init__(self) -> None:
        self.counts = Counter[tuple[str, tuple[tuple[str, str], ...]]]()
        self.on_event: Callable[[str], object] = _nothing
        """Hears the name of every event."""
        self._log = Log("state")

    def count(self, name: str, **labels: str) -> None:
        """Count something."""
        key = (name, tuple(sorted(labels.items())))
        if key not in self.counts and len(self.counts) >= MOST:
            key = (name, tuple((label, OTHER) for label in sorted(labels)))
        self.counts[key] += 1

    def event(self, name: str, **facts: object) -> None:
        """Log an event, and count it."""
        self.count(EVENT, event=name)
        (self._log.warning if name in GRAVE else self._log.info)(name.replace("_", " "), **facts)
        self.on_event(name)

    def figures(self) -> list[list[Any]]:
        """Return what was counted as JSON: rows of name, labels and number."""
        return [[name, dict(labels), number] for (name, labels), number in self.counts.items()]


def _nothing(_event: str) -> None:
    """Hear nothing."""

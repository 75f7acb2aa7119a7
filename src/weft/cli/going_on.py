"""Sagas that go on when `weft run` has ended its call: people are told, and where to look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.cli.output import note

if TYPE_CHECKING:
    from weft.patterns.kept import Kept
    from weft.patterns.saga_entry import Live


class GoingOn:
    """The sagas of a call that was stopped, or took too long."""

    def __init__(self, kept: Kept) -> None:
        from weft.patterns.saga_entry import Running

        self._running = kept.of(Running)
        self._live: list[Live] = []

    def begin(self, seconds: float) -> None:
        """Tell of those that are not at their end; they have so many seconds left."""
        self._live = list(self._running.live.values())
        for live in self._live:
            note(f"Saga '{_id(live)}' goes on for at most {seconds:g} seconds; Ctrl-C leaves it as it is.")

    def end(self) -> None:
        """Tell what became of them."""
        from weft.patterns.saga_record import ENDED, ref_of

        for live in self._live:
            journal = live.runner.journal
            status, store = journal.state.status, journal.store
            told = f"Saga '{_id(live)}' is {status}"
            look = f"`weft saga show {ref_of(journal.key)}`"
            if status in ENDED:
                note(f"{told}.")
            elif not store.durable:
                note(f"{told}, and lost: store '{store.name}' forgets it with this process.")
            elif journal.state.stuck is not None:
                note(f"{told}, and stuck: {journal.state.stuck}; {look} at a gateway with store '{store.name}'.")
            else:
                note(f"{told}: a gateway with store '{store.name}' goes on with it; {look} there tells how.")


def _id(live: Live) -> str:
    return live.runner.journal.head.id

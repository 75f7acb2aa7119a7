"""Recompiling: what a saga or a run was begun by, for the upstreams of today."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from weft.errors import WeftError
from weft.ir.document import Document
from weft.patterns.kept import Kept
from weft.patterns.saga_journal import OwnedJournal, spec_key
from weft.patterns.saga_record import decode
from weft.plan.snapshot import Snapshot
from weft.run.unreadable import UNREADABLE, why_unreadable

Compile: TypeAlias = "Callable[[Document, Kept], Snapshot]"
"""Compiles a stored document against the upstreams of today; what patterns keep goes into the `Kept` that is given."""


@dataclass(frozen=True, slots=True)
class Recompiled:
    """A stored document, and the place in it that a saga or a run is of."""

    document: Document
    place: str
    kept: Kept
    snapshot: Snapshot
    """Held until the plan is: nothing else has it."""


async def recompiled(journal: OwnedJournal[Any], compile: Compile) -> Recompiled | str:
    """Return what a saga or a run was begun by; or why it cannot be had.

    Raises:
        StoreError: the store cannot be read.
    """
    found = await journal.store.get(spec_key(journal.key, journal.head.spec))
    if found is None:
        return "the spec it runs by is gone from the store"
    try:
        told = decode(found.value)
        place, written = told["place"], told["document"]
    except UNREADABLE as error:
        return f"the spec it runs by cannot be read: {why_unreadable(error)}"
    kept = Kept()
    try:
        document = Document.model_validate(written)
        return Recompiled(document, place, kept, compile(document, kept))
    except (WeftError, ValueError) as error:
        return f"the spec it runs by cannot be compiled any more: {error}"

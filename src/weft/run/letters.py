"""Letters in a spool, as operators see them: those that can be read, those that cannot, and what became of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from weft.errors import StoreError
from weft.patterns.dead_letter_letters import Letter
from weft.patterns.dead_letter_spool import LETTERS, Spool
from weft.ports import is_object
from weft.run.unreadable import UNREADABLE, why_unreadable


@dataclass(frozen=True, slots=True)
class Torn:
    """A letter that cannot be read, by what its key says of it."""

    id: str
    tenant: str
    store: str
    why: str


@dataclass(frozen=True, slots=True)
class Spooled:
    """What waits: letters and where each is, those that cannot be read, and which stores could not be asked."""

    letters: list[tuple[Spool, Letter]]
    torn: list[Torn]
    away: Mapping[str, StoreError]
    spools: int
    """How many stores there are, away or not."""


@dataclass(frozen=True, slots=True)
class Redriven:
    """What came of sending a letter again: delivered, or what went wrong."""

    id: str
    error: str | None = None

    @property
    def delivered(self) -> bool:
        """Whether the tool took it."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class Redriving:
    """What came of sending letters again, and in which stores there may be more."""

    done: list[Redriven]
    away: Mapping[str, StoreError] = field(default_factory=dict[str, StoreError])


async def in_spool(spool: Spool) -> AsyncIterator[Letter | Torn]:
    """Yield everything in a spool.

    Raises:
        StoreError: its store cannot be read.
    """
    async for key, stored in spool.store.scan(LETTERS):
        try:
            letter = Letter.of_json(json.loads(stored.value), stored.version)
            if not is_object(letter.payload) or not isinstance(letter.id, str) or not isinstance(letter.tries, int):  # pyright: ignore[reportUnnecessaryIsInstance]  (it comes from a store)
                raise TypeError("it is no letter")
        except UNREADABLE as error:
            tenant, _, id = key.removeprefix(LETTERS).rpartition("|")
            yield Torn(id, unquote(tenant), spool.store.name, why_unreadable(error))
        else:
            yield letter

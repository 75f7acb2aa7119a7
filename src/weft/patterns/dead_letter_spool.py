"""The spool: letters that are kept in a store until their tool has taken them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from weft.patterns.contract import Step
from weft.patterns.dead_letter_letters import Letter
from weft.patterns.keys import key_part
from weft.ports import Delete, Put, Store

LETTERS: Final = "v1|deadLetter|"
LEASES: Final = "v1|deadLetterLease|"
SENDING: Final = b"sending"
"""What a lease holds while the letter is on its way; nothing, while it is only the pause before the next try."""
FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 3600.0


class Spool:
    """Letters in one store.

    Who sends a letter has a lease on it, which after a failure is also the pause before the next try.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    async def keep(self, letter: Letter, lease: float) -> Letter:
        """Keep a letter, which is being sent; return it as it is kept."""
        versions = await self.store.batch([Put(_letter(letter), _encoded(letter)), Put(_lease(letter), SENDING, lease)])
        assert versions is not None  # there was no condition
        return replace(letter, version=versions[0])

    async def take(self, letter: Letter, lease: float) -> bool:
        """Tell whether one may send a letter: nobody else does, and the pause after the last try is over."""
        taken = await self.store.put_if_absent(_lease(letter), SENDING, ttl=lease)
        return taken is not None and await self._is_there(letter)

    async def take_now(self, letter: Letter, lease: float) -> bool | None:
        """Tell the same whether or not the pause is over; None when the letter is not there any more."""
        held = await self.store.get(_lease(letter))
        if held is None:
            taken = await self.store.put_if_absent(_lease(letter), SENDING, ttl=lease)
        elif held.value == SENDING:
            return False
        else:
            taken = await self.store.cas(_lease(letter), SENDING, held.version, ttl=lease)
        if taken is None:
            return False
        return True if await self._is_there(letter) else None

    async def _is_there(self, letter: Letter) -> bool:
        if await self.store.exists(_letter(letter)):
            return True
        # Somebody else has sent it since it was read, and forgotten it with its lease.
        await self.store.delete(_lease(letter))
        return False

    async def put_off(self, letter: Letter) -> None:
        """Keep a letter that its tool did not take, for the next try; unless somebody else has sent it meanwhile."""
        pause = min(FIRST_PAUSE * 2 ** min(letter.tries - 1, 20), LONGEST_PAUSE)
        kept = Put(_letter(letter), _encoded(letter), None, letter.version)
        await self.store.batch([kept, Put(_lease(letter), b"", pause)])

    async def forget(self, letter: Letter) -> None:
        """Forget a letter that its tool has taken."""
        await self.store.batch([Delete(_letter(letter)), Delete(_lease(letter))])

    async def letters(self) -> AsyncIterator[Letter]:
        """Yield all letters; what cannot be read is left where it is."""
        async for _, stored in self.store.scan(LETTERS):
            try:
                yield Letter.of_json(json.loads(stored.value), stored.version)
            except (ValueError, TypeError, KeyError):
                continue


def _letter(letter: Letter) -> str:
    return f"{LETTERS}{key_part(letter.principal.tenant, safe='')}|{letter.id}"


def _lease(letter: Letter) -> str:
    return f"{LEASES}{key_part(letter.principal.tenant, safe='')}|{letter.id}"


def _encoded(letter: Letter) -> bytes:
    return json.dumps(letter.to_json(), separators=(",", ":")).encode()


class Letterboxes:
    """The dead letter tools of all that is loaded, and the stores in which letters to them may wait."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, str], Step] = {}
        self.stores: dict[str, Store] = {}

    def add(self, owner: str, tool: str, step: Step, store: Store | None) -> None:
        """Note a tool, as the composition that names it knows it."""
        self._steps[owner, tool] = step
        if store is not None:
            self.stores[store.name] = store

    def find(self, letter: Letter) -> Step | None:
        """Return the tool of a letter: as its composition means it, or, when that is gone, as any other one does."""
        exact = self._steps.get((letter.owner, letter.tool))
        return exact or next((step for (_, tool), step in self._steps.items() if tool == letter.tool), None)

"""Time limits that stand still while a person is being asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from weft.ports import Caller
from weft.upstreams.onward import Onward


class Patient(Onward):
    """A client whose time to answer does not count: the timer of its call stops while it is asked."""

    __slots__ = ("_asking", "_left", "_timer")

    def __init__(self, caller: Caller, meta: Mapping[str, Any], timer: asyncio.Timeout) -> None:
        super().__init__(caller, meta)
        self._timer = timer
        self._asking = 0
        self._left = 0.0

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        now = asyncio.get_running_loop().time
        if self._asking == 0 and (when := self._timer.when()) is not None:
            self._left = when - now()
            self._timer.reschedule(None)
        self._asking += 1
        try:
            return await super().ask(requests)
        finally:
            self._asking -= 1
            if self._asking == 0 and not self._timer.expired():
                self._timer.reschedule(now() + self._left)

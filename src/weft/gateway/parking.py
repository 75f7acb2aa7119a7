"""Parked calls: a call that asks its client something waits here until the client has called again with the answers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from weft.errors import InputError, LimitExceeded
from weft.gateway.callers import Onward
from weft.ports import Caller

Work: TypeAlias = Callable[[Caller], Awaitable[dict[str, Any]]]
MOST = 1000
LIFETIME = 600.0


class Visitor(Onward):
    """A modern client, for a call that may outlive its request: questions are kept for the answer to that request."""

    __slots__ = ("_numbers", "asked", "pending")

    def __init__(self, caller: Caller) -> None:
        super().__init__(caller, caller.meta)
        self.asked = asyncio.Event()
        self.pending: dict[str, tuple[dict[str, Any], asyncio.Future[dict[str, Any]]]] = {}
        self._numbers = 0

    @property
    def relays_input(self) -> bool:
        return False

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Wait until the client has called again with the answers."""
        loop = asyncio.get_running_loop()
        waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        mine: list[str] = []
        for key, request in requests.items():
            # Branches of one call may ask at once, under the same keys.
            self._numbers += 1
            own = f"{self._numbers}-{key}"
            waiting[key] = loop.create_future()
            self.pending[own] = (dict(request), waiting[key])
            mine.append(own)
        self.asked.set()
        try:
            return {key: await answer for key, answer in waiting.items()}
        finally:
            for own in mine:
                self.pending.pop(own, None)

    def questions(self) -> dict[str, Any]:
        """Return what is to be answered now."""
        self.asked.clear()
        return {key: request for key, (request, _) in self.pending.items()}

    def back(self, caller: Caller, responses: Mapping[str, Any]) -> None:
        """Take the answers of the client that has called again; what it left out is asked again."""
        self._caller = caller
        for key, response in responses.items():
            if (waiting := self.pending.pop(key, None)) is not None and not waiting[1].done():
                waiting[1].set_result(response)
        if self.pending:
            self.asked.set()


@dataclass(slots=True)
class Parked:
    """A call that waits for its client."""

    visitor: Visitor
    task: asyncio.Task[dict[str, Any]]
    expiry: asyncio.TimerHandle


class Parking:
    """The parked calls of one worker."""

    def __init__(self, *, most: int = MOST, lifetime: float = LIFETIME) -> None:
        self._parked: dict[str, Parked] = {}
        self._most = most
        self._lifetime = lifetime

    def __len__(self) -> int:
        return len(self._parked)

    async def run(self, work: Work, caller: Caller) -> tuple[dict[str, Any], str | None]:
        """Run a call until it ends or asks; return its result, or the questions with the id under which it waits."""
        visitor = Visitor(caller)
        task = asyncio.ensure_future(work(visitor))
        return await self._until_asked(visitor, task)

    async def resume(self, id_: str, responses: Mapping[str, Any], caller: Caller) -> tuple[dict[str, Any], str | None]:
        """Go on with a call that waits.

        Raises:
            InputError: no such call waits here any more.
        """
        parked = self._parked.pop(id_, None)
        if parked is None:
            raise InputError(
                "requestState is not valid: the call that it belongs to has ended; call again without it",
                code="InvalidRequestState",
            )
        parked.expiry.cancel()
        parked.visitor.back(caller, responses)
        return await self._until_asked(parked.visitor, parked.task)

    async def close(self) -> None:
        """End every call that waits."""
        parked, self._parked = list(self._parked.values()), {}
        for one in parked:
            one.expiry.cancel()
            one.task.cancel()
        await asyncio.gather(*(one.task for one in parked), return_exceptions=True)

    async def _until_asked(
        self, visitor: Visitor, task: asyncio.Task[dict[str, Any]]
    ) -> tuple[dict[str, Any], str | None]:
        asked = asyncio.ensure_future(visitor.asked.wait())
        try:
            await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        finally:
            asked.cancel()
        if task.done():
            return task.result(), None
        return {"resultType": "input_required", "inputRequests": visitor.questions()}, self._park(visitor, task)

    def _park(self, visitor: Visitor, task: asyncio.Task[dict[str, Any]]) -> str:
        if len(self._parked) >= self._most:
            task.cancel()
            raise LimitExceeded("ParkedCalls", self._most, "too many calls wait for answers of their clients")
        id_ = secrets.token_urlsafe(16)
        expiry = asyncio.get_running_loop().call_later(self._lifetime, self._expire, id_)
        self._parked[id_] = Parked(visitor, task, expiry)
        task.add_done_callback(lambda _: self._ended(id_))
        return id_

    def _expire(self, id_: str) -> None:
        if (parked := self._parked.pop(id_, None)) is not None:
            parked.task.cancel()

    def _ended(self, id_: str) -> None:
        """Keep a call that ended while it waited (its deadline came) for its client to hear of; it costs little."""
        parked = self._parked.get(id_)
        if parked is not None and not parked.task.cancelled():
            parked.task.exception()

"""Remote: operations on a server within their time; one whose answer was lost is looked for before it is repeated."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import Final, Generic, TypeVar

from weft.errors import StoreError
from weft.ports import ABSENT, ANYHOW, Change, Delete, Put
from weft.stores.links import Crowded, Fault, L, Links, Lost, Refused
from weft.stores.rules import LARGEST

T = TypeVar("T")

TRIES: Final = 4
"""How often a connection may break during one reading."""


class Fate(Enum):
    """What became of a writing whose answer was lost."""

    NOT_DONE = "not done"
    UNSURE = "unsure"


class Remote(Generic[L]):
    """Runs operations on links, within the time limit; a link on which an answer is due is never used again."""

    def __init__(self, store: str, links: Links[L], *, timeout: float) -> None:
        self._store = store
        self._links = links
        self._timeout = timeout

    async def read(self, work: Callable[[L], Awaitable[T]], *, timeout: float | None = None) -> T:
        """Read something; when the connection breaks, from another one. The first time of all may take longer.

        Raises:
            StoreError: it could not be read in time.
        """
        timeout = timeout or self._timeout
        try:
            async with asyncio.timeout(timeout) as limit:
                return await self._read(work, limit)
        except TimeoutError:
            raise _late(timeout).error(self._store) from None

    async def write(self, work: Callable[[L], Awaitable[T]], find: Callable[[L, L], Awaitable[T | Fate]]) -> T:
        """Write something; `find` gets a link and the one that broke, and tells what became of the writing.

        Raises:
            StoreError: it was not written, or with `unknown-outcome`, it may have been.
        """
        sent, fault = False, _late(self._timeout)
        try:
            async with asyncio.timeout(self._timeout) as limit:
                while True:
                    link = await self._take(limit)
                    sent = True
                    try:
                        return await self._on(link, work)
                    except Refused as refused:
                        sent, fault = False, refused.fault
                        if not fault.again:
                            raise fault.error(self._store) from refused
                        await asyncio.sleep(random.uniform(0.001, 0.01))
                    except Lost as lost:
                        found = await self._find(link, find, limit)
                        if found is Fate.UNSURE:
                            raise StoreError(self._store, str(lost), sent=True) from lost
                        if not isinstance(found, Fate):
                            return found
                        sent = False
        except TimeoutError:
            raise fault.error(self._store, sent=sent) from None

    async def _take(self, limit: asyncio.Timeout) -> L:
        """Return a connection; to wait for those that others use has a time of its own, in which nothing is sent.

        Raises:
            StoreError: none came free (Crowded), or none is to be had.
        """
        until = limit.when()
        if not self._links.crowded or until is None:
            return await self._links.take()
        loop = asyncio.get_running_loop()
        came = loop.time()
        limit.reschedule(None)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._links.take()
        except TimeoutError:
            raise Crowded(self._store, self._timeout) from None
        finally:
            if not limit.expired():
                limit.reschedule(until + loop.time() - came)

    async def _read(self, work: Callable[[L], Awaitable[T]], limit: asyncio.Timeout) -> T:
        told = ""
        for _ in range(TRIES):
            link = await self._take(limit)
            try:
                return await self._on(link, work)
            except Refused as refused:
                if not refused.fault.again:
                    raise refused.fault.error(self._store) from refused
                told = refused.fault.reason
            except Lost as lost:
                told = str(lost)
        raise StoreError(self._store, told)

    async def _find(self, broken: L, find: Callable[[L, L], Awaitable[T | Fate]], limit: asyncio.Timeout) -> T | Fate:
        """Look for a writing until the time is over: the server may be on its way back."""
        while True:
            try:
                return await self._read(lambda link: find(link, broken), limit)
            except StoreError as error:
                if error.retryable == "no":
                    return Fate.UNSURE
            await asyncio.sleep(random.uniform(0.005, 0.02))

    async def _on(self, link: L, work: Callable[[L], Awaitable[T]]) -> T:
        """Do something on a link, which is given back only where its answers have been read."""
        try:
            answer = await work(link)
        except StoreError:
            await self._links.give(link)
            raise
        except Refused as refused:
            await (self._links.lose(link) if refused.fault.elsewhere else self._links.give(link))
            raise
        except BaseException:
            await self._links.lose(link)
            raise
        await self._links.give(link)
        return answer


def _late(seconds: float) -> Fault:
    return Fault(f"no answer within {seconds:g} s")


def merged(changes: Sequence[Change]) -> list[Change] | None:
    """Return one change for each key, the last one with the condition of all; None when not all can hold.

    Keys come in the same order always: those who lock them one after another never wait in a circle.
    """
    last: dict[str, Change] = {}
    conditions: dict[str, int] = {}
    for change in changes:
        last[change.key] = change
        if not ANYHOW <= change.when <= LARGEST:
            return None
        if change.when != ANYHOW and conditions.setdefault(change.key, change.when) != change.when:
            return None
    merged: list[Change] = []
    for key in sorted(last):
        change, when = last[key], conditions.get(key, ANYHOW)
        merged.append(Put(key, change.value, change.ttl, when) if isinstance(change, Put) else Delete(key, when))
    return merged


def fate_of(changes: Sequence[Change], mine: Mapping[str, int], found: Mapping[str, int]) -> bool | Fate:
    """Return True when changes, one for each key, were made: one of them is seen with the version that it alone has.

    They were not when a condition that they would have ended still holds; versions never come again. `found` is 0 where
    nothing is stored, which may have been written and deleted since.
    """
    if any(isinstance(change, Put) and found[change.key] == mine[change.key] for change in changes):
        return True
    if any(change.when > ABSENT and found[change.key] == change.when for change in changes):
        return Fate.NOT_DONE
    return Fate.UNSURE

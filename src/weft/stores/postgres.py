"""Postgres: a durable store that several machines share; every writing is one transaction."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Final

from weft.errors import StoreError
from weft.ports import ABSENT, ANYHOW, Change, Put, Signals, Silence, Stored
from weft.stores.batched import Batched
from weft.stores.links import Links
from weft.stores.postgres_link import PostgresLink
from weft.stores.postgres_rows import Statements
from weft.stores.postgres_schema import BLOCK, prepare, quoted
from weft.stores.postgres_server import check_server, ended
from weft.stores.remote import Fate, Remote, fate_of
from weft.stores.rules import MAX_VALUE, added, key_bytes, key_text, lifetime

TIMEOUT: Final = 1.0
CONNECT: Final = 5.0
PAGE: Final = 64
REAPED: Final = 500
ROUNDS: Final = 20


class PostgresStore(Batched):
    """Postgres from 14 on; tables in a schema of its own, which it makes.

    Versions come from a sequence, in blocks: a process knows the version of a writing before it sends it, so that it
    can look for it when the answer is lost. Connections need their own session: no pooler by transaction between.
    """

    def __init__(
        self,
        url: str,
        name: str = "postgres",
        *,
        schema: str = "weft",
        durable: bool = True,
        timeout: float = TIMEOUT,
        connect_timeout: float = CONNECT,
        connections: int = 16,
        max_value: int = MAX_VALUE,
        reap: float = 10.0,
        signals: Signals | None = None,
    ) -> None:
        """Name a server; `reap` is how often expired rows are deleted. That it is `durable` is checked by `open`."""
        super().__init__(name, durable=durable, max_value=max_value)
        self._url = url
        self._schema = schema
        self._sql = Statements.of(quoted(schema))
        self._connect_timeout = connect_timeout
        self._opening = connect_timeout + timeout
        self._millis = timeout * 1000
        self._reap = reap
        self._reaper: asyncio.Task[None] | None = None
        self._signals = signals or Silence()
        self._versions: list[int] = []
        self._ready = False
        self._links = Links(name, self._connect, size=connections, timeout=connect_timeout)
        self._remote = Remote(name, self._links, timeout=timeout)

    async def open(self) -> None:
        """Connect, make or migrate the tables, and check how the server keeps things.

        Raises:
            StoreError: it cannot be reached or used; later operations try again.
        """
        self._links.open()
        if self._reaper is None:
            self._reaper = asyncio.create_task(self._reap_on())
        await self._remote.read(partial(check_server, durable=self.durable), timeout=self._opening)

    async def close(self) -> None:
        """Let all connections go."""
        if self._reaper is not None:
            self._reaper.cancel()
            await asyncio.wait([self._reaper])
            self._reaper = None
        await self._links.close()

    async def get(self, key: str) -> Stored | None:
        """Return what is stored under a key."""
        wanted = key_bytes(self.name, key)
        row = await self._remote.read(lambda link: link.row(self._sql.get, wanted))
        return None if row is None else Stored(*row)

    async def exists(self, key: str) -> bool:
        """Tell whether something is stored under a key."""
        wanted = key_bytes(self.name, key)
        return await self._remote.read(lambda link: link.row(self._sql.exists, wanted)) is not None

    async def delete(self, key: str) -> bool:
        """Delete a key; tell whether something was there."""
        wanted = key_bytes(self.name, key)
        return bool(await self._remote.write(lambda link: link.value(self._sql.delete, wanted), _unsure))

    async def incr(self, key: str, by: int = 1, *, ttl: float | None = None) -> int:
        """Add to a number, which begins at 0, and return it; `ttl` counts from its first writing."""
        added(self.name, None, by)
        wanted, ttl = key_bytes(self.name, key), lifetime(self.name, ttl)
        mine: list[int] = []

        async def work(link: PostgresLink) -> bytes | None:
            await self._reserve(link, mine, 1)
            return await link.value(self._sql.incr, wanted, str(by), mine[0], ttl)

        async def find(link: PostgresLink, broken: PostgresLink) -> bytes | Fate | None:
            await ended(link, broken)
            found = {version: value for _, version, value in await link.rows(self._sql.versions, [wanted])}
            return found.get(mine[0], Fate.UNSURE) if mine else Fate.NOT_DONE

        for _ in range(ROUNDS):
            total = await self._remote.write(work, find)
            if total is not None:
                return int(total)
            stored = await self.get(key)
            added(self.name, None if stored is None else stored.value, by)
        raise StoreError(self.name, "others write the same number all the time", code="StoreBusy")

    async def scan(self, prefix: str) -> AsyncIterator[tuple[str, Stored]]:
        """Yield what is stored under keys with a prefix, each once, in no order."""
        start = key_bytes(self.name, prefix)
        end = start[:-1] + bytes((start[-1] + 1,)) if start else None  # no byte of UTF-8 is 255
        after: bytes | None = None
        while True:
            rows = await self._remote.read(lambda link, after=after: link.rows(self._sql.page, start, end, after, PAGE))
            for key, *row in rows:
                yield key_text(key), Stored(*row)
            if len(rows) < PAGE:
                return
            after = rows[-1][0]

    async def batch(self, changes: Sequence[Change]) -> list[int] | None:
        """Make all changes or none; return the versions (0 for a deletion), or None when a condition does not hold."""
        small = self._merged(changes)
        if not small:
            return None if small is None else []
        keys = [key_bytes(self.name, change.key) for change in small]
        mine: list[int] = []

        def versions() -> dict[str, int]:
            return {change.key: version for change, version in zip(changes, mine, strict=True)}

        async def work(link: PostgresLink) -> bool:
            await self._reserve(link, mine, len(changes))
            return await self._change(link, small, keys, versions())

        async def find(link: PostgresLink, broken: PostgresLink) -> bool | Fate:
            if not mine:
                return Fate.NOT_DONE
            sure = await ended(link, broken)
            rows = {key: version for key, version, _ in await link.rows(self._sql.versions, keys)}
            found = {change.key: rows.get(key, 0) for change, key in zip(small, keys, strict=True)}
            fate = fate_of(small, versions(), found)
            return Fate.UNSURE if fate is Fate.NOT_DONE and not sure else fate

        if not await self._remote.write(work, find):
            return None
        return [version if isinstance(change, Put) else 0 for change, version in zip(changes, mine, strict=True)]

    async def now(self) -> float:
        """Return seconds since 1970 by the server's clock."""
        now: float = await self._remote.read(
            lambda link: link.value("SELECT extract(epoch FROM clock_timestamp())::double precision")
        )
        return now

    async def _change(
        self, link: PostgresLink, changes: Sequence[Change], keys: Sequence[bytes], versions: dict[str, int]
    ) -> bool:
        """Make changes; one alone has a statement of its own."""
        change, key, sql = changes[0], keys[0], self._sql
        if len(changes) > 1 or (change.when == ABSENT and not isinstance(change, Put)):
            return await self._change_all(link, changes, keys, versions)
        if not isinstance(change, Put):
            if change.when == ANYHOW:
                await link.rows(sql.delete, key)
                return True
            return await link.row(sql.delete_if, key, change.when) is not None
        told: tuple[Any, ...] = (key, change.value, versions[change.key], change.ttl)
        if change.when > ABSENT:
            return await link.row(sql.cas, *told, change.when) is not None
        return await link.row(sql.put if change.when == ANYHOW else sql.put_if_absent, *told) is not None

    async def _change_all(
        self, link: PostgresLink, changes: Sequence[Change], keys: Sequence[bytes], versions: dict[str, int]
    ) -> bool:
        done: bool = await link.value(
            self._sql.change,
            keys,
            [change.value if isinstance(change, Put) else None for change in changes],
            [versions[change.key] for change in changes],
            [change.when for change in changes],
            [change.ttl if isinstance(change, Put) else None for change in changes],
        )
        return done

    async def _reserve(self, link: PostgresLink, mine: list[int], number: int) -> None:
        """Choose the versions of a writing, once: it keeps them when it is sent again."""
        if mine:
            return
        while len(self._versions) < number:
            first: int = await link.value(self._sql.reserve)
            self._versions.extend(range(first, first + BLOCK))
        mine.extend(self._versions[-number:])
        del self._versions[-number:]

    async def _connect(self) -> PostgresLink:
        settings = {
            "application_name": "weft",
            "synchronous_commit": "on",
            "default_transaction_isolation": "read committed",
            # It says that it was not done before nobody here waits for that, and nothing goes on there afterwards.
            "lock_timeout": str(math.ceil(0.8 * self._millis)),
            "statement_timeout": str(math.ceil(0.9 * self._millis)),
        }
        link = await PostgresLink.connect(self._url, timeout=self._connect_timeout, settings=settings)
        if not self._ready:
            try:
                await prepare(link, self._schema)
            except BaseException:
                await link.drop()
                raise
            self._ready = True
        return link

    async def _reap_on(self) -> None:
        """Delete what has expired, some at a time; what goes wrong here shows elsewhere."""
        gone = 0
        while True:
            await asyncio.sleep(0 if gone == REAPED else self._reap * random.uniform(0.5, 1.5))
            try:
                gone = await self._remote.write(lambda link: link.value(self._sql.reap, REAPED), _unsure)
            except StoreError:
                gone = 0


async def _unsure(link: PostgresLink, broken: PostgresLink) -> Fate:
    return Fate.UNSURE

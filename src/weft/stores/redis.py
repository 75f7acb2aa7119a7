"""Redis: a store that several machines share; whether it forgets in a crash is up to the server's settings."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Final

from redis.asyncio.connection import ConnectionPool

from weft.errors import StoreError
from weft.ports import ABSENT, Change, Put, Signals, Silence, Stored
from weft.stores.batched import Batched
from weft.stores.links import Links, Refused
from weft.stores.redis_link import RedisLink, Script
from weft.stores.redis_rows import CHANGE, INCR, Row, arguments, millis, pattern, row_of, version_bytes
from weft.stores.redis_server import check_server
from weft.stores.remote import Fate, Remote, fate_of
from weft.stores.rules import MAX_VALUE, added, key_bytes, key_text, lifetime

TIMEOUT: Final = 0.25
CONNECT: Final = 5.0
PAGE: Final = 200
GLANCE: Final = 1.0
"""Seconds after which a reading also asks for the server's time and epoch, in the same turn."""
ROUNDS: Final = 20


class RedisStore(Batched):
    """One Redis or Valkey from 6.2 on, not a cluster. A reading is one command.

    A failover may lose the last writings: a lease may then be granted twice, and conditions on versions keep both from
    recording. Versions are chance, 62 bits of it, so that none comes again, also after a FLUSHALL.
    """

    def __init__(
        self,
        url: str,
        name: str = "redis",
        *,
        prefix: str = "weft",
        durable: bool = False,
        timeout: float = TIMEOUT,
        connect_timeout: float = CONNECT,
        connections: int = 16,
        max_value: int = MAX_VALUE,
        signals: Signals | None = None,
    ) -> None:
        """Name a server; `durable` says that its operator keeps what it takes, which `open` checks."""
        super().__init__(name, durable=durable, max_value=max_value)
        # No prefix has the bar in it, so that what one store writes is never below the prefix of another.
        self._prefix = key_bytes(name, prefix.replace("%", "%25").replace("|", "%7C"))
        self._epoch_key = self._prefix + b"#epoch"
        self._epoch: bytes | None = None
        self._past: deque[bytes] = deque(maxlen=16)
        self._renewed = float("-inf")
        self._opening = connect_timeout + timeout
        self._signals = signals or Silence()
        self._ahead = 0.0
        self._glanced = float("-inf")
        pool = ConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType]
            url, socket_timeout=None, socket_connect_timeout=connect_timeout, protocol=2, driver_info=None
        )
        self._pool: ConnectionPool = pool
        self._links = Links(name, self._connect, size=connections, timeout=connect_timeout)
        self._remote = Remote(name, self._links, timeout=timeout)

    async def open(self) -> None:
        """Connect, and check how the server keeps things.

        Raises:
            StoreError: it cannot be reached or used; later operations try again.
        """
        self._links.open()
        check = partial(check_server, store=self.name, signals=self._signals, durable=self.durable)
        await self._remote.read(check, timeout=self._opening)

    async def close(self) -> None:
        """Let all connections go."""
        await self._links.close()

    async def get(self, key: str) -> Stored | None:
        """Return what is stored under a key."""
        wanted = self._key(key)
        return await self._remote.read(lambda link: self._get(link, wanted))

    async def exists(self, key: str) -> bool:
        """Tell whether something is stored under a key."""
        wanted = self._key(key)
        return bool(await self._remote.read(lambda link: link.ask(b"EXISTS", wanted)))

    async def delete(self, key: str) -> bool:
        """Delete a key; tell whether something was there."""
        wanted = self._key(key)

        async def find(link: RedisLink, broken: RedisLink) -> bool | Fate:
            return Fate.UNSURE

        return bool(await self._remote.write(lambda link: link.ask(b"DEL", wanted), find))

    async def incr(self, key: str, by: int = 1, *, ttl: float | None = None) -> int:
        """Add to a number, which begins at 0, and return it; `ttl` counts from its first writing."""
        added(self.name, None, by)
        wanted, version = self._key(key), _new_version()
        args = (b"%d" % by, version_bytes(version), millis(lifetime(self.name, ttl)))

        async def work(link: RedisLink) -> int | None:
            done, total = await self._run(link, INCR, [wanted], args)
            return int(total) if done else None

        async def find(link: RedisLink, broken: RedisLink) -> int | Fate | None:
            row = row_of(await link.ask(b"GET", wanted))
            return int(row.value) if row is not None and row.version == version else Fate.UNSURE

        total = await self._remote.write(work, find)
        return await self._incr_by_hand(key, by) if total is None else total

    async def scan(self, prefix: str) -> AsyncIterator[tuple[str, Stored]]:
        """Yield what is stored under keys with a prefix, each once, in no order; Redis looks at all its keys for it."""
        start = self._prefix + b"|"
        match = pattern(start + key_bytes(self.name, prefix))
        seen: set[bytes] = set()
        cursor: bytes | None = b"0"
        while cursor is not None:
            cursor, page = await self._remote.read(lambda link, at=cursor: self._page(link, at, match))
            for key, stored in page:
                if key not in seen:
                    seen.add(key)
                    yield key_text(key[len(start) :]), stored

    async def batch(self, changes: Sequence[Change]) -> list[int] | None:
        """Make all changes or none; return the versions (0 for a deletion), or None when a condition does not hold."""
        versions = [_new_version() if isinstance(change, Put) else 0 for change in changes]
        mine = {change.key: version for change, version in zip(changes, versions, strict=True)}
        small = self._merged(changes)
        if not small:
            return None if small is None else []
        keys = [self._key(change.key) for change in small]
        args = arguments(small, [mine[change.key] for change in small])

        async def work(link: RedisLink) -> bool:
            done, _ = await self._run(link, CHANGE, keys, args)
            return done

        async def find(link: RedisLink, broken: RedisLink) -> bool | Fate:
            return await self._find(link, broken, small, mine)

        return versions if await self._remote.write(work, find) else None

    async def now(self) -> float:
        """Return seconds since 1970 by the server's clock."""
        seconds, micros = await self._remote.read(lambda link: link.ask(b"TIME"))
        return int(seconds) + int(micros) / 1e6

    def _key(self, key: str) -> bytes:
        return self._prefix + b"|" + key_bytes(self.name, key)

    async def _incr_by_hand(self, key: str, by: int) -> int:
        """Refuse what is no number; a number at the edge of 64 bits may still be one that can be added to."""
        for _ in range(ROUNDS):
            stored = await self.get(key)
            total = added(self.name, None if stored is None else stored.value, by)
            version = ABSENT if stored is None else stored.version
            if await self.cas(key, b"%d" % total, version, ttl=None if stored is None else stored.ttl) is not None:
                return total
        raise StoreError(self.name, "others write the same number all the time", code="StoreBusy")

    async def _get(self, link: RedisLink, key: bytes) -> Stored | None:
        at = time.monotonic()
        if at - self._glanced < GLANCE:
            return self._stored(row_of(await link.ask(b"GET", key)))
        raw, clock, epoch = await link.ask_all([(b"GET", key), (b"TIME",), (b"GET", self._epoch_key)])
        for answer in (raw, clock, epoch):
            if isinstance(answer, Refused):
                raise answer
        self._learn(at, clock, epoch)
        return self._stored(row_of(raw))

    def _stored(self, row: Row | None) -> Stored | None:
        if row is None:
            return None
        # Redis has just said that it is there: whatever this clock believes, there is some time left.
        left = max(row.ends - self._ahead - time.monotonic(), 0.001) if row.ends else None
        return Stored(row.value, row.version, left)

    async def _page(
        self, link: RedisLink, cursor: bytes, match: bytes
    ) -> tuple[bytes | None, list[tuple[bytes, Stored]]]:
        """Return some of the keys that match, and from where to go on, or None at the end."""
        at = time.monotonic()
        after, keys = await link.ask(b"SCAN", cursor, b"MATCH", match, b"COUNT", PAGE)
        found: list[tuple[bytes, Stored]] = []
        if keys:
            clock, values = await link.ask_all([(b"TIME",), (b"MGET", *keys)])
            for answer in (clock, values):
                if isinstance(answer, Refused):
                    raise answer
            self._ahead = _seconds(clock) - at
            for key, raw in zip(keys, values, strict=True):
                stored = self._stored(row_of(raw))
                if stored is not None:
                    found.append((key, stored))
        return None if after == b"0" else after, found

    async def _run(
        self, link: RedisLink, script: Script, keys: Sequence[bytes], args: Sequence[bytes]
    ) -> tuple[bool, Any]:
        """Run a script and learn what it tells of the server; return whether it did something, and its result."""
        at = time.monotonic()
        answer = await link.run(script, [self._epoch_key, *keys], [secrets.token_bytes(16), *args])
        done, seconds, micros, epoch, *result = answer
        self._learn(at, (seconds, micros), epoch)
        return bool(done), result[0] if result else None

    async def _find(
        self, link: RedisLink, broken: RedisLink, changes: Sequence[Change], mine: dict[str, int]
    ) -> bool | Fate:
        """Look for changes whose answer was lost, after the connection that they were sent on can do no more."""
        ended, *raws = await link.ask_all(
            [
                (b"CLIENT", b"KILL", b"ID", broken.id if broken.id is not None else -1),
                *((b"GET", self._key(change.key)) for change in changes),
            ]
        )
        for raw in raws:
            if isinstance(raw, Refused):
                raise raw
        rows = [row_of(raw) for raw in raws]
        found = {one.key: 0 if row is None else row.version for one, row in zip(changes, rows, strict=True)}
        fate = fate_of(changes, mine, found)
        return Fate.UNSURE if fate is Fate.NOT_DONE and isinstance(ended, Refused) else fate

    async def _connect(self) -> RedisLink:
        link = await RedisLink.connect(self._pool)
        at = time.monotonic()
        epoch = secrets.token_bytes(16)
        try:
            number, _, clock, found = await link.ask_all(
                [(b"CLIENT", b"ID"), (b"SET", self._epoch_key, epoch, b"NX"), (b"TIME",), (b"GET", self._epoch_key)]
            )
            for answer in (clock, found):
                if isinstance(answer, Refused):
                    raise answer
        except BaseException:
            await link.drop()
            raise
        if not isinstance(number, Refused):
            link.id = number
        self._learn(at, clock, found)
        return link

    def _learn(self, at: float, clock: Sequence[bytes], epoch: bytes | None) -> None:
        """Take note of the server's time, and of its epoch: another one says that everything was deleted."""
        # By the moment of asking, so that nothing seems to last longer than it does.
        self._ahead = _seconds(clock) - at
        self._glanced = at
        if epoch == self._epoch or epoch in self._past or (epoch is None and at < self._renewed):
            return  # the same, or an answer that was long on its way
        if self._epoch is not None:
            self._past.append(self._epoch)
            self._signals.event("store_flushed", store=self.name)
        self._epoch = epoch
        self._renewed = time.monotonic()


def _seconds(clock: Sequence[bytes]) -> float:
    return int(clock[0]) + int(clock[1]) / 1e6


def _new_version() -> int:
    return secrets.randbits(62) + 1

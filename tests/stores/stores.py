"""The stores that the suite runs over, by name; each is made for a place, which stands for one server or one file.

To enter a store twice at one place is a second process beside the first; to enter it again, a restart.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.stores.servers import postgres_server, redis_server
from weft.ports import Clock, Store
from weft.stores.memory import MemoryStore
from weft.stores.postgres import PostgresStore
from weft.stores.redis import RedisStore
from weft.stores.rules import MAX_VALUE
from weft.stores.sqlite import SqliteStore
from weft.stores.sqlite_time import SteadyTime


@dataclass(frozen=True)
class Place:
    """Where a store keeps its things; another folder is another place."""

    folder: Path
    max_value: int = MAX_VALUE
    clock: Clock | None = None
    """A time that tests move, for stores in TIMED; the others have a server with a time of its own."""


Make = Callable[[Place], AbstractAsyncContextManager[Store]]


@asynccontextmanager
async def memory(place: Place) -> AsyncGenerator[Store]:
    """Make an empty store; nobody else has it."""
    store = MemoryStore(clock=place.clock, max_value=place.max_value)
    await store.open()
    yield store
    await store.close()


@asynccontextmanager
async def sqlite(place: Place) -> AsyncGenerator[Store]:
    """Open the file of a place."""
    time = None if place.clock is None else SteadyTime(place.clock.now, place.clock.now)
    store = SqliteStore(place.folder / "store.db", busy=20.0, max_value=place.max_value, time=time)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def redis(place: Place) -> AsyncGenerator[Store]:
    """Open a prefix of the Redis of this test process."""
    url, prefix = redis_server().url, str(place.folder)
    store = RedisStore(url, prefix=prefix, durable=True, timeout=20.0, max_value=place.max_value)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def postgres(place: Place) -> AsyncGenerator[Store]:
    """Open a schema of the Postgres of this test process."""
    schema = hashlib.sha256(str(place.folder).encode()).hexdigest()[:32]
    store = PostgresStore(postgres_server().url, schema=schema, timeout=20.0, max_value=place.max_value)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


STORES: dict[str, Make] = {"memory": memory, "postgres": postgres, "redis": redis, "sqlite": sqlite}
TIMED = frozenset({"memory", "sqlite"})

"""What a second process does to a store, as a program: `python -m tests.stores.two_processes KIND URL PLACE WORK`."""

from __future__ import annotations

import asyncio
import sys

from weft.ports import Put, Store
from weft.stores.postgres import PostgresStore
from weft.stores.redis import RedisStore

ROUNDS = 40


def store_of(kind: str, url: str, place: str) -> Store:
    """Return a store at a place, which is a prefix or a schema."""
    if kind == "redis":
        return RedisStore(url, prefix=place, durable=True, timeout=30.0)
    return PostgresStore(url, schema=place, timeout=30.0)


async def add(store: Store) -> list[tuple[int, int]]:
    """Add to a number by reading and comparing, as often as it takes; return what was read and written each time."""
    steps: list[tuple[int, int]] = []
    while len(steps) < ROUNDS:
        stored = await store.get("number")
        if stored is None:
            if await store.put_if_absent("number", b"1") is not None:
                steps.append((0, 1))
        else:
            number = int(stored.value)
            if await store.cas("number", b"%d" % (number + 1), stored.version) is not None:
                steps.append((number, number + 1))
    return steps


async def pairs(store: Store) -> None:
    """Write two keys together, for ever."""
    number = 0
    while True:
        number += 1
        await store.batch([Put("left", b"%d" % number), Put("right", b"%d" % number)])


async def main(kind: str, url: str, place: str, work: str) -> None:
    """Do some work, and print what came of it."""
    store = store_of(kind, url, place)
    await store.open()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if work == "add":
        for step in await add(store):
            sys.stdout.write(f"{step[0]} {step[1]}\n")
    else:
        await pairs(store)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))

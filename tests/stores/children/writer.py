"""A process that writes to a store of SQLite and tells what it was told; `python writer.py TASK PATH NAME`.

`crash` writes pairs until it is killed, and prints each one that was committed. `add` counts to 100 with cas and with
incr, and claims keys; it prints which it got.
"""

from __future__ import annotations

import asyncio
import itertools
import sys

from weft.ports import Put
from weft.stores.sqlite import SqliteStore


def tell(text: str) -> None:
    """Print a line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def crash(store: SqliteStore, name: str) -> None:
    """Write until killed."""
    numbers = itertools.count()

    async def write() -> None:
        for number in numbers:
            value = b"%d" % number
            versions = await store.batch([Put(f"left {number}", value), Put(f"right {number}", value)])
            counted = await store.incr("count")
            assert versions is not None
            tell(f"{number} {versions[0]} {versions[1]} {counted}")

    await asyncio.gather(*(write() for _ in range(16)))


async def add(store: SqliteStore, name: str) -> None:
    """Count and claim beside other processes."""
    for number in range(100):
        while True:
            stored = await store.get("cas")
            if stored is None:
                done = await store.put_if_absent("cas", b"1")
            else:
                done = await store.cas("cas", b"%d" % (int(stored.value) + 1), stored.version)
            if done is not None:
                break
        await store.incr("incr")
        if await store.put_if_absent(f"claim {number}", name.encode()) is not None:
            tell(f"{number}")


async def main(task: str, path: str, name: str) -> None:
    """Do a task."""
    store = SqliteStore(path, busy=60.0)
    await store.open()
    tell("open")
    await {"crash": crash, "add": add}[task](store, name)
    await store.close()


asyncio.run(main(*sys.argv[1:]))

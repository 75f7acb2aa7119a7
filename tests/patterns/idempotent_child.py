"""A gateway in a process of its own, for tests; `python idempotent_child.py NAME LEDGER LEASE CALLS HOLD STORE PLACE`.

It makes equal calls at once when it reads a line. Its tool writes its name into the ledger; told to hold, it says so
and waits for another line before it answers. At its end it prints the results and what it counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import weft as w
from weft.plan.compiler import compile_document
from weft.ports import Invoke, Store, ToolRef, ToolType
from weft.run.engine import Engine
from weft.stores.redis import RedisStore
from weft.stores.sqlite import SqliteStore
from weft.testing.world import Heard


def tell(text: str) -> None:
    """Print a line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def told() -> None:
    """Wait for a line."""
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


class Pay:
    """A tool that leaves a line in the ledger, on the disk, before it answers."""

    def __init__(self, name: str, ledger: str, hold: bool) -> None:
        self._name = name
        self._ledger = ledger
        self._hold = hold

    def bind(self, ref: ToolRef) -> Invoke | None:
        async def invoke(arguments: Any, call: Any) -> Any:
            file = os.open(self._ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(file, f"{self._name}\n".encode())
            os.fsync(file)
            os.close(file)
            if self._hold:
                tell("working")
                await told()
            else:
                await asyncio.sleep(0.05)
            return {"by": self._name}

        return invoke

    def describe(self, ref: ToolRef) -> ToolType | None:
        return ToolType()

    def names(self) -> list[str]:
        return ["pay"]


async def main(given: list[str]) -> None:
    name, ledger, lease, calls, hold, kind, place = given
    store: Store = SqliteStore(place, busy=20.0) if kind == "sqlite" else RedisStore(place, prefix=ledger, durable=True)
    await store.open()
    heard = Heard()
    op = w.idempotent(w.tool("pay"), key="$.order", lease=float(lease), on_unknown="retry")
    document = w.compile(w.composition("it", "It.", op)).document
    snapshot = compile_document(document, Pay(name, ledger, hold == "hold"), stores=lambda _: store)
    engine = Engine(snapshot, signals=heard)
    tell("ready")
    await told()
    results = await asyncio.gather(*(engine.execute("it", {"order": 7}) for _ in range(int(calls))))
    await engine.close()
    await store.close()
    tell(json.dumps({"results": results, "counts": heard.counts}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))

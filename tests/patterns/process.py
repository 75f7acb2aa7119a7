"""One gateway process for tests: it waits for a line, makes calls at the same moment, and prints what they gave.

python process.py FOLDER cache|circuit CALLS SECONDS
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import weft as w
from weft.plan.compiler import compile_document
from weft.ports import Invoke, ToolRef
from weft.run.engine import Engine
from weft.stores.sqlite import SqliteStore

OPERATIONS: dict[str, Any] = {
    "cache": w.cache(w.tool("work"), key="$", ttl=600, store="s"),
    "circuit": w.circuit_breaker(
        w.tool("work"), name="work", failure_threshold=3, failure_window=600, reset_timeout=0.001, store="s"
    ),
}


class Work:
    """A tool that leaves a line in a file, and takes its time; a negative time is a failure."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._lines = folder / "lines"
        self._seconds = seconds

    def bind(self, ref: ToolRef) -> Invoke:
        async def invoke(arguments: Any, call: Any) -> Any:
            line = os.open(self._lines, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(line, f"{os.getpid()}\n".encode())
            os.close(line)
            if self._seconds < 0:
                raise ConnectionError("refused")
            await asyncio.sleep(self._seconds)
            return {"by": os.getpid()}

        return invoke

    def describe(self, ref: ToolRef) -> None:
        return None

    def names(self) -> list[str]:
        return ["work"]


async def calls(folder: Path, kind: str, count: int, seconds: float) -> list[Any]:
    """Make calls at the same moment, and return what they gave."""
    store = SqliteStore(folder / "store.db", busy=20.0)
    await store.open()
    document = w.compile(w.composition("it", "It.", OPERATIONS[kind])).document
    engine = Engine(compile_document(document, Work(folder, seconds), stores=lambda _: store))
    try:
        results = await asyncio.gather(*(engine.execute("it", 1) for _ in range(count)), return_exceptions=True)
    finally:
        await engine.close()
        await store.close()
    return [getattr(result, "code", result) for result in results]


def main() -> None:
    """Do what the command line says."""
    folder, kind, count, seconds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sys.stdout.write(json.dumps(asyncio.run(calls(folder, kind, count, seconds))))


if __name__ == "__main__":
    main()

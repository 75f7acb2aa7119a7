"""A process of weft that a test kills: it begins a saga, or finishes those of others, on a store that they share.

Every writing to the store and every sending to and receiving from a tool is a point, and has a number: at the one that
it was told, the process kills itself with SIGKILL. What tools did is in a ledger, a file that no crash takes back.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Literal

import weft as w
from tests.saga.worlds import UNDO, Customer, Frail
from weft.errors import SagaFailed, StoreError, ToolFailed, WeftError
from weft.ir import seconds
from weft.ir.document import Document
from weft.patterns.contract import Op
from weft.patterns.kept import Kept
from weft.plan.compiler import compile_document
from weft.plan.snapshot import Snapshot
from weft.ports import Change, Invoke, Store, ToolRef, ToolType
from weft.run.engine import Engine
from weft.run.journal import Sagas
from weft.run.recovery import Recovery
from weft.stores.postgres import PostgresStore
from weft.stores.redis import RedisStore
from weft.stores.sqlite import SqliteStore

Scenario = Literal["safe", "unsafe", "refused"]
LEASE = 0.3


@dataclass(frozen=True)
class Site:
    """What all processes of a test share."""

    folder: Path
    store: str
    """A file of SQLite, or the URL of a server."""
    scenario: Scenario

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger"


class Points:
    """Counts the points that a process comes to, and ends it at one of them."""

    def __init__(self, last: int, how: signal.Signals = signal.SIGKILL) -> None:
        self.count = 0
        self._last = last
        self._how = how

    def pass_by(self) -> None:
        self.count += 1
        if self.count == self._last:
            os.kill(os.getpid(), self._how)


class Mortal(Frail):
    """A store whose every writing is two points: before it, and after it."""

    def __init__(self, store: Store, points: Points) -> None:
        super().__init__(store)
        self._points = points

    async def batch(self, changes: Sequence[Change]) -> list[int] | None:
        self._points.pass_by()
        done = await super().batch(changes)
        self._points.pass_by()
        return done


class Tools:
    """The tools of a shop, which honour keys; each call is four points: sending, sent, done, received."""

    def __init__(self, site: Site, points: Points) -> None:
        self._site = site
        self._points = points
        self._known = set[str]()
        self._read = 0

    def bind(self, ref: ToolRef) -> Invoke | None:
        async def invoke(arguments: Any, call: Any) -> Any:
            key = call.keys.next(f":{ref.name}", arguments)
            order = arguments["id"]
            self._points.pass_by()
            await asyncio.sleep(0)
            self._points.pass_by()
            refused = self._site.scenario == "refused" and ref.name == "mail"
            self._enter(ref.name, key, "refused" if refused else "done", order)
            self._points.pass_by()
            await asyncio.sleep(0)
            self._points.pass_by()
            if refused:
                raise ToolFailed("mail", "no such address")
            return {"did": ref.name, "id": order}

        return invoke

    def _enter(self, tool: str, key: str, what: str, order: str) -> None:
        with self._site.ledger.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(self._read)
            self._known |= {json.loads(line)["key"] for line in file}
            self._read = file.tell()
            again = key in self._known
            entry = {"tool": tool, "key": key, "what": "again" if again else what, "order": order}
            file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def describe(self, ref: ToolRef) -> ToolType | None:
        return ToolType()

    def names(self) -> list[str]:
        return [*UNDO, *UNDO.values()]


def saga(scenario: Scenario) -> Op[Any, Any]:
    """Return the saga of a scenario: four steps."""
    steps = [
        w.saga_step(tool, w.tool(tool), id=tool, compensate=w.tool(undo), retry_safe=scenario != "unsafe")
        for tool, undo in UNDO.items()
    ]
    return w.saga(*steps, id=w.path({}).id, store="sagas", lease=LEASE, backoff=w.fixed(0.01))


@asynccontextmanager
async def opened(site: Site) -> AsyncGenerator[Store]:
    """Open the store of a site."""
    if site.store.startswith("redis"):
        store: Store = RedisStore(site.store, prefix=str(site.folder), durable=True, timeout=10.0)
    elif site.store.startswith("postgres"):
        schema = hashlib.sha256(str(site.folder).encode()).hexdigest()[:32]
        store = PostgresStore(site.store, schema=schema, timeout=10.0, connections=4)
    else:
        store = SqliteStore(site.store, busy=10.0)
    await _open(store)
    try:
        yield store
    finally:
        await store.close()


async def _open(store: Store) -> None:
    """Open a store; while several processes make a new one, some find it busy."""
    for _ in range(100):
        try:
            return await store.open()
        except StoreError:
            await asyncio.sleep(0.05)
    raise AssertionError("the store stays away")


class Weft:
    """An engine and a recovery, as a gateway has them."""

    def __init__(self, site: Site, store: Store, points: Points) -> None:
        tools, mortal = Tools(site, points), Mortal(store, points)
        # Hundreds of leases are waited for, in processes that have nothing else to do.
        seconds.SHORTEST_LEASE = LEASE

        def compile(document: Document, kept: Kept) -> Snapshot:
            return compile_document(document, tools, problems=[], stores=lambda name: mortal, kept=kept)

        document = w.compile(w.composition("order", "It.", saga(site.scenario))).document
        self.engine = Engine(compile(document, Kept()))
        self.recovery = Recovery(
            [mortal], compile, lambda who, tool: Customer(who), detach=self.engine.detach, every=0.2
        )
        self.sagas = Sagas([mortal])

    async def call(self, id: str = "o1") -> str:
        """Call the saga, and return how it ended."""
        try:
            await self.engine.run("order", {"id": id}, caller=Customer())
        except SagaFailed as error:
            return error.saga["status"]
        return "COMPLETED"

    async def recover(self, begun: Event | None) -> None:
        """Finish what others began, once they are dead, until nothing is left."""
        if begun is not None:
            # Not before: a slow machine may let the lease of one run out that has not come to its point yet.
            await asyncio.to_thread(begun.wait)
        while True:
            await self.recovery.once()
            if not await self.sagas.list():
                return
            await asyncio.sleep(LEASE / 10)


def begin(site: Site, last: int, out: Path | None = None) -> None:
    """Begin a saga, in a process of its own, and write how many points there were."""
    points = Points(last)

    async def main() -> None:
        async with opened(site) as store:
            await Weft(site, store, points).call()

    asyncio.run(main())
    if out is not None:
        out.write_text(str(points.count), encoding="utf-8")


def recover(site: Site, begun: Event | None, last: int = 0, again: bool = False) -> None:
    """Finish what others began, in a process of its own; with `again`, a client then calls with the same id."""

    async def main() -> None:
        async with opened(site) as store:
            weft = Weft(site, store, Points(last))
            await weft.recover(begun)
            if again:
                await weft.call()

    asyncio.run(main())


def work(site: Site, ids: Sequence[str]) -> None:
    """Begin many sagas, eight at once, and finish those of others; what an absent store stops is asked for again."""

    async def main() -> None:
        async with opened(site) as store:
            weft = Weft(site, store, Points(0))
            waiting = list(ids)

            async def client() -> None:
                while waiting:
                    id = waiting.pop(0)
                    try:
                        await weft.call(id)
                    except WeftError:
                        waiting.append(id)
                        await asyncio.sleep(0.05)

            recovering = asyncio.create_task(weft.recovery.run())
            await asyncio.gather(*(client() for _ in range(8)))
            recovering.cancel()

    asyncio.run(main())


def freeze(site: Site, last: int, out: Path) -> None:
    """Begin a saga and stop at a point as SIGSTOP does; woken up, write how the caller sees it end."""
    points = Points(last, signal.SIGSTOP)

    async def main() -> str:
        async with opened(site) as store:
            return await Weft(site, store, points).call()

    out.write_text(asyncio.run(main()), encoding="utf-8")

"""What the tests of patterns with state share: callers, engines that are gateways of their own, stores with faults."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import weft as w
from weft.errors import StoreError
from weft.gateway.callers import Nobody
from weft.ports import Change, Principal, Store, Stored
from weft.run.engine import Engine
from weft.testing import FakeWorld

T = TypeVar("T")


def caller(subject: str, tenant: str = "default", **meta: Any) -> Nobody:
    """Return a client that is known by name."""
    return Nobody(principal=Principal(subject=subject, tenant=tenant, method="key", strength="proven"), meta=meta)


def gateway(world: FakeWorld, op: Any, *others: Any) -> Engine:
    """Return an engine of its own that has the operation as `it`: a second one is a second gateway."""
    made = [w.composition("it", "It.", op), *others]
    return world.engine(w.compile(*made).document)


async def outcome(work: Awaitable[Any]) -> Any:
    """Return the value that something gives, or the error that it raises."""
    try:
        return await work
    except Exception as error:
        return error


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a call, as a client does that goes away."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


class FaultyStore:
    """A store in front of another, which fails when it is told to.

    `down` are the operations that fail before anything is done; `lost` those that are done and whose answer is lost.
    Stopped, it answers nothing until it goes on: as if its process stood still, or were dead.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.down = set[str]()
        self.lost = set[str]()
        self.done: list[str] = []
        self._moving = asyncio.Event()
        self._moving.set()

    def stop(self) -> None:
        """Answer nothing."""
        self._moving.clear()

    def go_on(self) -> None:
        """Answer everything that waits."""
        self._moving.set()

    @property
    def name(self) -> str:
        return self.store.name

    @property
    def durable(self) -> bool:
        return self.store.durable

    @property
    def shared(self) -> bool:
        return self.store.shared

    async def _do(self, operation: str, work: Callable[[], Awaitable[T]]) -> T:
        await self._moving.wait()
        if operation in self.down:
            raise StoreError(self.name, "connection refused")
        result = await work()
        self.done.append(operation)
        if operation in self.lost:
            raise StoreError(self.name, "the connection was lost", sent=True)
        return result

    async def open(self) -> None:
        await self.store.open()

    async def close(self) -> None:
        await self.store.close()

    async def get(self, key: str) -> Stored | None:
        return await self._do("get", lambda: self.store.get(key))

    async def exists(self, key: str) -> bool:
        return await self._do("exists", lambda: self.store.exists(key))

    async def set(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        return await self._do("set", lambda: self.store.set(key, value, ttl=ttl))

    async def put_if_absent(self, key: str, value: bytes, *, ttl: float | None = None) -> int | None:
        return await self._do("put_if_absent", lambda: self.store.put_if_absent(key, value, ttl=ttl))

    async def cas(self, key: str, value: bytes, version: int, *, ttl: float | None = None) -> int | None:
        return await self._do("cas", lambda: self.store.cas(key, value, version, ttl=ttl))

    async def delete(self, key: str) -> bool:
        return await self._do("delete", lambda: self.store.delete(key))

    async def delete_if(self, key: str, version: int) -> bool:
        return await self._do("delete_if", lambda: self.store.delete_if(key, version))

    async def incr(self, key: str, by: int = 1, *, ttl: float | None = None) -> int:
        return await self._do("incr", lambda: self.store.incr(key, by, ttl=ttl))

    async def scan(self, prefix: str) -> AsyncIterator[tuple[str, Stored]]:
        if "scan" in self.down:
            raise StoreError(self.name, "connection refused")
        async for one in self.store.scan(prefix):
            yield one

    async def batch(self, changes: Sequence[Change]) -> list[int] | None:
        return await self._do("batch", lambda: self.store.batch(changes))

    async def now(self) -> float:
        return await self.store.now()

"""Keeps what is known of a connected server up to date: its changed lists, and the resources that somebody watches."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

from weft.errors import SessionGone, UpstreamProtocolError, UpstreamRefused, WeftError
from weft.ports import is_object
from weft.upstreams.http import HttpTransport
from weft.upstreams.inventory import KINDS
from weft.upstreams.session import Session

Reread: TypeAlias = Callable[[set[str]], Awaitable[None]]
OnUpdated: TypeAlias = Callable[[dict[str, Any]], object]
"""Told the params of each notifications/resources/updated."""

CHANGED = {f"notifications/{kind}/list_changed": kind for kind in KINDS}
UPDATED = "notifications/resources/updated"

GATHER, APART = 0.02, 0.25
"""Seconds in which further changes join the first, and between readings: a burst of changes costs one or two."""

FIRST_PAUSE, LONGEST_PAUSE, LASTING = 0.2, 30.0, 5.0
READY = 2.0


class Following:
    """What goes on beside the calls of one connection: a stream of notifications, and the reading that they cause.

    After a stream was cut, everything is read again and every watched resource told as updated: nobody knows what was
    missed.
    """

    def __init__(
        self, *, reread: Reread, watched: Callable[[], list[str]], updated: OnUpdated, suspect: Callable[[], object]
    ) -> None:
        self._reread, self._watched, self._updated, self._suspect = reread, watched, updated, suspect
        self._dirty: set[str] = set()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._other_filter: asyncio.Future[None] | None = None
        self._standing: asyncio.Future[None] | None = None

    def hear(self, message: dict[str, Any]) -> None:
        """Take a notification that belongs to no call."""
        method = message["method"]
        params: object = message.get("params")
        if method in CHANGED:
            self._changed({CHANGED[method]})
        elif method == UPDATED and is_object(params):
            self._updated({key: value for key, value in params.items() if key != "_meta"})

    async def listen(self, session: Session) -> None:
        """Begin to hear, before anything is read, so that no change falls in between."""
        await self._watch_again(session)
        if session.client.era == "modern":
            self._standing = standing = asyncio.get_running_loop().create_future()
            self._spawn(self._listening(session))
            await asyncio.wait({standing}, timeout=READY)
        elif isinstance(session.wire, HttpTransport) and _tells(session.client.capabilities):
            stream = asyncio.Event()
            missed = functools.partial(self._missed, session)
            self._spawn(session_stream(session, missed=missed, suspect=self._suspect, standing=stream))
            await stands(stream)

    def read(self) -> None:
        """Begin to read again what changes, or has changed since `listen`."""
        self._spawn(self._reading())

    async def watch(self, session: Session, uri: str) -> None:
        """Have the server tell of a resource; the uri is among the watched already.

        Raises:
            UpstreamRefused: the server cannot do so.
        """
        if session.client.era == "modern":
            await self._filter_changed()
        else:
            await session.client.request("resources/subscribe", {"uri": uri}, deadline=_soon())

    async def unwatch(self, session: Session, uri: str) -> None:
        """Have the server tell no more of a resource."""
        if session.client.era == "modern":
            await self._filter_changed()
        else:
            with contextlib.suppress(WeftError):
                await session.client.request("resources/unsubscribe", {"uri": uri}, deadline=_soon())

    async def close(self) -> None:
        """Stop."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # Reading again.

    def _changed(self, kinds: set[str]) -> None:
        self._dirty |= kinds
        self._wake.set()

    async def _reading(self) -> None:
        loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
        last = -APART
        while True:
            await self._wake.wait()
            await asyncio.sleep(max(GATHER, last + APART - loop.time()))
            self._wake.clear()
            kinds, self._dirty = self._dirty, set()
            try:
                await self._reread(kinds)
                last, pause = loop.time(), FIRST_PAUSE
            except WeftError:
                self._suspect()
                self._changed(kinds)
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE, pause * 2)

    async def _missed(self, session: Session) -> None:
        """Make up for what a cut stream did not bring."""
        await self._watch_again(session)
        self._changed(set(KINDS))
        for uri in self._watched():
            self._updated({"uri": uri})

    async def _watch_again(self, session: Session) -> None:
        """Subscribe once more in a session that knows nothing of it."""
        if session.client.era == "legacy":
            for uri in self._watched():
                with contextlib.suppress(UpstreamRefused):
                    await session.client.request("resources/subscribe", {"uri": uri}, deadline=_soon())

    # The stream of a modern server.

    async def _filter_changed(self) -> None:
        """Have the subscription replaced, and wait until the new one stands."""
        if self._other_filter is None:
            return
        if self._standing is None:
            self._standing = asyncio.get_running_loop().create_future()
        if not self._other_filter.done():
            self._other_filter.set_result(None)
        await asyncio.wait({self._standing}, timeout=READY)

    async def _listening(self, session: Session) -> None:
        """Follow a subscription; when other resources are watched, a new one stands before the old is given up."""
        loop = asyncio.get_running_loop()
        current: asyncio.Task[None] | None = None
        pauses, cut = Pauses(), False
        try:
            while True:
                self._other_filter = loop.create_future()
                old, current = current, self._subscription(session)
                await self._stands(current, old)
                if cut:
                    await self._missed(session)
                cut = False
                waited = {self._other_filter} if current is None else {self._other_filter, current}
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                if current is not None and current.done():
                    if isinstance(current.exception(), UpstreamRefused):
                        await self._other_filter
                    else:
                        self._suspect()
                        cut = True
                        await pauses.rest()
                    current = None
        finally:
            await _cancelled(current)

    def _subscription(self, session: Session) -> asyncio.Task[None] | None:
        filter = _filter(session.client.capabilities, self._watched())
        if not filter:
            return None
        self._ready = asyncio.get_running_loop().create_future()
        ready = self._ready
        listening = session.client.listen(
            filter, on_message=self.hear, on_ready=lambda _: ready.done() or ready.set_result(None)
        )
        return asyncio.get_running_loop().create_task(listening)

    async def _stands(self, current: asyncio.Task[None] | None, old: asyncio.Task[None] | None) -> None:
        try:
            if current is not None:
                await asyncio.wait({current, self._ready}, timeout=READY, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancelled(old)
        if self._standing is not None:
            standing, self._standing = self._standing, None
            standing.set_result(None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work))


class Pauses:
    """Pauses between tries, twice as long each time that something did not last."""

    def __init__(self) -> None:
        self._next = FIRST_PAUSE
        self._since = asyncio.get_running_loop().time()

    async def rest(self) -> None:
        """Pause."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._since > LASTING:
            self._next = FIRST_PAUSE
        await asyncio.sleep(self._next * random.uniform(0.5, 1.0))
        self._next = min(LONGEST_PAUSE, self._next * 2)
        self._since = loop.time()


async def stands(stream: asyncio.Event) -> None:
    """Wait until a stream stands, or was refused, but not for long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(READY):
            await stream.wait()


async def session_stream(
    session: Session,
    *,
    missed: Callable[[], Awaitable[None]],
    suspect: Callable[[], object],
    standing: asyncio.Event,
) -> None:
    """Follow the stream of a legacy session over HTTP for ever, or until the server says that it has none."""
    wire, client = session.wire, session.client
    assert isinstance(wire, HttpTransport)
    pauses = Pauses()
    while True:
        headers = {"MCP-Protocol-Version": client.version}
        try:
            await wire.listen(on_message=client.take, headers=headers, on_open=standing.set)
        except UpstreamProtocolError as error:
            if error.status is not None:
                return  # 405: there is no such stream; any other refusal will not change either
        except SessionGone:
            pass
        except WeftError:
            suspect()
        finally:
            standing.set()
        await pauses.rest()
        with contextlib.suppress(WeftError):
            # A session that is gone is begun again by the first request.
            await client.request("ping", deadline=_soon())
            await missed()


def _filter(capabilities: dict[str, Any], watched: list[str]) -> dict[str, Any]:
    filter: dict[str, Any] = {f"{kind}ListChanged": True for kind in KINDS if _has(capabilities, kind, "listChanged")}
    return filter | {"resourceSubscriptions": watched} if watched else filter


def _tells(capabilities: dict[str, Any]) -> bool:
    return any(_has(capabilities, kind, "listChanged") for kind in KINDS) or _has(
        capabilities, "resources", "subscribe"
    )


def _has(capabilities: dict[str, Any], kind: str, part: str) -> bool:
    said: object = capabilities.get(kind)
    return is_object(said) and bool(said.get(part))


def _soon() -> float:
    return asyncio.get_running_loop().time() + 10.0


async def _cancelled(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()

"""`--workers N`: a parent that holds the sockets, starts processes that serve on them, and replaces those that die."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from weft.doors.hired import CHANNEL, READY

_log = logging.getLogger("weft.workers")

EARLY_DEATHS = 5
"""How often in a row a worker may die before it serves; then there is no point in going on."""

WRONG_INPUT = 2
"""The exit code of a process that was told something wrong, which the next one would be told as well."""

CANNOT = 1
"""The exit code of a process that has said why it cannot begin: a server that it requires does not answer."""

_PATH = 90
"""A unix socket's path may have about a hundred bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a parent waits, in seconds."""

    first: float = 0.2
    longest: float = 30.0
    drain: float = 10.0
    margin: float = 10.0
    """What workers get beyond the drain, to close what they have; then they are killed."""

    def pause(self, deaths: int) -> float:
        """Return the pause before a worker that died so often in a row is started again."""
        return min(self.longest, self.first * 2 ** min(deaths - 1, 20))


class Workers:
    """The parent of some processes that serve on the same sockets."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        count: int,
        sockets: Mapping[str, socket.socket],
        first_only: Mapping[str, socket.socket] | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Make one; every worker runs the command and gets the sockets, the first one those of `first_only` too."""
        self.processes: dict[int, Process] = {}
        self._serving: set[Process] = set()
        self._command = tuple(command)
        self._count = count
        self._sockets = dict(sockets)
        self._first_only = dict(first_only or {})
        self._patience = patience or Patience()
        self._key = secrets.token_bytes(32)
        self._directory = Path()
        self._stop: asyncio.Event = asyncio.Event()

    async def run(self, *, on_started: Callable[[], object] | None = None) -> int:
        """Keep the workers running until SIGTERM or SIGINT; return the exit code. SIGHUP is passed on to them."""
        self._directory = _private_directory()
        loop = asyncio.get_running_loop()
        handlers = {signal.SIGTERM: self._stopped, signal.SIGINT: self._stopped, signal.SIGHUP: self._signalled}
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler, number)
        try:
            return await self._serve(on_started)
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)
            shutil.rmtree(self._directory, ignore_errors=True)

    async def _serve(self, on_started: Callable[[], object] | None) -> int:
        ready = [asyncio.Event() for _ in range(self._count)]
        keepers = [asyncio.create_task(self._keep(index, ready[index])) for index in range(self._count)]
        announcing = asyncio.create_task(_announce(ready, on_started))
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({*keepers, stopping}, return_when=asyncio.FIRST_COMPLETED)
            given_up = [keeper.result() for keeper in keepers if keeper.done()]
            self._stop.set()
            ended = await self._end()
            return max([*given_up, 0 if ended else 1])
        finally:
            tasks: list[asyncio.Task[Any]] = [*keepers, announcing, stopping]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, index: int, ready: asyncio.Event) -> int:
        """Keep one worker running; return the exit code when it is given up."""
        early = deaths = 0
        while True:
            served, code = await self._live(index, ready)
            if self._stop.is_set():
                return 0
            early = 0 if served else early + 1
            deaths = 1 if served else deaths + 1
            if early and (code == WRONG_INPUT or (code == CANNOT and not ready.is_set())):
                return code
            if early >= EARLY_DEATHS:
                _log.error("worker %d died %d times before it could serve: giving up", index, early)
                return 1
            pause = self._patience.pause(deaths)
            _log.warning("worker %d ended with %s; the next one starts in %.1f s", index, _told(code), pause)
            await asyncio.sleep(pause)

    async def _live(self, index: int, ready: asyncio.Event) -> tuple[bool, int]:
        """Run one process to its end; return whether it came to serve, and its exit code."""
        ours, its = socket.socketpair()
        with ours:
            with its:
                process = await self._start(index, its)
            self.processes[index] = process

            def serves() -> None:
                self._serving.add(process)
                ready.set()

            served = asyncio.create_task(_served(ours, self._assignment(index), serves))
            try:
                code = await process.wait()
                # What it said before its end is still there to be read.
                return await served, code
            finally:
                served.cancel()
                self._serving.discard(process)
                self.processes.pop(index, None)

    async def _start(self, index: int, channel: socket.socket) -> Process:
        fds = [each.fileno() for each in self._given(index).values()]
        return await asyncio.create_subprocess_exec(
            *self._command,
            env={**os.environ, CHANNEL: str(channel.fileno())},
            pass_fds=(channel.fileno(), *fds),
            # A Ctrl-C of the terminal is for the parent, which tells the workers.
            start_new_session=True,
        )

    def _given(self, index: int) -> dict[str, socket.socket]:
        return {**self._sockets, **(self._first_only if index == 0 else {})}

    def _assignment(self, index: int) -> bytes:
        # The key goes this way because others can read a process's arguments and, at times, its environment.
        told = {
            "index": index,
            "count": self._count,
            "key": self._key.hex(),
            "directory": str(self._directory),
            "sockets": {name: each.fileno() for name, each in self._given(index).items()},
        }
        return orjson.dumps(told) + b"\n"

    def _stopped(self, number: int) -> None:
        if self._stop.is_set():
            self._send(signal.SIGKILL)
            shutil.rmtree(self._directory, ignore_errors=True)
            os._exit(128 + number)
        self._stop.set()

    def _signalled(self, number: int) -> None:
        # One that is still starting reads everything anyway, and would die of a signal that it does not handle yet.
        for process in list(self._serving):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    def _send(self, number: int) -> None:
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    async def _end(self) -> bool:
        """Let every worker drain; return whether they all ended by themselves and well."""
        # Held open here, the port would go on taking connections that nobody serves.
        for each in (*self._sockets.values(), *self._first_only.values()):
            each.close()
        running = list(self.processes.values())
        starting = set(running) - self._serving
        self._send(signal.SIGTERM)
        waits = [asyncio.create_task(process.wait()) for process in running]
        if waits:
            await asyncio.wait(waits, timeout=self._patience.drain + self._patience.margin)
        self._send(signal.SIGKILL)
        codes = zip(running, await asyncio.gather(*waits), strict=True)
        return all(code == 0 or (code == -signal.SIGTERM and process in starting) for process, code in codes)


async def _served(channel: socket.socket, assignment: bytes, on_ready: Callable[[], object]) -> bool:
    """Give a worker its assignment; return whether it said that it serves before it ended."""
    loop = asyncio.get_running_loop()
    channel.setblocking(False)
    told = b""
    with contextlib.suppress(OSError):
        await loop.sock_sendall(channel, assignment)
        while data := await loop.sock_recv(channel, 64):
            told += data
            if told == READY:
                on_ready()
    return told == READY


async def _announce(ready: Sequence[asyncio.Event], on_started: Callable[[], object] | None) -> None:
    for event in ready:
        await event.wait()
    if on_started is not None:
        on_started()


def _private_directory() -> Path:
    """Return a new folder that only this user can enter, with a path short enough for unix sockets."""
    made = Path(tempfile.mkdtemp(prefix="weft-"))
    if len(os.fsencode(made)) <= _PATH:
        return made
    made.rmdir()
    return Path(tempfile.mkdtemp(prefix="weft-", dir="/tmp"))


def _told(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

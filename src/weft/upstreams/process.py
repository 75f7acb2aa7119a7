"""A child process and its three pipes, in a process group of its own, from its start to its certain end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from weft.errors import UpstreamUnavailable
from weft.upstreams.guardian import Guardian

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR")
"""What a child inherits, with every LC_*: where programs, home and temporary files are, and how to write for people.
Nothing with credentials, proxies or loader switches in it; SHELL and TERM neither, as no child has a terminal."""

LAST_WORDS = 0.2
"""Seconds for what a child wrote before its end; only a grandchild outside the group can hold the pipe for longer."""

REAPED = 2.0
"""Seconds for a child that was killed to be gone."""


def environment(given: Mapping[str, str], source: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child: the allow-list out of the source, and what is given."""
    kept = {name: value for name, value in source.items() if name in INHERITED or name.startswith("LC_")}
    return {**kept, **given}


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds between the steps by which a child is stopped: end of input, SIGTERM, SIGKILL."""

    after_end_of_input: float = 2.0
    after_sigterm: float = 2.0


class Owner(Protocol):
    """Who started the process."""

    def on_stdout(self, chunk: bytes) -> None:
        """Take what the process wrote."""
        ...

    def on_stderr(self, chunk: bytes) -> None:
        """Take what the process wrote on stderr."""
        ...

    def on_gone(self, status: int) -> None:
        """Learn, once and last, that the process is gone; a negative status is the signal that killed it."""
        ...


def told_status(status: int) -> str:
    """Return an exit status in words."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


class Process:
    """One life of a child. Whatever ends it, its group is killed, its pipes are closed and it is reaped."""

    def __init__(self, popen: subprocess.Popen[bytes], owner: Owner, patience: Patience) -> None:
        self._popen = popen
        self._owner = owner
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        self._exited = asyncio.Event()
        self._silent = asyncio.Event()
        self._released = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._pipes: list[asyncio.BaseTransport] = []
        self._open_pipes = 0
        self._guardian: Guardian | None = None
        self._life: asyncio.Task[None] | None = None
        self._pidfd: int | None = None

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        server: str,
        owner: Owner,
        env: Mapping[str, str],
        cwd: Path | None = None,
        patience: Patience | None = None,
    ) -> Process:
        """Start a child.

        Raises:
            UpstreamUnavailable: there is no such command or folder, or it may not be run.
        """
        try:
            popen = _popen(command, env, cwd)
        except (OSError, ValueError) as error:
            raise UpstreamUnavailable(server, _why_not(error, command[0], env, cwd)) from None
        process = cls(popen, owner, patience or Patience())
        try:
            await process._open()
        except BaseException:
            process._drop()
            raise
        return process

    @property
    def pid(self) -> int:
        """The process's number, which is its group's too."""
        return self._popen.pid

    @property
    def guarded(self) -> bool:
        """Whether the group will be killed also when this process is."""
        return self._guardian is not None

    @property
    def writable(self) -> bool:
        """Whether a write need not wait."""
        return self._writable.is_set()

    @property
    def unwritten(self) -> int:
        """Bytes that the child has not yet taken."""
        return self._stdin.get_write_buffer_size()

    async def write(self, data: bytes) -> None:
        """Write when the child has taken what was written before; never part of it.

        Raises:
            BrokenPipeError: the child is going or gone, and the data was not written.
        """
        while not self._writable.is_set():
            await self._writable.wait()
        self.write_now(data)

    def write_now(self, data: bytes) -> None:
        """Write without waiting for the child to read."""
        if self._ending.is_set():
            raise BrokenPipeError
        self._stdin.write(data)

    def end(self) -> None:
        """Begin to stop the child: end of input, SIGTERM, SIGKILL, each if the one before did not do."""
        self._ending.set()
        # Who waits to write must learn that it is too late.
        self._writable.set()

    def kill(self) -> None:
        """Kill the group at once."""
        self._signal_group(signal.SIGKILL)
        self.end()

    async def gone(self) -> None:
        """Wait until nothing of the child is left."""
        if self._life is not None:
            await asyncio.shield(self._life)

    # What its pipes tell.

    def pipe_opened(self, transport: asyncio.BaseTransport) -> None:
        """Note a pipe that is open."""
        self._pipes.append(transport)
        self._open_pipes += 1

    def pipe_data(self, fd: int, data: bytes) -> None:
        """Take what the child wrote."""
        if fd == 1:
            self._owner.on_stdout(data)
        else:
            self._owner.on_stderr(data)

    def pipe_closed(self, fd: int) -> None:
        """Note a pipe that is closed, by whichever end."""
        self._open_pipes -= 1
        if self._open_pipes == 0:
            self._released.set()
        if fd == 1:
            self._silent.set()
        if fd != 2:
            # A child that hears nothing or says nothing serves no more, even if it lives.
            self.end()

    def pipe_full(self, full: bool) -> None:
        """Note whether the child takes what is written."""
        if full:
            self._writable.clear()
        else:
            self._writable.set()

    # Its life.

    async def _open(self) -> None:
        loop, popen = self._loop, self._popen
        # Waited for to the end, as a pipe that opens after its caller has given up would be nobody's.
        pipes = loop.create_task(self._connect())
        try:
            await asyncio.shield(pipes)
        except asyncio.CancelledError:
            await asyncio.wait([pipes])
            raise
        self._watch()
        with contextlib.suppress(OSError):
            self._guardian = Guardian(popen.pid)
        self._life = loop.create_task(self._until_gone(), name=f"child {popen.pid}")

    async def _connect(self) -> None:
        loop, popen = self._loop, self._popen
        stdin, _ = await loop.connect_write_pipe(lambda: Pipe(self, 0), popen.stdin)
        self._stdin = stdin
        await loop.connect_read_pipe(lambda: Pipe(self, 1), popen.stdout)
        await loop.connect_read_pipe(lambda: Pipe(self, 2), popen.stderr)

    def _watch(self) -> None:
        """Learn of the exit while the child is not yet reaped, so that its group's number cannot be another's."""
        try:
            self._pidfd = os.pidfd_open(self.pid)
            self._loop.add_reader(self._pidfd, self._on_exit)
        except (AttributeError, OSError):
            threading.Thread(target=self._wait, name=f"child {self.pid}", daemon=True).start()

    def _wait(self) -> None:
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._popen.wait()
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            self._loop.call_soon_threadsafe(self._on_exit)

    def _on_exit(self) -> None:
        """Kill those whom the child started and who may have outlived it, then reap it."""
        if not self._exited.is_set():
            self._unwatch()
            self._signal_group(signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # the system may be stuck with it; weft must not be
                self._popen.wait(REAPED)
            self._exited.set()
            self.end()

    def _unwatch(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    async def _until_gone(self) -> None:
        try:
            await self._ending.wait()
            await self._until_exited()
            await _within(LAST_WORDS, self._silent)
        finally:
            # Also when this task is cancelled, as at the end of asyncio.run.
            self._drop()
        await self._released.wait()
        status: int | None = self._popen.returncode
        self._owner.on_gone(-signal.SIGKILL if status is None else status)

    async def _until_exited(self) -> None:
        if self._stdin.get_write_buffer_size():
            # close() would first wait for a child that does not read.
            self._stdin.abort()
        else:
            self._stdin.close()
        if await _within(self._patience.after_end_of_input, self._exited):
            return
        self._signal_group(signal.SIGTERM)
        if await _within(self._patience.after_sigterm, self._exited):
            return
        self._signal_group(signal.SIGKILL)
        await self._exited.wait()

    def _drop(self) -> None:
        """Kill what is left, and close what is open."""
        self._signal_group(signal.SIGKILL)
        self._on_exit()
        for pipe in self._pipes:
            pipe.close()
        opened = len(self._pipes)
        for file in (self._popen.stdin, self._popen.stdout, self._popen.stderr)[opened:]:
            if file is not None:
                file.close()
        if self._guardian is not None:
            self._guardian.dismiss()

    def _signal_group(self, number: signal.Signals) -> None:
        # After the exit the number may be another group's.
        if not self._exited.is_set():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


class Pipe(asyncio.Protocol):
    """One pipe of a child."""

    def __init__(self, process: Process, fd: int) -> None:
        self._process, self._fd = process, fd

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process.pipe_opened(transport)

    def data_received(self, data: bytes) -> None:
        self._process.pipe_data(self._fd, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._process.pipe_closed(self._fd)

    def pause_writing(self) -> None:
        self._process.pipe_full(True)

    def resume_writing(self) -> None:
        self._process.pipe_full(False)


def _popen(command: Sequence[str], env: Mapping[str, str], cwd: Path | None) -> subprocess.Popen[bytes]:
    # Not the loop's own subprocess_exec: that of uvloop 0.23 ignores close_fds, and a child would get whatever is
    # inheritable, its own pipes a second time among it.
    return subprocess.Popen(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=env,
        cwd=cwd,
        start_new_session=True,
    )


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """Wait for an event, but not for long; return whether it has happened."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


def _why_not(error: Exception, program: str, env: Mapping[str, str], cwd: Path | None) -> str:
    """Return why a child did not start: the system says "no such file" of the program and of its folder alike."""
    if cwd is not None and not cwd.is_dir():
        return f"its folder does not exist: {cwd}"
    if isinstance(error, FileNotFoundError):
        return f"command not found: {program}" + ("" if "/" in program else " (it is not on the PATH of weft)")
    return f"cannot run {program}: {error.strerror if isinstance(error, OSError) else error}"

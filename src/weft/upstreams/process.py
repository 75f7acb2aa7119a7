"""A child process and its three pipes, in a process group of its own, from its start to its certain end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from weft.errors import UpstreamUnavailable
from weft.upstreams.guardian import Guardian

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR")
"""What a child inherits, with every LC_*: where programs, home and temporary files are, and how to write for people.
Nothing with credentials, proxies or loader switches in it; SHELL and TERM neither, as no child has a terminal."""

LAST_WORDS = 0.2
"""Seconds for what a child wrote before its end; only a grandchild outside the group can hold the pipe for longer."""


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


class Process(asyncio.SubprocessProtocol):
    """One life of a child. Whatever ends it, its group is killed, its pipes are closed and it is reaped."""

    def __init__(self, owner: Owner, patience: Patience) -> None:
        self._owner = owner
        self._patience = patience
        self._ending = asyncio.Event()
        self._exited = asyncio.Event()
        self._silent = asyncio.Event()
        self._released = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._guardian: Guardian | None = None
        self._life: asyncio.Task[None] | None = None
        self._status = 0

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
        loop = asyncio.get_running_loop()
        try:
            # asyncio closes all other files in the child; uvloop 0.23 ignores close_fds, and there a child also gets
            # whatever is inheritable, its own pipes a second time among it.
            _, process = await loop.subprocess_exec(
                lambda: cls(owner, patience or Patience()), *command, env=env, cwd=cwd, start_new_session=True
            )
        except (OSError, ValueError) as error:
            raise UpstreamUnavailable(server, _why_not(error, command[0], env, cwd)) from None
        process._live()
        return process

    @property
    def pid(self) -> int:
        """The process's number, which is its group's too."""
        return self._pid

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

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)
        self._pid = self._transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._owner.on_stdout(data)
        else:
            self._owner.on_stderr(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._silent.set()
        if fd != 2:
            # A child that hears nothing or says nothing serves no more, even if it lives.
            self.end()

    def process_exited(self) -> None:
        # Now, while the group's number cannot yet be another's: those whom the child started may have outlived it.
        self._signal_group(signal.SIGKILL)
        self._status = self._transport.get_returncode() or 0
        self._exited.set()
        self.end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._released.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _live(self) -> None:
        self._stdin = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
        if not self._exited.is_set():
            with contextlib.suppress(OSError):
                self._guardian = Guardian(self._pid)
        self._life = asyncio.get_running_loop().create_task(self._until_gone(), name=f"child {self._pid}")

    async def _until_gone(self) -> None:
        try:
            await self._ending.wait()
            await self._until_exited()
            await _within(LAST_WORDS, self._silent)
        finally:
            # Also when this task is cancelled, as at the end of asyncio.run. The transport closes first: it reaps a
            # child that is already dead, and asyncio would then warn that somebody else has.
            self._transport.close()
            self._signal_group(signal.SIGKILL)
            if self._guardian is not None:
                self._guardian.dismiss()
        await self._released.wait()
        self._owner.on_gone(self._status)

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

    def _signal_group(self, number: signal.Signals) -> None:
        # After the exit the number may be another group's.
        if not self._exited.is_set():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, number)


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
        return f"command not found: {program} (PATH={env.get('PATH', '')})"
    return f"cannot run {program}: {error.strerror if isinstance(error, OSError) else error}"

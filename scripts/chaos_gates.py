"""Gateways that share a store, and stores: what chaos is done to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import asyncpg

from scripts.chaos_shop import UNDO
from tests.stores.servers import PostgresServer, RedisServer, free_port
from weft.ports import Store
from weft.run.clock import MonotonicClock
from weft.stores.guarding import Guarded
from weft.stores.postgres import PostgresStore
from weft.stores.redis import RedisStore
from weft.stores.sqlite import SqliteStore

SHOP = Path(__file__).with_name("chaos_shop.py")
PATIENCE = 60.0


def registry() -> dict[str, Any]:
    """Return the order saga. Its lease is short, so that others take over while somebody looks."""
    steps = [
        {"id": tool, "action": {"tool": {"name": tool}}, "compensate": {"tool": {"name": undo}}, "retrySafe": True}
        for tool, undo in UNDO.items()
    ]
    saga = {"steps": steps, "store": "orders", "sagaIdPath": "$.id", "leaseSeconds": 2, "maxAttempts": 20}
    saga |= {"backoff": {"fixed": {"delayMs": 200}}, "maxRecoveryAttempts": 1000}
    return {"schemaVersion": "1.0", "tools": [{"name": "order", "description": "It.", "spec": {"saga": saga}}]}


class Place:
    """A store of some kind that gateways share, and how it is made to suffer."""

    def __init__(self, kind: str, folder: Path) -> None:
        """Make a store, with its server where it has one."""
        self.kind, self.folder = kind, folder
        self.ledger = folder / "ledger"
        self.server = {"sqlite": lambda: None, "redis": RedisServer, "postgres": PostgresServer}[kind]()

    def close(self) -> None:
        """End the server, and delete what it kept."""
        if self.server is not None:
            self.server.remove()

    @property
    def settings(self) -> dict[str, Any]:
        """The store as `weft.yaml` has it."""
        if self.server is None:
            return {"type": "sqlite", "path": str(self.folder / "weft.db"), "timeout": "2s"}
        return {"type": self.kind, "url": self.server.url, "durable": True, "timeout": "2s"}

    def store(self) -> Store:
        """Return the store as one more gateway sees it."""
        return Guarded(self._bare(), clock=MonotonicClock())

    def _bare(self) -> Store:
        if isinstance(self.server, RedisServer):
            return RedisStore(self.server.url, durable=True, timeout=10.0)
        if isinstance(self.server, PostgresServer):
            return PostgresStore(self.server.url, timeout=10.0)
        return SqliteStore(self.folder / "weft.db", busy=10.0)

    def restart(self) -> None:
        """End the server without a word, and start it again; a file has none."""
        if self.server is not None:
            self.server.kill()
            self.server.start()

    def lock(self, seconds: float) -> None:
        """Let nobody write for a while; it blocks."""
        if isinstance(self.server, RedisServer):
            self.server.ask("CLIENT", "PAUSE", str(round(seconds * 1000)))
            time.sleep(seconds)
        elif isinstance(self.server, PostgresServer):
            asyncio.run(_lock_tables(self.server.url, seconds))
        else:
            with contextlib.closing(sqlite3.connect(self.folder / "weft.db", isolation_level=None)) as connection:
                connection.execute("PRAGMA busy_timeout = 5000")
                connection.execute("BEGIN IMMEDIATE")
                time.sleep(seconds)
                connection.execute("ROLLBACK")


async def _lock_tables(url: str, seconds: float) -> None:
    link: Any = await asyncpg.connect(url)
    try:
        async with link.transaction():
            await link.execute("LOCK TABLE weft.entries IN ACCESS EXCLUSIVE MODE")
            await link.execute(f"SELECT pg_sleep({seconds})")
    finally:
        await link.close()


class Gate:
    """A gateway, which is started again when it was killed."""

    def __init__(self, place: Place, name: str) -> None:
        """Start one; its shop is a child of it."""
        self.name = name
        self._folder = place.folder / name
        self._folder.mkdir()
        (self._folder / "registry.json").write_text(json.dumps(registry()))
        shop = {"command": [sys.executable, "-IS", str(SHOP), str(place.ledger)], "era": "legacy"}
        config = {
            "servers": {"shop": shop},
            "stores": {"orders": place.settings},
            "registry": {"source": "./registry.json"},
        }
        (self._folder / "weft.yaml").write_text(json.dumps(config))
        self.port = free_port()
        self.start()

    def start(self) -> None:
        """Start it, and wait until it listens."""
        command = [str(Path(sys.executable).parent / "weft"), "serve", "-c", str(self._folder / "weft.yaml")]
        with self.log.open("ab") as log:
            ports = ("--port", str(self.port), "--admin-port", "0")
            self._process = subprocess.Popen([*command, *ports], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + PATIENCE
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise RuntimeError(self.log.read_text(errors="replace")[-3000:])
            time.sleep(0.05)

    @property
    def log(self) -> Path:
        """What it says."""
        return self._folder / "log"

    def kill(self) -> None:
        """End it without a word."""
        self._process.kill()
        self._process.wait()

    def child(self) -> int | None:
        """Return the process id of its shop, if that runs now."""
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{self._process.pid}/task").iterdir():
                for pid in (task / "children").read_text().split():
                    # Its other children watch over the shop, and are nobody's to kill; who is dead has no command.
                    if os.fsencode(SHOP) in Path(f"/proc/{pid}/cmdline").read_bytes():
                        return int(pid)
        return None

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@contextlib.contextmanager
def stopped(pid: int) -> Generator[None]:
    """Make a process stand still; it may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

"""The file of a SQLite store: opened only when it is sound, ours, writable, and of a schema that this weft knows."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from weft.errors import StoreError

Synchronous = Literal["FULL", "NORMAL"]

APPLICATION: Final = 0x77656674
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        "CREATE TABLE meta (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL, clock REAL NOT NULL)",
        "INSERT INTO meta VALUES (1, 0, 0)",
        "CREATE TABLE entries (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, value BLOB NOT NULL,"
        " version INTEGER NOT NULL, expires REAL)",
        "CREATE INDEX entries_expires ON entries (expires) WHERE expires IS NOT NULL",
    ),
)
"""What takes a file from one schema to the next; a new file goes through all."""

CHECKED: Final = 256 << 20
"""Up to how many bytes a file is looked through for damage when it is opened, which takes a second or so."""
WAITED: Final = 5.0
"""How many seconds another process may be in the way when a file is opened."""

_CODES: Final[dict[int, tuple[str, str]]] = {
    sqlite3.SQLITE_ERROR: ("StoreCorrupt", "the file is not as weft made it"),
    sqlite3.SQLITE_BUSY: ("StoreBusy", "another process is writing"),
    sqlite3.SQLITE_LOCKED: ("StoreBusy", "another process is writing"),
    sqlite3.SQLITE_FULL: ("StoreFull", "there is no room"),
    sqlite3.SQLITE_CORRUPT: ("StoreCorrupt", "the file is damaged"),
    sqlite3.SQLITE_NOTADB: ("StoreCorrupt", "the file is damaged, or is not a database"),
    sqlite3.SQLITE_READONLY: ("StoreReadOnly", "the file may not be written"),
    sqlite3.SQLITE_PERM: ("StoreReadOnly", "the file may not be written"),
    sqlite3.SQLITE_CANTOPEN: ("StoreUnavailable", "the file cannot be opened"),
    sqlite3.SQLITE_IOERR: ("StoreUnavailable", "the disk has an error"),
}
_HINTS: Final = {
    "StoreCorrupt": "restore it from a backup, or move it away (with its -wal and -shm) to begin with an empty one",
    "StoreReadOnly": "let the user that weft runs as write the file and its folder",
    "StoreFull": "make room on the disk; weft goes on by itself",
}


def fault(store: str, path: Path, error: sqlite3.Error, *, sent: bool = False) -> StoreError:
    """Return what a failure of SQLite is; `sent` when it may have happened after all."""
    number = getattr(error, "sqlite_errorcode", 0)
    code, told = _CODES.get(number & 0xFF, ("StoreUnavailable", "SQLite has failed"))
    return faulty(store, path, code, f"{told} ({getattr(error, 'sqlite_errorname', None) or error})", sent=sent)


def faulty(store: str, path: Path, code: str, told: str, *, sent: bool = False) -> StoreError:
    """Return an error of the file, with its path and what to do."""
    error = StoreError(store, f"{path}: {told}", sent=sent, code=code, hint=_HINTS.get(code))
    if code in ("StoreCorrupt", "StoreReadOnly", "StoreNewer"):
        error.retryable = "no"
    return error


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether another writer was in the way."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def connect(path: Path, *, wait: float) -> sqlite3.Connection:
    """Return a connection to a file that is there."""
    uri = f"file:{quote(str(path))}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, timeout=wait, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def prepare(
    store: str,
    path: Path,
    *,
    synchronous: Synchronous = "FULL",
    max_bytes: int | None = None,
    migrations: Sequence[Sequence[str]] = MIGRATIONS,
) -> sqlite3.Connection:
    """Make a file where there is none, check it and bring it to this schema; return a connection that may write.

    Raises:
        StoreError: it cannot be used, and why.
    """
    _make(store, path)
    connection = None
    try:
        connection = connect(path, wait=WAITED)
        _check_owner(store, path, connection, len(migrations))
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise faulty(store, path, "StoreUnavailable", "its file system cannot do write-ahead logging")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
        _look_for_damage(store, path, connection)
        _migrate(path, connection, migrations)
        if max_bytes is not None:
            size = connection.execute("PRAGMA page_size").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {max(max_bytes // size, 1)}")
        connection.execute("PRAGMA busy_timeout = 0")
        return connection
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise fault(store, path, error) from error
    except StoreError:
        if connection is not None:
            connection.close()
        raise


def _make(store: str, path: Path) -> None:
    """Make the file, for its owner alone; a file that is there is not opened, which would let go of SQLite's locks."""
    try:
        path.parent.mkdir(exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        code = "StoreFull" if error.errno == errno.ENOSPC else "StoreReadOnly"
        raise faulty(store, path, code, f"the file cannot be made ({error.strerror})") from error
    if path.is_dir():
        raise faulty(store, path, "StoreUnavailable", "is a folder, not a file")
    for place in (path, path.parent):
        if not os.access(place, os.R_OK | os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            told = f"{'the file' if place is path else 'its folder'} may not be written by user {os.geteuid()}"
            raise faulty(store, path, "StoreReadOnly", f"{told} (it belongs to user {place.stat().st_uid})")


def _check_owner(store: str, path: Path, connection: sqlite3.Connection, schema: int) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if tables and owner != APPLICATION:
        raise faulty(store, path, "StoreCorrupt", "is a database of something else, not a store of weft")
    if version > schema:
        told = f"a newer weft has written it (schema {version}, this one knows {schema})"
        raise faulty(store, path, "StoreNewer", told)


def _look_for_damage(store: str, path: Path, connection: sqlite3.Connection) -> None:
    if path.stat().st_size > CHECKED:
        return
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise faulty(store, path, "StoreCorrupt", f"the file is damaged ({found.strip()})")


def _migrate(path: Path, connection: sqlite3.Connection, migrations: Sequence[Sequence[str]]) -> None:
    """Bring a file to this schema in one transaction; what an older one had is copied beside it first."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if 0 < version < len(migrations):
            _back_up(path, version)
        for statements in migrations[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _back_up(path: Path, version: int) -> None:
    """Copy a file as it was, under a name of its own that says which schema it has."""
    name = f"{path.name}.schema-{version}-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.backup"
    backup = path.with_name(name)
    os.close(os.open(backup, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(connect(path, wait=WAITED)) as source, closing(connect(backup, wait=WAITED)) as target:
        source.backup(target)


def file_system(path: Path) -> str | None:
    """Return which kind of file system a file is on, where the system tells (Linux)."""
    best, kind = "", None
    try:
        told = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    for line in told.splitlines():
        fields = line.split(" ")
        if len(fields) > 2:
            place = fields[1].replace("\\040", " ")
            if len(place) >= len(best) and path.is_relative_to(place):
                best, kind = place, fields[2]
    return kind

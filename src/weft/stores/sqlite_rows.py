"""The rows of a SQLite store, as one transaction reads and changes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from weft.ports import ABSENT, ANYHOW, Change, Put, Stored
from weft.stores.rules import added, check_value, holds, key_bytes, key_text, lifetime
from weft.stores.sqlite_time import SteadyTime

_FIND: Final = "SELECT value, version, expires FROM entries WHERE key = ?"
_VERSION: Final = "SELECT version FROM entries WHERE key = ? AND (expires IS NULL OR expires > ?)"
_PUT: Final = (
    "INSERT INTO entries (key, value, version, expires) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = excluded.version, expires = excluded.expires"
)
_DELETE: Final = "DELETE FROM entries WHERE key = ?"
_EXPIRED: Final = "SELECT 1 FROM entries WHERE expires <= ? LIMIT 1"
_REAP: Final = "DELETE FROM entries WHERE id IN (SELECT id FROM entries WHERE expires <= ? LIMIT ?)"
_SCAN: Final = (
    "SELECT key, value, version, expires FROM entries WHERE key > ? AND (key < ? OR ? IS NULL) ORDER BY key LIMIT ?"
)

PAGE: Final = 64


def stored_of(row: tuple[bytes, int, float | None], now: float) -> Stored | None:
    """Return what a row is, unless it has expired."""
    value, version, expires = row
    if expires is None:
        return Stored(value, version)
    left = expires - now
    return Stored(value, version, left) if left > 0 else None


def find(connection: sqlite3.Connection, key: bytes, now: float) -> Stored | None:
    """Return what is stored under a key."""
    row = connection.execute(_FIND, (key,)).fetchone()
    return None if row is None else stored_of(row, now)


def page(
    connection: sqlite3.Connection, prefix: bytes, after: bytes | None, now: float
) -> tuple[list[tuple[str, Stored]], bytes | None]:
    """Return the next keys with a prefix, and the last of them, or None at the end."""
    end = prefix[:-1] + bytes((prefix[-1] + 1,)) if prefix else None  # no byte of UTF-8 is 255
    # The prefix is a key itself, and the only one that is not greater than it.
    first = find(connection, prefix, now) if after is None else None
    rows = connection.execute(_SCAN, (prefix if after is None else after, end, end, PAGE)).fetchall()
    found = [(key_text(row[0]), stored) for row in rows if (stored := stored_of(row[1:], now)) is not None]
    if first is not None:
        found.insert(0, (key_text(prefix), first))
    return found, rows[-1][0] if len(rows) == PAGE else None


class Rows:
    """One transaction after another; every writing has a version of its own, which the file counts."""

    def __init__(self, store: str, connection: sqlite3.Connection, time: SteadyTime, max_value: int) -> None:
        self._store = store
        self._connection = connection
        self._time = time
        self._max_value = max_value
        self._now = 0.0
        self._version = 0
        self._changed = False

    def begin(self) -> None:
        """Begin, as the only writer of the file: in WAL, to begin by reading could not wait for another writer."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._version, clock = self._connection.execute("SELECT version, clock FROM meta").fetchone()
        self._now = self._time.seen(clock)
        self._changed = False

    def commit(self) -> None:
        """Make the changes lasting; where there are none, nothing is written."""
        if self._changed:
            self._connection.execute("UPDATE meta SET version = ?, clock = ?", (self._version, self._now))
            self._connection.execute("COMMIT")
        else:
            self.roll_back()

    def roll_back(self) -> None:
        """Undo everything since it began; SQLite may have done so itself."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def put(self, change: Put) -> int | None:
        """Write a key where its condition holds; return the new version."""
        key, ttl = self._check(change)
        return self._write(key, change.value, ttl) if self._met(change, key) else None

    def delete(self, key: bytes) -> bool:
        """Delete a key; tell whether something was there."""
        there = self._version_of(key) != ABSENT
        self._drop(key)
        return there

    def delete_if(self, key: bytes, version: int) -> bool:
        """Delete a key that is still of a version; tell whether it was."""
        if version <= ABSENT or self._version_of(key) != version:
            return False
        self._drop(key)
        return True

    def incr(self, key: bytes, by: int, ttl: float | None) -> int:
        """Add to a number; its end stays as it was."""
        expires = self._end_of(lifetime(self._store, ttl))
        value: bytes | None = None
        row = self._connection.execute(_FIND, (key,)).fetchone()
        if row is not None and stored_of(row, self._now) is not None:
            value, _, expires = row
        total = added(self._store, value, by)
        self._write_row(key, b"%d" % total, expires)
        return total

    def batch(self, changes: Sequence[Change]) -> list[int] | None:
        """Make all changes, in order, where all conditions held before the first."""
        keyed = [(change, *self._check(change)) for change in changes]
        if not all(self._met(change, key) for change, key, _ in keyed):
            return None
        versions: list[int] = []
        for change, key, ttl in keyed:
            if isinstance(change, Put):
                versions.append(self._write(key, change.value, ttl))
            else:
                self._drop(key)
                versions.append(0)
        return versions

    def reap(self, most: int) -> int:
        """Delete some of what has expired; return how many."""
        gone = self._connection.execute(_REAP, (self._now, most)).rowcount
        self._changed = self._changed or gone > 0
        return gone

    def any_expired(self) -> bool:
        """Tell, outside of a transaction, whether there is something to reap; take note of the file's time."""
        (clock,) = self._connection.execute("SELECT clock FROM meta").fetchone()
        return self._connection.execute(_EXPIRED, (self._time.seen(clock),)).fetchone() is not None

    def _check(self, change: Change) -> tuple[bytes, float | None]:
        key = key_bytes(self._store, change.key)
        if not isinstance(change, Put):
            return key, None
        check_value(self._store, change.value, self._max_value)
        return key, lifetime(self._store, change.ttl)

    def _version_of(self, key: bytes) -> int:
        row = self._connection.execute(_VERSION, (key, self._now)).fetchone()
        return 0 if row is None else row[0]

    def _met(self, change: Change, key: bytes) -> bool:
        return change.when == ANYHOW or holds(change.when, self._version_of(key))

    def _end_of(self, ttl: float | None) -> float | None:
        return None if ttl is None else self._now + ttl

    def _write(self, key: bytes, value: bytes, ttl: float | None) -> int:
        return self._write_row(key, value, self._end_of(ttl))

    def _write_row(self, key: bytes, value: bytes, expires: float | None) -> int:
        self._changed = True
        self._version += 1
        self._connection.execute(_PUT, (key, value, self._version, expires))
        return self._version

    def _drop(self, key: bytes) -> None:
        if self._connection.execute(_DELETE, (key,)).rowcount:
            self._changed = True

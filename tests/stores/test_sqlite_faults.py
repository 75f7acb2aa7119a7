"""What the SQLite store does when its file is in use, full, damaged, foreign, read-only, newer or older (S1 to S5)."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from weft.errors import StoreError
from weft.ports import Put, Stored
from weft.stores import sqlite as sqlite_module
from weft.stores.sqlite import SqliteStore
from weft.stores.sqlite_file import MIGRATIONS, file_system, prepare
from weft.stores.sqlite_rows import Rows

NOBODY = 65534


class Heard:
    """Signals that a test reads."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []

    def count(self, name: str, **labels: str) -> None:
        """Count nothing."""

    def event(self, name: str, **facts: object) -> None:
        """Keep an event."""
        self.events.append((name, facts))


async def filled(path: Path, entries: int = 300) -> None:
    """Make a file with entries in it, and nothing beside it."""
    store = SqliteStore(path)
    await store.batch([Put(f"key {number}", b"value" * 40) for number in range(entries)])
    await store.close()
    assert [one.name for one in path.parent.iterdir()] == [path.name]


async def refusal(store: SqliteStore) -> StoreError:
    """Return how a store refuses to open."""
    with pytest.raises(StoreError) as raised:
        await store.open()
    return raised.value


async def test_s1_a_lock_that_is_held_too_long_is_busy_and_nothing_was_done(tmp_path: Path):
    store = SqliteStore(tmp_path / "a.db", "main", busy=0.05)
    await store.set("key", b"1")
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        told = await asyncio.gather(*(store.incr("n") for _ in range(10)), return_exceptions=True)
        assert {type(one) for one in told} == {StoreError}
        assert {(one.code, one.retryable) for one in told if isinstance(one, StoreError)} == {("StoreBusy", "yes")}
        assert "Store 'main'" in str(told[0])
        assert await store.exists("key")
        other.execute("ROLLBACK")
    assert await store.incr("n") == 1
    await store.close()


async def test_s1_whoever_waits_for_a_lock_goes_on_when_it_is_let_go(tmp_path: Path):
    store = SqliteStore(tmp_path / "a.db", busy=60)
    await store.open()
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = [asyncio.create_task(store.incr("n")) for _ in range(10)]
        done, _ = await asyncio.wait(waiting, timeout=0.05)
        assert not done
        other.execute("COMMIT")
        assert sorted(await asyncio.gather(*waiting)) == list(range(1, 11))
    await store.close()


async def test_s1_whoever_leaves_while_waiting_for_a_lock_has_done_nothing(tmp_path: Path):
    store = SqliteStore(tmp_path / "a.db", busy=60)
    await store.open()
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        leaving = asyncio.create_task(store.incr("n"))
        await asyncio.wait([leaving], timeout=0.02)
        leaving.cancel()
        await asyncio.wait([leaving])
        await asyncio.wait_for(store.close(), 30)
        other.execute("COMMIT")
    await store.open()
    assert await store.incr("n") == 1
    await store.close()


async def test_s1_whoever_leaves_before_it_is_their_turn_has_done_nothing(tmp_path: Path):
    store = SqliteStore(tmp_path / "a.db", busy=60)
    await store.open()
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(store.incr("waiting"))
        await asyncio.wait([waiting], timeout=0.02)
        leaving = asyncio.create_task(store.incr("n"))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
        other.execute("COMMIT")
    assert await waiting == 1
    assert await store.incr("n") == 1
    await store.close()


async def test_s1_a_queue_that_grows_too_long_is_busy_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("weft.stores.sqlite_writer.PENDING", 5)
    store = SqliteStore(tmp_path / "a.db", busy=60)
    await store.open()
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = [asyncio.create_task(store.incr("n")) for _ in range(100)]
        done, still = await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION)
        assert {str(getattr(task.exception(), "code", "")) for task in done} == {"StoreBusy"}
        assert still
        other.execute("ROLLBACK")
        told = await asyncio.gather(*waiting, return_exceptions=True)
    stored = await store.get("n")
    assert stored is not None
    assert int(stored.value) == sum(isinstance(one, int) for one in told)
    await store.close()


def failure(code: int) -> sqlite3.OperationalError:
    """Return a failure as SQLite would raise it."""
    error = sqlite3.OperationalError("made by a test")
    error.sqlite_errorcode = code
    return error


async def test_s1_a_reading_that_another_process_is_in_the_way_of_waits_for_it_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = SqliteStore(tmp_path / "a.db")
    await store.set("key", b"1")
    real, threads = sqlite_module.find, list[bool]()

    def busy_here(connection: sqlite3.Connection, key: bytes, now: float) -> Stored | None:
        threads.append(threading.current_thread() is threading.main_thread())
        if threads[-1]:
            raise failure(sqlite3.SQLITE_BUSY_RECOVERY)
        return real(connection, key, now)

    monkeypatch.setattr(sqlite_module, "find", busy_here)
    assert await store.exists("key")
    assert threads == [True, False]
    await store.close()


async def test_s2_a_commit_that_the_disk_has_an_error_with_may_have_been_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = SqliteStore(tmp_path / "a.db")
    await store.open()

    def commit(self: Rows) -> None:
        raise failure(sqlite3.SQLITE_IOERR_FSYNC)

    with monkeypatch.context() as patch:
        patch.setattr(Rows, "commit", commit)
        told = await asyncio.gather(*(store.set(f"k{n}", b"1") for n in range(3)), return_exceptions=True)
    assert {(one.code, one.retryable) for one in told if isinstance(one, StoreError)} == {
        ("StoreUnavailable", "unknown-outcome")
    }
    assert await store.set("k", b"1") > 0
    await store.close()


async def test_s2_a_file_that_was_deleted_is_not_written_to_any_more(tmp_path: Path):
    store = SqliteStore(tmp_path / "a.db", reap=0.001)
    await store.set("key", b"1")
    store.path.unlink()
    told: object = 1
    while isinstance(told, int):
        told = (await asyncio.gather(store.set("key", b"2"), return_exceptions=True))[0]
    assert isinstance(told, StoreError)
    assert (told.code, "deleted" in told.message) == ("StoreUnavailable", True)
    await store.close()


async def test_s2_a_full_file_refuses_writing_goes_on_reading_and_recovers(tmp_path: Path):
    store = SqliteStore(tmp_path / "a.db", max_bytes=400_000)
    written = 0

    async def fill() -> None:
        nonlocal written
        while True:
            await store.set(f"key {written}", b"x" * 10_000)
            written += 1

    with pytest.raises(StoreError) as raised:
        await fill()
    assert (raised.value.code, raised.value.retryable) == ("StoreFull", "yes")
    assert written > 10
    assert not await store.exists(f"key {written}")
    assert await store.exists("key 0")
    small, large = await asyncio.gather(
        store.delete("key 0"), store.set("large", b"x" * 50_000), return_exceptions=True
    )
    assert small is True
    assert isinstance(large, StoreError)
    assert await store.set("key again", b"x" * 9_000) > 0
    await store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """Yield a folder on a disk of two megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = os.geteuid() == 0 and shutil.which("mount") is not None
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if not mounted or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


async def test_s2_a_full_disk_stops_writing_until_there_is_room(small_disk: Path):
    store = SqliteStore(small_disk / "a.db")
    await store.set("key", b"1")
    with pytest.raises(OSError, match="No space"):
        (small_disk / "filler").write_bytes(bytes(4 << 20))
    codes: set[str] = set()
    for number in range(20):
        try:
            await store.set(f"large {number}", bytes(200_000))
        except StoreError as error:
            codes.add(error.code)
    assert "StoreFull" in codes
    stored = await store.get("key")
    assert stored is not None
    assert stored.value == b"1"
    (small_disk / "filler").unlink()
    assert await store.set("after", bytes(200_000)) > 0
    assert await store.exists("after")
    await store.close()


async def test_s3_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path):
    path = tmp_path / "a.db"
    path.write_bytes(b"these are notes, not a database. " * 200)
    before = path.read_bytes()
    error = await refusal(SqliteStore(path))
    assert (error.code, error.retryable) == ("StoreCorrupt", "no")
    assert str(path) in error.message
    assert error.hint is not None
    assert "backup" in error.hint
    assert path.read_bytes() == before


@pytest.mark.parametrize("at", [4096 * 3 + 8, 4096 * 8, 30, 44, 60])
async def test_s3_a_damaged_file_is_refused_and_left_alone(tmp_path: Path, at: int):
    path = tmp_path / "a.db"
    await filled(path)
    damaged = bytearray(path.read_bytes())
    damaged[at : at + 4000] = random.Random(at).randbytes(4000)
    path.write_bytes(damaged)
    error = await refusal(SqliteStore(path))
    assert (error.code, error.retryable) == ("StoreCorrupt", "no")
    assert str(path) in error.message
    assert path.read_bytes() == damaged


async def test_s3_a_large_file_is_opened_unchecked_and_says_what_is_damaged_when_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "a.db"
    await filled(path)
    damaged = bytearray(path.read_bytes())
    damaged[-8000:] = random.Random(1).randbytes(8000)
    path.write_bytes(damaged)
    assert (await refusal(SqliteStore(path))).code == "StoreCorrupt"
    monkeypatch.setattr("weft.stores.sqlite_file.CHECKED", 1000)
    store = SqliteStore(path)
    await store.open()

    async def read_all() -> None:
        for number in range(300):
            await store.get(f"key {number}")

    with pytest.raises(StoreError) as raised:
        await read_all()
    assert raised.value.code == "StoreCorrupt"
    await store.close()


async def test_s3_a_database_of_something_else_is_refused_and_left_alone(tmp_path: Path):
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE people (name TEXT)")
        other.commit()
    before = path.read_bytes()
    error = await refusal(SqliteStore(path))
    assert error.code == "StoreCorrupt"
    assert "something else" in error.message
    assert path.read_bytes() == before


@pytest.fixture
def unprivileged() -> Generator[Path]:
    """Yield a folder, as a user whom permissions hold back."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    (folder / "read-only.db").touch(0o444)
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
        try:
            yield folder
        finally:
            os.seteuid(0)
    else:
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
    shutil.rmtree(folder)


async def test_s4_a_folder_that_may_not_be_written_is_refused(unprivileged: Path):
    error = await refusal(SqliteStore(unprivileged / "a.db"))
    assert (error.code, error.retryable) == ("StoreReadOnly", "no")
    assert str(unprivileged / "a.db") in error.message
    assert error.hint is not None


async def test_s4_a_file_that_may_not_be_written_is_refused_with_its_owner(unprivileged: Path):
    with pytest.raises(StoreError, match="belongs to user 0" if os.getuid() == 0 else "belongs to user") as raised:
        await SqliteStore(unprivileged / "read-only.db").open()
    assert raised.value.code == "StoreReadOnly"


async def test_s4_a_folder_in_place_of_the_file_is_refused(tmp_path: Path):
    error = await refusal(SqliteStore(tmp_path))
    assert (error.code, "is a folder" in error.message) == ("StoreUnavailable", True)


async def test_s4_a_folder_that_is_missing_far_up_is_not_made(tmp_path: Path):
    error = await refusal(SqliteStore(tmp_path / "not" / "mounted" / "a.db"))
    assert "No such file" in error.message
    assert not (tmp_path / "not").exists()


async def test_s4_a_network_file_system_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def nfs(path: Path) -> str:
        return "nfs4"

    monkeypatch.setattr(sqlite_module, "file_system", nfs)
    heard = Heard()
    store = SqliteStore(tmp_path / "a.db", "main", signals=heard)
    await store.open()
    assert [(name, facts["store"], facts["file_system"]) for name, facts in heard.events] == [
        ("store_on_network", "main", "nfs4")
    ]
    await store.close()


def test_s4_the_file_system_is_that_of_the_nearest_mount():
    assert file_system(Path("/proc/self/status")) in ("proc", None)


async def test_s4_a_store_that_could_not_be_opened_tries_again_with_the_next_operation(tmp_path: Path):
    store = SqliteStore(tmp_path / "later" / "state" / "a.db")
    await refusal(store)
    with pytest.raises(StoreError):
        await store.get("key")
    (tmp_path / "later").mkdir()
    assert await store.get("key") is None
    await store.close()


async def test_s5_a_file_of_a_newer_weft_is_refused_and_left_alone(tmp_path: Path):
    path = tmp_path / "a.db"
    await filled(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = path.read_bytes()
    error = await refusal(SqliteStore(path))
    assert (error.code, error.retryable) == ("StoreNewer", "no")
    assert "newer weft" in error.message
    assert path.read_bytes() == before


async def test_s5_an_older_file_is_migrated_and_what_it_was_is_kept(tmp_path: Path):
    path = tmp_path / "a.db"
    await filled(path)
    newer = (*MIGRATIONS, ("ALTER TABLE entries ADD COLUMN owner TEXT", "UPDATE meta SET version = version + 100"))
    prepare("main", path, migrations=newer).close()
    prepare("main", path, migrations=newer).close()
    (backup,) = _backups(tmp_path)
    assert backup.stat().st_mode & 0o777 == 0o600
    assert ".schema-1-" in backup.name
    assert _facts(path) == (len(MIGRATIONS) + 1, 300, True)
    assert _facts(backup) == (len(MIGRATIONS), 300, False)


async def test_s5_a_migration_that_fails_changes_nothing(tmp_path: Path):
    path = tmp_path / "a.db"
    await filled(path)
    broken = (*MIGRATIONS, ("ALTER TABLE entries ADD COLUMN owner TEXT", "INSERT INTO nowhere VALUES (1)"))
    with pytest.raises(StoreError):
        prepare("main", path, migrations=broken)
    assert _facts(path) == (len(MIGRATIONS), 300, False)
    store = SqliteStore(path)
    assert await store.exists("key 1")
    await store.close()


def _backups(folder: Path) -> list[Path]:
    return list(folder.glob("*.backup"))


def _facts(path: Path) -> tuple[Any, ...]:
    """Return the schema of a file, how many entries it has, and whether they have an owner."""
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (entries,) = connection.execute("SELECT count(*) FROM entries").fetchone()
        columns = [row[1] for row in connection.execute("PRAGMA table_info(entries)")]
    return version, entries, "owner" in columns

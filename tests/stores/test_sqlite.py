"""The SQLite store: its time, its commits, its rows that expire."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from weft.errors import StoreError
from weft.ports import Put
from weft.stores.sqlite import SqliteStore
from weft.stores.sqlite_file import Synchronous
from weft.stores.sqlite_time import SteadyTime


class Hands:
    """A wall clock and a monotonic one, which a test moves."""

    def __init__(self, wall: float = 1_800_000_000.0, monotonic: float = 50.0) -> None:
        self.wall = wall
        self.monotonic = monotonic

    def steady(self) -> SteadyTime:
        """Return the time of a store by these clocks."""
        return SteadyTime(lambda: self.wall, lambda: self.monotonic)

    def pass_time(self, seconds: float) -> None:
        """Let both go on."""
        self.wall += seconds
        self.monotonic += seconds


def rows_in(path: Path) -> int:
    """Return how many rows a file has, expired ones too."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM entries").fetchone()[0]


async def test_a_clock_that_is_set_back_extends_no_lease(tmp_path: Path):
    hands = Hands()
    store = SqliteStore(tmp_path / "a.db", time=hands.steady())
    await store.put_if_absent("lease", b"1", ttl=30)
    hands.pass_time(10)
    hands.wall -= 3600
    stored = await store.get("lease")
    assert stored is not None
    assert stored.ttl == pytest.approx(20)
    hands.pass_time(20)
    assert await store.get("lease") is None
    assert await store.put_if_absent("lease", b"2", ttl=30) is not None
    await store.close()


async def test_a_clock_that_is_set_back_before_a_restart_extends_no_lease(tmp_path: Path):
    hands = Hands()
    store = SqliteStore(tmp_path / "a.db", time=hands.steady())
    await store.put_if_absent("lease", b"1", ttl=30)
    await store.close()
    hands.wall -= 3600
    hands.monotonic = 5.0
    store = SqliteStore(tmp_path / "a.db", time=hands.steady())
    await store.open()
    stored = await store.get("lease")
    assert stored is not None
    assert stored.ttl == pytest.approx(30)
    hands.pass_time(30)
    assert not await store.exists("lease")
    await store.close()


async def test_a_time_that_only_another_process_saw_counts_for_this_one(tmp_path: Path):
    ahead, behind = Hands(), Hands()
    one = SqliteStore(tmp_path / "a.db", time=ahead.steady())
    two = SqliteStore(tmp_path / "a.db", time=behind.steady())
    await one.open()
    await two.open()
    ahead.wall += 3600
    assert await one.put_if_absent("lease", b"1", ttl=30) is not None
    assert await two.put_if_absent("lease", b"2", ttl=30) is None
    behind.pass_time(30)
    assert await two.put_if_absent("lease", b"2", ttl=30) is not None
    await one.close()
    await two.close()


async def test_after_the_machine_slept_leases_are_over(tmp_path: Path):
    hands = Hands()
    store = SqliteStore(tmp_path / "a.db", time=hands.steady())
    await store.put_if_absent("lease", b"1", ttl=30)
    hands.wall += 3600
    assert await store.get("lease") is None
    await store.close()


def test_steady_time_follows_the_wall_forward_and_never_goes_back():
    hands = Hands(wall=1000.0)
    steady = hands.steady()
    hands.pass_time(5)
    assert steady.now() == 1005.0
    hands.wall -= 100
    assert steady.now() == 1005.0
    hands.pass_time(2)
    assert steady.now() == 1007.0
    hands.wall = 2000.0
    assert steady.now() == 2000.0
    assert steady.seen(2500.0) == 2500.0
    assert steady.seen(100.0) == 2500.0


async def test_expired_rows_are_deleted_in_the_background(tmp_path: Path):
    hands = Hands()
    store = SqliteStore(tmp_path / "a.db", time=hands.steady(), reap=0.01)
    await store.batch([Put(f"k{number}", b"1", ttl=10) for number in range(1200)])
    await store.set("kept", b"1")
    await store.set("longer", b"1", ttl=100)
    assert rows_in(store.path) == 1202
    hands.pass_time(10)
    while rows_in(store.path) > 2:  # noqa: ASYNC110  the writer's thread works on the file, not on an event
        await asyncio.sleep(0.005)
    assert await store.exists("kept")
    assert await store.exists("longer")
    await store.close()


async def test_those_who_write_at_once_share_commits(tmp_path: Path):
    store = SqliteStore(tmp_path / "a.db")
    await store.open()
    commits: list[str] = []
    assert store._opened is not None  # pyright: ignore[reportPrivateUsage]
    writer = store._opened.writer._connection  # pyright: ignore[reportPrivateUsage]
    writer.set_trace_callback(lambda said: commits.append(said) if said == "COMMIT" else None)
    versions = await asyncio.gather(*(store.set(f"k{number}", b"1") for number in range(1000)))
    assert len(set(versions)) == 1000
    assert 1 <= len(commits) <= 20
    commits.clear()
    assert await store.cas("k1", b"2", 1 << 60) is None
    assert not await store.delete("none")
    assert commits == []
    await store.close()


async def test_one_bad_operation_does_not_spoil_those_committed_with_it(tmp_path: Path):
    store = SqliteStore(tmp_path / "a.db", max_value=10)
    await store.set("text", b"x")
    not_bytes: bytes = object()  # pyright: ignore[reportAssignmentType]
    told = await asyncio.gather(
        store.set("a", b"1"),
        store.set("b", b"x" * 11),
        store.incr("text"),
        store.batch([Put("half", b"1"), Put("other", not_bytes)]),
        store.set("c", b"1"),
        return_exceptions=True,
    )
    assert [isinstance(one, BaseException) for one in told] == [False, True, True, True, False]
    assert [key async for key, _ in store.scan("")] == ["a", "c", "text"]
    await store.close()


async def test_it_is_durable_only_when_every_commit_reaches_the_disk(tmp_path: Path):
    assert SqliteStore(tmp_path / "a.db").durable
    assert not SqliteStore(tmp_path / "a.db", synchronous="NORMAL").durable
    levels: dict[Synchronous, int] = {"FULL": 2, "NORMAL": 1}
    for told, number in levels.items():
        store = SqliteStore(tmp_path / "a.db", synchronous=told)
        await store.open()
        assert store._opened is not None  # pyright: ignore[reportPrivateUsage]
        writer = store._opened.writer._connection  # pyright: ignore[reportPrivateUsage]
        assert writer.execute("PRAGMA synchronous").fetchone() == (number,)
        await store.close()


async def test_the_file_is_for_its_owner_alone(tmp_path: Path):
    store = SqliteStore(tmp_path / "state" / "a.db")
    await store.set("secret", b"1")
    assert {entry.name: entry.stat().st_mode & 0o777 for entry in (tmp_path / "state").iterdir()} == {
        "a.db": 0o600,
        "a.db-wal": 0o600,
        "a.db-shm": 0o600,
    }
    await store.close()


async def test_it_opens_itself_and_is_closed_for_good(tmp_path: Path):
    store = SqliteStore(tmp_path / "a.db")
    await asyncio.gather(*(store.incr("n") for _ in range(50)))
    await store.close()
    with pytest.raises(StoreError, match="is closed") as raised:
        await store.get("n")
    assert raised.value.code == "StoreUnavailable"
    with pytest.raises(StoreError, match="is closed"):
        await store.set("n", b"1")
    await store.open()
    assert await store.incr("n") == 51
    await store.close()
    await store.close()


async def test_what_was_asked_for_before_it_is_closed_is_done(tmp_path: Path):
    store = SqliteStore(tmp_path / "a.db")
    await store.open()
    asked = [asyncio.create_task(store.incr("n")) for _ in range(100)]
    await asyncio.sleep(0)
    await store.close()
    assert sorted(await asyncio.gather(*asked)) == list(range(1, 101))

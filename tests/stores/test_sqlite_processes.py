"""SQLite files that several processes share, and those whose process was killed (S6, kill -9)."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from weft.stores.sqlite import SqliteStore

WRITER = Path(__file__).parent / "children" / "writer.py"


async def child(task: str, path: Path, name: str = "") -> Process:
    """Start a process that writes, and wait until it has opened the file."""
    process = await asyncio.create_subprocess_exec(sys.executable, str(WRITER), task, str(path), name, stdout=PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"open\n"
    return process


@pytest.mark.parametrize("lines", [1, 7, 300])
async def test_what_was_told_to_be_committed_is_there_after_kill_9(tmp_path: Path, lines: int):
    path = tmp_path / "a.db"
    process = await child("crash", path)
    assert process.stdout is not None
    told = [await process.stdout.readline() for _ in range(lines)]
    process.send_signal(signal.SIGKILL)
    told += (await process.stdout.read()).splitlines(keepends=True)
    assert await process.wait() == -signal.SIGKILL
    told = [line for line in told if line.endswith(b"\n")]
    assert len(told) >= lines

    store = SqliteStore(path)
    for number, left, right, _ in (map(int, line.split()) for line in told):
        for key, version in ((f"left {number}", left), (f"right {number}", right)):
            stored = await store.get(key)
            assert stored is not None
            assert (stored.value, stored.version) == (b"%d" % number, version)
    counted = max(int(line.split()[3]) for line in told)
    stored = await store.get("count")
    assert stored is not None
    assert int(stored.value) >= counted
    lefts = {key.removeprefix("left ") async for key, _ in store.scan("left ")}
    assert lefts == {key.removeprefix("right ") async for key, _ in store.scan("right ")}
    versions = [stored.version async for _, stored in store.scan("")]
    assert await store.set("after", b"1") > max(versions)
    await store.close()


async def test_processes_that_open_a_new_file_at_once_count_together(tmp_path: Path):
    path = tmp_path / "a.db"
    processes = await asyncio.gather(*(child("add", path, f"p{number}") for number in range(3)))
    told = await asyncio.gather(*(process.communicate() for process in processes))
    assert [process.returncode for process in processes] == [0, 0, 0]
    claimed = [int(line) for out, _ in told for line in out.split()]
    assert sorted(claimed) == list(range(100))
    store = SqliteStore(path)
    for key in ("cas", "incr"):
        stored = await store.get(key)
        assert stored is not None
        assert stored.value == b"300"
    await store.close()


async def test_a_process_that_stands_still_holds_nobody_up_for_long(tmp_path: Path):
    path = tmp_path / "a.db"
    process = await child("crash", path)
    assert process.stdout is not None
    await process.stdout.readline()
    process.send_signal(signal.SIGSTOP)
    store = SqliteStore(path, busy=0.05)
    try:
        await store.open()
        assert await store.get("left 0") is not None
        told = (await asyncio.gather(store.set("key", b"1"), return_exceptions=True))[0]
        assert isinstance(told, int) or getattr(told, "code", None) == "StoreBusy"
    finally:
        process.send_signal(signal.SIGKILL)
        await process.communicate()
    assert await store.set("key", b"2") > 0
    await store.close()

"""Several processes on one port: real parents, real workers, real deaths."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.doors.serving import Client
from tests.waiting import until
from weft.doors.hired import CHANNEL, hired
from weft.errors import InputError

CREW = str(Path(__file__).parent / "children" / "crew.py")
PATIENCE = 60.0


class Crew:
    """A parent that runs, as a test sees it."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, admin: int) -> None:
        self.process = process
        self.port = port
        self.admin = admin

    async def ask(self, path: str = "/all", *, port: int | None = None) -> list[dict[str, Any]]:
        """Return what the workers say that answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port or self.port)
        try:
            client = Client(reader, writer)
            client.request("GET", path)
            return (await client.answer()).json["workers"]
        finally:
            writer.close()

    async def until(self, true: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Ask until the answer is as it should be."""
        async with asyncio.timeout(PATIENCE):
            while True:  # a new connection each time may reach another worker
                with suppress(OSError, asyncio.IncompleteReadError):
                    if true(told := await self.ask()):
                        return told
                await asyncio.sleep(0.05)

    async def closed(self) -> None:
        """Wait until nobody takes connections any more."""
        with suppress(ConnectionRefusedError):
            while True:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                await asyncio.sleep(0.01)

    async def ended(self) -> int:
        """Return the exit code of the parent."""
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()


@asynccontextmanager
async def parent(count: int = 2, mode: str = "well", **env: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        CREW,
        "parent",
        str(count),
        mode,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **env},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@asynccontextmanager
async def crew(folder: Path) -> AsyncGenerator[Crew]:
    async with parent(TMPDIR=str(folder)) as process, asyncio.timeout(PATIENCE):
        assert process.stdout is not None
        public, admin = (await process.stdout.readline()).split()
        yield Crew(process, int(public), int(admin))


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that only waits to be buried does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(pids: list[int]) -> None:
    await until(lambda: not any(alive(pid) for pid in pids), within=PATIENCE)


def mode_of_only_folder(folder: Path) -> int:
    (found,) = folder.iterdir()
    return stat.S_IMODE(found.stat().st_mode)


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def told_openly(pid: int) -> list[str]:
    """Return what a process was told where others can read it, of what has to do with being a worker."""
    variables = Path(f"/proc/{pid}/environ").read_text().split("\0")
    arguments = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
    return [*arguments[2:], *(one.rstrip("0123456789") for one in variables if one.startswith(CHANNEL))]


async def test_workers_share_a_port_a_key_and_a_private_folder_and_end_well_together(tmp_path: Path):
    async with crew(tmp_path) as team:
        told = sorted(await team.ask(), key=lambda worker: worker["index"])
        assert [worker["index"] for worker in told] == [0, 1]
        assert len({worker["key"] for worker in told}) == 1
        assert [worker["sockets"] for worker in told] == [["admin", "public"], ["public"]]
        assert {worker["index"] for _ in range(5) for worker in await team.ask("/", port=team.admin)} == {0}
        assert mode_of_only_folder(tmp_path) == 0o700
        assert told_openly(told[0]["pid"]) == ["worker", "well", f"{CHANNEL}="]
        team.process.send_signal(signal.SIGTERM)
        assert await team.ended() == 0
        await gone([worker["pid"] for worker in told])
        assert names_in(tmp_path) == []


async def test_a_request_in_flight_is_answered_before_the_workers_end(tmp_path: Path):
    async with crew(tmp_path) as team:
        asking = asyncio.create_task(team.ask("/slow"))
        await asyncio.sleep(0.1)
        team.process.send_signal(signal.SIGTERM)
        await team.closed()
        assert not asking.done()
        assert await asking
        assert await team.ended() == 0


async def test_a_worker_that_dies_is_replaced_by_one_of_the_same_number(tmp_path: Path):
    async with crew(tmp_path) as team:
        before = {worker["index"]: worker["pid"] for worker in await team.ask()}
        os.kill(before[1], signal.SIGKILL)
        told = await team.until(lambda told: len(told) == 2 and all(one["pid"] != before[1] for one in told))
        assert {worker["index"] for worker in told} == {0, 1}
        assert before[0] in {worker["pid"] for worker in told}


async def test_a_hangup_reaches_every_worker(tmp_path: Path):
    async with crew(tmp_path) as team:
        team.process.send_signal(signal.SIGHUP)
        await team.until(lambda told: [worker["reloads"] for worker in told] == [1, 1])


async def test_workers_do_not_outlive_a_parent_that_is_killed(tmp_path: Path):
    async with crew(tmp_path) as team:
        pids = [worker["pid"] for worker in await team.ask()]
        team.process.kill()
        await gone(pids)
        assert names_in(tmp_path) == []


@pytest.mark.parametrize(("mode", "code", "said"), [("broken", 1, b"giving up"), ("wrong", 2, b"")])
async def test_workers_that_cannot_start_are_given_up(mode: str, code: int, said: bytes):
    async with parent(mode=mode) as process, asyncio.timeout(PATIENCE):
        _, stderr = await process.communicate()
        assert process.returncode == code
        assert said in stderr


async def test_a_second_signal_ends_everything_at_once(tmp_path: Path):
    async with crew(tmp_path) as team:
        pids = [worker["pid"] for worker in await team.ask()]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        team.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.2)
        team.process.send_signal(signal.SIGTERM)
        assert await team.ended() == 128 + signal.SIGTERM
        await gone(pids)


async def test_connections_are_shared_out_evenly(tmp_path: Path):
    async with crew(tmp_path) as team:
        opened = [await asyncio.open_connection("127.0.0.1", team.port) for _ in range(32)]
        served = [0, 0]
        for reader, writer in opened:
            client = Client(reader, writer)
            client.request("GET", "/")
            served[(await client.answer()).json["workers"][0]["index"]] += 1
        for _, writer in opened:
            writer.close()
    assert min(served) >= 4


def test_a_process_that_nobody_hired_is_no_worker():
    assert hired({}) is None


def test_the_variable_of_workers_is_not_for_people():
    with pytest.raises(InputError, match="--workers"):
        hired({CHANNEL: "999"})

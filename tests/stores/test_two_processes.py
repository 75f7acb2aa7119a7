"""Two processes on one Redis or Postgres: nothing is lost, nothing is half."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.stores.servers import postgres_server, redis_server
from tests.stores.two_processes import ROUNDS, add, store_of
from tests.waiting import until
from weft.ports import Store

pytestmark = pytest.mark.req("STA-3")

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["postgres", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return a kind of store that processes share."""
    return request.param


def url_of(kind: str) -> str:
    """Return where the server of a kind is."""
    return redis_server().url if kind == "redis" else postgres_server().url


@asynccontextmanager
async def another(kind: str, place: str, work: str) -> AsyncGenerator[Process]:
    """Run another process that does something, once it has opened the store."""
    module = "tests.stores.two_processes"
    args = (sys.executable, "-m", module, kind, url_of(kind), place, work)
    process = await asyncio.create_subprocess_exec(*args, cwd=ROOT, env=environment(), stdout=PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def environment() -> dict[str, str]:
    """Return what another process needs to find this weft."""
    return {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PATH": ""}


async def test_every_change_of_two_processes_follows_from_another(kind: str):
    store = store_of(kind, url_of(kind), f"add {kind}")
    await store.open()
    async with another(kind, f"add {kind}", "add") as process:
        mine, (told, _) = await asyncio.gather(asyncio.gather(add(store), add(store)), process.communicate())
    theirs = [(int(line.split()[0]), int(line.split()[1])) for line in told.decode().splitlines()]
    steps = sorted([*mine[0], *mine[1], *theirs])
    assert steps == [(number, number + 1) for number in range(3 * ROUNDS)]
    stored = await store.get("number")
    assert stored is not None
    assert stored.value == b"%d" % (3 * ROUNDS)
    await store.close()


async def same(store: Store) -> bool:
    """Tell whether both keys have been written by the same batch."""
    left, right = [await store.get(key) for key in ("left", "right")]
    return left is not None and right is not None and left.value == right.value


async def test_a_process_that_is_killed_leaves_nothing_half_written(kind: str):
    store = store_of(kind, url_of(kind), f"pairs {kind}")
    await store.open()
    for _ in range(3):
        await store.delete("left")
        async with another(kind, f"pairs {kind}", "pairs") as process:
            await until(lambda: store.exists("left"))
            process.kill()
            await process.wait()
        # What it had sent may still arrive, whole; half of it would stay half.
        await until(lambda: same(store))
    await store.close()

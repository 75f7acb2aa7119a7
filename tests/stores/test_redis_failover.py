"""A replica of Redis takes over from a primary that was killed: what is kept, what is lost, what holds then (R4)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.saga.process import LEASE, Points, Scenario, Site, Weft, opened
from tests.saga.worlds import UNDO
from tests.stores.proxy import Proxy, Told, refusal, value_of, works
from tests.stores.servers import RedisServer
from weft.errors import WeftError
from weft.ports import Put
from weft.stores.redis import RedisStore

pytestmark = pytest.mark.req("STA-3")
ALL = os.environ.get("WEFT_SWEEP") == "all"
POINTS: dict[Scenario, int] = {"safe": 26, "refused": 44}
PATIENCE = 60.0
NOWHERE = ("127.0.0.1", "1")


class Pair:
    """A primary and a replica of it behind one address."""

    def __init__(self, front: Proxy, primary: RedisServer, replica: RedisServer) -> None:
        self.front = front
        self.primary = primary
        self.replica = replica
        self.url = f"redis://127.0.0.1:{front.port}"

    def caught_up(self) -> bool:
        """Tell whether the replica has all that the primary has."""
        return self.primary.ask("WAIT", "1", "10000") == b":1\r\n"

    def fall_behind(self) -> None:
        """Let the replica get nothing more of what is written from now on."""
        assert self.caught_up()
        assert self.replica.ask("REPLICAOF", *NOWHERE) == b"+OK\r\n"

    def fail(self) -> None:
        """Kill the primary; whoever comes meets the replica, which only reads."""
        self.primary.kill()
        self.front.lead_to(self.replica.port)

    def promote(self) -> None:
        """Make the replica the primary."""
        assert self.replica.ask("REPLICAOF", "NO", "ONE") == b"+OK\r\n"


@contextlib.asynccontextmanager
async def pair() -> AsyncGenerator[Pair]:
    """Start two servers, of which the one follows the other."""
    with contextlib.ExitStack() as stack:
        primary = RedisServer()
        stack.callback(primary.remove)
        replica = RedisServer("--replicaof", "127.0.0.1", str(primary.port))
        stack.callback(replica.remove)
        async with Proxy(primary.port) as front:
            made = Pair(front, primary, replica)
            limit = time.monotonic() + PATIENCE
            while b"master_link_status:up" not in replica.ask("INFO", "replication"):
                assert time.monotonic() < limit
                await asyncio.sleep(0.02)
            yield made


async def test_r4_a_replica_that_has_everything_takes_over_and_nothing_is_lost():
    told = Told()
    async with pair() as servers:
        store = RedisStore(servers.url, durable=True, timeout=10.0, signals=told)
        await works(store.open)
        version = await store.set("record", b"1")
        lease = await store.put_if_absent("lease", b"one", ttl=600)
        assert lease is not None
        assert servers.caught_up()
        servers.fail()
        await works(lambda: store.get("record"))
        error = await refusal(store.cas("record", b"2", version))
        assert (error.code, error.retryable) == ("StoreReadOnly", "yes")
        servers.promote()
        await works(lambda: store.exists("record"))
        assert await store.put_if_absent("lease", b"two", ttl=600) is None
        assert await store.cas("lease", b"one again", lease, ttl=600) is not None
        assert await store.cas("record", b"2", version) is not None
        assert told.named("store_flushed") == []
        await store.close()


async def test_r4_of_two_who_were_granted_the_same_lease_only_the_later_can_record():
    async with pair() as servers:
        one, two = RedisStore(servers.url, timeout=10.0), RedisStore(servers.url, timeout=10.0)
        await works(one.open)
        servers.fall_behind()
        mine = await one.put_if_absent("lease", b"one", ttl=600)
        assert mine is not None
        servers.fail()
        servers.promote()
        await works(two.open)
        theirs = await two.put_if_absent("lease", b"two", ttl=600)
        assert theirs is not None, "what the primary alone had is lost"
        await works(lambda: one.get("lease"))
        assert await one.batch([Put("lease", b"one again", when=mine), Put("record", b"one")]) is None
        assert not await one.delete_if("lease", mine)
        assert await two.batch([Put("lease", b"two again", when=theirs), Put("record", b"two")]) is not None
        assert await value_of(one, "record") == b"two"
        await one.close()
        await two.close()


class Failing(Points):
    """Lets the replica fall behind at one point, and take over at a later one."""

    def __init__(self, servers: Pair, behind: int, over: int) -> None:
        super().__init__(0)
        self._servers = servers
        self._behind, self._over = behind, over
        self.failed = False

    def pass_by(self) -> None:
        self.count += 1
        if self.count == self._behind:
            self._servers.fall_behind()
        if self.count == self._over:
            self._servers.fail()
            self._servers.promote()
            self.failed = True


@pytest.mark.req("STA-44")
@pytest.mark.parametrize("scenario", POINTS)
async def test_r4_a_saga_whose_last_writings_are_lost_is_gone_over_again_and_each_effect_is_once(
    tmp_path: Path, scenario: Scenario
):
    points = POINTS[scenario]
    rng = random.Random(scenario)
    for behind in range(1, points) if ALL else rng.sample(range(1, points), 3):
        over = rng.randint(behind, min(points, behind + 8))
        folder = tmp_path / str(behind)
        folder.mkdir()
        async with pair() as servers:
            at, failing = Site(folder, servers.url, scenario), Failing(servers, behind, over)
            async with opened(at) as store:
                became = await asked_until_it_ends(Weft(at, store, failing))
            assert failing.failed
        entries = [json.loads(line) for line in at.ledger.read_text(encoding="utf-8").splitlines()]
        told = f"behind at {behind}, over at {over}: {became}, {entries}"
        assert all(len({one["key"] for one in entries if one["tool"] == tool}) <= 1 for tool in names()), told
        done = Counter(one["tool"] for one in entries if one["what"] == "done")
        if scenario == "safe":
            assert (became, done) == ("COMPLETED", Counter(list(UNDO))), told
        else:
            assert (became, done) == ("COMPENSATED", Counter(names() - {"mail", "unmail"})), told


def names() -> set[str]:
    return {*UNDO, *UNDO.values()}


async def asked_until_it_ends(weft: Weft) -> str:
    """Ask for the saga again and again, as a client does, while others recover it; return how it ended."""
    limit = time.monotonic() + PATIENCE
    recovering = asyncio.create_task(weft.recovery.run())
    try:
        while True:
            with contextlib.suppress(WeftError):
                became = await weft.call()
                if became in ("COMPLETED", "COMPENSATED"):
                    return became
            assert time.monotonic() < limit
            await asyncio.sleep(LEASE / 3)
    finally:
        recovering.cancel()

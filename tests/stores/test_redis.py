"""The Redis store when its server is away, slow, flushed, or says no (rows R1 to R7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.stores.proxy import Proxy, Told, refusal, value_of, works
from tests.stores.servers import RedisServer
from weft.errors import StoreError
from weft.ports import ABSENT, Delete, Put
from weft.run.clock import MonotonicClock
from weft.stores import redis as redis_store
from weft.stores.guarding import Guarded
from weft.stores.redis import RedisStore

pytestmark = pytest.mark.req("STA-3")


@pytest.fixture
def server() -> Generator[RedisServer]:
    """Yield a Redis that a test may do anything to."""
    server = RedisServer()
    yield server
    server.remove()


@asynccontextmanager
async def opened(url: str, *, timeout: float = 20.0, **settings: Any) -> AsyncGenerator[RedisStore]:
    """Open a store, whose time limit may be too short for it."""
    store = RedisStore(url, timeout=timeout, **settings)
    try:
        await works(store.open)
        yield store
    finally:
        await store.close()


async def test_r1_a_server_that_is_down_at_the_start_is_reached_when_it_is_up(server: RedisServer):
    server.stop()
    store = RedisStore(server.url, "state", timeout=20.0)
    error = await refusal(store.open())
    assert (error.code, error.retryable) == ("StoreUnavailable", "yes")
    assert "'state'" in str(error)
    assert (await refusal(store.set("key", b"1"))).retryable == "yes"
    server.start()
    await works(lambda: store.set("key", b"1"))
    assert await value_of(store, "key") == b"1"
    await store.close()


async def test_r1_to_connect_is_tried_with_pauses_not_by_every_operation(server: RedisServer):
    async with Proxy(server.port) as proxy:
        store = RedisStore(f"redis://127.0.0.1:{proxy.port}", timeout=20.0)
        server.stop()
        for _ in range(300):
            assert (await refusal(store.get("key"))).code == "StoreUnavailable"
        assert 1 <= proxy.accepted < 100
        assert ((await refusal(store.get("key"))).retry_after or 0) <= 1.0
        await store.close()


async def test_r2_a_server_that_goes_down_and_comes_back_makes_one_episode(server: RedisServer):
    told = Told()
    async with opened(server.url) as store:
        guarded = Guarded(store, clock=MonotonicClock(), timeout=None, signals=told)
        version = await guarded.set("key", b"1")
        server.kill()
        for _ in range(50):
            await refusal(guarded.get("key"))
        assert len(told.named("store_away")) == 1
        server.start()
        await works(lambda: guarded.get("key"))
        assert len(told.named("store_back")) == 1
        assert await guarded.cas("key", b"2", version) is not None


async def test_r3_late_answers_are_errors_and_never_those_of_another_question(server: RedisServer):
    async with opened(server.url) as other, Proxy(server.port) as proxy:
        for number in range(20):
            await other.set(f"key {number}", b"%d" % number)
        async with opened(f"redis://127.0.0.1:{proxy.port}", timeout=0.05, connect_timeout=20.0) as store:
            late = 0
            for turn in range(8):
                proxy.delay = 0.2 if turn % 2 else 0.0
                found = await asyncio.gather(
                    *(store.get(f"key {number}") for number in range(20)), return_exceptions=True
                )
                for number, one in enumerate(found):
                    if isinstance(one, StoreError):
                        assert one.retryable == "yes"
                        late += 1
                    else:
                        assert one is not None
                        assert not isinstance(one, BaseException)
                        assert one.value == b"%d" % number
            assert late > 0
            proxy.delay = 0.0
            await works(lambda: store.get("key 7"))
            assert await value_of(store, "key 3") == b"3"


async def test_r3_a_writing_to_a_server_that_stands_still_may_have_been_done(server: RedisServer):
    async with opened(server.url, timeout=0.1) as store:
        await works(lambda: store.set("key", b"1"))
        server.pause()
        assert (await refusal(store.set("key", b"2"))).retryable == "unknown-outcome"
        assert (await refusal(store.get("key"))).retryable == "yes"
        server.resume()
        await works(lambda: store.set("after", b"3"))
        assert await value_of(store, "key") in (b"1", b"2")
        assert await value_of(store, "after") == b"3"


async def test_r4_whoever_lost_a_lease_in_a_failover_cannot_record_with_it(server: RedisServer):
    async with opened(server.url, prefix="p") as one, opened(server.url, prefix="p") as two:
        mine = await one.put_if_absent("lease", b"one", ttl=60)
        assert mine is not None
        server.ask("DEL", "p|lease")  # what a replica that lacks the last writing looks like
        assert await two.put_if_absent("lease", b"two", ttl=60) is not None
        assert await one.cas("lease", b"one again", mine) is None
        assert await one.batch([Put("lease", b"one again", when=mine), Put("record", b"one")]) is None
        assert not await one.delete_if("lease", mine)
        assert await value_of(two, "lease") == b"two"
        assert not await two.exists("record")


@pytest.mark.parametrize("notice", ["by writing", "by reading", "by connecting"])
async def test_r5_that_everything_was_deleted_is_told_once(
    server: RedisServer, notice: str, monkeypatch: pytest.MonkeyPatch
):
    told = Told()
    async with opened(server.url, signals=told) as store:
        version = await store.set("key", b"1")
        server.ask("FLUSHALL")
        if notice == "by reading":
            monkeypatch.setattr(redis_store, "GLANCE", 0.0)
            assert await store.get("key") is None
        elif notice == "by connecting":
            await store.close()
            await store.open()
        assert await store.cas("key", b"2", version) is None
        assert await store.put_if_absent("key", b"2") not in (None, version)
        await store.get("key")
        assert told.named("store_flushed") == [{"store": "redis"}]


async def test_r5_another_store_on_the_server_is_told_too_and_nobody_without_a_flush(server: RedisServer):
    one, two = Told(), Told()
    async with opened(server.url, signals=one) as first, opened(server.url, signals=two) as second:
        await asyncio.gather(*(store.incr("n") for _ in range(50) for store in (first, second)))
        assert one.events == two.events == []
        server.ask("FLUSHALL")
        await asyncio.gather(*(store.incr("n") for _ in range(50) for store in (first, second)))
        assert [name for name, _ in one.events] == [name for name, _ in two.events] == ["store_flushed"]


async def test_r6_a_replica_is_read_and_not_written(server: RedisServer):
    async with opened(server.url) as store:
        version = await store.set("key", b"1")
        server.ask("REPLICAOF", "127.0.0.1", "1")
        for refused in (
            store.set("key", b"2"),
            store.cas("key", b"2", version),
            store.incr("n"),
            store.delete("key"),
            store.batch([Put("a", b"1"), Delete("key")]),
        ):
            error = await refusal(refused)
            assert (error.code, error.retryable) == ("StoreReadOnly", "yes")
        assert await value_of(store, "key") == b"1"
        again = RedisStore(server.url, timeout=20.0)
        assert (await refusal(again.open())).code == "StoreReadOnly"
        await again.close()
        server.ask("REPLICAOF", "NO", "ONE")
        assert await store.cas("key", b"2", version) is not None


async def test_r6_a_server_without_memory_refuses_writings_and_is_read(server: RedisServer):
    async with opened(server.url) as store:
        version = await store.set("key", b"1")
        server.ask("CONFIG", "SET", "maxmemory", "1")
        for refused in (store.set("other", b"1"), store.incr("n"), store.batch([Put("a", b"1"), Put("b", b"1")])):
            assert (await refusal(refused)).code == "StoreFull"
        assert await value_of(store, "key") == b"1"
        assert not await store.exists("a")
        assert await store.delete_if("key", version)
        server.ask("CONFIG", "SET", "maxmemory", "0")
        await store.set("other", b"1")


@pytest.mark.parametrize("password", ["", ":wrong@"])
async def test_r6_a_password_that_is_missing_or_wrong_is_said_and_not_shown(password: str):
    server = RedisServer("--requirepass", "secret")
    store = RedisStore(f"redis://{password}127.0.0.1:{server.port}", timeout=20.0)
    error = await refusal(store.open())
    assert (error.code, error.retryable) == ("StoreAuth", "no")
    assert "url" in (error.hint or "")
    assert "wrong" not in str(error)
    await store.close()
    async with opened(f"redis://:secret@127.0.0.1:{server.port}") as let_in:
        await let_in.set("key", b"1")
    server.remove()


async def test_r6_rights_that_are_missing_are_said(server: RedisServer):
    server.ask("ACL", "SETUSER", "reader", "on", ">pass", "~weft*", "+@read", "+@connection", "+time", "+ping")
    store = RedisStore(f"redis://reader:pass@127.0.0.1:{server.port}", timeout=20.0)
    await store.open()
    assert await store.get("key") is None
    error = await refusal(store.set("key", b"1"))
    assert (error.code, error.retryable) == ("StoreAuth", "no")
    await store.close()


async def test_r6_what_other_programs_wrote_is_not_touched(server: RedisServer):
    async with opened(server.url) as store:
        server.ask("RPUSH", "weft|list", "1")
        server.ask("SET", "weft|text", "hello, I am not yours to read")
        server.ask("SET", "weft|new", "\x02" + "x" * 40)
        for key, code in (("list", "StoreCorrupt"), ("text", "StoreCorrupt"), ("new", "StoreNewer")):
            error = await refusal(store.get(key))
            assert (error.code, error.retryable) == (code, "no")
            assert await store.exists(key)
        assert (await refusal(store.put_if_absent("list", b"1"))).code == "StoreCorrupt"
        assert await store.put_if_absent("text", b"1") is None
        assert await store.cas("text", b"1", 5) is None
        await store.set("mine", b"1")
        assert await value_of(store, "mine") == b"1"


async def test_r6_a_server_that_is_loading_is_unavailable_until_it_has_loaded(server: RedisServer):
    async with opened(server.url) as store:
        await asyncio.gather(*(store.set(f"key {number}", b"1") for number in range(2500)))
        server.stop()
        server.settings = ("--key-load-delay", "50")
        starting = asyncio.create_task(asyncio.to_thread(server.start))
        codes: set[str] = set()
        while not starting.done():
            try:
                await store.get("key 1")
            except StoreError as error:
                codes.add(f"{error.code}: {error.message}")
            await asyncio.sleep(0.005)
        await starting
        assert all("StoreUnavailable" in told for told in codes)
        assert any("loading" in told for told in codes)
        await works(lambda: store.get("key 1"))
        assert await value_of(store, "key 2499") == b"1"


async def test_r6_a_server_busy_with_a_script_says_so(server: RedisServer):
    async with opened(server.url) as store:
        await store.set("key", b"1")
        server.ask("CONFIG", "SET", "lua-time-limit", "10")
        endless = asyncio.create_task(asyncio.to_thread(server.ask, "EVAL", "while true do end", "0"))
        codes: set[str] = set()
        while "StoreBusy" not in codes:
            try:
                await store.get("key")
                await asyncio.sleep(0.005)
            except StoreError as error:
                codes.add(error.code)
        server.ask("SCRIPT", "KILL")
        await endless
        assert await value_of(store, "key") == b"1"


async def test_r6_a_server_that_takes_no_more_connections_says_so(server: RedisServer):
    async with opened(server.url) as store:
        await store.set("key", b"1")
        server.ask("CONFIG", "SET", "maxclients", "1")
        other = RedisStore(server.url, timeout=20.0)
        assert (await refusal(other.open())).code == "StoreBusy"
        assert await value_of(store, "key") == b"1"
        await other.close()


async def test_r6_a_server_that_may_evict_is_warned_of_at_the_start(server: RedisServer):
    told = Told()
    async with opened(server.url, signals=told):
        assert told.events == []
    server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    async with opened(server.url, signals=told):
        assert told.named("store_evicts") == [{"store": "redis", "policy": "allkeys-lru", "maxmemory": "0"}]


async def test_r7_scripts_that_the_server_forgot_are_sent_again(server: RedisServer):
    async with opened(server.url) as store:
        for _ in range(2):
            version = await store.set("key", b"1")
            number = await store.incr("n")
            server.ask("SCRIPT", "FLUSH")
            assert await store.cas("key", b"2", version) is not None
            server.ask("SCRIPT", "FLUSH")
            assert await store.incr("n") == number + 1
        server.stop()
        server.start()
        await store.get("key")  # which meets the connection that broke
        assert await store.incr("n") == 5


async def test_that_it_is_durable_is_checked():
    server = RedisServer("--appendonly", "no")
    store = RedisStore(server.url, durable=True, timeout=20.0)
    error = await refusal(store.open())
    assert (error.code, error.retryable) == ("StoreVolatile", "no")
    assert "appendonly" in (error.hint or "")
    await store.close()
    server.remove()
    server, told = RedisServer("--appendfsync", "everysec"), Told()
    async with opened(server.url, durable=True, signals=told) as kept:
        assert kept.durable
    assert len(told.named("store_may_lose")) == 1
    server.remove()


async def test_what_was_written_is_there_after_the_server_was_killed(server: RedisServer):
    async with opened(server.url, durable=True) as store:
        versions = [await store.set(f"key {number}", b"1", ttl=1000) for number in range(50)]
        server.kill()
        server.start()
        found = [await store.get(f"key {number}") for number in range(50)]
        assert [one and one.version for one in found] == versions


async def test_a_writing_whose_answer_was_lost_is_found_and_not_repeated(server: RedisServer):
    async with Proxy(server.port) as proxy, opened(f"redis://127.0.0.1:{proxy.port}") as store:
        await store.set("other", b"0")  # from now on the server has the script
        proxy.lose("answer", b"first value")
        version = await store.put_if_absent("key", b"first value")
        assert proxy.lost.is_set()
        stored = await store.get("key")
        assert stored is not None
        assert (stored.value, stored.version) == (b"first value", version)
        proxy.lose("answer", b"second value")
        versions = await store.batch([Put("key", b"second value", when=stored.version), Put("b", b"2", when=ABSENT)])
        assert proxy.lost.is_set()
        assert versions is not None
        stored = await store.get("b")
        assert stored is not None
        assert stored.version == versions[1]
        await store.incr("n")
        proxy.lose("answer", b"|n")
        assert await store.incr("n", 5) == 6
        assert proxy.lost.is_set()


async def test_a_writing_that_did_not_arrive_is_repeated_where_that_is_certain(server: RedisServer):
    async with Proxy(server.port) as proxy, opened(f"redis://127.0.0.1:{proxy.port}") as store:
        version = await store.set("key", b"1")
        proxy.lose("request", b"certain")
        assert await store.cas("key", b"certain", version) is not None
        assert proxy.lost.is_set()
        assert await value_of(store, "key") == b"certain"
        proxy.lose("request", b"unsure")
        assert (await refusal(store.set("key", b"unsure"))).retryable == "unknown-outcome"
        assert await value_of(store, "key") == b"certain"
        proxy.lose("request", b"|n")
        assert (await refusal(store.incr("n"))).retryable == "unknown-outcome"
        proxy.lose("answer", b"|key")
        assert (await refusal(store.delete("key"))).retryable == "unknown-outcome"


async def test_a_writing_that_was_overwritten_before_it_was_looked_for_is_unsure(server: RedisServer):
    url = "redis://127.0.0.1"
    async with Proxy(server.port) as proxy, opened(server.url) as other, opened(f"{url}:{proxy.port}") as store:
        version = await store.set("key", b"1")
        proxy.lose("answer", b"mine")
        writing = asyncio.create_task(refusal(store.cas("key", b"mine", version)))
        await proxy.lost.wait()
        await proxy.shut()
        await other.set("key", b"theirs")
        await proxy.open()
        assert (await writing).retryable == "unknown-outcome"
        assert await value_of(store, "key") == b"theirs"


async def test_reading_goes_on_over_a_connection_that_breaks(server: RedisServer):
    async with Proxy(server.port) as proxy, opened(f"redis://127.0.0.1:{proxy.port}") as store:
        await store.set("key", b"1")
        for which in ("request", "answer"):
            proxy.lose(which, b"GET")
            assert await value_of(store, "key") == b"1"
            assert proxy.lost.is_set()
        proxy.cut()
        assert await value_of(store, "key") == b"1"


async def test_no_lifetime_is_reported_longer_than_it_is(server: RedisServer):
    async with opened(server.url, prefix="p") as store:
        await store.set("key", b"1", ttl=1000)
        await store.incr("n", ttl=1000)
        for key in ("key", "n"):
            stored = await store.get(key)
            left = int(server.ask("PTTL", f"p|{key}").strip(b":\r\n")) / 1000
            assert stored is not None
            assert stored.ttl is not None
            assert left - 5 < stored.ttl <= left + 5
            assert stored.ttl <= 1000


async def test_a_cluster_is_refused_with_a_hint():
    server = RedisServer("--cluster-enabled", "yes", "--appendonly", "no")
    store = RedisStore(server.url, timeout=20.0)
    error = await refusal(store.open())
    assert "cluster" in str(error)
    assert error.retryable == "no"
    await store.close()
    server.remove()

"""The Postgres store when its server is away, slow, restarted, or says no (rows Q1 and Q2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from tests.stores.proxy import Proxy, Told, refusal, value_of, works
from tests.stores.servers import PostgresServer, postgres_server
from tests.waiting import until
from weft.ports import ABSENT, Delete, Put
from weft.run.clock import MonotonicClock
from weft.stores.guarding import Guarded
from weft.stores.postgres import PostgresStore
from weft.stores.postgres_link import PostgresLink
from weft.stores.postgres_schema import STEPS, prepare

pytestmark = pytest.mark.req("STA-3")

SETTINGS = {"application_name": "test"}


@pytest.fixture(scope="module")
def other_server() -> Generator[PostgresServer]:
    """Yield a Postgres that tests may stop, if they start it again."""
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
def schema(request: pytest.FixtureRequest) -> str:
    """Return a schema that no other test has."""
    return request.node.name[-60:]


@asynccontextmanager
async def opened(url: str, *, timeout: float = 20.0, **settings: Any) -> AsyncGenerator[PostgresStore]:
    """Open a store, whose time limit may be too short for it."""
    store = PostgresStore(url, timeout=timeout, **settings)
    try:
        await works(store.open)
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def by_hand(url: str) -> AsyncGenerator[asyncpg.Connection]:
    """Connect without a store."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def through(proxy: Proxy) -> str:
    """Return where a server is behind a proxy."""
    return f"postgresql://weft@127.0.0.1:{proxy.port}/postgres"


async def test_q1_a_server_that_is_down_at_the_start_is_reached_when_it_is_up(
    other_server: PostgresServer, schema: str
):
    other_server.stop()
    store = PostgresStore(other_server.url, "state", schema=schema, timeout=20.0)
    error = await refusal(store.open())
    assert (error.code, error.retryable) == ("StoreUnavailable", "yes")
    assert "'state'" in str(error)
    assert f"cannot be reached at 127.0.0.1:{other_server.port}" in error.message
    assert (await refusal(store.set("key", b"1"))).retryable == "yes"
    other_server.start()
    await works(lambda: store.set("key", b"1"))
    assert await value_of(store, "key") == b"1"
    await store.close()


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://weft:hunter2@127.0.0.1:9/weft", " at 127.0.0.1:9"),
        ("postgresql://weft:hunter2@127.0.0.1:9,127.0.0.1:7/weft", " at 127.0.0.1:9,127.0.0.1:7"),
        ("postgresql://weft:123/hunter2@127.0.0.1:9/weft", ""),
    ],
)
async def test_q1_a_server_that_is_not_there_is_told_by_its_place_and_never_by_its_password(url: str, place: str):
    store = PostgresStore(url, "state", timeout=5.0)
    error = await refusal(store.open())
    assert error.message.startswith(f"Store 'state': it cannot be reached{place}: ")
    assert "hunter2" not in str(error)
    assert "123" not in str(error)
    await store.close()


async def test_q1_a_server_that_goes_down_and_comes_back_makes_one_episode(other_server: PostgresServer, schema: str):
    told = Told()
    async with opened(other_server.url, schema=schema) as store:
        guarded = Guarded(store, clock=MonotonicClock(), timeout=None, signals=told)
        version = await guarded.set("key", b"1")
        other_server.kill()
        for _ in range(50):
            await refusal(guarded.get("key"))
        assert len(told.named("store_away")) == 1
        other_server.start()
        await works(lambda: guarded.get("key"))
        assert len(told.named("store_back")) == 1
        assert await guarded.cas("key", b"2", version) is not None


async def test_q1_what_was_written_is_there_after_the_server_was_killed(other_server: PostgresServer, schema: str):
    async with opened(other_server.url, schema=schema) as store:
        versions = [await store.set(f"key {number}", b"1", ttl=1000) for number in range(50)]
        other_server.kill()
        other_server.start()
        found = [await store.get(f"key {number}") for number in range(50)]
        assert [one and one.version for one in found] == versions
        assert await store.set("key 1", b"2") not in versions


async def test_q1_late_answers_are_errors_and_never_those_of_another_question(schema: str):
    server = postgres_server()
    async with opened(server.url, schema=schema) as other, Proxy(server.port) as proxy:
        for number in range(20):
            await other.set(f"key {number}", b"%d" % number)
        async with opened(through(proxy), schema=schema, timeout=0.1, connect_timeout=20.0) as store:
            late = 0
            for turn in range(6):
                proxy.delay = 0.3 if turn % 2 else 0.0
                found = await asyncio.gather(
                    *(store.get(f"key {number}") for number in range(20)), return_exceptions=True
                )
                for number, one in enumerate(found):
                    if isinstance(one, BaseException):
                        late += 1
                    else:
                        assert one is not None
                        assert one.value == b"%d" % number
            assert late > 0
            assert (await refusal_or_none(store)) in (None, "unknown-outcome", "yes")
            proxy.delay = 0.0
            await works(lambda: store.get("key 7"))


async def refusal_or_none(store: PostgresStore) -> str | None:
    """Write to a server that is slow; return what its error says of it."""
    [outcome] = await asyncio.gather(store.set("late", b"1"), return_exceptions=True)
    return getattr(outcome, "retryable", None)


async def test_q1_a_writing_whose_answer_was_lost_is_found_and_not_repeated(schema: str):
    server = postgres_server()
    async with Proxy(server.port) as proxy, opened(through(proxy), schema=schema) as store:
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
        await store.incr("counted")
        proxy.lose("answer", b"counted")
        assert await store.incr("counted", 5) == 6
        assert proxy.lost.is_set()


async def test_q1_a_commit_that_the_server_dies_after_is_found_when_it_is_back(
    other_server: PostgresServer, schema: str
):
    async with Proxy(other_server.port) as proxy, opened(through(proxy), schema=schema) as store:
        version = await store.set("key", b"1")
        proxy.lose("answer", b"dear value")
        writing = asyncio.create_task(store.cas("key", b"dear value", version))
        await proxy.lost.wait()
        other_server.kill()
        other_server.start()
        new = await writing
        stored = await store.get("key")
        assert stored is not None
        assert (stored.value, stored.version) == (b"dear value", new)


async def test_q1_a_writing_that_did_not_arrive_is_repeated_where_that_is_certain(schema: str):
    server = postgres_server()
    async with Proxy(server.port) as proxy, opened(through(proxy), schema=schema) as store:
        version = await store.set("key", b"1")
        proxy.lose("request", b"certain")
        assert await store.cas("key", b"certain", version) is not None
        assert proxy.lost.is_set()
        assert await value_of(store, "key") == b"certain"
        proxy.lose("request", b"unsure")
        assert (await refusal(store.set("key", b"unsure"))).retryable == "unknown-outcome"
        assert await value_of(store, "key") == b"certain"
        proxy.lose("request", b"counted")
        assert (await refusal(store.incr("counted"))).retryable == "unknown-outcome"
        proxy.lose("answer", b"key")
        assert (await refusal(store.delete("key"))).retryable == "unknown-outcome"


async def test_q1_a_writing_that_was_overwritten_before_it_was_looked_for_is_unsure(schema: str):
    server = postgres_server()
    async with (
        Proxy(server.port) as proxy,
        opened(server.url, schema=schema) as other,
        opened(through(proxy), schema=schema) as store,
    ):
        version = await store.set("key", b"1")
        proxy.lose("answer", b"mine, mine")
        writing = asyncio.create_task(refusal(store.cas("key", b"mine, mine", version)))
        await proxy.lost.wait()
        await proxy.shut()
        await other.set("key", b"theirs")
        await proxy.open()
        assert (await writing).retryable == "unknown-outcome"
        assert await value_of(store, "key") == b"theirs"


async def test_q1_a_writing_that_still_waits_on_the_server_is_ended_before_it_is_repeated(schema: str):
    server = postgres_server()
    async with (
        Proxy(server.port) as proxy,
        opened(through(proxy), schema=schema) as store,
        by_hand(server.url) as holder,
    ):
        version = await store.set("key", b"1")
        async with holder.transaction():
            await holder.execute(f'SELECT 1 FROM "{schema}".entries FOR UPDATE')
            writing = asyncio.create_task(store.cas("key", b"2", version))
            await until_waiting(server.url, 1)
            proxy.cut()
            await until_waiting(server.url, 1)
        new = await writing
        assert new is not None
        assert await value_of(store, "key") == b"2"


async def until_waiting(url: str, number: int, name: str = "weft") -> None:
    """Wait until as many connections with a name wait for a lock, on this server that other tests do not use now."""
    async with by_hand(url) as watcher:
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE $1"

        async def waiting() -> bool:
            found: int = await watcher.fetchval(query, name)
            return found >= number

        await until(waiting)


async def test_q2_transactions_that_cannot_be_ordered_are_repeated(schema: str):
    url = postgres_server().url
    async with opened(url, schema=schema) as store, by_hand(url) as hand:
        version = await store.set("key", b"1")
        await hand.execute(f'''
            CREATE SEQUENCE "{schema}".failures;
            CREATE FUNCTION "{schema}".fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
              IF nextval('"{schema}".failures') <= 3 THEN
                RAISE EXCEPTION 'again' USING ERRCODE = 'serialization_failure';
              END IF;
              RETURN NEW;
            END $$;
            CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON "{schema}".entries
              FOR EACH ROW EXECUTE FUNCTION "{schema}".fail()''')
        assert await store.cas("key", b"2", version) is not None
        await hand.execute(f"""SELECT setval('"{schema}".failures', 1)""")
        assert await store.batch([Put("key", b"3"), Put("other", b"3")]) is not None
        assert await value_of(store, "key") == b"3"


async def test_q2_a_deadlock_is_repeated(schema: str):
    url = postgres_server().url
    row = f'SELECT 1 FROM "{schema}".entries WHERE key = $1 FOR UPDATE'
    async with opened(url, schema=schema) as store, by_hand(url) as one, by_hand(url) as two:
        versions = await store.batch([Put(key, b"0") for key in "abc"])
        assert versions is not None
        first, second = one.transaction(), two.transaction()
        await first.__aenter__()
        await second.__aenter__()
        await two.execute("SET LOCAL deadlock_timeout = '1h'")  # so that it is the store that finds out
        await one.fetch(row, b"b")
        await two.fetch(row, b"c")
        writing = asyncio.create_task(store.batch([Put(key, b"1", when=versions[i]) for i, key in enumerate("abc")]))
        await until_waiting(url, 1)  # it has a, and waits for b
        waiting = asyncio.create_task(two.fetch(row, b"a"))
        await until_waiting(url, 2, "%")
        before = deadlocks()
        await first.__aexit__(None, None, None)  # it gets b, and goes for c: now they wait in a circle
        await waiting
        await second.__aexit__(None, None, None)
        assert await writing is not None
        assert await value_of(store, "c") == b"1"
        assert deadlocks() == before + 1


def deadlocks() -> int:
    """Return how many deadlocks the server has had."""
    return postgres_server().log.read_bytes().count(b"deadlock detected")


async def test_q2_a_row_that_somebody_holds_is_waited_for_no_longer_than_the_time(schema: str):
    url = postgres_server().url
    async with (
        opened(url, schema=schema) as other,
        opened(url, schema=schema, timeout=1.5) as store,
        by_hand(url) as holder,
    ):
        version = await other.set("key", b"1")
        await works(lambda: store.get("key"))
        async with holder.transaction():
            await holder.execute(f'SELECT 1 FROM "{schema}".entries FOR UPDATE')
            error = await refusal(store.cas("key", b"2", version))
            assert (error.code, error.retryable) == ("StoreBusy", "yes")
            assert await value_of(other, "key") == b"1"
        await works(lambda: store.get("key"))
        assert await other.get("key") is not None


async def test_q2_a_standby_is_read_and_not_written():
    server = PostgresServer()
    async with opened(server.url) as store:
        version = await store.set("key", b"1")
        server.standby()
        assert await value_of(store, "key") == b"1"
        for refused in (
            store.set("key", b"2"),
            store.cas("key", b"2", version),
            store.incr("n"),
            store.delete("key"),
            store.batch([Put("a", b"1"), Delete("key")]),
        ):
            error = await refusal(refused)
            assert (error.code, error.retryable) == ("StoreReadOnly", "yes")
        again = PostgresStore(server.url, timeout=20.0)
        assert (await refusal(again.open())).code == "StoreReadOnly"
        await again.close()
        async with by_hand(server.url) as hand:
            await hand.execute("SELECT pg_promote()")
        assert await store.cas("key", b"2", version) is not None
    server.remove()


async def test_q2_a_server_that_takes_no_more_connections_says_so():
    server = PostgresServer("max_connections=5", "superuser_reserved_connections=0", "max_wal_senders=0")
    async with opened(server.url) as store:
        await store.set("key", b"1")
        taken = [await asyncpg.connect(server.url) for _ in range(4)]
        other = PostgresStore(server.url, timeout=20.0)
        assert (await refusal(other.open())).code == "StoreBusy"
        assert await value_of(store, "key") == b"1"
        for connection in taken:
            await connection.close()
        await works(other.open)
        assert await value_of(other, "key") == b"1"
        await other.close()
    server.remove()


async def test_q2_tables_of_a_newer_weft_are_refused_and_left_alone(schema: str):
    url = postgres_server().url
    async with opened(url, schema=schema) as store, by_hand(url) as hand:
        await store.set("key", b"1")
        await hand.execute(f'UPDATE "{schema}".meta SET version = 99')
        newer = PostgresStore(url, schema=schema, timeout=20.0)
        for refused in (newer.open(), newer.set("key", b"2")):
            error = await refusal(refused)
            assert (error.code, error.retryable) == ("StoreNewer", "no")
            assert "99" in str(error)
        await newer.close()
        assert await value_of(store, "key") == b"1"


async def test_q2_older_tables_are_migrated_once_by_many_at_once(schema: str):
    url = postgres_server().url
    steps = (*STEPS, "ALTER TABLE {schema}.entries ADD COLUMN note text; CREATE TABLE {schema}.once (n int);")
    async with opened(url, schema=schema) as store:
        await store.set("key", b"1")
        links = [await PostgresLink.connect(url, timeout=20.0, settings=SETTINGS) for _ in range(5)]
        await asyncio.gather(*(prepare(link, schema, steps) for link in links))
        assert await links[0].value(f'SELECT version FROM "{schema}".meta') == 2
        assert await links[0].value(f'SELECT count(*) FROM "{schema}".once') == 0
        assert await value_of(store, "key") == b"1"
        for link in links:
            await link.drop()


async def test_q2_a_migration_that_fails_changes_nothing(schema: str):
    url = postgres_server().url
    steps = (*STEPS, "CREATE TABLE {schema}.half (n int); SELECT 1 / 0;")
    async with opened(url, schema=schema) as store:
        await store.set("key", b"1")
        link = await PostgresLink.connect(url, timeout=20.0, settings=SETTINGS)
        with pytest.raises(Exception, match="division by zero"):
            await prepare(link, schema, steps)
        assert await link.value("SELECT to_regclass($1)", f'"{schema}".half') is None
        assert await link.value(f'SELECT version FROM "{schema}".meta') == 1
        await prepare(link, schema)
        await link.drop()
        assert await value_of(store, "key") == b"1"


async def test_tables_are_made_once_by_many_stores_at_once(schema: str):
    url = postgres_server().url
    stores = [PostgresStore(url, schema=schema, timeout=20.0, connections=1) for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    assert sorted(await asyncio.gather(*(store.incr("n") for store in stores))) == list(range(1, 9))
    for store in stores:
        await store.close()


async def test_credentials_rights_and_databases_that_are_missing_are_said(schema: str):
    server = postgres_server()
    async with by_hand(server.url) as hand:
        await hand.execute("DROP ROLE IF EXISTS nobody; CREATE ROLE nobody LOGIN")
    for url, code in (
        (server.url.replace("weft@", "stranger:hunter2@"), "StoreAuth"),
        (server.url.replace("weft@", "nobody@"), "StoreAuth"),
        (server.url.replace("/postgres", "/none"), "StoreUnavailable"),
    ):
        store = PostgresStore(url, schema=schema, timeout=20.0)
        error = await refusal(store.open())
        assert (error.code, error.retryable) == (code, "no")
        assert "url" in (error.hint or "")
        assert "hunter2" not in str(error)
        await store.close()


async def test_that_it_is_durable_is_checked():
    server = PostgresServer("fsync=off")
    store = PostgresStore(server.url, timeout=20.0)
    error = await refusal(store.open())
    assert (error.code, error.retryable) == ("StoreVolatile", "no")
    assert "fsync" in (error.hint or "")
    await store.close()
    async with opened(server.url, durable=False) as volatile:
        assert not volatile.durable
    server.remove()


async def test_what_has_expired_is_deleted_after_a_while(schema: str):
    url = postgres_server().url
    async with opened(url, schema=schema, reap=0.02) as store, by_hand(url) as hand:
        await store.set("kept", b"1", ttl=1000)
        for number in range(20):
            await store.set(f"gone {number}", b"1", ttl=0.001)

        async def one_is_left() -> bool:
            left: int = await hand.fetchval(f'SELECT count(*) FROM "{schema}".entries')
            return left == 1

        await until(one_is_left)
        assert await value_of(store, "kept") == b"1"


async def test_names_of_schemas_are_taken_as_they_are(schema: str):
    url = postgres_server().url
    names = ['a"; DROP SCHEMA public; --', "Upper", "with space", "é"]
    for name in names:
        async with opened(url, schema=name) as store:
            await store.set("key", name.encode())
    for name in names:
        async with opened(url, schema=name) as store:
            assert await value_of(store, "key") == name.encode()
    for name in ("", "x" * 64, "\x00"):
        with pytest.raises(ValueError, match="schema"):
            PostgresStore(url, schema=name)


async def test_q2_what_cannot_be_ordered_in_time_is_busy_and_not_done(schema: str):
    url = postgres_server().url
    async with opened(url, schema=schema) as other, by_hand(url) as hand:
        await other.set("key", b"1")
        await hand.execute(f'''
            CREATE FUNCTION "{schema}".fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
              RAISE EXCEPTION 'again' USING ERRCODE = 'serialization_failure';
            END $$;
            CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON "{schema}".entries
              FOR EACH ROW EXECUTE FUNCTION "{schema}".fail()''')
        async with opened(url, schema=schema, timeout=0.3) as store:
            error = await refusal(store.set("key", b"2"))
            assert error.code in ("StoreBusy", "StoreUnavailable")
        assert await value_of(other, "key") == b"1"

"""What makes the figures of state measures what the page says: hits that hit, commits that are counted, real sagas."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from bench.gateway.effort import Effort
from bench.page import PAGE, table, with_tables
from bench.state import others, servers
from bench.state.calls import cached, counted_commits, idempotent_commits, patterns, redis_hits
from bench.state.places import CALL, engine, opened, plain
from bench.state.sagas import TOGETHER, commit_rate, rate, saga, sagas
from weft.run.journal import Sagas
from weft.stores.sqlite import SqliteStore

LITTLE = Effort(turns=3, calls=100, few_turns=3)


@pytest.mark.parametrize(("name", "op", "limit"), list(patterns()))
async def test_a_pattern_changes_nothing_but_the_time(name: str, op: Any, limit: float):
    assert (await engine(op).run("it", CALL)).value == (await plain().run("it", CALL)).value


async def test_the_cache_that_is_measured_hits():
    ours = engine(cached())
    first, second = [(await ours.run("it", CALL)).trace for _ in range(2)]
    assert "pay" in str(first)
    assert "pay" not in str(second), "the tool is not called again"


async def test_commits_are_counted_where_sqlite_makes_them(tmp_path: Path):
    with counted_commits() as commits:
        async with opened(SqliteStore(tmp_path / "weft.db")) as store:
            before = commits[0]
            for number in range(3):
                await store.set(str(number), b"x")
            await store.get("1")
            assert await store.put_if_absent("1", b"y") is None
    assert commits[0] - before == 3


async def test_idempotent_takes_two_commits_and_none_for_what_was_carried_out():
    new, again = [figure.value async for figure in idempotent_commits(LITTLE)]
    assert (new, again) == (2.0, 0.0)


async def test_every_saga_that_is_counted_is_another_and_is_completed(tmp_path: Path):
    async with opened(SqliteStore(tmp_path / "weft.db", busy=10.0)) as store:
        assert await rate(sagas(engine(saga(), store)), 2 * TOGETHER) > 0
        rows = await Sagas([store]).list(ended=True)
    assert len({row["id"] for row in rows}) == 2 * TOGETHER
    assert {row["status"] for row in rows} == {"COMPLETED"}


def test_bare_commits_are_one_row_each(tmp_path: Path):
    assert commit_rate(tmp_path / "bare.db", 7) > 0
    with sqlite3.connect(tmp_path / "bare.db") as connection:
        assert connection.execute("SELECT count(*) FROM entries").fetchone() == (7,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


async def test_a_hit_on_redis_stands_beside_a_get_of_the_same_bytes():
    with servers.redis() as url:
        if url is None:
            pytest.skip("there is no redis-server")
        (figure,) = [figure async for figure in redis_hits(url, LITTLE)]
    assert figure.limit == 1.3
    assert figure.detail["theirs_us"] > 0


async def test_without_dbos_the_run_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def nothing(name: str) -> None: ...

    monkeypatch.setattr(others, "find_spec", nothing)
    assert await others.compared("postgresql://nowhere", LITTLE) == []
    assert "dbos: not installed" in capsys.readouterr().out


def test_a_library_must_be_three_times_slower():
    assert not others.promised({"library": "dbos", "ratio": 2.9}).kept
    assert others.promised({"library": "dbos", "ratio": 3.1}).kept


def test_the_page_has_a_place_for_the_figures():
    library = {"library": "dbos", "version": "3", "ratio": 8.4}
    told: dict[str, Any] = {"figures": [others.promised(library).to_json()], "libraries": [library], "cores": 2}
    told |= {"python": "3.11", "same_against_same": {"ratio": 1.0}}
    page = with_tables(PAGE.read_text(), {"state": told})
    assert table("state", told) in page
    assert "| dbos 3 | 8x |" in page

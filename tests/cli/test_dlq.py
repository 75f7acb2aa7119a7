"""`weft dlq`, against a gateway with letters that nobody took."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.app.shop import SQLITE, open_shop
from tests.app.test_kept import Away
from weft.patterns.dead_letter_spool import Letterboxes, Spool

from .conftest import Run
from .test_saga import typed


async def test_letters_are_listed_shown_and_sent_again(tmp_path: Path, run: Run) -> None:
    async with open_shop(tmp_path) as (up, gate):
        nothing = await typed(run, gate, "dlq", "list")
        assert (nothing.stdout, "there are no dead letters" in nothing.stderr) == ("", True)
        up.refuses |= {"book", "failed_bookings"}
        for to in ("Oslo", "Rome"):
            await gate.call("trip", {"to": to})
        listed = await typed(run, gate, "dlq", "list", "--limit", "1")
        head, row = listed.stdout.splitlines()
        assert head.split()[:4] == ["ID", "SINCE", "OF", "TO"]
        assert "and 1 more" in listed.stderr
        first = row.split()[0]
        shown = (await typed(run, gate, "dlq", "show", first)).stdout
        assert shown.startswith(f"{first}  of trip")
        assert 'input    {"to":"Oslo"}' in shown
        assert "failed   " in shown
        assert "no book today" in shown
        refused = await typed(run, gate, "dlq", "redrive", first)
        assert refused.exit_code == 1
        assert refused.stdout.startswith(f"✗ {first} was not taken: ")
        up.refuses.clear()
        taken = await typed(run, gate, "dlq", "redrive", first)
        assert (taken.exit_code, taken.stdout) == (0, f"✓ {first} was taken\n")
        rest = await typed(run, gate, "dlq", "redrive", "--all", "--json")
        assert [one["delivered"] for one in json.loads(rest.stdout)["redriven"]] == [True]
        none_left = await typed(run, gate, "dlq", "list", "--tool", "trip", "--json")
        assert json.loads(none_left.stdout) == {"deadLetters": [], "total": 0}
        missing = await typed(run, gate, "dlq", "show", "nothing")
        assert (missing.exit_code, "Dead letter not found" in missing.stderr) == (2, True)


async def test_one_that_cannot_be_read_and_a_store_that_is_away_do_not_hide_the_others(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = {"bad": {"type": "sqlite", "path": "./bad.db", "timeout": "5s"}, **SQLITE}
    async with open_shop(tmp_path, stores=stores) as (up, gate):
        up.refuses |= {"book", "failed_bookings"}
        for to in ("Oslo", "Rome"):
            await gate.call("trip", {"to": to})
        keeping = gate.running.keeping
        store = keeping.stores.find("orders")
        torn = min([key async for key, _ in store.scan("v1|deadLetter|")])
        await store.set(torn, b"{}")
        id = torn.rpartition("|")[2]
        listed = await typed(run, gate, "dlq", "list")
        assert (listed.exit_code, len(listed.stdout.splitlines())) == (0, 3)
        assert "in store orders, and cannot be read: 'id' is missing" in listed.stdout.splitlines()[-1]
        assert "cannot be read: 'id' is missing" in (await typed(run, gate, "dlq", "show", id)).stdout
        bad: Any = keeping.stores.find("bad")
        monkeypatch.setattr(bad, "inner", Away(bad.inner))
        gate.running.gateway.live.kept.of(Letterboxes).stores["bad"] = bad
        up.refuses.clear()
        sent = await typed(run, gate, "dlq", "redrive", "--all")
        assert (sent.exit_code, "Store 'bad': the disk is gone" in sent.stderr) == (1, True)
        assert [line.split()[0] for line in sent.stdout.splitlines()] == ["✓", "✗"]
        await store.delete(torn)
        nothing = await typed(run, gate, "dlq", "redrive", "--all")
        assert (nothing.exit_code, nothing.stdout, "no dead letters" in nothing.stderr) == (1, "", False)


@pytest.mark.parametrize(
    "given", ["dlq redrive", "dlq show", "saga show", "saga retry", "saga abandon --reason x", "circuit open"]
)
def test_an_empty_name_is_refused_before_anybody_is_asked(given: str, run: Run) -> None:
    done = run(*given.split(), "")
    assert (done.exit_code, "the name is empty [NoName]" in done.stderr) == (2, True)


async def test_a_long_refusal_is_cut_in_the_list_and_whole_in_the_letter(tmp_path: Path, run: Run) -> None:
    async with open_shop(tmp_path) as (up, gate):
        up.refuses |= {"book", "failed_bookings"}
        await gate.call("trip", {"to": "Oslo"})
        spool = Spool(gate.running.keeping.stores.find("orders"))
        (letter,) = [one async for one in spool.letters()]
        await spool.put_off(letter.refused("because " * 100))
        listed = (await typed(run, gate, "dlq", "list")).stdout.splitlines()
        assert listed[1].endswith(" because b...")
        assert max(map(len, listed)) < 200
        shown = await typed(run, gate, "dlq", "show", letter.id[:8])
        assert "because " * 99 in shown.stdout


async def test_the_listener_for_clients_is_not_the_admin_listener(tmp_path: Path, run: Run) -> None:
    async with open_shop(tmp_path) as (_, gate):
        here = f"http://127.0.0.1:{gate.port}"
        for given in (["dlq", "list"], ["saga", "show", "x"], ["circuit", "reset", "x"]):
            done = await asyncio.to_thread(run, *given, "--admin", here)
            assert (done.exit_code, "not the admin listener [NotAdmin]" in done.stderr) == (2, True)


@pytest.mark.parametrize("given", [[], ["x", "--all"]])
def test_either_an_id_or_all(given: list[str], run: Run) -> None:
    done = run("dlq", "redrive", *given)
    assert (done.exit_code, "give the ID of a letter, or --all" in done.stderr) == (2, True)

"""`weft dlq`, against a gateway with letters that nobody took."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.app.shop import open_shop

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


@pytest.mark.parametrize("given", [[], ["x", "--all"]])
def test_either_an_id_or_all(given: list[str], run: Run) -> None:
    done = run("dlq", "redrive", *given)
    assert (done.exit_code, "give the ID of a letter, or --all" in done.stderr) == (2, True)

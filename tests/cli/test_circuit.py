"""`weft circuit`, against one gateway and against two workers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import orjson

from tests.app.served import program
from tests.app.shop import SQLITE, compositions, open_shop, shop

from .conftest import Run
from .test_saga import typed


async def test_a_circuit_that_opens_is_listed_and_reset_and_can_be_held_open(tmp_path: Path, run: Run) -> None:
    async with open_shop(tmp_path, circuit_store="orders") as (up, gate):
        up.refuses.add("pay")
        for _ in range(2):
            await gate.call("buy")
        head, row = (await typed(run, gate, "circuit", "list")).stdout.splitlines()
        assert head.split() == ["NAME", "STATE", "FAILURES", "PROBE", "IN", "STORE"]
        name, state, failures, seconds, unit, store = row.split()
        assert (name, state, failures, unit, store) == ("payments/card", "open", "0", "s", "orders")
        assert 0 < int(seconds) <= 60
        reset = await typed(run, gate, "circuit", "reset", "payments/card")
        assert (reset.exit_code, "✓ circuit payments/card is closed" in reset.stderr) == (0, True)
        assert reset.stdout.splitlines()[1].split()[1] == "closed"
        held = await typed(run, gate, "circuit", "open", "payments/card")
        assert "payments/card  held open" in held.stdout
        missing = await typed(run, gate, "circuit", "reset", "payments/cart")
        assert (missing.exit_code, "did you mean 'payments/card'?" in missing.stderr) == (2, True)


async def test_a_change_reaches_the_circuits_of_all_workers(tmp_path: Path, run: Run) -> None:
    (tmp_path / "registry.json").write_bytes(orjson.dumps(compositions()))
    async with shop() as up:
        config = {"servers": {"shop": {"url": up.url}}, "stores": SQLITE}
        async with program(tmp_path, config, "--workers", "2") as gate, asyncio.timeout(60):
            await gate.has("buy")

            async def rows(*arguments: str) -> list[dict[str, Any]]:
                where = ("--json", "--admin", f"http://127.0.0.1:{gate.admin_port}")
                told = await asyncio.to_thread(run, "circuit", *arguments, *where)
                return json.loads(told.stdout)["circuits"]

            while len(await rows("list")) < 2:  # noqa: ASYNC110 - it happens in another process
                await asyncio.sleep(0.05)
            opened = await rows("open", "payments/card")
            assert sorted((one["worker"], one["state"]) for one in opened) == [(0, "open"), (1, "open")]
            assert {one["forced"] for one in await rows("list")} == {True}
            for _ in range(8):  # whichever worker is asked
                assert (await gate.call("buy"))["isError"] is True
            assert up.called == []
            assert [one["state"] for one in await rows("reset", "payments/card")] == ["closed", "closed"]
            assert {one["state"] for one in await rows("list")} == {"closed"}
            assert await gate.metric("weft_circuit_transitions_total", circuit="payments/card", to="open") == 2

"""`weft saga`, against a gateway with a saga that is stuck."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from click.testing import Result

from tests.app.served import House
from tests.app.shop import open_shop, stuck

from .conftest import Run, process


async def typed(run: Run, gate: House, *arguments: str) -> Result:
    """Run a command beside the gateway, which lives in this process."""
    return await asyncio.to_thread(run, *arguments, "--admin", f"http://127.0.0.1:{gate.admin_port}")


async def test_a_stuck_saga_is_listed_shown_retried_and_given_up(tmp_path: Path, run: Run) -> None:
    async with open_shop(tmp_path) as (up, gate):
        nothing = await typed(run, gate, "saga", "list")
        assert (nothing.exit_code, nothing.stdout) == (0, "")
        assert "there are no sagas that have not ended" in nothing.stderr
        await stuck(up, gate)
        head, row = (await typed(run, gate, "saga", "list")).stdout.splitlines()
        assert head.split()[:3] == ["REF", "ID", "TOOL"]
        assert "o1" in row
        assert row.endswith("COMPENSATION_FAILED  could not undo 'charge'")
        ref = row.split()[0]
        shown = (await typed(run, gate, "saga", "show", "o1")).stdout
        assert shown.startswith(f"{ref}  o1 of order")
        assert "stuck    could not undo 'charge'" in shown
        assert [line.split()[:2] for line in shown.splitlines()[-3:]] == [
            ["reserve", "COMPENSATED"], ["charge", "COMP_FAILED"], ["ship", "FAILED"],
        ]  # fmt: skip
        retried = await typed(run, gate, "saga", "retry", ref)
        assert (retried.exit_code, f"saga o1 of order goes on; `weft saga show {ref}`" in retried.stderr) == (0, True)
        async with asyncio.timeout(30):
            while "stuck" not in await told_of(run, gate, ref):  # noqa: ASYNC110 - only the command tells
                await asyncio.sleep(0.02)
        given_up = await typed(run, gate, "saga", "abandon", ref, "--reason", "by hand")
        assert given_up.exit_code == 0
        assert "ABANDONED" in given_up.stdout
        assert "given up by hand" in given_up.stdout
        assert "no ship today" in given_up.stdout, "why it failed is still told"
        listed = await typed(run, gate, "saga", "list", "--ended", "--json", "--store", "orders")
        assert [one["status"] for one in json.loads(listed.stdout)["sagas"]] == ["ABANDONED"]


async def told_of(run: Run, gate: House, ref: str) -> dict[str, Any]:
    return json.loads((await typed(run, gate, "saga", "show", ref, "--json")).stdout)


async def test_what_cannot_be_done_is_an_error_with_what_was_meant(tmp_path: Path, run: Run) -> None:
    async with open_shop(tmp_path) as (_, gate):
        await gate.call("order", {"id": "good-1"})
        missing = await typed(run, gate, "saga", "show", "good-2")
        assert missing.exit_code == 2
        assert "Saga not found: good-2 [NotFound]" in missing.stderr
        assert "did you mean 'good-1'?" in missing.stderr
        refused = await typed(run, gate, "saga", "retry", "good-1", "--json")
        assert (refused.exit_code, json.loads(refused.stdout)["error"]["code"]) == (1, "SagaNotStuck")


def test_giving_up_needs_a_reason(run: Run) -> None:
    done = run("saga", "abandon", "o1")
    assert (done.exit_code, "--reason" in done.stderr) == (2, True)


def test_a_gateway_that_is_not_there_ends_with_1_and_no_url_with_2(run: Run) -> None:
    away = run("saga", "list", "--admin", "http://127.0.0.1:9")
    assert (away.exit_code, "--admin names another" in away.stderr) == (1, True)
    wrong = run("saga", "list", "--admin", "here")
    assert (wrong.exit_code, "is not a URL" in wrong.stderr) == (2, True)


async def test_a_record_that_cannot_be_read_is_shown_with_the_reason_beside_the_others(
    tmp_path: Path, run: Run
) -> None:
    async with open_shop(tmp_path) as (up, gate):
        await stuck(up, gate)
        store = gate.running.keeping.stores.find("orders")
        (key,) = [key async for key, _ in store.scan("v1|saga|")]
        await store.set(key, b"{}")
        await stuck(up, gate, id="o2")
        listed = await typed(run, gate, "saga", "list")
        _, good, torn = listed.stdout.splitlines()
        assert (listed.exit_code, "o2" in good) == (0, True)
        assert torn.endswith("UNREADABLE           in store orders: 'head' is missing")
        shown = (await typed(run, gate, "saga", "show", torn.split()[0])).stdout
        assert [line.split(maxsplit=1) for line in shown.splitlines()[-3:]] == [
            ["store", "orders"], ["key", key], ["why", "'head' is missing"],
        ]  # fmt: skip
        refused = await typed(run, gate, "saga", "retry", torn.split()[0])
        assert (refused.exit_code, "[SagaUnreadable]" in refused.stderr) == (1, True)


async def test_a_pipe_gets_no_colours_and_ids_cannot_steer_the_terminal(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as (up, gate):
        await stuck(up, gate, id="o\x1b[2J1")
        where = f"http://127.0.0.1:{gate.admin_port}"
        done = await asyncio.to_thread(process, "saga", "list", "--admin", where, cwd=tmp_path)
        assert (done.returncode, "COMPENSATION_FAILED" in done.stdout) == (0, True)
        assert "\x1b" not in done.stdout + done.stderr

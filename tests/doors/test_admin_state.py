"""The admin listener about state, through a real gateway: sagas, dead letters and circuits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.app.served import PATIENCE, House
from tests.app.shop import SQLITE, admin, open_shop, stuck


async def saga_is(gate: House, which: str, status: str) -> dict[str, Any]:
    """Wait until recovery has brought a saga so far."""
    async with asyncio.timeout(PATIENCE):
        while (told := (await admin(gate, f"/sagas/{which}")).json)["status"] != status:  # noqa: ASYNC110 - seen so only
            await asyncio.sleep(0.02)
    return told


async def test_a_saga_that_gets_stuck_is_listed_shown_and_retried(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as (up, gate):
        assert (await admin(gate, "/sagas")).json == {"sagas": []}
        await stuck(up, gate)
        (row,) = (await admin(gate, "/sagas")).json["sagas"]
        assert (row["id"], row["status"], row["store"]) == ("o1", "COMPENSATION_FAILED", "orders")
        assert row["stuck"] == "could not undo 'charge'"
        shown = (await admin(gate, f"/sagas/{row['ref']}")).json
        assert shown == (await admin(gate, "/sagas/o1")).json
        assert [(one["id"], one["status"]) for one in shown["steps"]] == [
            ("reserve", "COMPENSATED"), ("charge", "COMP_FAILED"), ("ship", "FAILED"),
        ]  # fmt: skip
        up.refuses.clear()
        up.called.clear()
        retried = await admin(gate, f"/sagas/{row['ref']}/retry", post=True)
        assert (retried.status, retried.json["ref"]) == (200, row["ref"])
        await saga_is(gate, "o1", "COMPENSATED")
        assert up.called == ["refund"]
        assert (await admin(gate, "/sagas")).json == {"sagas": []}
        assert [one["id"] for one in (await admin(gate, "/sagas?ended=true")).json["sagas"]] == ["o1"]


async def test_a_saga_that_is_given_up_says_why_to_whoever_asks_again(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as (up, gate):
        await stuck(up, gate)
        wrong: list[Any] = [{}, {"reason": " "}, {"reason": 1}, {"reason": "x" * 2001}, []]
        for body in wrong:
            answer = await admin(gate, "/sagas/o1/abandon", body=body)
            assert (answer.status, answer.json["error"]["code"]) == (400, "InvalidBody")
        assert (await admin(gate, "/sagas/o1/abandon", post=True)).status == 400
        answer = await admin(gate, "/sagas/o1/abandon", body={"reason": "refunded by hand"})
        assert (answer.status, answer.json["status"]) == (200, "ABANDONED")
        up.called.clear()
        again = await gate.call("order", {"id": "o1"})
        assert "was abandoned: refunded by hand" in again["content"][0]["text"]
        assert up.called == []


async def test_what_cannot_be_done_with_a_saga_is_said_clearly(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as (up, gate):
        assert (await gate.call("order", {"id": "good-1"})).get("isError") is not True
        for action, body in (("retry", None), ("abandon", {"reason": "why"})):
            answer = await admin(gate, f"/sagas/good-1/{action}", body=body, post=True)
            assert (answer.status, answer.json["error"]["code"]) == (409, "SagaNotStuck")
        missing = await admin(gate, "/sagas/good-2")
        assert (missing.status, missing.json["error"]["hint"]) == (404, "did you mean 'good-1'?")
        assert (await admin(gate, "/sagas?ended=perhaps")).status == 400
        unknown = await admin(gate, "/sagas?store=order")
        assert (unknown.status, unknown.json["error"]["hint"]) == (404, "did you mean 'orders'?")
        wrong = await admin(gate, "/sagas/good-1/retri", post=True)
        assert (wrong.status, wrong.json["error"]["hint"]) == (404, "did you mean 'retry'?")
        refused = await gate.ask("DELETE", "/sagas/good-1", admin=True)
        assert (refused.status, refused.headers["allow"]) == (405, "GET, POST")
        assert up.called == ["reserve", "charge", "ship"]


async def test_a_saga_that_somebody_works_on_is_left_alone(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as (up, gate):
        up.tools.remove("ship")
        waiting = up.let_go

        async def slowly(method: str, params: dict[str, Any], receive: Any) -> Any:
            if method == "tools/call" and params["name"] == "charge":
                up.called.append("charge")
                await waiting.wait()
            return await type(up)._result(up, method, params, receive)  # pyright: ignore[reportPrivateUsage]

        up._result = slowly  # pyright: ignore[reportPrivateUsage]
        call = asyncio.create_task(gate.call("order", {"id": "slow"}))
        async with asyncio.timeout(PATIENCE):
            while "charge" not in up.called:  # noqa: ASYNC110 - the gateway calls it when it does
                await asyncio.sleep(0.01)
        (row,) = (await admin(gate, "/sagas")).json["sagas"]
        assert (row["status"], row["held"]) == ("RUNNING", True)
        answer = await admin(gate, "/sagas/slow/retry", post=True)
        assert (answer.status, answer.json["error"]["hint"]) == (409, "somebody works on it")
        waiting.set()
        await call


async def test_the_same_saga_in_two_stores_is_told_apart_by_the_store(tmp_path: Path) -> None:
    stores = {**SQLITE, "old": {"type": "sqlite", "path": "./orders.db", "timeout": "5s"}}
    async with open_shop(tmp_path, stores=stores) as (up, gate):
        await stuck(up, gate)
        assert len((await admin(gate, "/sagas")).json["sagas"]) == 2
        assert len((await admin(gate, "/sagas?store=old")).json["sagas"]) == 1
        answer = await admin(gate, "/sagas/o1")
        assert (answer.status, answer.json["error"]["code"]) == (409, "AmbiguousSaga")
        assert (await admin(gate, "/sagas/o1?store=old")).json["store"] == "old"


async def test_a_dead_letter_is_listed_shown_and_sent_again(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as (up, gate):
        up.refuses |= {"book", "failed_bookings"}
        for to in ("Oslo", "Rome"):
            await gate.call("trip", {"to": to, "password": "hunter2"})
        told = (await admin(gate, "/dead-letters?limit=1")).json
        assert (len(told["deadLetters"]), told["total"]) == (1, 2)
        first, second = (await admin(gate, "/dead-letters?tool=trip")).json["deadLetters"]
        assert (first["tool"], first["tries"]) == ("failed_bookings", 1)
        assert "no failed_bookings today" in first["error"]
        assert (await admin(gate, "/dead-letters?tool=failed_bookings")).json["total"] == 2
        assert (await admin(gate, "/dead-letters?tool=other")).json == {"deadLetters": [], "total": 0}
        shown = (await admin(gate, f"/dead-letters/{first['id']}")).json
        assert shown["payload"]["originalInput"]["to"] == "Oslo"
        assert "hunter2" not in str(shown)
        assert (await admin(gate, f"/dead-letters/{first['id'][:12]}")).json == shown
        missing = await admin(gate, f"/dead-letters/{first['id'][:-1]}x")
        assert (missing.status, missing.json["error"]["hint"]) == (404, f"did you mean {first['id']!r}?")
        answer = await admin(gate, f"/dead-letters/{first['id']}/redrive", post=True)
        assert answer.json["redriven"][0]["delivered"] is False
        up.refuses.remove("failed_bookings")
        answer = await admin(gate, f"/dead-letters/{first['id']}/redrive", post=True)
        assert answer.json == {"redriven": [{"id": first["id"], "delivered": True}]}
        answer = await admin(gate, "/dead-letters/redrive", post=True)
        assert answer.json == {"redriven": [{"id": second["id"], "delivered": True}]}
        assert (await admin(gate, "/dead-letters")).json == {"deadLetters": [], "total": 0}
        assert await gate.metric("weft_dead_letters_redriven_total", outcome="delivered") == 2


async def test_an_empty_name_never_means_all(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as (up, gate):
        up.refuses |= {"book", "failed_bookings"}
        await gate.call("trip", {"to": "Oslo"})
        up.refuses.clear()
        up.called.clear()
        for path in ("/dead-letters//redrive", "/sagas//retry", "/sagas//abandon", "/circuits//open"):
            answer = await admin(gate, path, post=True)
            assert (path, answer.status, answer.json["error"]["code"]) == (path, 400, "NoName")
        for path in ("/dead-letters/", "/sagas/", "/circuits/"):
            answer = await admin(gate, path)
            assert (path, answer.status, answer.json["error"]["code"]) == (path, 400, "NoName")
        for path in ("/dead-letters/%2F", "/sagas/%2F", "/circuits/%2F"):
            assert (path, (await admin(gate, path)).status) == (path, 404)
        assert (await admin(gate, "/dead-letters")).json["total"] == 1
        assert up.called == []


@pytest.mark.parametrize("limit", ["-1", "0", "1000000000", "10001", "many", "1e3", ""])
async def test_a_limit_that_is_none_is_refused(tmp_path: Path, limit: str) -> None:
    async with open_shop(tmp_path) as (_, gate):
        answer = await admin(gate, f"/dead-letters?limit={limit}")
        assert (answer.status, answer.json["error"]["code"]) == (400, "InvalidQuery")
        assert "from 1 to 10000" in answer.json["error"]["message"]


@pytest.mark.parametrize("store", [None, "orders"])
async def test_a_circuit_opens_is_listed_and_reset_and_held_open(tmp_path: Path, store: str | None) -> None:
    async with open_shop(tmp_path, circuit_store=store) as (up, gate):
        (closed,) = (await admin(gate, "/circuits")).json["circuits"]
        assert (closed["name"], closed["state"], closed.get("store")) == ("payments/card", "closed", store)
        up.refuses.add("pay")
        for _ in range(2):
            await gate.call("buy")
        (opened,) = (await admin(gate, "/circuits/payments%2Fcard")).json["circuits"]
        assert (opened["state"], 0 < opened["resetSeconds"] <= 60) == ("open", True)
        up.refuses.clear()
        up.called.clear()
        assert (await gate.call("buy"))["isError"] is True
        (reset,) = (await admin(gate, "/circuits/payments%2Fcard/reset", post=True)).json["circuits"]
        assert (reset["state"], reset["failures"]) == ("closed", 0)
        assert (await gate.call("buy")).get("isError") is not True
        assert up.called == ["pay"]
        (held,) = (await admin(gate, "/circuits/payments/card/open", post=True)).json["circuits"]
        assert (held["state"], held["forced"]) == ("open", True)
        assert "An operator holds it open" in (await gate.call("buy"))["content"][0]["text"]
        for path in ("/circuits/payment%2Fcard", "/circuits/payment%2Fcard/reset"):
            missing = await admin(gate, path, post=path.endswith("reset"))
            assert (missing.status, missing.json["error"]["hint"]) == (404, "did you mean 'payments/card'?")


async def test_state_is_for_loopback_names_and_operators_only(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as (_, gate):
        for path in ("/sagas", "/dead-letters", "/circuits"):
            assert (await gate.ask("GET", path)).status == 404
            assert (await gate.ask("GET", path, admin=True, host="evil.example")).status == 421
        posted = await gate.ask("POST", "/circuits/payments/card/open", admin=True, origin="https://evil.example")
        assert posted.status == 403

"""State as operators meet it: what is not well is on /readyz and in the metrics, each event is a line of the log."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.shop import SQLITE, admin, open_shop, stuck
from tests.waiting import until
from weft.errors import StoreError


def lines_of(caplog: pytest.LogCaptureFixture, message: str) -> list[logging.LogRecord]:
    return [one for one in caplog.records if one.name == "weft.state" and one.getMessage() == message]


class Away:
    """A store of which nothing can be had; only closing works."""

    durable, shared = True, True

    def __init__(self, inner: Any) -> None:
        self.name = inner.name
        self.close = inner.close

    def __getattr__(self, name: str) -> Any:
        return self._fails

    async def _fails(self, *_: Any, **__: Any) -> Any:
        raise StoreError(self.name, "the disk is gone")

    async def scan(self, _prefix: str) -> AsyncIterator[Any]:
        yield await self._fails()


async def test_a_stuck_saga_is_on_readyz_and_in_the_metrics_until_somebody_has_seen_to_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with open_shop(tmp_path) as (up, gate):
        assert (await gate.ready())["status"] == "ready"
        await stuck(up, gate)

        async def is_told() -> bool:
            return "sagas" in (await gate.ready())["degraded"]

        await until(is_told)
        told = await gate.ready()
        assert (told["status"], told["problems"]) == ("degraded", ["1 saga is stuck; `weft saga list` has them"])
        assert await gate.metric("weft_sagas_stuck", store="orders") == 1
        assert await gate.metric("weft_sagas_total", status="STUCK") == 1
        assert await gate.metric("weft_state_events_total", event="saga_stuck") == 1
        (line,) = lines_of(caplog, "saga stuck")
        assert line.levelno == logging.WARNING
        assert (await admin(gate, "/sagas/o1/abandon", body={"reason": "by hand"})).status == 200
        (line,) = lines_of(caplog, "saga abandoned")
        assert (line.levelno, line.__dict__["weft_fields"]["reason"]) == (logging.WARNING, "by hand")

        async def is_well() -> bool:
            return (await gate.ready())["status"] == "ready"

        await until(is_well)
        assert await gate.metric("weft_sagas_stuck", store="orders") == 0


async def test_a_store_that_is_away_is_named_on_readyz_and_what_needs_it_says_503(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with open_shop(tmp_path) as (_, gate):
        store: Any = gate.running.keeping.stores.find("orders")
        inner = store.inner
        monkeypatch.setattr(store, "inner", Away(inner))
        for _attempt in range(3):
            answer = await admin(gate, "/sagas")
            assert (answer.status, answer.json["error"]["code"]) == (503, "StoreUnavailable")
        told = await gate.ask("GET", "/readyz")
        assert (told.status, told.json["status"]) == (200, "degraded")
        assert told.json["degraded"] == ["store:orders"]
        assert told.json["problems"] == ["store 'orders' is away"]
        assert await gate.metric("weft_store_away", store="orders") == 1
        assert await gate.metric("weft_store_errors_total", store="orders", code="StoreUnavailable") >= 3
        for path in ("/sagas/o1", "/dead-letters", "/dead-letters/x"):
            assert (await admin(gate, path)).status == 503
        assert (await admin(gate, "/sagas/o1/retry", post=True)).status == 503
        assert [line.levelno for line in lines_of(caplog, "store away")] == [logging.WARNING]
        monkeypatch.setattr(store, "inner", inner)

        async def is_back() -> bool:
            return (await admin(gate, "/sagas")).status == 200

        await until(is_back)
        assert (await gate.ready())["status"] == "ready"
        assert await gate.metric("weft_store_away", store="orders") == 0
        assert len(lines_of(caplog, "store back")) == 1


async def test_a_store_that_answers_and_keeps_nothing_is_on_readyz_with_the_reason_until_it_is_mended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    file = tmp_path / "notes.db"
    file.write_text("these are notes, and no database")
    stores = {"notes": {"type": "sqlite", "path": "./notes.db", "timeout": "5s"}, **SQLITE}
    async with open_shop(tmp_path, stores=stores) as (_, gate):
        told = await gate.ready()
        assert (told["status"], told["degraded"]) == ("degraded", ["store:notes"])
        (problem,) = told["problems"]
        assert problem.startswith(f"store 'notes' answers, and fails: {file}: ")
        assert await gate.metric("weft_store_failing", store="notes") == 1
        assert await gate.metric("weft_store_away", store="notes") == 0
        store = gate.running.keeping.stores.find("notes")
        for _attempt in range(10):
            with pytest.raises(StoreError):
                await store.set("key", b"1")
        (line,) = lines_of(caplog, "store failing")
        assert (line.levelno, line.__dict__["weft_fields"]["code"]) == (logging.WARNING, "StoreCorrupt")
        file.unlink()
        await store.set("key", b"1")
        assert (await gate.ready())["status"] == "ready"
        assert await gate.metric("weft_store_failing", store="notes") == 0
        assert [one.levelno for one in lines_of(caplog, "store working")] == [logging.INFO]


async def test_what_is_in_other_stores_can_be_seen_and_mended_while_one_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = {"bad": {"type": "sqlite", "path": "./bad.db", "timeout": "5s"}, **SQLITE}
    async with open_shop(tmp_path, stores=stores) as (up, gate):
        await stuck(up, gate)
        store: Any = gate.running.keeping.stores.find("bad")
        monkeypatch.setattr(store, "inner", Away(store.inner))
        told = (await admin(gate, "/sagas")).json
        assert [one["id"] for one in told["sagas"]] == ["o1"]
        assert told["away"] == {"bad": "Store 'bad': the disk is gone"}
        assert (await admin(gate, "/sagas/o1")).status == 200
        # It may be in the store that is away: nobody can say that it is not there.
        assert (await admin(gate, "/sagas/o2")).status == 503
        assert (await admin(gate, "/sagas/o2?store=orders")).status == 404
        assert (await admin(gate, "/sagas/o1/abandon", body={"reason": "by hand"})).status == 200


async def test_a_record_that_cannot_be_read_is_listed_beside_the_others(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as (up, gate):
        await stuck(up, gate)
        store = gate.running.keeping.stores.find("orders")
        (key,) = [key async for key, _ in store.scan("v1|saga|")]
        await store.set(key, b"{}")
        await stuck(up, gate, "o2")
        good, torn = (await admin(gate, "/sagas")).json["sagas"]
        assert (good["id"], good["status"]) == ("o2", "COMPENSATION_FAILED")
        assert (torn["status"], torn["unreadable"]) == ("UNREADABLE", "'head' is missing")
        assert (torn["store"], torn["tenant"]) == ("orders", good["tenant"])
        shown = (await admin(gate, f"/sagas/{torn['ref']}")).json
        assert (shown["status"], shown["key"]) == ("UNREADABLE", key)
        refused = await admin(gate, f"/sagas/{torn['ref']}/retry", post=True)
        assert (refused.status, refused.json["error"]["code"]) == (409, "SagaUnreadable")
        assert (await admin(gate, "/sagas/o2/abandon", body={"reason": "by hand"})).status == 200


async def test_a_letter_that_cannot_be_read_is_listed_beside_the_others(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as (up, gate):
        up.refuses |= {"book", "failed_bookings"}
        for to in ("Oslo", "Rome"):
            await gate.call("trip", {"to": to})
        store = gate.running.keeping.stores.find("orders")
        key = min([key async for key, _ in store.scan("v1|deadLetter|")])
        await store.set(key, b"\xff")
        told = (await admin(gate, "/dead-letters?tool=trip")).json
        good, torn = told["deadLetters"]
        assert (told["total"], good["tool"], good["store"]) == (2, "failed_bookings", "orders")
        assert (torn["id"], torn["store"]) == (key.rpartition("|")[2], "orders")
        assert "not JSON" in torn["unreadable"]
        assert (await admin(gate, f"/dead-letters/{torn['id']}")).json == torn
        up.refuses.clear()
        done = (await admin(gate, "/dead-letters/redrive", post=True)).json["redriven"]
        assert [(one["id"], one["delivered"]) for one in done] == [(good["id"], True), (torn["id"], False)]


async def test_an_open_circuit_is_a_gauge_and_a_line_of_the_log_but_no_reason_to_be_degraded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with open_shop(tmp_path) as (up, gate):
        up.refuses.add("pay")
        for _ in range(3):
            await gate.call("buy")

        async def is_open() -> bool:
            return await gate.metric("weft_circuit_open", circuit="payments/card") == 1

        await until(is_open)
        assert await gate.metric("weft_circuit_refused_total", circuit="payments/card") == 1
        assert await gate.metric("weft_circuit_transitions_total", circuit="payments/card", to="open") == 1
        assert (await gate.ready())["status"] == "ready"
        (line,) = lines_of(caplog, "circuit opened")
        assert line.levelno == logging.WARNING

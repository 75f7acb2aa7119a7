"""State over the life of a gateway: what it does when it starts, what a reload changes, what several workers see."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.app.served import PATIENCE, House, Program, house, pipeline, program, registry, replace
from tests.app.shop import SQLITE, Shop, admin, compositions, open_shop, opened, shop, stuck, tool
from tests.app.test_kept import lines_of
from tests.waiting import until
from weft.app.awaited import Awaited
from weft.app.stores import Stores
from weft.config import load_config
from weft.doors.asgi import Receive
from weft.ir.document import Document
from weft.run.journal import Sagas

MEMORY = {"orders": {"type": "memory"}}


class Late(Shop):
    """A shop that answers nobody until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = asyncio.Event()

    async def _result(self, method: str, params: dict[str, Any], receive: Receive) -> dict[str, Any] | None:
        await self.opened.wait()
        return await super()._result(method, params, receive)


async def interrupted(folder: Path) -> None:
    """Leave a saga behind that is to be undone, and nobody works on."""
    async with open_shop(folder) as (up, gate):
        await stuck(up, gate)
    stores = Stores(load_config(folder / "weft.yaml", {}).stores)
    await stores.open()
    await Sagas([stores.find("orders")]).retry("o1")
    await stores.close()


@contextlib.asynccontextmanager
async def late_shop(folder: Path, **server: Any) -> AsyncGenerator[tuple[Late, House]]:
    """Start a gateway whose server is slow."""
    async with opened(Late()) as up:
        config = {"servers": {"shop": {"url": up.url, **server}}, "stores": SQLITE}
        async with house(folder, config, compositions()) as gate:
            yield up, gate
            up.opened.set()


async def saga(gate: House | Program, which: str = "o1") -> dict[str, Any]:
    return (await admin(gate, f"/sagas/{which}")).json


async def test_a_gateway_that_starts_finishes_sagas_when_its_servers_are_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await interrupted(tmp_path)
    async with late_shop(tmp_path) as (up, gate):
        for _ in range(20):  # It serves, and recovery had every opportunity.
            assert (await gate.ask("GET", "/healthz")).status == 200
            assert (await saga(gate))["status"] == "COMPENSATING"
        assert lines_of(caplog, "saga recovered") == []
        up.opened.set()

        async def is_undone() -> bool:
            return (await saga(gate))["status"] == "COMPENSATED"

        await until(is_undone)
        assert up.called == ["refund"]


async def test_a_server_that_does_not_come_holds_recovery_up_no_longer_than_its_start_limit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await interrupted(tmp_path)
    async with late_shop(tmp_path, startTimeout="200ms") as (_, gate):

        async def waits() -> bool:
            return bool(lines_of(caplog, "saga waiting"))

        await until(waits)
        (line,) = lines_of(caplog, "saga waiting")
        assert line.__dict__["weft_fields"]["step"] == "charge"
        told = await saga(gate)
        assert (told["status"], "stuck" in told) == ("COMPENSATING", False)


def volatile(*more: dict[str, Any]) -> dict[str, Any]:
    """Return the shop's registry, with sagas that may be lost."""
    told = compositions()
    told["tools"][0]["spec"]["saga"]["allowVolatile"] = True
    return {**told, "tools": [*told["tools"], *more]}


async def test_sagas_in_memory_are_listed_and_finished_as_long_as_the_process_lives(tmp_path: Path) -> None:
    async with shop() as up:
        config = {"servers": {"shop": {"url": up.url}}, "stores": MEMORY}
        async with house(tmp_path, config, volatile()) as gate:
            await gate.has("order")
            await stuck(up, gate)
            (row,) = (await admin(gate, "/sagas")).json["sagas"]
            assert (row["id"], row["store"], row["status"]) == ("o1", "orders", "COMPENSATION_FAILED")
            up.refuses.clear()
            assert (await admin(gate, "/sagas/o1/retry", post=True)).status == 200

            async def is_undone() -> bool:
                return (await saga(gate))["status"] == "COMPENSATED"

            await until(is_undone)


async def test_each_worker_has_memory_of_its_own_which_is_told_at_the_start_and_sagas_in_it_are_all_listed(
    tmp_path: Path,
) -> None:
    kept = {"idempotent": {"keyPaths": ["$.id"], "inner": tool("pay")}}
    rate = {"throttle": {"rate": 5, "window": "1s", "inner": kept, "store": "orders"}}
    found = volatile({"name": "once", "description": "Once.", "spec": rate})
    (tmp_path / "registry.json").write_bytes(orjson.dumps(found))
    async with shop() as up:
        config = {"servers": {"shop": {"url": up.url}}, "stores": MEMORY}
        async with program(tmp_path, config, "--workers", "2") as gate:
            up.refuses |= {"ship", "refund"}
            ids: list[str] = []
            rows: list[dict[str, Any]] = []
            async with asyncio.timeout(PATIENCE):
                # Until the worker that operators do not reach has got one, too.
                while len(ids) < 4 or not any("worker" in row for row in rows):
                    ids.append(f"o{len(ids)}")
                    assert (await gate.call("order", {"id": ids[-1]}))["isError"] is True
                    rows = (await admin(gate, "/sagas")).json["sagas"]
            assert sorted(row["id"] for row in rows) == sorted(ids)
            for id in ids:
                assert (await saga(gate, id))["id"] == id
                assert (await admin(gate, f"/sagas/{id}/abandon", body={"reason": "why"})).status == 200
            again = await admin(gate, "/sagas/o3/retry", post=True)
            assert (again.status, again.json["error"]["code"]) == (409, "SagaNotStuck")
            assert (await admin(gate, "/sagas/none")).status == 404
            about = [line for line in gate.said if "each of the 2 workers has one of its own" in line]
            assert len(about) == 2, "once for each store"
            assert any("'default'" in line and "idempotent in 'once'" in line for line in about)
            assert any("'orders'" in line and "saga in 'order', throttle in 'once'" in line for line in about)


async def test_letters_are_sent_within_the_limits_of_the_last_reload(tmp_path: Path) -> None:
    async with shop() as up:
        config: dict[str, Any] = {"servers": {"shop": {"url": up.url}}, "stores": SQLITE}
        told = compositions()
        told["tools"][1]["spec"]["deadLetter"]["deadLetterTool"] = "file"
        found = registry(*told["tools"], pipeline("file", "failed_bookings", "failed_bookings"))
        async with house(tmp_path, config, found) as gate:
            await gate.has("trip")
            up.refuses |= {"book", "failed_bookings"}
            await gate.call("trip", {"to": "Oslo"})
            up.refuses.clear()
            replace(gate.config, yaml.safe_dump({**config, "limits": {"calls": 1}}))
            assert (await admin(gate, "/reload", post=True)).json["problems"] == []
            (one,) = (await admin(gate, "/dead-letters/redrive", post=True)).json["redriven"]
            assert (one["delivered"], "calls" in one.get("error", "").lower()) == (False, True)


async def test_what_is_known_of_servers_that_may_come(tmp_path: Path) -> None:
    document = Document.model_validate(compositions())
    named = Document.model_validate(registry({"name": "it", "spec": {"tool": {"name": "x", "server": "shop"}}}))
    other = Document.model_validate(registry({"name": "it", "spec": {"tool": {"name": "x", "server": "bank"}}}))
    async with late_shop(tmp_path, startTimeout="100ms") as (up, gate):
        servers = Awaited(gate.running.gateway)
        await servers.ready()
        assert [servers.unheard(one) for one in (document, named, other)] == [True, True, False]
        assert (servers.may_come("shop"), servers.may_come("refund")) == (True, True), "a tool of any that never came"
        up.opened.set()
        await gate.has("reserve")
        assert [servers.unheard(one) for one in (document, named, other)] == [False, False, False]
        assert (servers.may_come("shop"), servers.may_come("refund")) == (True, False)

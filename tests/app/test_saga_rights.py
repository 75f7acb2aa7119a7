"""A registry that changes undoes no saga: what its composition may call is what it said when the saga began."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.app.served import House, house, replace
from tests.app.shop import SQLITE, Shop, admin, compositions, opened, shop, tool
from tests.waiting import until
from weft.app.stores import Stores
from weft.config import load_config
from weft.doors.asgi import Receive
from weft.run.journal import Sagas

pytestmark = pytest.mark.req("STA-44")
DENIED = {"policy": [{"name": "stop", "effect": "deny", "tools": ["order"]}]}


class Held(Shop):
    """A shop that charges when somebody says so."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()

    async def _result(self, method: str, params: dict[str, Any], receive: Receive) -> dict[str, Any] | None:
        result = await super()._result(method, params, receive)
        if method == "tools/call" and params["name"] == "charge":
            await self.go.wait()
        return result


def orders(*names: str, pivot: str = "") -> dict[str, Any]:
    """Return a registry whose orders are these steps."""
    undo = {"reserve": "release", "charge": "refund"}
    steps = [
        {"id": name, "action": tool(name), "pivot": name == pivot}
        | ({"compensate": tool(undo[name])} if name in undo else {})
        for name in names
    ]
    told = compositions()
    told["tools"][0]["spec"]["saga"]["steps"] = steps
    return told


async def status(gate: House) -> str:
    return (await admin(gate, "/sagas/o1")).json["status"]


async def test_a_reload_in_the_middle_of_a_saga_takes_nothing_from_it(tmp_path: Path) -> None:
    async with opened(Held()) as up:
        config = {"servers": {"shop": {"url": up.url}}, "stores": SQLITE}
        async with house(tmp_path, config, orders("reserve", "charge", "ship")) as gate:
            await gate.has("order")
            call = asyncio.create_task(gate.call("order", {"id": "o1"}))

            async def is_charging() -> bool:
                return "charge" in up.called

            await until(is_charging)
            replace(gate.registry, json.dumps(orders("reserve", "charge", "pay")))
            assert (await admin(gate, "/reload", post=True)).status == 200
            up.go.set()
            assert (await call).get("isError") is not True
            assert up.called == ["reserve", "charge", "ship"]
            assert await status(gate) == "COMPLETED"


async def begun(folder: Path, url: str, up: Shop) -> None:
    """Leave a saga behind that only has to be shipped, and that nobody works on."""
    up.refuses |= {"ship"}
    config = {"servers": {"shop": {"url": url}}, "stores": SQLITE}
    async with house(folder, config, orders("reserve", "charge", "ship", pivot="charge")) as gate:
        await gate.has("order")
        assert (await gate.call("order", {"id": "o1"}))["isError"] is True
    up.refuses.clear()
    up.called.clear()
    stores = Stores(load_config(folder / "weft.yaml", {}).stores)
    await stores.open()
    await Sagas([stores.find("orders")]).retry("o1")
    await stores.close()


async def test_a_saga_is_finished_under_a_registry_that_has_changed(tmp_path: Path) -> None:
    async with shop() as up:
        await begun(tmp_path, up.url, up)
        config = {"servers": {"shop": {"url": up.url}}, "stores": SQLITE}
        async with house(tmp_path, config, orders("reserve", "pay")) as gate:

            async def is_done() -> bool:
                return await status(gate) == "COMPLETED"

            await until(is_done)
            assert up.called == ["ship"]


async def test_a_caller_who_may_not_place_orders_any_more_has_no_forward_steps_done(tmp_path: Path) -> None:
    async with shop() as up:
        await begun(tmp_path, up.url, up)
        config = {"servers": {"shop": {"url": up.url}}, "stores": SQLITE, **DENIED}
        async with house(tmp_path, config, orders("reserve", "charge", "ship", pivot="charge")) as gate:

            async def is_stuck() -> bool:
                return "may not be called for this caller" in (await admin(gate, "/sagas/o1")).json.get("stuck", "")

            await until(is_stuck)
            assert up.called == []

"""The demo's orders: done, undone in reverse, and finished by another gateway than the one that was killed."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from weft.cli.remote import Remote, connected
from weft.config import Config
from weft.demo.gateway import FOLDER, ORDER_SERVERS, demo_settings, served
from weft.demo.orders import Shop, second_gateway
from weft.upstreams.client import McpClient

STEPS = ["reserve_inventory", "charge_payment", "ship_order"]
UNDONE = ["undo_charge_payment", "undo_reserve_inventory"]


def settings(folder: Path) -> Config:
    """Return the settings of the demo with the order servers only."""
    written = demo_settings(folder)
    written["servers"] = {key: written["servers"][key] for key in ORDER_SERVERS}
    return Config.model_validate(written, context=FOLDER)


def connect(url: str) -> AbstractAsyncContextManager[McpClient]:
    return connected(Remote(url, None, ()))


@pytest.mark.req("REG-59", "STA-41", "STA-47")
async def test_an_order_is_done_or_undone_in_reverse(tmp_path: Path):
    async with served(settings(tmp_path)) as one, connect(one.url) as client:
        await one.gateway.gateway.ready()
        shop = Shop(one, client, connect)
        well, refused = await shop.well(), await shop.refused()
        assert refused.trace_id is not None
        (call,) = await one.gateway.trace(refused.trace_id)
    assert well.result == {"order_id": "o1", "reservation_id": "R-1", "charge_id": "C-1", "shipment_id": "S-1"}
    assert (well.saga["status"], well.steps) == ("COMPLETED", dict.fromkeys(STEPS, "DONE"))
    assert [item["available"] for item in well.left["stock"]] == [3]

    assert refused.error is not None
    assert refused.error.startswith("Saga step 'Ship Order' failed, compensation required: ")
    assert "the drivers are on strike" in refused.error
    assert refused.steps == dict(zip(STEPS, ["COMPENSATED", "COMPENSATED", "FAILED"], strict=True))
    assert [span["step"] for span in call["spans"]["children"]] == [*STEPS, *UNDONE]
    assert [item["available"] for item in refused.left["stock"]] == [3], "what was reserved is back"
    assert [charge["status"] for charge in refused.left["charges"]] == ["refunded"]
    assert refused.left["shipments"] == []


@pytest.mark.req("REG-59", "STA-44")
async def test_an_order_outlives_the_gateway_that_began_it(tmp_path: Path):
    async with served(settings(tmp_path)) as one, second_gateway(tmp_path) as second, connect(one.url) as client:
        await one.gateway.gateway.ready()
        done = await Shop(one, client, connect).cut_off(second)
    assert done.killed is not None
    assert [step["status"] for step in done.killed["steps"]] == ["DONE", "DONE", "STARTED"]
    assert done.result == {"order_id": "o3", "reservation_id": "R-1", "charge_id": "C-1", "shipment_id": "S-1"}
    assert done.steps == dict.fromkeys(STEPS, "DONE")
    assert [step["attempt"] for step in done.saga["steps"]] == [1, 1, 2], "only what was cut off was done again"
    assert [len(done.left[kind]) for kind in ("charges", "shipments")] == [1, 1], "and nothing twice"
    assert [item["available"] for item in done.left["stock"]] == [3]

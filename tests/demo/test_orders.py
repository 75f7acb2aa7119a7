"""The demo's order servers: each change is done once under a key, and can be undone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from weft.demo.inventory import Inventory
from weft.demo.payment import Payment
from weft.demo.shelf import MEMORY
from weft.demo.shipping import Shipping
from weft.errors import ToolFailed


def left(inventory: Inventory, sku: str = "HIVE-1") -> int:
    return inventory.inventory_stock(sku)[0]["available"]


def test_what_is_reserved_is_no_longer_available_until_it_is_released():
    inventory = Inventory(MEMORY)
    before = left(inventory)
    made = inventory.inventory_reserve("o1", "HIVE-1", 2)
    assert (made["status"], left(inventory)) == ("reserved", before - 2)
    for _ in range(2):
        assert inventory.inventory_release(made["reservation_id"])["status"] == "released"
        assert left(inventory) == before


@pytest.mark.parametrize(
    ("sku", "quantity", "told"), [("HIVE-1", 99, "only 4"), ("HOTEL-S", 1, "only 0"), ("X", 1, "there is no")]
)
def test_what_is_not_there_cannot_be_reserved(sku: str, quantity: int, told: str):
    inventory = Inventory(MEMORY)
    with pytest.raises(ToolFailed, match=told):
        inventory.inventory_reserve("o1", sku, quantity)
    assert left(inventory) == 4


async def test_a_key_makes_a_change_once():
    inventory, payment, shipping = Inventory(MEMORY), Payment(MEMORY), Shipping(MEMORY)
    first = inventory.inventory_reserve("o1", "HIVE-1", 1, idempotency_key="k")
    assert inventory.inventory_reserve("o1", "HIVE-1", 1, idempotency_key="k") == first
    assert left(inventory) == 3
    assert payment.payment_charge("o1", 9, idempotency_key="k") == payment.payment_charge("o1", 9, idempotency_key="k")
    assert len(payment.payment_charges()) == 1
    shipped = await shipping.shipping_create("o1", "Main St", idempotency_key="k")
    assert await shipping.shipping_create("o1", "Main St", idempotency_key="k") == shipped
    assert len(shipping.shipping_list("o1")) == 1


def test_a_key_with_other_arguments_is_refused():
    payment = Payment(MEMORY)
    payment.payment_charge("o1", 9, idempotency_key="k")
    with pytest.raises(ToolFailed, match="used before with other arguments"):
        payment.payment_charge("o1", 10, idempotency_key="k")
    assert [one["amount"] for one in payment.payment_charges()] == [9]


async def test_a_change_that_failed_may_be_tried_again_under_its_key():
    shipping = Shipping(MEMORY)
    shipping.shipping_refuse(True, "snow")
    with pytest.raises(ToolFailed, match="takes no parcels: snow"):
        await shipping.shipping_create("o1", "Main St", idempotency_key="k")
    shipping.shipping_refuse(False)
    assert (await shipping.shipping_create("o1", "Main St", idempotency_key="k"))["status"] == "shipped"


async def test_charges_and_shipments_can_be_undone_twice():
    payment, shipping = Payment(MEMORY), Shipping(MEMORY)
    charge, parcel = payment.payment_charge("o1", 9), await shipping.shipping_create("o1", "Main St")
    for _ in range(2):
        assert payment.payment_refund(charge["charge_id"])["status"] == "refunded"
        assert shipping.shipping_cancel(parcel["shipment_id"])["status"] == "cancelled"
    assert payment.payment_charges("o1")[0]["status"] == "refunded"


async def test_a_parcel_that_waits_is_taken_when_another_process_lets_it_go(tmp_path: Path):
    here, there = Shipping(str(tmp_path / "shipping.db")), Shipping(str(tmp_path / "shipping.db"))
    assert here.shipping_hold(True) == {"waits": True}
    sending = asyncio.create_task(here.shipping_create("o1", "Main St"))
    await asyncio.sleep(0)
    assert (sending.done(), there.shipping_list()) == (False, [])
    there.shipping_hold(False)
    assert [await sending] == there.shipping_list()


def test_what_is_not_known_cannot_be_undone():
    with pytest.raises(ToolFailed, match="no charge"):
        Payment(MEMORY).payment_refund("C-9")
    with pytest.raises(ToolFailed, match="no shipment"):
        Shipping(MEMORY).shipping_cancel("S-9")
    with pytest.raises(ToolFailed, match="no reservation"):
        Inventory(MEMORY).inventory_release("R-9")
    with pytest.raises(ToolFailed, match="declined"):
        Payment(MEMORY).payment_charge("o1", 6000)


def test_two_servers_share_what_stands_in_one_file(tmp_path: Path):
    file = str(tmp_path / "orders.db")
    here, there = Inventory(file), Inventory(file)
    here.inventory_reserve("o1", "HIVE-1", 3)
    assert left(there) == 1
    assert there.inventory_reserve("o2", "HIVE-1", 1)["reservation_id"] == "R-2"

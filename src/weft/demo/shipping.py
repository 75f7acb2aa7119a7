"""shipping: parcels for orders; it refuses them, or keeps them waiting, when it is told to."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal, TypedDict

from pydantic import Field

from weft.demo.ledger import Key, Ledger, OrderId
from weft.demo.serving import Tools, adds, reads, serve, undoes
from weft.errors import ToolFailed

TABLES = """
CREATE TABLE IF NOT EXISTS shipments (
    id TEXT PRIMARY KEY, order_id TEXT NOT NULL, address TEXT NOT NULL, status TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS strike (reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS queue (since TEXT NOT NULL);
"""
LOOK = 0.05


class Shipment(TypedDict):
    """A parcel on its way, or one that was called back."""

    shipment_id: str
    order_id: str
    address: str
    status: Literal["shipped", "cancelled"]


class Willingness(TypedDict):
    """Whether parcels are taken."""

    refuses: bool
    reason: str


class Queue(TypedDict):
    """Whether parcels wait."""

    waits: bool


class Shipping:
    """The tools of the carrier."""

    def __init__(self, data: str) -> None:
        self._ledger = Ledger(data, TABLES)

    def shipping_list(
        self, order_id: Annotated[str, Field(description="Only of this order; empty for all.")] = ""
    ) -> list[Shipment]:
        """Return the parcels that were taken."""
        rows = self._ledger.db.execute("SELECT * FROM shipments WHERE ? IN ('', order_id) ORDER BY rowid", (order_id,))
        return [_shipment(row) for row in rows]

    async def shipping_create(
        self,
        order_id: OrderId,
        address: Annotated[str, Field(description="Where to.", min_length=1)],
        idempotency_key: Key = None,
    ) -> Shipment:
        """Send an order to an address; fails while `shipping_refuse` is on, waits while `shipping_hold` is.

        shipping_cancel undoes it.
        """
        while self._is_held():  # noqa: ASYNC110 - the file is all that it shares with who may let it go
            await asyncio.sleep(LOOK)

        def ship() -> Shipment:
            strike = self._ledger.db.execute("SELECT reason FROM strike").fetchone()
            if strike is not None:
                raise ToolFailed("shipping_create", f"the carrier takes no parcels: {strike[0]}")
            row = (self._ledger.number("shipments", "S"), order_id, address, "shipped")
            self._ledger.db.execute("INSERT INTO shipments VALUES (?,?,?,?)", row)
            return _shipment(row)

        return self._ledger.once("shipping_create", idempotency_key, {"order_id": order_id, "address": address}, ship)

    def _is_held(self) -> bool:
        return self._ledger.db.execute("SELECT 1 FROM queue").fetchone() is not None

    def shipping_cancel(self, shipment_id: str, idempotency_key: Key = None) -> Shipment:
        """Call a parcel back; cancelling twice is as good as once."""

        def cancel() -> Shipment:
            row = self._ledger.db.execute("SELECT * FROM shipments WHERE id = ?", (shipment_id,)).fetchone()
            if row is None:
                raise ToolFailed("shipping_cancel", f"there is no shipment {shipment_id!r}")
            self._ledger.db.execute("UPDATE shipments SET status = 'cancelled' WHERE id = ?", (shipment_id,))
            return _shipment((*row[:3], "cancelled"))

        return self._ledger.once("shipping_cancel", idempotency_key, {"shipment_id": shipment_id}, cancel)

    def shipping_refuse(self, refuse: bool, reason: str = "the drivers are on strike") -> Willingness:
        """Make the carrier refuse every new parcel, or take them again; for demonstrations and tests."""
        self._ledger.db.execute("DELETE FROM strike")
        if refuse:
            self._ledger.db.execute("INSERT INTO strike VALUES (?)", (reason,))
        return {"refuses": refuse, "reason": reason if refuse else ""}

    def shipping_hold(self, hold: bool) -> Queue:
        """Make every new parcel wait, or let all go on; for demonstrations and tests."""
        self._ledger.db.execute("DELETE FROM queue")
        if hold:
            self._ledger.db.execute("INSERT INTO queue VALUES (datetime('now'))")
        return {"waits": hold}


def _shipment(row: tuple[str, str, str, Literal["shipped", "cancelled"]]) -> Shipment:
    return {"shipment_id": row[0], "order_id": row[1], "address": row[2], "status": row[3]}


def tools(data: str) -> Tools:
    """Return the tools over a data file."""
    shipping = Shipping(data)
    return [
        reads(shipping.shipping_list),
        adds(shipping.shipping_create),
        undoes(shipping.shipping_cancel),
        undoes(shipping.shipping_refuse),
        undoes(shipping.shipping_hold),
    ]


def main() -> None:
    """Serve them."""
    serve("shipping", "Parcels for orders.", tools)


if __name__ == "__main__":
    main()

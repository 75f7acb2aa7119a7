"""inventory: what is in stock, and what is reserved for orders."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from pydantic import Field

from weft.demo.ledger import Key, Ledger, OrderId
from weft.demo.serving import Tools, adds, reads, serve, undoes
from weft.errors import ToolFailed

TABLES = """
CREATE TABLE IF NOT EXISTS stock (
    sku TEXT PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, available INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS reservations (
    id TEXT PRIMARY KEY, order_id TEXT NOT NULL, sku TEXT NOT NULL, quantity INTEGER NOT NULL, status TEXT NOT NULL
);
INSERT OR IGNORE INTO stock VALUES
    ('HIVE-1', 'Beehive, ten frames', 189.0, 4), ('SEED-MEADOW', 'Meadow seed, one kilo', 24.5, 120),
    ('LAMP-2200', 'Garden lamp, 2200 kelvin', 59.0, 30), ('BARREL-200', 'Rain barrel, 200 litres', 79.0, 9),
    ('HOTEL-S', 'Insect hotel, small', 19.9, 0);
"""


class Item(TypedDict):
    """A thing in stock."""

    sku: str
    name: str
    price: float
    available: int


class Reservation(TypedDict):
    """Things put aside for an order."""

    reservation_id: str
    order_id: str
    sku: str
    quantity: int
    status: Literal["reserved", "released"]


class Inventory:
    """The tools of the warehouse."""

    def __init__(self, data: str) -> None:
        self._ledger = Ledger(data, TABLES)

    def inventory_stock(
        self, sku: Annotated[str, Field(description="Only this; empty for everything.")] = ""
    ) -> list[Item]:
        """Return what is in stock, with prices and how many are available."""
        rows = self._ledger.db.execute(
            "SELECT sku, name, price, available FROM stock WHERE ? IN ('', sku) ORDER BY sku", (sku,)
        )
        return [{"sku": row[0], "name": row[1], "price": row[2], "available": row[3]} for row in rows]

    def inventory_reserve(
        self,
        order_id: OrderId,
        sku: Annotated[str, Field(description="What, such as HIVE-1.")],
        quantity: Annotated[int, Field(ge=1)] = 1,
        idempotency_key: Key = None,
    ) -> Reservation:
        """Put things aside for an order; fails when there are too few. inventory_release undoes it."""
        given = {"order_id": order_id, "sku": sku, "quantity": quantity}

        def reserve() -> Reservation:
            self._take(sku, quantity)
            id_ = self._ledger.number("reservations", "R")
            row = (id_, order_id, sku, quantity, "reserved")
            self._ledger.db.execute("INSERT INTO reservations VALUES (?,?,?,?,?)", row)
            return _reservation(row)

        return self._ledger.once("inventory_reserve", idempotency_key, given, reserve)

    def inventory_release(self, reservation_id: str, idempotency_key: Key = None) -> Reservation:
        """Put reserved things back; releasing twice is as good as once."""

        def release() -> Reservation:
            row = self._ledger.db.execute("SELECT * FROM reservations WHERE id = ?", (reservation_id,)).fetchone()
            if row is None:
                raise ToolFailed("inventory_release", f"there is no reservation {reservation_id!r}")
            if row[4] == "reserved":
                self._ledger.db.execute("UPDATE reservations SET status = 'released' WHERE id = ?", (reservation_id,))
                self._ledger.db.execute("UPDATE stock SET available = available + ? WHERE sku = ?", (row[3], row[2]))
            return _reservation((*row[:4], "released"))

        return self._ledger.once("inventory_release", idempotency_key, {"reservation_id": reservation_id}, release)

    def _take(self, sku: str, quantity: int) -> None:
        row = self._ledger.db.execute("SELECT available FROM stock WHERE sku = ?", (sku,)).fetchone()
        if row is None:
            raise ToolFailed("inventory_reserve", f"there is no {sku!r}; inventory_stock lists what there is")
        if row[0] < quantity:
            raise ToolFailed("inventory_reserve", f"only {row[0]} of {sku} are available, not {quantity}")
        self._ledger.db.execute("UPDATE stock SET available = available - ? WHERE sku = ?", (quantity, sku))


def _reservation(row: tuple[str, str, str, int, Literal["reserved", "released"]]) -> Reservation:
    return {"reservation_id": row[0], "order_id": row[1], "sku": row[2], "quantity": row[3], "status": row[4]}


def tools(data: str) -> Tools:
    """Return the tools over a data file."""
    inventory = Inventory(data)
    return [reads(inventory.inventory_stock), adds(inventory.inventory_reserve), undoes(inventory.inventory_release)]


def main() -> None:
    """Serve them."""
    serve("inventory", "What is in stock, and what is reserved.", tools)


if __name__ == "__main__":
    main()

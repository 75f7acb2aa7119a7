"""payment: charges and refunds; no money moves."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from pydantic import Field

from weft.demo.ledger import Key, Ledger, OrderId
from weft.demo.serving import Tools, adds, reads, serve, undoes
from weft.errors import ToolFailed

MOST = 5000.0
TABLES = """
CREATE TABLE IF NOT EXISTS charges (
    id TEXT PRIMARY KEY, order_id TEXT NOT NULL, amount REAL NOT NULL, currency TEXT NOT NULL, status TEXT NOT NULL
);
"""


class Charge(TypedDict):
    """Money taken, or given back."""

    charge_id: str
    order_id: str
    amount: float
    currency: str
    status: Literal["charged", "refunded"]


class Payment:
    """The tools of the till."""

    def __init__(self, data: str) -> None:
        self._ledger = Ledger(data, TABLES)

    def payment_charges(
        self, order_id: Annotated[str, Field(description="Only of this order; empty for all.")] = ""
    ) -> list[Charge]:
        """Return the charges that were made."""
        rows = self._ledger.db.execute("SELECT * FROM charges WHERE ? IN ('', order_id) ORDER BY rowid", (order_id,))
        return [_charge(row) for row in rows]

    def payment_charge(
        self,
        order_id: OrderId,
        amount: Annotated[float, Field(description="How much; over 5000 is declined.", gt=0)],
        currency: Literal["EUR", "USD"] = "EUR",
        idempotency_key: Key = None,
    ) -> Charge:
        """Charge an amount for an order. payment_refund undoes it."""
        given = {"order_id": order_id, "amount": amount, "currency": currency}

        def charge() -> Charge:
            if amount > MOST:
                raise ToolFailed("payment_charge", f"the card is declined: {amount} {currency} is over its limit")
            row = (self._ledger.number("charges", "C"), order_id, amount, currency, "charged")
            self._ledger.db.execute("INSERT INTO charges VALUES (?,?,?,?,?)", row)
            return _charge(row)

        return self._ledger.once("payment_charge", idempotency_key, given, charge)

    def payment_refund(self, charge_id: str, idempotency_key: Key = None) -> Charge:
        """Give the whole amount of a charge back; refunding twice is as good as once."""

        def refund() -> Charge:
            row = self._ledger.db.execute("SELECT * FROM charges WHERE id = ?", (charge_id,)).fetchone()
            if row is None:
                raise ToolFailed("payment_refund", f"there is no charge {charge_id!r}")
            self._ledger.db.execute("UPDATE charges SET status = 'refunded' WHERE id = ?", (charge_id,))
            return _charge((*row[:4], "refunded"))

        return self._ledger.once("payment_refund", idempotency_key, {"charge_id": charge_id}, refund)


def _charge(row: tuple[str, str, float, str, Literal["charged", "refunded"]]) -> Charge:
    return {"charge_id": row[0], "order_id": row[1], "amount": row[2], "currency": row[3], "status": row[4]}


def tools(data: str) -> Tools:
    """Return the tools over a data file."""
    payment = Payment(data)
    return [reads(payment.payment_charges), adds(payment.payment_charge), undoes(payment.payment_refund)]


def main() -> None:
    """Serve them."""
    serve("payment", "Charges and refunds.", tools)


if __name__ == "__main__":
    main()

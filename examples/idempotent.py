"""Idempotent: a client that sends an order twice pays once, and is told the same both times.

Prints:
    charged 25.0
    {'id': 'p1', 'paid': 25.0}
    {'id': 'p1', 'paid': 25.0}
    IdempotencyKeyReused
"""

import asyncio
from typing import TypedDict

import weft as w
from weft.app import local_engine
from weft.errors import ExecutionFailed


class Order(TypedDict):
    order_id: str
    amount: float


class Payment(TypedDict):
    id: str
    paid: float


@w.python_tool
async def charge_card(order_id: str, amount: float) -> Payment:
    print("charged", amount)
    return {"id": "p1", "paid": amount}


order = w.path(Order)

pay = w.composition(
    "pay",
    "Charge the card for an order, once.",
    w.idempotent(charge_card, key=order["order_id"], store="requests", ttl=w.hours(24)),
    input=Order,
    output=Payment,
)


async def main() -> None:
    engine = local_engine(pay)  # its stores are in memory
    print(await engine.execute("pay", {"order_id": "o7", "amount": 25.0}))
    print(await engine.execute("pay", {"order_id": "o7", "amount": 25.0}))
    try:
        await engine.execute("pay", {"order_id": "o7", "amount": 99.0})
    except ExecutionFailed as error:
        print(error.code)
    await engine.close()


if __name__ == "__main__":
    asyncio.run(main())

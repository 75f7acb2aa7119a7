"""Wire tap: let the audit log see every payment, without making the customer wait for it.

Prints:
    {'id': 'p1', 'paid': 25.0}
    audited: {'amount': 25.0, 'card': 'tok_1'}
    audited: {'id': 'p1', 'paid': 25.0}
"""

import asyncio
from typing import TypedDict

import weft as w
from weft.app import local_engine


class Charge(TypedDict):
    amount: float
    card: str


class Payment(TypedDict):
    id: str
    paid: float


@w.python_tool
async def charge_card(amount: float, card: str) -> Payment:
    return {"id": "p1", "paid": amount}


@w.python_tool
async def audit(seen: w.Json, /) -> None:
    print("audited:", seen)


pay = w.composition(
    "pay",
    "Charge a card and leave a record of it.",
    w.wire_tap(charge_card, audit, at="both"),
    input=Charge,
    output=Payment,
)


async def main() -> None:
    engine = local_engine(pay)
    print(await engine.execute("pay", {"amount": 25.0, "card": "tok_1"}))
    await engine.close()  # waits for taps that still run


if __name__ == "__main__":
    asyncio.run(main())

"""Saga: reserve, charge and ship an order, or have everything undone when the carrier refuses it.

Prints:
    reserved o1
    charged o1
    shipped o1
    {'order': 'o1', 'parcel': 'p-o1'}
    reserved o2
    charged o2
    refunded o2
    released o2
    Saga step 'ship' failed, compensation required: Tool 'ship' failed: ValueError: no way to the moon
    reserve COMPENSATED
    charge COMPENSATED
    ship FAILED
"""

import asyncio
import tempfile
from pathlib import Path
from typing import TypedDict

import weft as w
from weft.app import local_engine
from weft.errors import SagaFailed
from weft.stores.sqlite import SqliteStore


class Order(TypedDict):
    order: str
    to: str


class Shipped(TypedDict):
    order: str
    parcel: str


@w.python_tool
async def reserve(order: str, to: str) -> Order:
    print("reserved", order)
    return {"order": order, "to": to}


@w.python_tool
async def release(order: str, to: str) -> None:
    print("released", order)


@w.python_tool
async def charge(order: str, to: str) -> Order:
    print("charged", order)
    return {"order": order, "to": to}


@w.python_tool
async def refund(order: str, to: str) -> None:
    print("refunded", order)


@w.python_tool
async def ship(order: str, to: str) -> Shipped:
    if to == "moon":
        raise ValueError("no way to the moon")
    print("shipped", order)
    return {"order": order, "parcel": f"p-{order}"}


it = w.path(Order)

place_order = w.composition(
    "place_order",
    "Reserve, charge and ship an order.",
    w.saga(
        w.saga_step("reserve", reserve, compensate=release),
        w.saga_step("charge", charge, compensate=refund),
        w.saga_step("ship", ship),
        id=it["order"],
        store="sagas",
        timeout=w.minutes(5),
    ),
    input=Order,
    output=Shipped,
)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        sagas = SqliteStore(Path(folder) / "sagas.db", "sagas")
        await sagas.open()
        engine = local_engine(place_order, stores=lambda name: sagas)
        print(await engine.execute("place_order", {"order": "o1", "to": "home"}))
        try:
            await engine.execute("place_order", {"order": "o2", "to": "moon"})
        except SagaFailed as error:
            print(error.message)
            for step in error.saga["steps"]:
                print(step["name"], step["status"])
        await engine.close()
        await sagas.close()


if __name__ == "__main__":
    asyncio.run(main())

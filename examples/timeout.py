"""Timeout: a price that takes too long is taken from yesterday's list.

Prints:
    {'amount': 12.5, 'from': 'the live market'}
    {'amount': 12.0, 'from': 'the list of yesterday'}
"""

import asyncio
from typing import TypedDict

import weft as w
from weft.app import local_engine


class Question(TypedDict):
    item: str


Price = TypedDict("Price", {"amount": float, "from": str})


@w.python_tool
async def live_price(item: str) -> Price:
    if item == "tin":
        await asyncio.Event().wait()  # the market never answers for it
    return {"amount": 12.5, "from": "the live market"}


@w.python_tool
async def listed_price(item: str) -> Price:
    return {"amount": 12.0, "from": "the list of yesterday"}


price = w.composition(
    "price",
    "The price of an item, as new as half a second allows.",
    w.timeout(live_price, w.millis(500), fallback=listed_price),
    input=Question,
    output=Price,
)


async def main() -> None:
    engine = local_engine(price)
    print(await engine.execute("price", {"item": "copper"}))
    print(await engine.execute("price", {"item": "tin"}))
    await engine.close()


if __name__ == "__main__":
    asyncio.run(main())

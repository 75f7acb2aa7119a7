"""Scatter-gather: ask three shops for a price at the same moment and keep the two best offers.

One shop does not answer: its offers are missing, the call is not.

Prints:
    {'shop': 'south', 'price': 17.5}
    {'shop': 'north', 'price': 19.0}
    warning: Target 'shop_east' failed: Upstream 'shop_east' is unavailable: no route to host
"""

import asyncio
from typing import TypedDict

import weft as w
from weft.app import local_engine


class Offer(TypedDict):
    shop: str
    price: float


@w.python_tool
async def shop_north(product: str) -> list[Offer]:
    return [{"shop": "north", "price": 19.0}, {"shop": "north", "price": 24.0}]


@w.python_tool
async def shop_south(product: str) -> list[Offer]:
    return [{"shop": "south", "price": 17.5}]


@w.python_tool
async def shop_east(product: str) -> list[Offer]:
    raise ConnectionError("no route to host")


offer = w.path(Offer)

best_offers = w.composition(
    "best_offers",
    "Ask every shop for a product and return the two cheapest offers.",
    w.scatter_gather(
        shop_north,
        shop_south,
        shop_east,
        aggregate=[w.flatten(), w.sort(offer["price"]), w.limit(2)],
        timeout=w.seconds(2),
    ),
    input=str,
)


async def main() -> None:
    result = await local_engine(best_offers).run("best_offers", "kettle")
    for one in result.value:
        print(one)
    for warning in result.warnings:
        print("warning:", warning)


if __name__ == "__main__":
    asyncio.run(main())

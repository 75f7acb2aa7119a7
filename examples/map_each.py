"""Map each: look up every line of an order, several at the same moment, in order.

A product that nobody knows becomes null instead of failing the order.

Prints:
    [{'sku': 'tea', 'in_stock': 12}, None, {'sku': 'cup', 'in_stock': 3}]
    warning: Item 1 failed: Tool 'check_stock' failed: KeyError: 'teapto'
"""

import asyncio
from typing import TypedDict

import weft as w
from weft.app import local_engine

STOCK = {"tea": 12, "cup": 3}


class Line(TypedDict):
    sku: str
    quantity: int


class Order(TypedDict):
    id: str
    lines: list[Line]


class Stock(TypedDict):
    sku: str
    in_stock: int


@w.python_tool
async def check_stock(sku: str) -> Stock:
    return {"sku": sku, "in_stock": STOCK[sku]}


order = w.path(Order)

check_order = w.composition(
    "check_order",
    "Say for each line of an order how much is in stock.",
    w.pipeline(
        w.step(
            w.map_each(check_stock, max_concurrency=8, on_error="null"),
            input=w.from_input(w.each(order["lines"])["sku"]),
        )
    ),
    input=Order,
)

ORDER = {"id": "o1", "lines": [{"sku": sku, "quantity": 1} for sku in ("tea", "teapto", "cup")]}


async def main() -> None:
    result = await local_engine(check_order).run("check_order", ORDER)
    print(result.value)
    for warning in result.warnings:
        print("warning:", warning)


if __name__ == "__main__":
    asyncio.run(main())

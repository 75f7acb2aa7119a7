"""Enricher: add to an order what the customer service and the carrier know about it.

Prints:
    {'id': 'o1',
     'customer_id': 'c1',
     'grams': 1200,
     'customer': {'name': 'Ada', 'tier': 'gold'},
     'shipping': 4.9}
"""

import asyncio
from pprint import pprint
from typing import TypedDict

import weft as w
from weft.app import local_engine


class Order(TypedDict):
    id: str
    customer_id: str
    grams: int


@w.python_tool
async def get_customer(id: str) -> dict[str, str]:
    return {"name": "Ada", "tier": "gold"}


@w.python_tool
async def quote_shipping(order: Order, /) -> float:
    return 4.9 if order["grams"] < 2000 else 9.9


order = w.path(Order)

describe_order = w.composition(
    "describe_order",
    "Return an order with its customer and the price of shipping it.",
    w.enricher(
        customer=(order["customer_id"], get_customer),  # this part of the order
        shipping=quote_shipping,  # the whole order
    ),
    input=Order,
)

ORDER = {"id": "o1", "customer_id": "c1", "grams": 1200}

if __name__ == "__main__":
    pprint(asyncio.run(local_engine(describe_order).execute("describe_order", ORDER)), sort_dicts=False)

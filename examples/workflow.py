"""Workflow: steps that name each other's results, done as soon as they can be, and undone when one fails.

The two look-ups run at the same moment, since neither names the other. The second order cannot be paid for: what was
reserved for it is released again.

Prints:
    {'order': 'tea for Anna', 'paid': 12}
    Workflow 'place_order' failed at step 'pay': Tool 'charge' failed: Anna has only 20; undone: reserve
    in stock: 9
"""

import asyncio

import weft as w
from weft.app import local_engine
from weft.errors import ToolFailed, WorkflowFailed

STOCK = {"tea": 10}


@w.python_tool
async def find_customer(id: str) -> dict[str, str | int]:
    return {"name": "Anna", "budget": 20}


@w.python_tool
async def find_price(product: str) -> dict[str, int]:
    return {"each": 12}


@w.python_tool
async def reserve(product: str, pieces: int) -> dict[str, int]:
    STOCK[product] -= pieces
    return {"pieces": pieces}


@w.python_tool
async def release(product: str, pieces: int) -> None:
    STOCK[product] += pieces


@w.python_tool
async def charge(name: str, budget: int, each: int, pieces: int) -> dict[str, int]:
    if each * pieces > budget:
        raise ToolFailed("charge", f"{name} has only {budget}")
    return {"paid": each * pieces}


place_order = w.composition(
    "place_order",
    "Reserve and charge what a customer orders.",
    w.workflow(
        w.workflow_step("customer", find_customer, {"id": "{{input.customer}}"}),
        w.workflow_step("price", find_price, {"product": "{{input.product}}"}),
        w.workflow_step(
            "reserve",
            reserve,
            {"product": "{{input.product}}", "pieces": "{{input.pieces ?? 1}}"},
            undo=(release, {"product": "{{input.product}}", "pieces": "{{output.pieces}}"}),
        ),
        w.workflow_step(
            "pay",
            charge,
            {
                "name": "{{customer.name}}",
                "budget": "{{customer.budget}}",
                "each": "{{price.each}}",
                "pieces": "{{reserve.pieces}}",
            },
            timeout=w.seconds(5),
        ),
        output={"order": "{{input.product}} for {{customer.name}}", "paid": "{{pay.paid}}"},
        strategy="rollback",
    ),
)


async def main() -> None:
    engine = local_engine(place_order)
    print((await engine.run("place_order", {"customer": "c1", "product": "tea"})).value)
    try:
        await engine.run("place_order", {"customer": "c1", "product": "tea", "pieces": 5})
    except WorkflowFailed as failed:
        print(failed)
    print("in stock:", STOCK["tea"])


if __name__ == "__main__":
    asyncio.run(main())

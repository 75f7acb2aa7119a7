"""Filter: keep the invoices that need a reminder. Two conditions are two filters.

Prints:
    {'number': 'A-7', 'status': 'open', 'days_late': 45}
"""

import asyncio
from typing import Literal, TypedDict

import weft as w
from weft.app import local_engine


class Invoice(TypedDict):
    number: str
    status: Literal["open", "paid"]
    days_late: int


@w.python_tool
def list_invoices(customer: str) -> list[Invoice]:
    return [
        {"number": "A-6", "status": "paid", "days_late": 60},
        {"number": "A-7", "status": "open", "days_late": 45},
        {"number": "A-8", "status": "open", "days_late": 3},
    ]


invoice = w.path(Invoice)

overdue = w.composition(
    "overdue_invoices",
    "List a customer's open invoices that are more than 30 days late.",
    w.pipeline(
        list_invoices,
        w.filter(invoice["status"], w.eq("open")),
        w.filter(invoice["days_late"], w.gt(30)),
    ),
    input=str,
)


async def main() -> None:
    for one in await local_engine(overdue).execute("overdue_invoices", "c1"):
        print(one)


if __name__ == "__main__":
    asyncio.run(main())

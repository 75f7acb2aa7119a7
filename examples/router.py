"""Router: a support ticket goes to the first team whose condition holds.

Prints:
    refund goes to a person
    refund goes to the robot
    question goes to the help desk
"""

import asyncio
from typing import Literal, TypedDict

import weft as w
from weft.app import local_engine


class Ticket(TypedDict):
    kind: Literal["refund", "outage", "question"]
    amount: float


@w.python_tool
def ask_person(ticket: Ticket, /) -> str:
    return f"{ticket['kind']} goes to a person"


@w.python_tool
def refund_now(ticket: Ticket, /) -> str:
    return f"{ticket['kind']} goes to the robot"


@w.python_tool
def help_desk(ticket: Ticket, /) -> str:
    return f"{ticket['kind']} goes to the help desk"


ticket = w.path(Ticket)

route_ticket = w.composition(
    "route_ticket",
    "Hand a ticket to the team that can close it.",
    w.router(
        w.when("input.kind == 'refund' && input.amount > 500", ask_person),
        w.when(w.holds(ticket["kind"], w.eq("refund")), refund_now),
        w.when(w.holds(ticket["kind"], w.eq("outage")), ask_person),
        otherwise=help_desk,
    ),
    input=Ticket,
)


async def main() -> None:
    engine = local_engine(route_ticket)
    for kind, amount in (("refund", 900), ("refund", 20), ("question", 0)):
        print(await engine.execute("route_ticket", {"kind": kind, "amount": amount}))


if __name__ == "__main__":
    asyncio.run(main())

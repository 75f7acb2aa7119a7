"""Pipeline: answer a support ticket in steps, each on what earlier ones found.

The reply is built from two places, and only urgent tickets get the last step.

Prints:
    {'to': 'ada@example.com', 'text': 'Dear Ada, we read: My invoice is wrong.'}
    {'to': 'ada@example.com', 'text': 'URGENT Dear Ada, we read: The site is down.'}
"""

import asyncio
from typing import TypedDict

import weft as w
from weft.app import local_engine


class Ticket(TypedDict):
    customer: str
    text: str
    urgent: bool


class Reply(TypedDict):
    to: str
    text: str


@w.python_tool
def find_customer(id: str) -> dict[str, str]:
    return {"id": id, "name": "Ada", "email": "ada@example.com"}


@w.python_tool
def draft(name: str, email: str, text: str) -> Reply:
    return {"to": email, "text": f"Dear {name}, we read: {text}"}


@w.python_tool
def mark_urgent(reply: Reply, /) -> Reply:
    return {"to": reply["to"], "text": f"URGENT {reply['text']}"}


ticket = w.path(Ticket)

answer = w.composition(
    "answer_ticket",
    "Draft a reply to a support ticket.",
    w.pipeline(
        w.step(find_customer, id="customer", input=w.from_input(ticket["customer"])),
        w.step(
            draft,
            id="draft",
            input=w.construct(
                name=w.from_step("customer", "$.name"),
                email=w.from_step("customer", "$.email"),
                text=w.from_input(ticket["text"]),
            ),
        ),
        w.step(mark_urgent, condition="input.urgent"),
    ),
    input=Ticket,
)


async def main() -> None:
    engine = local_engine(answer)
    print(await engine.execute("answer_ticket", {"customer": "c1", "text": "My invoice is wrong.", "urgent": False}))
    print(await engine.execute("answer_ticket", {"customer": "c1", "text": "The site is down.", "urgent": True}))


if __name__ == "__main__":
    asyncio.run(main())

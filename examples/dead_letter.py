"""Dead letter: a booking that fails three times is kept for the morning, and the customer is told so.

Prints:
    attempt 1
    attempt 2
    attempt 3
    kept: {'to': 'Oslo', 'card_token': '[redacted]'} after 3 attempts
    True
"""

import asyncio
from typing import Any

import weft as w
from weft.app import local_engine

attempts: list[dict[str, Any]] = []


@w.python_tool
async def book(trip: dict[str, Any], /) -> str:
    attempts.append(trip)
    print("attempt", len(attempts))
    raise ConnectionError("the airline does not answer")


@w.python_tool
async def failed_bookings(letter: dict[str, Any], /) -> None:
    print("kept:", letter["originalInput"], "after", letter["attempts"], "attempts")


book_trip = w.composition(
    "book_trip",
    "Book a trip, or keep it for later.",
    w.dead_letter(book, failed_bookings, max_attempts=3, backoff=w.fixed("10ms")),
)


async def main() -> None:
    engine = local_engine(book_trip)
    told = await engine.execute("book_trip", {"to": "Oslo", "card_token": "tok_1"})
    print(told["deadLettered"])
    await engine.close()


if __name__ == "__main__":
    asyncio.run(main())

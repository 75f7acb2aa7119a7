"""Circuit breaker: leave a payment service alone that is down, and queue what comes meanwhile.

Prints:
    Upstream 'charge_card' is unavailable: connection refused
    Upstream 'charge_card' is unavailable: connection refused
    {'id': 'q1', 'status': 'queued'}
    the service was called 2 times
"""

import asyncio
from typing import TypedDict

import weft as w
from weft.app import local_engine
from weft.errors import UpstreamUnavailable


class Charge(TypedDict):
    amount: float


class Payment(TypedDict):
    id: str
    status: str


calls: list[float] = []


@w.python_tool
async def charge_card(amount: float) -> Payment:
    calls.append(amount)
    raise ConnectionError("connection refused")


@w.python_tool
async def queue_for_later(amount: float) -> Payment:
    return {"id": "q1", "status": "queued"}


pay = w.composition(
    "pay",
    "Charge a card, or queue the charge while the service is down.",
    w.circuit_breaker(
        charge_card,
        name="payments",
        failure_threshold=2,
        failure_window=w.minutes(1),
        reset_timeout=w.seconds(30),
        fallback=queue_for_later,
    ),
    input=Charge,
    output=Payment,
)


async def main() -> None:
    engine = local_engine(pay)
    for _ in range(3):
        try:
            print(await engine.execute("pay", {"amount": 25.0}))
        except UpstreamUnavailable as error:
            print(error.message)
    print("the service was called", len(calls), "times")
    await engine.close()


if __name__ == "__main__":
    asyncio.run(main())

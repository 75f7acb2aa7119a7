"""Retry: ask a weather station that is often away again, and take its no for a no.

Prints:
    {'city': 'Bern', 'degrees': 21}
    asked 3 times
    Tool 'weather' failed: ValueError: there is no Atlantis
    asked once
"""

import asyncio
from typing import TypedDict

import weft as w
from weft.app import local_engine
from weft.errors import ToolFailed


class Place(TypedDict):
    city: str


class Weather(TypedDict):
    city: str
    degrees: int


asked: list[str] = []


@w.python_tool(annotations={"readOnlyHint": True})
async def weather(city: str) -> Weather:
    asked.append(city)
    if city == "Atlantis":
        raise ValueError("there is no Atlantis")
    if len(asked) < 3:
        raise ConnectionError("the station is away")
    return {"city": city, "degrees": 21}


patient_weather = w.composition(
    "patient_weather",
    "The weather, from a station that is often away.",
    w.retry(weather, 5, backoff=w.exponential(w.millis(5), max=w.seconds(1)), jitter=0.5),
    input=Place,
    output=Weather,
)


async def main() -> None:
    engine = local_engine(patient_weather)
    print(await engine.execute("patient_weather", {"city": "Bern"}))
    print("asked", len(asked), "times")
    asked.clear()
    try:
        await engine.execute("patient_weather", {"city": "Atlantis"})
    except ToolFailed as error:
        print(error)
    print("asked", "once" if len(asked) == 1 else len(asked))
    await engine.close()


if __name__ == "__main__":
    asyncio.run(main())

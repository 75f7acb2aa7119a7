"""Throttle: never more than two translations at once, whoever asks.

Prints:
    ['BONJOUR', 'SALUT', 'MERCI', 'ADIEU', 'OUI']
    at most 2 at once
"""

import asyncio

import weft as w
from weft.app import local_engine

at_work: list[str] = []
counts: list[int] = []


@w.python_tool
async def translate(text: str) -> str:
    at_work.append(text)
    counts.append(len(at_work))
    await asyncio.sleep(0)  # others get their turn
    at_work.remove(text)
    return text.upper()


translate_all = w.composition(
    "translate_all",
    "Translate texts, without wearing the translator out.",
    w.map_each(w.throttle(translate, 50, w.seconds(1), name="translator", concurrency=2)),
    input=list[str],
    output=list[str],
)


async def main() -> None:
    engine = local_engine(translate_all)
    print(await engine.execute("translate_all", ["bonjour", "salut", "merci", "adieu", "oui"]))
    print("at most", max(counts), "at once")
    await engine.close()


if __name__ == "__main__":
    asyncio.run(main())

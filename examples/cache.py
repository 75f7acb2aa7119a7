"""Cache: ask the search engine once for all who want the same within a quarter of an hour.

Prints:
    searching for cats
    ['cats and how to feed them']
    ['cats and how to feed them']
    searching for dogs
    ['dogs and how to feed them']
"""

import asyncio
from typing import TypedDict

import weft as w
from weft.app import local_engine


class Query(TypedDict):
    query: str
    trace: str


@w.python_tool
async def web_search(query: str, trace: str) -> list[str]:
    print("searching for", query)
    return [f"{query} and how to feed them"]


p = w.path(Query)

search = w.composition(
    "search",
    "Search the web, or remember what was found a short while ago.",
    w.cache(
        web_search,
        key=p["query"],
        ttl=w.minutes(15),
        stale_while_revalidate=w.minutes(5),
        cache_if=w.is_not_null(),
        store="results",
    ),
    input=Query,
    output=list[str],
)


async def main() -> None:
    engine = local_engine(search)  # its stores are in memory
    print(await engine.execute("search", {"query": "cats", "trace": "1"}))
    print(await engine.execute("search", {"query": "cats", "trace": "2"}))
    print(await engine.execute("search", {"query": "dogs", "trace": "3"}))
    await engine.close()


if __name__ == "__main__":
    asyncio.run(main())

"""Claim check: a report of many pages is stored once, and only its reference goes through the steps.

Prints:
    routed blob-1
    {'output': 'printer', 'payload': {'title': 'Q3', 'pages': ['one', 'two']}}
"""

import asyncio
from typing import TypedDict

import weft as w
from weft.app import local_engine


class Report(TypedDict):
    title: str
    pages: list[str]


blobs: dict[str, Report] = {}


@w.python_tool
async def blob_put(report: Report, /) -> str:
    blobs["blob-1"] = report
    return "blob-1"


@w.python_tool
async def blob_get(reference: str) -> Report:
    return blobs[reference]


@w.python_tool
async def route(reference: str) -> str:
    print("routed", reference)
    return "printer"


file_report = w.composition(
    "file_report",
    "Decide where a report goes, without carrying it around.",
    w.claim_check(route, store=blob_put, retrieve=blob_get, retrieve_at_end=True),
    input=Report,
)


async def main() -> None:
    engine = local_engine(file_report)
    print(await engine.execute("file_report", {"title": "Q3", "pages": ["one", "two"]}))
    await engine.close()


if __name__ == "__main__":
    asyncio.run(main())

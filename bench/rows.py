"""mapEach(schemaMap) over a hundred thousand rows, against a hand-written loop."""

from __future__ import annotations

from typing import Any

import weft as w
from weft.app import local_engine
from weft.run.engine import Engine

ROWS: list[Any] = [
    {"paper_title": f"t{n}", "arxiv_id": f"i{n}", "abstract": "a", "published_date": "d", "pdf_url": f"u{n}"}
    for n in range(100_000)
]


async def by_hand(rows: list[Any]) -> list[Any]:
    """Map every row in one comprehension."""
    return [
        {
            "title": row["paper_title"],
            "url": url if (url := row.get("pdf_url")) is not None else row.get("arxiv_id"),
            "excerpt": row["abstract"], "source": "arxiv", "relevance": 0.85, "timestamp": row["published_date"],
        }
        for row in rows
    ]  # fmt: skip


def engine() -> Engine:
    """Return an engine that has the composition `rows`."""
    p = w.path({})
    mapped = w.schema_map(
        p,
        {
            "title": p.paper_title, "url": w.coalesce(p.pdf_url, p.arxiv_id), "excerpt": p.abstract,
            "source": "arxiv", "relevance": 0.85, "timestamp": p.published_date,
        },
    )  # fmt: skip
    return local_engine(w.composition("rows", "Map rows.", w.map_each(mapped)))

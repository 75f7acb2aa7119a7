"""The research pipeline: three sources of twenty rows, normalised, flattened, sorted, filtered, ten taken."""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

import weft as w
from weft.app import local_engine
from weft.run.engine import Engine

Source: TypeAlias = w.Op[Any, Any]
ROWS = 20
KEPT = 10


def _rows(prefix: str, *fields: str) -> list[dict[str, Any]]:
    return [{field: f"{prefix} {field} {number}" for field in fields} for number in range(ROWS)]


WEB = _rows("web", "title", "link", "snippet", "displayLink")
ARXIV = _rows("arxiv", "paper_title", "arxiv_id", "abstract", "authors", "published_date", "pdf_url")
INTERNAL = _rows("internal", "doc_name", "path", "excerpt", "last_modified", "author")


async def web_search(query: Any, /) -> list[dict[str, Any]]:
    """Give the rows of the first source."""
    return WEB


async def arxiv_search(query: Any, /) -> list[dict[str, Any]]:
    """Give the rows of the second source."""
    return ARXIV


async def internal_docs(query: Any, /) -> list[dict[str, Any]]:
    """Give the rows of the third source."""
    return INTERNAL


async def _web(query: str) -> list[dict[str, Any]]:
    return [
        {
            "title": row["title"], "url": row["link"], "excerpt": row["snippet"], "source": "web",
            "relevance": 0.6, "timestamp": None,
        }
        for row in await web_search(query)
    ]  # fmt: skip


async def _arxiv(query: str) -> list[dict[str, Any]]:
    return [
        {
            "title": row["paper_title"],
            "url": url if (url := row.get("pdf_url")) is not None else row.get("arxiv_id"),
            "excerpt": row["abstract"], "source": "arxiv", "relevance": 0.85, "timestamp": row["published_date"],
        }
        for row in await arxiv_search(query)
    ]  # fmt: skip


async def _internal(query: str) -> list[dict[str, Any]]:
    return [
        {
            "title": row["doc_name"], "url": row["path"], "excerpt": row["excerpt"], "source": "internal",
            "relevance": 0.9, "timestamp": row["last_modified"],
        }
        for row in await internal_docs(query)
    ]  # fmt: skip


async def by_hand(query: str) -> list[dict[str, Any]]:
    """Do by hand what the composition does: a source that fails is dropped."""
    found = await asyncio.gather(_web(query), _arxiv(query), _internal(query), return_exceptions=True)
    rows = [row for source in found if not isinstance(source, BaseException) for row in source]
    rows.sort(key=lambda row: row["relevance"], reverse=True)
    return [row for row in rows if row["relevance"] > 0.7][:KEPT]


def engine() -> Engine:
    """Return an engine that has the composition `research` over the sources of this module."""
    return local_engine(
        composition(w.python_tool(web_search), w.python_tool(arxiv_search), w.python_tool(internal_docs))
    )


def composition(web_source: Source, arxiv_source: Source, internal_source: Source) -> w.Composition[Any, Any]:
    """Return the composition `research` over three sources."""
    p = w.path({})
    web = w.pipeline(
        web_source,
        w.map_each(
            w.schema_map(
                p,
                {
                    "title": p.title,
                    "url": p.link,
                    "excerpt": p.snippet,
                    "source": "web",
                    "relevance": 0.6,
                    "timestamp": None,
                },
            )
        ),
    )
    arxiv = w.pipeline(
        arxiv_source,
        w.map_each(
            w.schema_map(
                p,
                {
                    "title": p.paper_title, "url": w.coalesce(p.pdf_url, p.arxiv_id), "excerpt": p.abstract,
                    "source": "arxiv", "relevance": 0.85, "timestamp": p.published_date,
                },
            )
        ),
    )  # fmt: skip
    internal = w.pipeline(
        internal_source,
        w.map_each(
            w.schema_map(
                p,
                {
                    "title": p.doc_name, "url": p.path, "excerpt": p.excerpt, "source": "internal",
                    "relevance": 0.9, "timestamp": p.last_modified,
                },
            )
        ),
    )  # fmt: skip
    research = w.pipeline(
        w.scatter_gather(web, arxiv, internal, aggregate=[w.flatten(), w.sort(p.relevance, "desc")]),
        w.filter(p.relevance, w.gt(0.7)),
        output=w.from_previous(f"$[:{KEPT}]"),
    )
    return w.composition("research", "Three sources as one.", research)

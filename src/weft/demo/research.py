"""Multi-source research: ask three sources, bring them to one shape, keep what is relevant, fetch it, sum it up."""

from __future__ import annotations

import asyncio
import re
from typing import TypedDict

import weft as w
from weft.demo.documents import DOCUMENTS, Document, Shelf

MOST_HITS = 3
WORD = re.compile(r"\w{3,}")
SENTENCE = re.compile(r"[^.?!]+[.?!]")


class WebSearchResult(TypedDict):
    """What the web search gives."""

    title: str
    link: str
    snippet: str
    displayLink: str


class ArxivResult(TypedDict):
    """What the search for papers gives."""

    paper_title: str
    arxiv_id: str
    abstract: str
    authors: list[str]
    published_date: str
    pdf_url: str | None


class InternalDocResult(TypedDict):
    """What the search in our own documents gives."""

    doc_name: str
    path: str
    excerpt: str
    last_modified: str
    author: str


class UnifiedSearchResult(TypedDict):
    """What the pipeline works with."""

    title: str
    url: str
    excerpt: str
    source: str
    relevance: float
    timestamp: str | None


class Fetched(TypedDict):
    """A whole document."""

    title: str
    url: str
    content: str


class Report(TypedDict):
    """What the pipeline gives."""

    summary: str
    sources: list[str]


def _words(text: str) -> set[str]:
    return {word.rstrip("s") for word in WORD.findall(text.lower())}


def _search(shelf: Shelf, query: str) -> list[Document]:
    """Return the documents of a shelf that share most words with the query."""
    asked = _words(query)
    scored = [(len(asked & _words(f"{one.title} {one.text}")), one) for one in DOCUMENTS if one.shelf == shelf]
    ranked = sorted(((score, one) for score, one in scored if score), key=lambda pair: -pair[0])
    return [one for _, one in ranked[:MOST_HITS]]


def _beginning(text: str) -> str:
    return text.split(". ", maxsplit=1)[0].rstrip(".") + "."


# Each pauses as its real counterpart would, so that the trace shows who waits for whom.
@w.python_tool
async def web_search(query: str) -> list[WebSearchResult]:
    """Search the web."""
    await asyncio.sleep(0.12)
    hits = _search("web", query)
    return [
        {"title": one.title, "link": one.url, "snippet": _beginning(one.text), "displayLink": one.url.split("/")[2]}
        for one in hits
    ]


@w.python_tool
async def arxiv_search(query: str) -> list[ArxivResult]:
    """Search papers; only those of 2024 and later come with a PDF."""
    await asyncio.sleep(0.2)
    return [
        {
            "paper_title": one.title,
            "arxiv_id": one.url,
            "abstract": one.text,
            "authors": [one.author],
            "published_date": one.date,
            "pdf_url": f"https://papers.example/{one.url}.pdf" if one.date >= "2024" else None,
        }
        for one in _search("arxiv", query)
    ]


@w.python_tool
async def internal_docs(query: str) -> list[InternalDocResult]:
    """Search our own documents."""
    await asyncio.sleep(0.05)
    return [
        {
            "doc_name": one.title,
            "path": one.url,
            "excerpt": _beginning(one.text),
            "last_modified": one.date,
            "author": one.author,
        }
        for one in _search("internal", query)
    ]


@w.python_tool
async def fetch_document(hit: UnifiedSearchResult, /) -> Fetched:
    """Fetch the whole text behind a search result."""
    await asyncio.sleep(0.08)
    key = hit["url"].removeprefix("https://papers.example/").removesuffix(".pdf")
    found = next((one for one in DOCUMENTS if one.url == key), None)
    if found is None:
        raise LookupError(f"there is nothing at {hit['url']}")
    return {"title": found.title, "url": hit["url"], "content": found.text}


@w.python_tool
async def summarize(documents: list[Fetched]) -> Report:
    """Take from each document the sentence with the most words that other documents use too."""
    await asyncio.sleep(0.1)
    words = [_words(one["content"]) for one in documents]
    lines: list[str] = []
    for index, one in enumerate(documents):
        others = set[str]().union(*words[:index], *words[index + 1 :])
        sentences = [found.strip() for found in SENTENCE.findall(one["content"])]
        lines.append(max(sentences, key=lambda sentence: len(_words(sentence) & others)))
    return {"summary": " ".join(lines), "sources": [f"{one['title']} ({one['url']})" for one in documents]}


hit, paper, note, found = (
    w.path(WebSearchResult),
    w.path(ArxivResult),
    w.path(InternalDocResult),
    w.path(UnifiedSearchResult),
)

web_to_unified = w.schema_map(
    hit,
    UnifiedSearchResult(
        title=hit["title"],
        url=hit["link"],
        excerpt=hit["snippet"],
        source="web",
        relevance=0.6,
        timestamp=None,
    ),
)
arxiv_to_unified = w.schema_map(
    paper,
    UnifiedSearchResult(
        title=paper["paper_title"],
        url=w.coalesce(paper["pdf_url"], paper["arxiv_id"]),
        excerpt=paper["abstract"],
        source="arxiv",
        relevance=0.85,
        timestamp=paper["published_date"],
    ),
)
internal_to_unified = w.schema_map(
    note,
    UnifiedSearchResult(
        title=note["doc_name"],
        url=note["path"],
        excerpt=note["excerpt"],
        source="internal",
        relevance=0.9,
        timestamp=note["last_modified"],
    ),
)

research_pipeline = w.composition(
    "research_pipeline",
    "Multi-source research with schema normalization, filtering, and summarization",
    w.pipeline(
        w.scatter_gather(
            w.named("web_normalized", w.pipeline(web_search, w.map_each(web_to_unified))),
            w.named("arxiv_normalized", w.pipeline(arxiv_search, w.map_each(arxiv_to_unified))),
            w.named("internal_normalized", w.pipeline(internal_docs, w.map_each(internal_to_unified))),
            aggregate=[w.flatten(), w.sort(found["relevance"], "desc")],
            timeout=w.seconds(15),
        ),
        w.filter(found["relevance"], w.gt(0.7)),
        w.map_each(fetch_document),
        summarize,
    ),
    input=str,
    output=Report,
)

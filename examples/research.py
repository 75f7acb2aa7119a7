"""Research: ask three sources of different shapes, keep what is relevant, fetch it and sum it up.

Each source is normalised to `Found` where it is asked, so everything after sees one shape. The paths are typed:
`paper["pdfurl"]` would be refused by pyright and, with the nearest field named, when the module is read.

Prints:
    Design notes, internal, 0.9
    Attention, arxiv, 0.85
    Sparse attention, arxiv, 0.85
    Report on 3 documents: /docs/design.md; https://arxiv.org/pdf/1706.03762; 2004.05150
"""

import asyncio
from typing import TypedDict

import weft as w
from weft.app import local_engine


class WebHit(TypedDict):
    title: str
    link: str
    snippet: str


class Paper(TypedDict):
    paper_title: str
    arxiv_id: str
    pdf_url: str | None
    abstract: str
    published_date: str


class Doc(TypedDict):
    doc_name: str
    path: str
    excerpt: str
    last_modified: str


class Found(TypedDict):
    title: str
    url: str
    excerpt: str
    source: str
    relevance: float
    timestamp: str | None


class Report(TypedDict):
    titles: list[str]
    text: str


@w.python_tool
async def web_search(query: str) -> list[WebHit]:
    return [{"title": "A blog", "link": "https://blog.example/attention", "snippet": f"All about {query}"}]


@w.python_tool
async def arxiv_search(query: str) -> list[Paper]:
    first, second = ("Attention", "1706.03762", "2017-06-12"), ("Sparse attention", "2004.05150", "2020-04-10")
    return [
        {"paper_title": first[0], "arxiv_id": first[1], "pdf_url": f"https://arxiv.org/pdf/{first[1]}",
         "abstract": f"On {query}", "published_date": first[2]},
        {"paper_title": second[0], "arxiv_id": second[1], "pdf_url": None,
         "abstract": f"More on {query}", "published_date": second[2]},
    ]  # fmt: skip


@w.python_tool
async def internal_docs(query: str) -> list[Doc]:
    return [{"doc_name": "Design notes", "path": "/docs/design.md", "excerpt": query, "last_modified": "2025-01-05"}]


@w.python_tool
async def fetch_document(found: Found, /) -> Found:
    return found


@w.python_tool
async def summarize(documents: list[Found], /) -> Report:
    titles = [f"{one['title']}, {one['source']}, {one['relevance']}" for one in documents]
    return {"titles": titles, "text": f"Report on {len(documents)} documents: {'; '.join(d['url'] for d in documents)}"}


hit, paper, doc, found = w.path(WebHit), w.path(Paper), w.path(Doc), w.path(Found)

web = w.schema_map(hit, Found(
    title=hit["title"], url=hit["link"], excerpt=hit["snippet"], source="web", relevance=0.6, timestamp=None,
))  # fmt: skip
arxiv = w.schema_map(paper, Found(
    title=paper["paper_title"], url=w.coalesce(paper["pdf_url"], paper["arxiv_id"]), excerpt=paper["abstract"],
    source="arxiv", relevance=0.85, timestamp=paper["published_date"],
))  # fmt: skip
internal = w.schema_map(doc, Found(
    title=doc["doc_name"], url=doc["path"], excerpt=doc["excerpt"], source="internal", relevance=0.9,
    timestamp=doc["last_modified"],
))  # fmt: skip

research = w.composition(
    "research_pipeline",
    "Search three sources, keep what is relevant, fetch it and sum it up.",
    w.pipeline(
        w.scatter_gather(
            w.named("web_normalized", w.pipeline(web_search, w.map_each(web))),
            w.named("arxiv_normalized", w.pipeline(arxiv_search, w.map_each(arxiv))),
            w.named("internal_normalized", w.pipeline(internal_docs, w.map_each(internal))),
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


async def main() -> None:
    report = await local_engine(research).execute("research_pipeline", "attention")
    print(*report["titles"], report["text"], sep="\n")


if __name__ == "__main__":
    asyncio.run(main())

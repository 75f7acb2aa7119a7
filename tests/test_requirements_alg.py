"""The two documents and the research example of the algebra's seed, from text to results."""

from __future__ import annotations

import json
from typing import Any, TypedDict

import pytest

import weft as w
from tests.documents import FIXTURES, canonical, fixture
from weft.app import load, problems_of
from weft.errors import NotFound
from weft.ir.document import Document
from weft.ir.normalise import made, parse
from weft.ir.read import read
from weft.testing import FakeWorld

WEB = [{"title": "W", "link": "w.example", "snippet": "web"}]
ARXIV = [
    {"paper_title": "A1", "pdf_url": None, "arxiv_id": "2401.1", "abstract": "one", "published_date": "2024"},
    {"paper_title": "A2", "pdf_url": "a2.pdf", "arxiv_id": "2401.2", "abstract": "two", "published_date": "2025"},
]
INTERNAL = [{"doc_name": "I", "path": "/docs/i", "excerpt": "inside", "last_modified": "2023"}]
KEPT = [("I", "/docs/i", 0.9, "internal"), ("A1", "2401.1", 0.85, "arxiv"), ("A2", "a2.pdf", 0.85, "arxiv")]


def fetched(row: Any) -> Any:
    return {"text": f"text of {row['url']}", "of": row}


def summed(documents: Any) -> Any:
    return {
        "report": [
            (one["of"]["title"], one["of"]["url"], one["of"]["relevance"], one["of"]["source"]) for one in documents
        ]
    }


def research_world() -> FakeWorld:
    tools = {"web_search": WEB, "arxiv_search": ARXIV, "internal_docs": INTERNAL}
    return FakeWorld(tools={**tools, "fetch_document": fetched, "summarize": summed})


def document_of(name: str, *, again: bool) -> Document:
    """Return a fixture as a document: read from its text, or from what weft writes of it."""
    parsed = load(FIXTURES / name)
    assert {problem.severity for problem in problems_of(parsed)} <= {"warning"}
    return made(Document, parsed.document.to_ir()) if again else parsed.document


@pytest.mark.req("ALG-31", "ALG-34", "ALG-35", "ALG-36", "ALG-38", "ALG-39")
@pytest.mark.parametrize("again", [False, True])
async def test_the_research_document_runs(again: bool):
    world = research_world()
    got = await world.run(
        "research_pipeline", "attention", document=document_of("algebra-research-pipeline.json", again=again)
    )
    assert got == {"report": KEPT}
    searches = [(name, given) for name, given in world.calls if name.endswith(("search", "docs"))]
    assert sorted(searches) == [
        ("arxiv_search", "attention"),
        ("internal_docs", "attention"),
        ("web_search", "attention"),
    ]


@pytest.mark.req("ALG-31")
@pytest.mark.parametrize("again", [False, True])
async def test_the_extended_document_runs_and_hands_a_list_of_urls_to_fetch(again: bool):
    rows = [{"url": "low", "relevance": 0.7}, {"url": "high", "relevance": 0.9}, {"url": "none"}]
    world = FakeWorld(
        tools={
            "search-backend:search": rows,
            "arxiv-backend:search": [{"url": "mid", "relevance": 0.8}],
            "internal_docs": [{"url": "top", "relevance": 0.95}],
            "web-backend:fetch": lambda urls: [f"text of {url}" for url in urls],
            "llm-backend:summarize": lambda texts: {"summary": texts},
        }
    )
    got = await world.run("research_pipeline", "x", document=document_of("algebra-extended-registry.json", again=again))
    assert got == {"summary": ["text of top", "text of high", "text of mid"]}
    assert ("web-backend:fetch", ["top", "high", "mid"]) in world.calls


@pytest.mark.req("ALG-34")
async def test_a_name_that_nobody_registered_is_not_found():
    with pytest.raises(NotFound, match="Composition not found: research_pipelin") as caught:
        await research_world().run(
            "research_pipelin", "x", document=document_of("algebra-research-pipeline.json", again=False)
        )
    assert caught.value.hint == "did you mean 'research_pipeline'?"


@pytest.mark.req("REG-57", "REG-58", "REG-61")
@pytest.mark.parametrize(
    ("name", "tools", "value"),
    [
        ("registry-pattern-pipeline.json", {"fetch": {"content": "c"}, "parse": lambda given: [given]}, ["c"]),  # pyright: ignore
        (
            "registry-pattern-scatter-gather.json",
            {
                "search_web": [{"url": 1}],
                "search_arxiv": [{"url": 1}, {"url": 2}],
                "internal-search/search": [{"url": 3}],
            },
            [{"url": 1}, {"url": 2}, {"url": 3}],
        ),
        (
            "registry-pattern-agent-pipeline.json",
            {"research-agent/research_topic": {"findings": [1]}, "summarizer-agent/summarize": lambda given: given},  # pyright: ignore
            {"content": [1]},
        ),
    ],
)
async def test_the_patterns_of_the_registry_seed_run(name: str, tools: Any, value: Any):
    document = parse(read(json.dumps(fixture(name)))).document
    assert await FakeWorld(tools=tools).run("t", {}, document=document) == value


class Found(TypedDict):
    title: str
    url: str | None
    relevance: float
    source: str


class WebHit(TypedDict):
    title: str
    link: str


class Paper(TypedDict):
    paper_title: str
    pdf_url: str | None
    arxiv_id: str


class Doc(TypedDict):
    doc_name: str
    path: str


def research() -> w.Composition[Any, Any]:
    web, paper, doc, found = w.path(WebHit), w.path(Paper), w.path(Doc), w.path(Found)
    normalised: dict[str, w.Op[Any, Found]] = {
        "web_search": w.schema_map(web, Found(title=web["title"], url=web["link"], relevance=0.6, source="web")),
        "arxiv_search": w.schema_map(
            paper,
            Found(
                title=paper["paper_title"],
                url=w.coalesce(paper["pdf_url"], paper["arxiv_id"]),
                relevance=0.85,
                source="arxiv",
            ),
        ),
        "internal_docs": w.schema_map(
            doc, Found(title=doc["doc_name"], url=doc["path"], relevance=0.9, source="internal")
        ),
    }
    targets = [
        w.named(f"{name}_normalised", w.pipeline(w.tool(name), w.map_each(each))) for name, each in normalised.items()
    ]
    return w.composition(
        "research",
        "Search three sources, keep what is relevant, fetch and sum up.",
        w.pipeline(
            w.scatter_gather(
                *targets, aggregate=[w.flatten(), w.sort(found["relevance"], "desc")], timeout=w.seconds(15)
            ),
            w.filter(found["relevance"], w.gt(0.7)),
            w.map_each(w.tool("fetch_document")),
            w.tool("summarize"),
        ),
    )


@pytest.mark.req("ALG-17")
async def test_the_research_example_compiles_and_runs():
    assert await research_world().run(research(), "attention") == {"report": KEPT}


@pytest.mark.req("ALG-17", "ALG-33")
@pytest.mark.parametrize("split", [False, True])
async def test_the_research_example_runs_from_its_document_too(split: bool):
    compiled = w.compile(research(), split=split)
    assert compiled.top_level == ["research"]
    assert len(compiled.internal) == (12 if split else 3)
    text = json.dumps(compiled.document.to_ir())
    document = parse(read(text)).document
    assert canonical(json.loads(text)) == compiled.document.to_ir()
    assert await research_world().run("research", "attention", document=document) == {"report": KEPT}

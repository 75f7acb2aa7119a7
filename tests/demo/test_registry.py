"""The demo's registry: the research pipeline, two virtual tools and a router, over the real tools in one process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from weft import demo
from weft.app import local, open_registry
from weft.demo import arxiv, documents, fetch, flaky, search, summarize
from weft.demo.shelf import MEMORY
from weft.dsl.local import LocalTools
from weft.run.engine import Engine

FOLDER = Path(demo.__file__).parent
TOOLS = [tool for module in (documents, search, arxiv, flaky, fetch, summarize) for tool in module.tools(MEMORY)]
BEES: dict[str, Any] = {"query": "bees in the city"}


@pytest.fixture
async def engine() -> AsyncGenerator[Engine]:
    made = local(open_registry(FOLDER / "registry.yaml").valid().document, LocalTools(TOOLS))
    yield made
    await made.close()


def test_the_registry_has_no_problem_at_all():
    assert open_registry(FOLDER / "registry.yaml").problems == []


@pytest.mark.req("ALG-17")
async def test_four_sources_become_one_report_of_what_is_relevant(engine: Engine):
    done = await engine.run("research_pipeline", BEES)
    urls = [one["url"] for one in done.value["sources"]]
    assert len(urls) == len(set(urls)) == 6, "what two sources found is there once"
    assert {url.split("/")[2] for url in urls} >= {"web", "arxiv", "news"}
    assert "demo://arxiv/2305.00101" in urls, "a paper without a PDF goes by its page"
    assert "bees" in done.value["summary"]
    assert done.warnings == []


@pytest.mark.req("ALG-17")
async def test_a_source_that_fails_is_dropped_with_a_warning(engine: Engine):
    mood = next(tool for tool in TOOLS if tool.name == "news_mood")
    mood("fail", calls=1)
    done = await engine.run("research_pipeline", BEES)
    assert [warning for warning in done.warnings if "__news" in warning] == done.warnings != []
    assert len(done.value["sources"]) == 6


async def test_a_topic_that_nobody_knows_gives_an_empty_report(engine: Engine):
    assert await engine.execute("research_pipeline", {"query": "qqqq"}) == {"summary": "", "sources": []}


async def test_virtual_tools_have_defaults_of_their_own_and_another_shape(engine: Engine):
    assert (await engine.execute("web_search", {"query": "compost"})) == [], "older pages are left out by default"
    first = (await engine.execute("internal_docs", {"query": "mowing"}))[0]
    assert first.keys() == {"doc_name", "path", "excerpt", "last_modified", "author", "score"}
    assert first["path"] == "demo://wiki/mowing"


@pytest.mark.parametrize(
    ("where", "field"), [("papers", "arxiv_id"), ("internal", "doc_name"), ("web", "snippet"), (None, "snippet")]
)
async def test_the_router_goes_where_it_is_told(where: str | None, field: str, engine: Engine):
    asked = {"query": "lamps"} | ({} if where is None else {"where": where})
    assert field in (await engine.execute("search_in", asked))[0]

"""The demo's registry: the research pipeline, two virtual tools and a router, over the real tools in one process."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from weft import demo
from weft.app import open_registry
from weft.cli import weft
from weft.demo import arxiv, documents, fetch, flaky, search, summarize
from weft.demo.agents import AGENTS
from weft.demo.gateway import demo_config
from weft.demo.shelf import MEMORY
from weft.dsl.local import LocalTools
from weft.plan.compiler import compile_document
from weft.registry.book import Book
from weft.run.engine import Engine
from weft.stores.memory import MemoryStore

FOLDER = Path(demo.__file__).parent
FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
TOOLS = [tool for module in (documents, search, arxiv, flaky, fetch, summarize) for tool in module.tools(MEMORY)]
BEES: dict[str, Any] = {"query": "bees in the city"}


@pytest.fixture
async def engine() -> AsyncGenerator[Engine]:
    document, store = open_registry(FOLDER / "registry.yaml").valid().document, MemoryStore("orders")
    made = Engine(compile_document(document, LocalTools(TOOLS), stores=lambda name: store))
    yield made
    await made.close()


def test_the_registry_has_no_problem_at_all():
    assert open_registry(FOLDER / "registry.yaml").problems == []


@pytest.mark.req("REG-3", "REG-13", "REG-16")
def test_the_registry_has_two_agents_with_their_cards_and_two_versions_of_one_tool():
    book = Book(open_registry(FOLDER / "registry.yaml").document)
    assert book.versions("tool", "internal_docs") == ("2.0.0", "1.0.0")
    assert [f"{name}@{version}" for name, version in book.agents] == list(AGENTS)
    for agent in book.agents.values():
        assert agent.url
        assert agent.skills
        assert book.depends_on(agent)


@pytest.mark.req("REG-16", "REG-47")
def test_the_bill_of_materials_of_an_agent_has_its_version_of_a_tool_and_its_servers():
    arguments = ["sbom", "export", "--format", "cyclonedx", "--registry", str(FOLDER / "registry.yaml")]
    done = CliRunner().invoke(weft, [*arguments, "--agent", "support@2.1.0"])
    assert done.exit_code == 0, done.output
    needs = {one["ref"]: one.get("dependsOn", []) for one in json.loads(done.stdout)["dependencies"]}
    assert "tool:internal_docs@1.0.0" in needs["agent:support@2.1.0"]
    assert needs["tool:internal_docs@1.0.0"] == ["server:document-service@1.0.0"]
    assert "tool:internal_docs@2.0.0" not in needs


@pytest.mark.req("REG-9", "REG-20")
def test_the_settings_start_the_servers_of_the_registry(tmp_path: Path):
    book = Book(open_registry(FOLDER / "registry.yaml").document)
    assert {(server.name, server.version) for server in demo_config(tmp_path).servers.values()} == set(book.servers)


@pytest.mark.req("REG-59")
def test_the_order_saga_has_the_steps_of_the_seed():
    seed = json.loads((FIXTURES / "registry-pattern-saga.json").read_text(encoding="utf-8"))["spec"]["saga"]["steps"]
    tools = open_registry(FOLDER / "registry.yaml").document.tools
    steps = next(tool for tool in tools if tool.name == "order_saga").model_dump(by_alias=True)["spec"]["saga"]["steps"]
    told = [{key: step[key] for key in ("id", "name")} for step in steps]
    assert told == [{key: step[key] for key in ("id", "name")} for step in seed]
    for key in ("action", "compensate"):
        assert [step[key]["tool"]["name"] for step in steps] == [step[key]["tool"]["name"] for step in seed]


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
    assert (await engine.execute("internal_docs@1.0.0", {"query": "mowing"}))[0].keys() == {"doc_name", "path"}
    assert first.keys() == {"doc_name", "path", "excerpt", "last_modified", "author", "score"}
    assert first["path"] == "demo://wiki/mowing"


@pytest.mark.parametrize(
    ("where", "field"), [("papers", "arxiv_id"), ("internal", "doc_name"), ("web", "snippet"), (None, "snippet")]
)
async def test_the_router_goes_where_it_is_told(where: str | None, field: str, engine: Engine):
    asked = {"query": "lamps"} | ({} if where is None else {"where": where})
    assert field in (await engine.execute("search_in", asked))[0]

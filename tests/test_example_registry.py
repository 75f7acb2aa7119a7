"""The example registry is whole: it has what it promises, validates, makes a bill of materials, and can be served."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.app.served import House, house, message_of
from weft.app import load, problems_of
from weft.cli.sbom import command as sbom
from weft.config import load_config
from weft.ir.walk import walk
from weft.patterns import CATALOGUE
from weft.registry.book import Book

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "registry"
REGISTRY = FOLDER / "registry.yaml"
SETTINGS = FOLDER / "weft.yaml"
ORDER = {"order_id": "W1001", "line": {"sku": "HIVE-1", "quantity": 1}, "amount": 189, "address": "Mill Lane 1"}


@pytest.fixture(scope="module")
def book() -> Book:
    return Book.of(load(REGISTRY))


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncGenerator[House]:
    folder = tmp_path / "registry"
    shutil.copytree(FOLDER, folder)
    async with house(folder, yaml.safe_load(SETTINGS.read_text(encoding="utf-8"))) as served:
        await served.running.gateway.ready()
        yield served


def saying(agent: str, version: str) -> dict[str, str]:
    """Return the headers with which an agent of this machine says who it is."""
    return {"X-Agent-Name": agent, "X-Agent-Version": version}


def value_of(result: dict[str, Any]) -> Any:
    """Return what a tool gave."""
    assert not result.get("isError"), result
    return result["structuredContent"]


@pytest.mark.req("REG-3", "REG-61", "REG-63")
def test_the_registry_is_as_large_as_a_company_s(book: Book):
    assert len(book.schemas) >= 12
    assert len(book.servers) >= 10
    assert len(book.tools) >= 25
    assert len(book.agents) >= 5
    assert book.versions("server", "document-service") == ("2.0.0", "1.4.0")
    assert book.versions("tool", "doc_search") == ("2.0.0", "1.0.0")


REMEMBER = {
    "timeout", "retry", "throttle", "cache", "circuitBreaker", "idempotent", "deadLetter", "claimCheck", "saga",
    "workflow",
}  # fmt: skip
"""Patterns that keep state, and workflows, which have examples of their own."""


@pytest.mark.req("REG-5", "REG-8", "REG-11", "REG-17", "REG-62")
def test_the_registry_shows_what_there_is_to_show(book: Book):
    specs = [tool.spec for tool in book.tools.values() if tool.spec is not None]
    used = {type(node) for spec in specs for _, node in walk(spec, ())}
    assert used >= {model for kind, model in CATALOGUE.items() if kind not in REMEMBER}, "every pattern but those"
    assert any(tool.source is not None and tool.source.hide_fields for tool in book.tools.values())
    assert any("allOf" in schema.body for schema in book.schemas.values())
    needs = {ref.type for agent in book.agents.values() for ref in book.depends_on(agent)}
    assert needs == {"tool", "agent", "schema"}


@pytest.mark.req("REG-24", "REG-25")
def test_the_registry_has_no_problem_but_the_deprecation_that_it_shows():
    strictness = load_config(SETTINGS, {}).registry.validation.startup
    assert strictness.unused_schema == "warn"
    problems = problems_of(load(REGISTRY), severities=strictness)
    assert [(one.severity, one.code, one.value) for one in problems] == [
        ("warning", "Deprecated", "'document-service'")
    ]


@pytest.mark.req("REG-9", "REG-20")
def test_the_settings_start_the_servers_of_the_registry(book: Book):
    config = load_config(SETTINGS, {})
    assert config.problems == ()
    assert {(server.name, server.version) for server in config.servers.values()} == set(book.servers)


@pytest.mark.req("REG-16", "REG-47")
@pytest.mark.parametrize("agent", [None, "editor-agent@1.3.0"])
def test_the_registry_gives_a_bill_of_materials(agent: str | None):
    chosen = [] if agent is None else ["--agent", agent]
    done = CliRunner().invoke(sbom, ["export", "--format", "cyclonedx", "--registry", str(REGISTRY), *chosen])
    assert done.exit_code == 0, done.output
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(done.stdout) is None
    needs = {one["ref"]: one.get("dependsOn", []) for one in json.loads(done.stdout)["dependencies"]}
    assert "agent:research-agent@2.1.0" in needs["agent:editor-agent@1.3.0"]
    assert "server:summarizer@3.0.1" in needs["tool:summarize@1.0.0"]
    assert ("agent:shop-agent@3.0.0" in needs) == (agent is None)


async def test_serving_it_gives_every_tool_and_calls_work(gateway: House, book: Book):
    public = {name for name, _ in book.tools if not name.startswith("__")}
    assert set(await gateway.tools("/registered")) == public
    assert set(await gateway.tools()) > public, "the servers' own tools are at /mcp only"
    assert not gateway.running.gateway.report()["problems"]

    report = value_of(await gateway.call("research_topic", {"query": "bees in the city"}))
    assert {"demo://web/honey", "demo://news/hives-full"} <= {one["url"] for one in report["sources"]}
    done = value_of(await gateway.call("place_order", ORDER))
    assert (done["charge"]["amount"], done["shipment"]["address"]) == (189, "Mill Lane 1")
    told = value_of(await gateway.call("order_overview", {"order_id": "W1001"}))
    assert [one["shipment_id"] for one in told["shipments"]] == [done["shipment"]["shipment_id"]]


@pytest.mark.req("REG-30")
async def test_arguments_that_do_not_fit_are_refused_before_anything_is_done(gateway: House):
    refused = await gateway.call("place_order", {**ORDER, "order_id": "not one"})
    assert refused["isError"]
    assert value_of(await gateway.call("list_charges"))["result"] == []


@pytest.mark.req("REG-34", "REG-40")
async def test_each_agent_sees_exactly_the_tools_that_it_depends_on(gateway: House, book: Book):
    for (name, version), agent in book.agents.items():
        listed = message_of(await gateway.post("tools/list", {}, **saying(name, version)))["result"]["tools"]
        declared = {ref.name for ref in book.depends_on(agent) if ref.type == "tool"}
        assert {tool["name"] for tool in listed} == declared, name


@pytest.mark.req("REG-3", "REG-40")
async def test_two_agents_get_two_versions_of_one_tool(gateway: House):
    asked = {"query": "bees"}
    old = value_of(await gateway.call("doc_search", asked, **saying("archive-agent", "1.0.2")))["result"]
    new = value_of(await gateway.call("doc_search", asked, **saying("research-agent", "2.1.0")))["result"]
    assert (len(old), {one["collection"] for one in old}) == (3, {"wiki"})
    assert (len(new), {one["collection"] for one in new} > {"wiki"}) == (5, True)


@pytest.mark.req("REG-33")
async def test_what_an_agent_does_not_declare_is_as_if_it_were_not_there(gateway: House):
    agent = saying("archive-agent", "1.0.2")
    forbidden = await gateway.post("tools/call", {"name": "stock", "arguments": {}}, **agent)
    missing = await gateway.post("tools/call", {"name": "nothing", "arguments": {}}, **agent)
    assert forbidden.status == missing.status == 400
    assert message_of(forbidden)["error"] == {"code": -32602, "message": "Unknown tool: stock"}
    assert message_of(missing)["error"] == {"code": -32602, "message": "Unknown tool: nothing"}


async def test_a_composition_does_for_an_agent_what_the_agent_may_not_do_itself(gateway: House):
    agent = saying("order-agent", "1.0.0")
    done = value_of(await gateway.call("place_order", ORDER, **agent))
    assert done["charge"]["status"] == "charged"
    refused = await gateway.post("tools/call", {"name": "charge", "arguments": {}}, **agent)
    assert message_of(refused)["error"]["message"] == "Unknown tool: charge"

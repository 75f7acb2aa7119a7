"""What makes the figures of the registry measures what the page says: real gateways, and answers that are looked at."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.gateway.load import Connection
from bench.gateway.places import upstream
from bench.gateway.processes import Process, measurable
from bench.registry.asking import Asking, Client, calls, lists, reload
from bench.registry.costs import LAX, POLICY, STRICT, is_answer
from bench.registry.documents import DEPENDS, SERVER_TOOLS, VERSION, agent_of, document, tools_of_agent
from bench.registry.loading import load
from bench.registry.places import REGISTRY, serving, started
from bench.registry.reloads import Registry
from weft.app.registries import content_of
from weft.gateway.keys import KeyFile, make_key
from weft.gateway.sources import Loaded
from weft.registry.findings import Strictness

AGENT = {"x-agent-name": agent_of(0), "x-agent-version": VERSION}
TOOLS = tools_of_agent(0, 1)[:-1]
linux = pytest.mark.skipif(not measurable(), reason="only Linux tells the CPU time and the memory of a process")


@pytest.fixture(scope="module")
def behind() -> Iterator[Process]:
    with upstream() as started:
        yield started


@pytest.fixture
def client() -> Iterator[Client]:
    with Client() as made:
        yield made


def written(path: Path, *, tools: int, agents: int) -> Path:
    path.write_text(json.dumps(document(tools=tools, agents=agents)))
    return path


def test_a_registry_of_any_size_is_valid_without_a_warning(tmp_path: Path):
    path = written(tmp_path / REGISTRY, tools=300, agents=25)
    strict = Strictness(deprecated_entity="error", unused_schema="error")
    content = content_of(Loaded(name=path.name, data=path.read_bytes(), path=path), severities=strict)
    assert content.problems == ()
    assert (len(content.document.tools), len(content.document.agents)) == (300, 25)
    assert len(content.document.servers) == 300 // SERVER_TOOLS


def test_an_agent_depends_on_as_many_tools_whatever_the_size():
    for tools in (100, 1000):
        made = document(tools=tools, agents=30)
        known = {tool["name"] for tool in made["tools"]}
        for number in range(30):
            named = tools_of_agent(number, tools // SERVER_TOOLS)
            assert len(set(named)) == DEPENDS
            assert set(named) <= known


@linux
def test_a_load_tells_its_seconds_and_the_peak_of_its_memory(tmp_path: Path):
    told = load(written(tmp_path / REGISTRY, tools=100, agents=10))
    assert (told["tools"], told["agents"], told["problems"]) == (100, 10, 0)
    assert 0 < told["load_s"] < told["process_s"]
    assert told["peak_MB"] > 10


@linux
@pytest.mark.req("REG-66")
def test_an_agent_is_listed_its_dependencies_and_calls_them(behind: Process, client: Client):
    settings = {"policy": POLICY, "registry": {"validation": {"runtime": STRICT}}}
    with serving(behind, document(tools=200, agents=4), settings, servers=2) as served:
        agents = [{"x-agent-name": agent_of(number), "x-agent-version": VERSION} for number in range(4)]
        listing = Asking(
            port=served.port,
            requests=lists(agents, 2),
            right=lambda result: len(result["tools"]) == DEPENDS,
            times=8,
        )
        assert client.run(listing).calls == 8
        calling = Asking(port=served.port, requests=calls(tools_of_agent(0, 2)[:-1], AGENT), right=is_answer, times=40)
        assert client.run(calling).calls == 40


@linux
def test_a_call_without_the_key_fails_the_measurement_and_one_with_it_does_not(
    behind: Process, client: Client, tmp_path: Path
):
    key, text = make_key(agent=agent_of(0), versions=[VERSION])
    KeyFile(tmp_path / "keys.json").add(key)
    identity = {"keyFile": str(tmp_path / "keys.json"), "anonymous": "deny", "allowSelfAsserted": False}
    settings = {"identity": identity, "policy": POLICY, "registry": {"validation": {"runtime": STRICT}}}
    with serving(behind, document(tools=100, agents=1), settings) as served:
        proven = {"authorization": f"Bearer {text}"}
        assert (
            client.run(Asking(port=served.port, requests=calls(TOOLS, proven), right=is_answer, times=20)).calls == 20
        )
        with pytest.raises(RuntimeError, match="status 401"):
            client.run(Asking(port=served.port, requests=calls(TOOLS, {}), right=is_answer, times=1))


@linux
def test_answers_that_are_wrong_or_missing_are_counted(behind: Process, client: Client):
    with serving(behind, None, {"registry": {"validation": {"runtime": LAX}}}) as served:
        asking = Asking(port=served.port, requests=calls(TOOLS, {}, 4), right=lambda result: False, times=12)
        assert len(client.hear(asking).wrong) == 12
        missing = Asking(port=served.port, requests=calls(["nowhere"], {}, 4), right=is_answer, times=12)
        assert len(client.hear(missing).failed) == 12
        served.process.end()
        heard = client.hear(Asking(port=behind.port, requests=calls(TOOLS, {}, 1), right=is_answer, times=1))
        assert "status 404" in heard.failed[0]


@linux
def test_each_swap_of_the_registry_is_in_service_after_a_reload(behind: Process, client: Client, tmp_path: Path):
    registry = Registry(tmp_path)
    generations: list[int] = []

    async def swapping(port: int) -> None:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
        for _ in range(3):
            registry.swap()
            generations.append(await reload(connection))
        connection.transport.abort()

    with started(behind, tmp_path, {}) as served:
        asyncio.run(swapping(served.admin))
        assert len(set(generations)) == 3
        registry.rewrite()
        assert not (tmp_path / REGISTRY).is_symlink()
        assert client.run(Asking(port=served.port, requests=calls(TOOLS, AGENT), right=is_answer, times=20)).calls == 20

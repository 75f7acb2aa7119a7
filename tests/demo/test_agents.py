"""The demo's two agents: what they meet is what the gateway does, also where it is told to do something else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from weft.app import open_registry
from weft.cli.remote import Remote, connected
from weft.config import Config
from weft.demo.agents import AGENTS, MISSING, REFUND, SHARED, Met, meet
from weft.demo.gateway import FOLDER, REGISTRY, demo_settings, served
from weft.registry.book import Book

NEEDED = ("document-service@1.0.0", "payment@1.0.0")
FIELDS = {
    "1.0.0": ("doc_name", "path"),
    "2.0.0": ("doc_name", "path", "excerpt", "last_modified", "author", "score"),
}
NO_CHARGE = "there is no charge 'C1'"
PATIENCE = 30.0


def settings(folder: Path, runtime: Mapping[str, str] | None = None, **more: Any) -> Config:
    """Return the settings of the demo with the two servers that are called here, and other rules."""
    written = demo_settings(folder) | more
    written["servers"] = {key: written["servers"][key] for key in NEEDED}
    if runtime is not None:
        written["registry"] = {**written["registry"], "validation": {"runtime": dict(runtime)}}
    return Config.model_validate(written, context=FOLDER)


async def met(config: Config, agents: tuple[str, ...] = AGENTS) -> list[Met]:
    """Return what agents meet at a gateway that is served over HTTP with these settings."""
    async with served(config) as one, AsyncExitStack() as stack:
        await one.gateway.gateway.ready()
        remotes = {agent: Remote(one.url, None, (), agent=agent) for agent in agents}
        clients = {agent: await stack.enter_async_context(connected(remote)) for agent, remote in remotes.items()}
        return await meet(clients, "bees", deadline=asyncio.get_running_loop().time() + PATIENCE)


@pytest.mark.req("REG-33", "REG-34", "REG-40")
async def test_each_agent_has_what_its_card_depends_on_and_nothing_else(tmp_path: Path):
    book = Book(open_registry(REGISTRY).document)
    for one in await met(settings(tmp_path)):
        name, _, version = one.agent.partition("@")
        assert one.tools == {ref.name: ref.version for ref in book.depends_on(book.agents[name, version])}
        assert {tuple(row) for row in one.found} == {FIELDS[one.tools[SHARED]]}
        assert one.told[REFUND] == (NO_CHARGE if REFUND in one.tools else f"Unknown tool: {REFUND}")
        assert one.told[MISSING] == f"Unknown tool: {MISSING}"


async def test_where_undeclared_calls_are_allowed_the_tool_itself_answers(tmp_path: Path):
    researcher, _ = await met(settings(tmp_path, {"undeclaredDependency": "allow"}))
    assert (REFUND in researcher.tools, researcher.told[REFUND]) == (False, NO_CHARGE)


async def test_what_a_rule_denies_is_not_there_for_an_agent_that_depends_on_it(tmp_path: Path):
    _, support = await met(settings(tmp_path, policy=[{"name": "no refunds", "effect": "deny", "tools": [REFUND]}]))
    assert (REFUND in support.tools, support.told[REFUND]) == (False, f"Unknown tool: {REFUND}")
    assert support.tools[SHARED] == "1.0.0"


@pytest.mark.req("REG-41")
async def test_an_agent_that_is_not_registered_sees_everything_in_its_newest_version(tmp_path: Path):
    stranger, other = await met(settings(tmp_path), ("stranger@1.0.0", "researcher@9.9.9"))
    assert stranger.tools == other.tools
    assert stranger.tools.keys() > {SHARED, REFUND, "research_pipeline", "create_document"}
    assert (stranger.tools[SHARED], tuple(stranger.found[0])) == ("2.0.0", FIELDS["2.0.0"])

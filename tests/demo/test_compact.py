"""The demo's list in two tools: whatever is valid for a tool is valid for the group that it is in."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.groups.given import taken_by
from tests.strategies import unhurried
from weft.cli.remote import Remote, connected
from weft.config import Config
from weft.demo.gateway import FOLDER, demo_settings, served

PATIENCE = 30.0
VIEWS = ("compact", "whole", "short")
GROUPS = ("knowledge", "shop")


@dataclass(frozen=True)
class Lists:
    """What the demo lists: its tools, and the groups of each view."""

    tools: dict[str, dict[str, Any]]
    groups: dict[tuple[str, str], dict[str, Any]]
    """By view, and by the name that the group has in `compact`."""


def written(folder: Path) -> Config:
    """Return the settings of the demo, with its two groups also in full and as an index, each in a view of its own."""
    found = demo_settings(folder)
    for view, detail in (("whole", "full"), ("short", "index")):
        found["views"][view] = {}
        for name in GROUPS:
            found["groups"][f"{name}_{view}"] = {**found["groups"][name], "views": [view], "detail": detail}
    return Config.model_validate(found, context=FOLDER)


async def listed(folder: Path) -> Lists:
    """Return what a client of the demo is listed."""
    async with served(written(folder)) as one:
        await one.gateway.gateway.ready()
        deadline = asyncio.get_running_loop().time() + PATIENCE
        found: dict[str, list[dict[str, Any]]] = {}
        for view in ("", *VIEWS):
            async with connected(Remote(f"{one.url}/{view}" if view else one.url, None, ())) as client:
                found[view] = await client.list_tools(deadline=deadline)
    tools = {tool["name"]: tool["inputSchema"] for tool in found.pop("")}
    groups = {(view, tool["name"].partition("_")[0]): tool["inputSchema"] for view in found for tool in found[view]}
    return Lists(tools, groups)


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Lists:
    """Give what the demo lists."""
    return asyncio.run(listed(tmp_path_factory.mktemp("demo")))


def actions_of(schema: dict[str, Any]) -> list[str]:
    return [key for key in schema["properties"]["action"]["enum"] if key != "help"]


@pytest.mark.req("GRP-8")
@pytest.mark.parametrize("view", VIEWS)
def test_each_tool_of_the_demo_is_an_action_of_one_of_two_groups(lists: Lists, view: str) -> None:
    assert {key for one, key in lists.groups if one == view} == set(GROUPS)
    actions = [key for name in GROUPS for key in actions_of(lists.groups[view, name])]
    assert sorted(actions) == sorted(lists.tools)


@pytest.mark.req("GRP-8")
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("group", GROUPS)
@settings(unhurried, max_examples=150)
@given(data=st.data())
def test_a_call_that_a_tool_takes_is_one_that_the_schema_of_its_group_takes(
    lists: Lists, view: str, group: str, data: st.DataObject
) -> None:
    schema = lists.groups[view, group]
    action = data.draw(st.sampled_from(actions_of(schema)))
    arguments = data.draw(taken_by(lists.tools[action]))
    assert list(jsonschema_rs.validator_for(schema).iter_errors({"action": action, **arguments})) == []

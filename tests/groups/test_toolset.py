"""Sets of grouped tools."""

from __future__ import annotations

from typing import Any

import pytest

import weft as w
from tests.gateway.served import Client
from weft.errors import DocumentInvalid, NotFound
from weft.groups.calling import ToolCall
from weft.ports import Principal


def who(call: ToolCall) -> str:
    return call.principal.subject


def tools() -> w.ToolSet:
    users = w.group("users").add("who", who, tags={"public"}).add("drop", who)
    return w.ToolSet(users, w.group("projects").add("who", who))


def test_definitions_are_made_once():
    both = tools()
    assert [one["name"] for one in both.definitions()] == ["users", "projects"]
    assert both.definitions() is both.definitions()
    assert all(one.frozen for one in both)
    assert ("users" in both, "user" in both, len(both)) == (True, False, 2)


@pytest.mark.req("GRP-20")
async def test_a_call_goes_to_the_tool_of_that_name():
    client = Client(principal=Principal(subject="ann"))
    result = await tools().call("projects", {"action": "who"}, client)
    assert result["structuredContent"] == {"result": "ann"}
    assert (await tools().call("projects", {"action": "drop"}))["isError"]


@pytest.mark.req("GRP-20")
async def test_a_name_that_there_is_not_is_told_with_the_nearest():
    with pytest.raises(NotFound, match="Tool not found: user") as caught:
        await tools().call("user", {"action": "who"})
    assert caught.value.hint == "did you mean 'users'?"


def test_a_set_can_be_had_with_fewer_actions():
    assert [(one.name, list(one.actions)) for one in tools().filtered(tags={"public"})] == [("users", ["who"])]


def test_names_are_given_once():
    with pytest.raises(DocumentInvalid, match="two grouped tools are named 'users'"):
        w.ToolSet(w.group("users"), w.group("users"))


@pytest.mark.parametrize("wrong", [who, w.group("users").group("admins"), None])
def test_only_grouped_tools_can_be_in_it(wrong: Any):
    with pytest.raises(TypeError, match=r"w\.ToolSet takes what w\.group returns, not"):
        w.ToolSet(wrong)

"""Middleware that comes with weft, around actions of Python: in order, and together with what groups do themselves."""

from __future__ import annotations

from typing import Any

import pytest

import weft as w
from tests.groups.middlewares import ALICE, BOB, Clock, Lines
from weft.gateway.callers import Nobody
from weft.ports import Principal


def shop(*middleware: Any) -> w.GroupedTool:
    """Return a group of two actions with middleware around all of it."""
    tool = w.group("shop", description="A shop.", middleware=middleware)

    @tool.action
    def find(email: str, limit: int = 1) -> list[dict[str, Any]]:
        """Find orders."""
        return [{"id": number, "email": email} for number in range(limit)]

    @tool.action
    def fail(password: str) -> None:
        """Fail."""
        raise w.failure(f"no such password: {password}")

    return tool


async def called(tool: w.GroupedTool, who: Principal | None = None, **arguments: Any) -> dict[str, Any]:
    return await tool.call(arguments, caller=None if who is None else Nobody(principal=who))


@pytest.mark.req("GRP-17")
async def test_what_is_outside_sees_what_is_inside_refuse():
    lines, clock = Lines(), Clock()
    limited = w.middleware.rate_limited(per_second=1, burst=1, clock=clock)
    tool = shop(w.middleware.logged(lines, clock=clock), limited)
    told = [(await called(tool, ALICE, action="find", email="a@b.example"))["isError"] for _ in range(2)]
    assert told == [False, True]
    assert [(one["action"], one["outcome"]) for one in lines.told] == [("find", "ok"), ("find", "error")]
    inside = shop(w.middleware.rate_limited(per_second=1, burst=1, clock=clock), w.middleware.logged(lines))
    for _ in range(2):
        await called(inside, ALICE, action="find", email="a@b.example")
    assert len(lines.told) == 3


async def test_fields_are_hidden_before_the_caller_selects():
    tool = shop(w.middleware.timed(), w.middleware.redacted(fields=["email"]))
    made = await called(tool, action="find", email="ann@x.example", limit=2, _select=["email"])
    assert made["structuredContent"] == {"result": [{"email": "[redacted]"}] * 2}
    assert "ann@x.example" not in str(made)
    assert "weft/ms" in made["_meta"]


async def test_what_an_action_says_when_it_fails_is_clean():
    tool = shop(w.middleware.redacted())
    made = await called(tool, action="fail", password="hunter22")
    assert made["isError"] is True
    assert "hunter22" not in str(made)


async def test_a_tool_does_not_get_what_is_hidden_from_it():
    tool = shop(w.middleware.redacted(fields=["email"], arguments=True))
    made = await tool.execute({"action": "find", "email": "ann@x.example"})
    assert made == [{"id": 0, "email": "[redacted]"}]


async def test_only_those_who_may_reach_the_action():
    tool = shop(w.middleware.only_for(scopes=["read"], when="arguments.limit < 5", log=Lines()))
    asked = {"action": "find", "email": "x", "limit": 2}
    assert (await called(tool, ALICE, **asked))["isError"] is False
    refused = await called(tool, BOB, **asked)
    assert refused["_meta"]["weft/error"]["code"] == "NotAllowed"
    assert (await called(tool, ALICE, **{**asked, "limit": 9}))["isError"] is True

"""Recipient lists send a value to the tools that it names, among those that are allowed."""

from __future__ import annotations

from typing import Any

import pytest

import weft as w
from tests.patterns.worlds import problems, run, told
from weft.errors import ExecutionFailed, ToolFailed
from weft.testing import FakeWorld, Late, down, refusal

ALLOWED: list[Any] = ["email", "sms", "push"]
TOOLS: dict[str, Any] = {"email": "mailed", "sms": "sent", "push": "pushed", "who": ["sms"]}


def test_the_builder_writes_recipients_allowed_input_and_aggregation():
    p = w.path({})
    op = w.recipient_list(p.channels, allowed=["email", w.tool("sms")], input=p.message, aggregate=[w.flatten()])
    assert op.to_ir() == {
        "recipientList": {
            "recipients": {"path": "$.channels"},
            "input": {"path": "$.message"},
            "allowed": ["email", "sms"],
            "aggregation": {"ops": [{"flatten": True}]},
            "failFast": False,
        }
    }
    asked: Any = w.recipient_list(w.tool("who"), allowed=["sms"]).to_ir()["recipientList"]
    assert asked["recipients"] == {"operation": {"tool": {"name": "who"}}}


async def test_the_tools_that_the_value_names_get_the_part_that_is_meant_for_them_in_order():
    p = w.path({})
    world = FakeWorld(tools=TOOLS)
    op = w.recipient_list(p.channels, allowed=ALLOWED, input=p.message)
    result = await world.trace(op, {"channels": ["sms", "email"], "message": "hi"})
    assert result.value == ["sent", "mailed"]
    assert world.calls == [("sms", "hi"), ("email", "hi")]
    assert told(result.trace) == [(0, "it", "ok"), (1, "sms", "ok"), (1, "email", "ok")]


async def test_without_an_input_they_get_the_whole_value():
    p = w.path({})
    world = FakeWorld(tools=TOOLS)
    await world.run(w.recipient_list(p.to, allowed=ALLOWED), {"to": "push"})
    assert world.calls == [("push", {"to": "push"})]


async def test_a_tool_may_say_who_gets_it():
    world = FakeWorld(tools=TOOLS)
    result = await world.trace(w.recipient_list(w.tool("who"), allowed=ALLOWED), {"text": "hi"})
    assert result.value == ["sent"]
    assert world.calls == [("who", {"text": "hi"}), ("sms", {"text": "hi"})]
    assert told(result.trace)[1] == (1, "recipients", "ok")


@pytest.mark.parametrize("name", ["delete_all", "Email", "who", "", 7, None, True, ["email"], {"a": 1}])
async def test_a_name_that_is_not_allowed_is_refused_and_nothing_is_sent(name: Any):
    p = w.path({})
    world = FakeWorld(tools=TOOLS)
    with pytest.raises(ExecutionFailed, match=r"^Recipient .* is not allowed$"):
        await world.run(w.recipient_list(p, allowed=ALLOWED), ["email", name])
    assert world.calls == []


async def test_a_tool_cannot_name_what_is_not_allowed_either():
    world = FakeWorld(tools={**TOOLS, "who": ["email", "who"]})
    with pytest.raises(ExecutionFailed, match=r"^Recipient 'who' is not allowed$"):
        await world.run(w.recipient_list(w.tool("who"), allowed=ALLOWED))
    assert [tool for tool, _ in world.calls] == ["who"]


@pytest.mark.parametrize(("names", "told_as"), [(None, "null"), ({"a": 1}, "an object"), (3, "a number")])
async def test_names_that_are_no_list_are_refused(names: Any, told_as: str):
    p = w.path({})
    with pytest.raises(ExecutionFailed, match=f"^Recipients must be a list of names, not {told_as}$"):
        await FakeWorld(tools=TOOLS).run(w.recipient_list(p.to, allowed=ALLOWED), {"to": names})


async def test_a_name_given_twice_gets_it_once():
    p = w.path({})
    world = FakeWorld(tools=TOOLS)
    assert await world.run(w.recipient_list(p, allowed=ALLOWED), ["sms", "email", "sms"]) == ["sent", "mailed"]
    assert [tool for tool, _ in world.calls] == ["sms", "email"]


async def test_no_names_is_no_result():
    p = w.path({})
    assert await FakeWorld(tools=TOOLS).run(w.recipient_list(p, allowed=ALLOWED), []) == []


async def test_recipients_work_at_the_same_moment():
    p = w.path({})
    world = FakeWorld(tools={"email": Late(1, 2), "sms": Late(2, 3)})
    before = world.clock.now()
    assert await world.run(w.recipient_list(p, allowed=["email", "sms"]), ["email", "sms"]) == [1, 2]
    assert world.clock.now() - before == 3


async def test_a_recipient_that_fails_is_dropped_with_a_warning():
    p = w.path({})
    result = await FakeWorld(tools={**TOOLS, "sms": refusal("no")}).trace(
        w.recipient_list(p, allowed=ALLOWED), ["sms", "push"]
    )
    assert (result.value, result.warnings) == (["pushed"], ["Target 'sms' failed: Tool 'fake' failed: no"])


async def test_when_every_recipient_fails_each_ones_error_is_told():
    p = w.path({})
    world = FakeWorld(tools={"email": refusal("no"), "sms": down("gone")})
    with pytest.raises(ExecutionFailed, match=r"^All 2 scatter targets failed: email failed: .*; sms failed: "):
        await world.run(w.recipient_list(p, allowed=["email", "sms"]), ["email", "sms"])


async def test_with_fail_fast_the_first_failure_is_the_error():
    p = w.path({})
    world = FakeWorld(tools={"email": Late("late", 9), "sms": refusal("no")})
    before = world.clock.now()
    with pytest.raises(ToolFailed):
        await world.run(w.recipient_list(p, allowed=["email", "sms"], fail_fast=True), ["email", "sms"])
    assert world.clock.now() == before


async def test_results_are_aggregated():
    p = w.path({})
    world = FakeWorld(tools={"email": [3, 1], "sms": [2]})
    op = w.recipient_list(p, allowed=["email", "sms"], aggregate=[w.flatten(), w.sort("$")])
    assert await world.run(op, ["email", "sms"]) == [1, 2, 3]


async def test_compositions_may_be_recipients():
    p = w.path({})
    world = FakeWorld(tools=TOOLS)
    loud = w.composition("loud", "Loud.", w.pipeline(w.tool("sms"), w.schema_map(p, {"said": p})))
    assert await world.run(w.recipient_list(p, allowed=[loud]), ["loud"]) == [{"said": "sent"}]
    with pytest.raises(TypeError, match="by name"):
        w.recipient_list(p, allowed=[w.pipeline(w.tool("sms"))])


async def test_the_document_of_the_decisions_is_read_as_it_stands():
    spec: dict[str, Any] = {
        "recipientList": {
            "recipients": {"path": "$.channels"},
            "input": {"path": "$.message"},
            "allowed": ["email", "sms"],
            "aggregation": {"ops": []},
            "failFast": False,
        }
    }
    result = await run(FakeWorld(tools=TOOLS), spec, {"channels": ["sms"], "message": "hi"})
    assert result.value == ["sent"]
    assert problems({"recipientList": {"recipients": {"path": "$.x"}, "allowed": []}})
    assert problems({"recipientList": {"recipients": {}, "allowed": ["email"]}})

"""A step of a workflow may ask the person behind the call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

import weft as w
from tests.gateway.served import gateway
from tests.patterns.workflows import spec, statuses, step
from tests.patterns.worlds import document
from weft.doors.guard import Guard
from weft.doors.listener import Listener, bind
from weft.doors.mcp.app import McpDoor
from weft.doors.sites import Site
from weft.errors import WorkflowFailed
from weft.gateway.callers import Nobody
from weft.run.engine import Result
from weft.testing import FakeWorld

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Person(Nobody):
    """A caller behind whom somebody answers; every question is kept."""

    capabilities: Mapping[str, Any] = {"elicitation": {}}

    def __init__(self, *answers: dict[str, Any]) -> None:
        super().__init__()
        self.asked: list[dict[str, Any]] = []
        self._answers = list(answers)

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        for one in requests.values():
            self.asked.append(dict(one))
        return {key: self._answers.pop(0) for key in requests}


def ask(**more: Any) -> dict[str, Any]:
    return {"id": "who", "elicit": {"message": "Who gets {{find.what}}?", "schema": SCHEMA, **more}}


def asking(question: dict[str, Any], **more: Any) -> dict[str, Any]:
    return spec(
        step("find"), question, step("greet", parameters={"to": "{{who.name}}"}), step("log", "who"),
        step("perhaps", parameters={"to": '{{who.name ?? "nobody"}}'}), **more,
    )  # fmt: skip


async def answered(what: dict[str, Any], caller: Nobody | None) -> tuple[Result, FakeWorld]:
    """Run a workflow for a caller."""
    world = FakeWorld(tools={"find": {"what": "a parcel"}, "greet": "hi", "log": "ok", "perhaps": "ok"})
    engine = world.engine(document(what))
    try:
        return await engine.run("it", None, caller=caller), world
    finally:
        await engine.close()


async def failed(what: dict[str, Any], caller: Nobody | None) -> WorkflowFailed:
    with pytest.raises(WorkflowFailed) as caught:
        await answered(what, caller)
    return caught.value


async def test_the_answer_is_the_result_of_the_step():
    person = Person({"action": "accept", "content": {"name": "Anna"}})
    result, world = await answered(asking(ask()), person)
    assert result.value["who"] == {"name": "Anna"}
    assert ("greet", {"to": "Anna"}) in world.calls
    assert person.asked == [
        {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": "Who gets a parcel?", "requestedSchema": SCHEMA},
        }
    ]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_whoever_says_no_ends_the_workflow(action: str):
    error = await failed(asking(ask()), Person({"action": action}))
    assert (error.cause["code"], statuses(error)["who"]) == ("Declined", "failed")
    assert f"the person who was asked said '{action}'" in error.message


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_whoever_says_no_may_only_skip_the_step_and_what_needs_it(action: str):
    result, world = await answered(asking(ask(on_decline="skip")), Person({"action": action}))
    assert result.value.keys() == {"find", "log", "perhaps"}
    assert ("perhaps", {"to": "nobody"}) in world.calls
    assert result.warnings == []


@pytest.mark.parametrize("caller", [None, Nobody()])
async def test_a_caller_who_cannot_be_asked_is_told_what_to_do(caller: Nobody | None):
    error = await failed(asking(ask(on_decline="skip")), caller)
    assert error.cause["code"] == "CannotAsk"
    assert error.hint == "call it from a client that has the elicitation capability, or give the answer as input"


@pytest.mark.parametrize("content", [None, {}, {"name": 1}])
async def test_an_answer_that_does_not_fit_is_a_failure(content: Any):
    error = await failed(asking(ask()), Person({"action": "accept", "content": content}))
    assert error.cause["code"] == "InvalidAnswer"
    assert "the answer does not fit" in error.message


async def test_nobody_is_asked_twice_for_the_same_thing():
    person = Person({"action": "decline"}, {"action": "accept", "content": {"name": "Anna"}})
    await failed(asking(ask(), error_handling={"failure_strategy": "retry", "max_retries": 3}), person)
    assert len(person.asked) == 1


async def test_a_question_may_be_asked_for_every_item_and_only_when_it_is_needed():
    yes = {"action": "accept", "content": {"name": "x"}}
    person = Person(yes, yes)
    what = spec(
        {"id": "who", "for_each": ["a", "b"], "elicit": {"message": "{{item}} ({{index}})?", "schema": SCHEMA}},
        {"id": "not", "when": "size(who) > 5", "elicit": {"message": "?", "schema": SCHEMA}},
    )
    result, _ = await answered(what, person)
    assert result.value == {"who": [{"name": "x"}] * 2}
    assert sorted(one["params"]["message"] for one in person.asked) == ["a (0)?", "b (1)?"]


@w.python_tool
async def greet(to: str) -> dict[str, str]:
    """Greet somebody."""
    return {"said": f"Hello {to}"}


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_person_behind_a_real_client_is_asked_through_a_real_gateway(mode: Any):
    steps = [
        {"id": "who", "elicit": {"message": "Who are you?", "schema": SCHEMA}},
        {"id": "greet", "tool": "greet", "parameters": {"to": "{{who.name}}"}},
    ]
    definition = {"name": "welcome", "steps": steps, "output": {"said": "{{greet.said}}"}}
    heard: list[str] = []

    async def anna(context: Any, params: Any) -> types.ElicitResult:
        heard.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Anna"})

    async with gateway({"greeter": [greet]}, definition) as made:
        listener = Listener(Guard({"/mcp": McpDoor(made)}, site=Site()), sockets=[bind("127.0.0.1", 0)])
        await listener.start()
        try:
            async with Client(
                f"http://127.0.0.1:{listener.address[1]}/mcp", mode=mode, elicitation_callback=anna
            ) as one:
                answer = await one.call_tool("welcome", {})
            async with Client(f"http://127.0.0.1:{listener.address[1]}/mcp", mode=mode) as mute:
                refused = await mute.call_tool("welcome", {})
        finally:
            await listener.drain(0.1)
    assert (answer.structured_content, heard) == ({"said": "Hello Anna"}, ["Who are you?"])
    assert refused.is_error
    assert "the caller cannot be asked" in str(refused.content)

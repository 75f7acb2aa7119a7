"""Questions of a server reach the person or the model behind the client, whatever era either side speaks."""

from __future__ import annotations

from typing import Any

import mcp_types as t
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.oracle.conftest import Era, connected


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (t.ElicitResult(action="accept", content={"size": 42}), "action=accept, content={'size': 42}"),
        (t.ElicitResult(action="decline"), "action=decline, content=None"),
        (t.ElicitResult(action="cancel"), "action=cancel, content=None"),
    ],
    ids=["accept", "decline", "cancel"],
)
async def test_a_person_is_asked_and_the_answer_comes_back(
    door: str, era: Era, upstream: str, answer: t.ElicitResult, told: str
):
    asked: list[t.ElicitRequestParams] = []

    async def on_elicit(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        asked.append(params)
        return answer

    async with connected(door, era, elicitation_callback=on_elicit) as client:
        result = await client.call_tool(f"{upstream}_elicit", {})
    assert [block.text for block in result.content if isinstance(block, t.TextContent)] == [told]
    [question] = asked
    assert isinstance(question, t.ElicitRequestFormParams)
    assert question.message == "What size?"
    assert question.requested_schema == {
        "type": "object",
        "properties": {"size": {"type": "integer"}},
        "required": ["size"],
    }


async def test_a_question_that_comes_beside_the_call_reaches_its_client(door: str, era: Era, upstream: str):
    async def on_elicit(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        return t.ElicitResult(action="accept", content={"size": 3})

    async with connected(door, era, elicitation_callback=on_elicit) as client:
        result = await client.call_tool(f"{upstream}_aside", {})
    assert [block.text for block in result.content if isinstance(block, t.TextContent)] == [
        "action=accept, content={'size': 3}"
    ]


async def test_a_model_is_asked_and_the_answer_comes_back(door: str, era: Era, upstream: str):
    async def on_sample(context: Any, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
        [message] = params.messages
        assert isinstance(message.content, t.TextContent)
        assert params.max_tokens == 100
        poem = t.TextContent(text=f"{message.content.text}: roses")
        return t.CreateMessageResult(role="assistant", content=poem, model="oracle")

    async with connected(door, era, sampling_callback=on_sample) as client:
        result = await client.call_tool(f"{upstream}_sample", {})
    assert [block.text for block in result.content if isinstance(block, t.TextContent)] == ["Write a poem: roses"]


async def test_a_server_learns_what_the_client_can_do(door: str, era: Era, upstream: str):
    async def on_elicit(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        raise AssertionError("nobody asks")

    async with connected(door, era, elicitation_callback=on_elicit) as client:
        result = await client.call_tool(f"{upstream}_who", {})
    assert set(result.structured_content["capabilities"]) == {"elicitation"}


async def test_a_client_that_cannot_be_asked_is_not_asked(client: Client, upstream: str):
    with pytest.raises(MCPError) as refused:
        await client.call_tool(f"{upstream}_elicit", {})
    assert refused.value.error.code == -32021
    assert refused.value.error.data == {"requiredCapabilities": {"elicitation": {}}}


async def test_answers_without_the_state_of_a_question_begin_the_call_anew(door: str, upstream: str):
    async def on_elicit(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        raise AssertionError("the question comes back as a result")

    early: t.InputResponses = {"nobody asked": t.ElicitResult(action="accept", content={"size": 1})}
    async with connected(door, "modern", elicitation_callback=on_elicit) as client:
        result = await client.session.call_tool(
            f"{upstream}_elicit", {}, input_responses=early, allow_input_required=True
        )
    assert isinstance(result, t.InputRequiredResult)
    [question] = (result.input_requests or {}).values()
    assert question.method == "elicitation/create"


async def test_state_that_weft_did_not_give_is_refused(door: str, upstream: str):
    async def on_elicit(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        raise AssertionError("the question comes back as a result")

    async with connected(door, "modern", elicitation_callback=on_elicit) as client:
        asked = await client.session.call_tool(f"{upstream}_elicit", {}, allow_input_required=True)
        assert isinstance(asked, t.InputRequiredResult)
        answers: t.InputResponses = {key: t.ElicitResult(action="decline") for key in asked.input_requests or {}}
        with pytest.raises(MCPError) as refused:
            await client.session.call_tool(
                f"{upstream}_elicit", {}, input_responses=answers, request_state=f"{asked.request_state}x"
            )
        assert refused.value.error.code == t.INVALID_PARAMS
        result = await client.session.call_tool(
            f"{upstream}_elicit", {}, input_responses=answers, request_state=asked.request_state
        )
    assert [block.text for block in result.content if isinstance(block, t.TextContent)] == [
        "action=decline, content=None"
    ]

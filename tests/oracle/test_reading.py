"""Resources, prompts and completions through the gateway, for each pair of client era and upstream era."""

from __future__ import annotations

import mcp_types as t
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.oracle.conftest import UPSTREAMS, Era, Raw
from tests.oracle.upstream import META


def scheme(upstream: str) -> str:
    return upstream.replace("_", "-")


def contents(result: t.ReadResourceResult) -> list[tuple[str, str]]:
    return [(str(one.uri), one.text) for one in result.contents if isinstance(one, t.TextResourceContents)]


async def test_resources_of_all_servers_are_listed(client: Client):
    found = {str(resource.uri) for resource in (await client.list_resources()).resources}
    assert found == {f"{scheme(name)}://texts/{text}" for name in UPSTREAMS for text in ("fixed", "changing")}


async def test_a_resource_is_read_at_its_server(client: Client, upstream: str):
    uri = f"{scheme(upstream)}://texts/fixed"
    assert contents(await client.read_resource(uri)) == [(uri, "texts: fixed")]


async def test_a_resource_of_a_template_is_read_at_its_server(client: Client, upstream: str):
    templates = {template.uri_template for template in (await client.list_resource_templates()).resource_templates}
    assert f"{scheme(upstream)}://numbers/{{n}}" in templates
    uri = f"{scheme(upstream)}://numbers/12"
    assert contents(await client.read_resource(uri)) == [(uri, "numbers: 12")]


async def test_a_resource_that_no_server_has_is_refused_in_the_words_of_the_era(client: Client, era: Era):
    with pytest.raises(MCPError) as refused:
        await client.read_resource("nobody://has/this")
    assert refused.value.error.code == {"legacy": -32002, "modern": t.INVALID_PARAMS}[era]
    assert refused.value.error.data == {"uri": "nobody://has/this"}


async def test_a_resource_that_its_server_does_not_find_is_refused_as_the_server_said(
    client: Client, era: Era, upstream: str
):
    missing = f"{scheme(upstream)}://numbers/nowhere"
    with pytest.raises(MCPError, match="Resource not found") as refused:
        await client.read_resource(missing)
    old = era == "legacy" and upstream.startswith("legacy")
    assert refused.value.error.code == (-32002 if old else t.INVALID_PARAMS)
    assert refused.value.error.data == {"uri": missing}


async def test_a_prompt_is_listed_and_got(client: Client, upstream: str):
    listed = (await client.session.send_request(t.ListPromptsRequest(), Raw)).root
    [prompt] = [prompt for prompt in listed["prompts"] if prompt["name"] == f"{upstream}_greet"]
    assert prompt == {
        "name": f"{upstream}_greet",
        "title": "Greeting",
        "arguments": [{"name": "mood", "required": True}],
        "_meta": META,
    }
    got = await client.get_prompt(f"{upstream}_greet", {"mood": "calm"})
    assert got.description == "Asked"
    assert [message.content for message in got.messages] == [t.TextContent(text="Be calm")]


async def test_an_unknown_prompt_is_refused(client: Client):
    with pytest.raises(MCPError, match="nowhere_to_be_found") as refused:
        await client.get_prompt("nowhere_to_be_found")
    assert refused.value.error.code == t.INVALID_PARAMS


async def test_an_argument_of_a_prompt_is_completed_at_its_server(client: Client, upstream: str):
    reference = t.PromptReference(name=f"{upstream}_greet")
    found = await client.complete(reference, {"name": "mood", "value": "ca"})
    assert found.completion.values == ["calm", "cautious"]


async def test_a_variable_of_a_template_is_completed_at_its_server(client: Client, upstream: str):
    reference = t.ResourceTemplateReference(uri=f"{scheme(upstream)}://numbers/{{n}}")
    found = await client.complete(reference, {"name": "n", "value": "gl"})
    assert found.completion.values == ["glad"]

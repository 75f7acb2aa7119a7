"""The prompts, resources and completions that the suite asks for by name."""

from __future__ import annotations

import json
import re
from typing import Any

import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from tests.conformance.asking import Context, is_modern
from tests.conformance.questions import context_prompt
from tests.conformance.samples import PNG, embedded, image

TEMPLATE = re.compile(r"test://template/([^/]+)/data")

TEXTS = {
    "test://static-text": "This is the content of the static text resource.",
    "test://watched-resource": "This resource may change.",
}

RESOURCES = [
    t.Resource(uri="test://static-text", name="static-text", description="A fixed text", mime_type="text/plain"),
    t.Resource(uri="test://static-binary", name="static-binary", description="A picture", mime_type="image/png"),
    t.Resource(uri="test://watched-resource", name="watched", description="A text to follow", mime_type="text/plain"),
]

TEMPLATES = [
    t.ResourceTemplate(
        uri_template="test://template/{id}/data",
        name="template",
        description="Data of one id",
        mime_type="application/json",
    )
]


def _argument(name: str, description: str) -> t.PromptArgument:
    return t.PromptArgument(name=name, description=description, required=True)


PROMPTS = [
    t.Prompt(name="test_simple_prompt", description="A prompt without arguments"),
    t.Prompt(
        name="test_prompt_with_arguments",
        description="A prompt with two arguments",
        arguments=[_argument("arg1", "First test argument"), _argument("arg2", "Second test argument")],
    ),
    t.Prompt(
        name="test_prompt_with_embedded_resource",
        description="A prompt that holds a resource",
        arguments=[_argument("resourceUri", "URI of the resource to embed")],
    ),
    t.Prompt(name="test_prompt_with_image", description="A prompt that holds a picture"),
    t.Prompt(name="test_input_required_result_prompt", description="A prompt that first asks for its context"),
]


async def read_resource(
    ctx: ServerRequestContext[Any, Any], params: t.ReadResourceRequestParams
) -> t.ReadResourceResult:
    """Return what stands in a resource."""
    uri = params.uri
    if uri == "test://static-binary":
        return t.ReadResourceResult(contents=[t.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)])
    if found := TEMPLATE.fullmatch(uri):
        told = {"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"}
        return _text(uri, json.dumps(told), mime="application/json")
    if uri not in TEXTS:
        code = t.INVALID_PARAMS if is_modern(ctx) else -32002
        raise MCPError(code, "Resource not found", {"uri": uri})
    return _text(uri, TEXTS[uri])


def _text(uri: str, text: str, *, mime: str = "text/plain") -> t.ReadResourceResult:
    return t.ReadResourceResult(contents=[t.TextResourceContents(uri=uri, mime_type=mime, text=text)])


async def get_prompt(ctx: Context, params: t.GetPromptRequestParams) -> t.GetPromptResult | t.InputRequiredResult:
    """Return the messages of a prompt."""
    given = params.arguments or {}
    if params.name == "test_input_required_result_prompt":
        return await context_prompt(ctx, params)
    if params.name == "test_simple_prompt":
        return _messages(t.TextContent(text="This is a simple prompt for testing."))
    if params.name == "test_prompt_with_arguments":
        return _messages(
            t.TextContent(text=f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")
        )
    if params.name == "test_prompt_with_embedded_resource":
        held = embedded(given.get("resourceUri", ""), "Embedded resource content for testing.")
        return _messages(held, t.TextContent(text="Please process the embedded resource above."))
    if params.name == "test_prompt_with_image":
        return _messages(image(), t.TextContent(text="Please analyze the image above."))
    raise MCPError(t.INVALID_PARAMS, f"Unknown prompt: {params.name}")


def _messages(*blocks: t.ContentBlock) -> t.GetPromptResult:
    return t.GetPromptResult(messages=[t.PromptMessage(role="user", content=block) for block in blocks])


async def complete(ctx: Context, params: t.CompleteRequestParams) -> t.CompleteResult:
    """Return what an argument may become."""
    words = ["paris", "park", "party", "testing"]
    values = [word for word in words if word.startswith(params.argument.value)]
    return t.CompleteResult(completion=t.Completion(values=values, total=len(values), has_more=False))

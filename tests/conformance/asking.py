"""How a server on the SDK asks its client: requests in the handshake era, input-required results in the modern one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Context: TypeAlias = ServerRequestContext[Any, Any]
Question: TypeAlias = t.ElicitRequest | t.CreateMessageRequest | t.ListRootsRequest
Answer: TypeAlias = t.ElicitResult | t.CreateMessageResult | t.CreateMessageResultWithTools | t.ListRootsResult
Answers: TypeAlias = Mapping[str, Answer]


def is_modern(ctx: Context) -> bool:
    """Tell whether the request came over the stateless wire."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def form(message: str, **properties: Mapping[str, Any]) -> t.ElicitRequest:
    """Return a question that a person answers by filling in a form, of which every field is required."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return t.ElicitRequest(params=t.ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(prompt: str, *, tokens: int = 100) -> t.CreateMessageRequest:
    """Return a question that a language model answers."""
    message = t.SamplingMessage(role="user", content=t.TextContent(text=prompt))
    return t.CreateMessageRequest(params=t.CreateMessageRequestParams(messages=[message], max_tokens=tokens))


async def ask(
    ctx: Context, params: t.InputResponseRequestParams, questions: Mapping[str, Question], *, state: str | None = None
) -> Answers | t.InputRequiredResult:
    """Return the client's answers, or the result that says which are still to be given."""
    if not is_modern(ctx):
        return {key: await _request(ctx, question) for key, question in questions.items()}
    given = params.input_responses or {}
    if all(key in given for key in questions):
        return given
    return t.InputRequiredResult(input_requests=dict(questions), request_state=state)


async def _request(ctx: Context, question: Question) -> Answer:
    # The question belongs to the request that it interrupts, and so to that request's stream.
    metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
    if isinstance(question, t.ElicitRequest):
        return await ctx.session.send_request(question, t.ElicitResult, metadata=metadata)
    if isinstance(question, t.CreateMessageRequest):
        return await ctx.session.send_request(question, t.CreateMessageResult, metadata=metadata)
    return await ctx.session.send_request(question, t.ListRootsResult, metadata=metadata)


def require(ctx: Context, *names: str) -> None:
    """Refuse a client that has not said that it can do this."""
    missing: dict[str, dict[str, Any]] = {name: {} for name in names if not declares(ctx, name)}
    if missing:
        message = f"This needs a client that can do {' and '.join(missing)}"
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, message, {"requiredCapabilities": missing})


def declares(ctx: Context, name: str) -> bool:
    """Tell whether the client has said that it can do this."""
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and getattr(capabilities, name) is not None


def text_of(answer: Answer) -> str:
    """Return the text with which a language model answered."""
    assert isinstance(answer, t.CreateMessageResult | t.CreateMessageResultWithTools)
    blocks = answer.content if isinstance(answer.content, list) else [answer.content]
    return " ".join(block.text for block in blocks if isinstance(block, t.TextContent))


def outcome(answer: Answer) -> str:
    """Return what a person did with a form, in words."""
    assert isinstance(answer, t.ElicitResult)
    return f"action={answer.action}, content={answer.content}"

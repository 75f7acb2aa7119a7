"""Whatever comes in, the door answers with JSON-RPC, blames the client, and does not fall over."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doors.mcp.fakes import HELLO, META, FakeGateway
from weft.doors.asgi import Message
from weft.doors.mcp import McpDoor
from weft.doors.mcp.methods import LEGACY_METHODS, MODERN_METHODS

METHODS = sorted((MODERN_METHODS | LEGACY_METHODS | {"initialize"}) - {"subscriptions/listen"})
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=20)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "_meta": st.just(META) | VALUES,
        "name": st.sampled_from(["echo", "busy", "regional"]) | VALUES,
        "arguments": VALUES,
        "notifications": VALUES,
        "inputResponses": VALUES,
        "requestState": VALUES,
        "level": VALUES,
        "protocolVersion": VALUES,
    },
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | VALUES,
        "id": st.integers(0, 9) | VALUES,
        "method": st.sampled_from(METHODS) | st.text(max_size=20),
        "params": PARAMS | VALUES,
        "result": VALUES,
        "error": VALUES,
    },
)
BODIES = st.binary(max_size=50) | (MESSAGES | VALUES).map(
    lambda value: orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
)
TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20).map(str.encode)
HEADERS = st.fixed_dictionaries(
    {
        b"accept": st.just(b"application/json, text/event-stream"),
        b"content-type": st.just(b"application/json"),
    },
    optional={
        b"mcp-protocol-version": st.sampled_from([b"2026-07-28", b"2025-11-25"]) | TEXTS,
        b"mcp-method": st.sampled_from([method.encode() for method in METHODS]) | TEXTS,
        b"mcp-name": st.sampled_from([b"echo", b"=?base64?ZWNobw==?=", b"=?base64??="]) | TEXTS,
        b"mcp-session-id": TEXTS,
    },
)


async def ask(door: McpDoor, method: str, headers: dict[bytes, bytes], body: bytes) -> tuple[int, bytes, bytes | None]:
    """Return status, body and session id of what the door says."""
    said: list[Message] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        said.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": "/mcp",
        "headers": list(headers.items()),
        "state": {},
    }
    await asyncio.wait_for(door(scope, receive, send), 10)
    text = b"".join(message.get("body", b"") for message in said[1:])
    return said[0]["status"], text, dict(said[0]["headers"]).get(b"mcp-session-id")


@settings(max_examples=100, deadline=None)
@given(
    headers=HEADERS, body=BODIES, method=st.sampled_from(["POST", "POST", "POST", "DELETE", "PUT"]), met=st.booleans()
)
def test_every_request_is_answered_and_none_is_an_internal_error(
    headers: dict[bytes, bytes], body: bytes, method: str, met: bool
) -> None:
    async def run() -> None:
        door = McpDoor(FakeGateway())
        if met:
            hello = orjson.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
            common = {name: headers[name] for name in (b"accept", b"content-type")}
            _, _, session = await ask(door, "POST", common, hello)
            assert session is not None
            headers[b"mcp-session-id"] = session
        status, text, _ = await ask(door, method, headers, body)
        assert status < 500, text
        if status not in {202, 204} and text.startswith(b"{"):
            answer = orjson.loads(text)
            assert ("error" in answer) != ("result" in answer)

    asyncio.run(run())

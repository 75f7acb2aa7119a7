"""A server that refuses the version of the first question, and says which versions it speaks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.upstreams.listening import listening
from weft.upstreams.client import McpClient
from weft.upstreams.http import HttpTransport


class Choosy:
    """Refuses the first question, answers the second, and keeps what it was asked."""

    def __init__(self, supported: Sequence[str]) -> None:
        self.supported = list(supported)
        self.asked: list[str] = []

    async def answer(self, request: Request) -> JSONResponse:
        message = await request.json()
        self.asked.append(message["method"])
        reply = {"jsonrpc": "2.0", "id": message.get("id")}
        if len(self.asked) == 1:
            told = {"code": -32022, "message": "Unsupported protocol version", "data": {"supported": self.supported}}
            return JSONResponse({**reply, "error": told}, 400)
        if message["method"] == "server/discover":
            found: dict[str, object] = {
                "resultType": "complete",
                "supportedVersions": self.supported,
                "capabilities": {},
            }
            return JSONResponse({**reply, "result": found})
        return JSONResponse({**reply, "result": {"protocolVersion": "2025-11-25", "capabilities": {}}})


@pytest.mark.parametrize(
    ("supported", "era", "asked"),
    [
        (["2026-07-28"], "modern", ["server/discover", "server/discover"]),
        (["2025-11-25"], "legacy", ["server/discover", "initialize", "notifications/initialized"]),
    ],
)
async def test_a_server_is_asked_once_more_exactly_if_it_names_the_version_that_it_refused(
    supported: list[str], era: str, asked: list[str]
):
    choosy = Choosy(supported)
    with listening(Starlette(routes=[Route("/mcp", choosy.answer, methods=["POST"])])) as port:
        client = McpClient(HttpTransport(f"http://127.0.0.1:{port}/mcp"), server="choosy")
        try:
            await client.connect(asyncio.get_running_loop().time() + 10)
            assert (client.era, choosy.asked) == (era, asked)
        finally:
            await client.close()

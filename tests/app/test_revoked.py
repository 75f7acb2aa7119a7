"""A key that is revoked ends the streams that it opened, and opens no others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson

from tests.app.served import EVENTS, META, PATIENCE, house, registry
from weft.gateway.keys import KeyFile, make_key


async def test_a_stream_ends_with_the_key_that_opened_it(tmp_path: Path) -> None:
    key, secret = make_key(agent="anna", versions=["1.0.0"])
    file = KeyFile(tmp_path / "keys.json")
    file.add(key)
    config: dict[str, Any] = {"identity": {"keyFile": "keys.json", "anonymous": "deny"}}
    async with house(tmp_path, config, registry()) as place, place.connected() as client:
        params = {"_meta": META, "notifications": {"toolsListChanged": True}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        headers = {
            "content_type": "application/json",
            "accept": EVENTS,
            "mcp_protocol_version": "2026-07-28",
            "mcp_method": "subscriptions/listen",
            "authorization": f"Bearer {secret}",
        }
        client.request("POST", "/mcp", body=orjson.dumps(message), **headers)
        async with asyncio.timeout(PATIENCE):
            while b"acknowledged" not in await client.reader.readline():
                pass
            file.revoke(key.id)
            ended = b""
            while b'"result"' not in ended:
                ended = await client.reader.readline()
        assert (await place.post("tools/list", {}, authorization=f"Bearer {secret}")).status == 401

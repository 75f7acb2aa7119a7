"""A gateway whose callers must prove who they are tells the others nothing of what is behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from tests.app.served import house, pipeline, registry
from weft.gateway.keys import KeyFile, make_key


async def test_readiness_is_one_word_and_metrics_take_a_scope(tmp_path: Path) -> None:
    secrets: dict[str, str] = {}
    for name, scopes in (("agent", ()), ("scraper", ("metrics",))):
        key, secrets[name] = make_key(agent=name, versions=["1.0.0"], scopes=scopes)
        KeyFile(tmp_path / "keys.json").add(key)
    config: dict[str, Any] = {
        "identity": {"keyFile": "keys.json", "anonymous": "deny"},
        "audit": {"file": "audit.log"},
    }
    async with house(tmp_path, config, registry(pipeline("secret_plan", "nothing"))) as place:
        ready = await place.ask("GET", "/readyz")
        assert (ready.status, list(orjson.loads(ready.body))) == (200, ["status"])
        assert (await place.ask("GET", "/metrics")).status == 401
        asked = {name: await place.ask("GET", "/metrics", X_API_Key=secret) for name, secret in secrets.items()}
        assert {name: one.status for name, one in asked.items()} == {"agent": 403, "scraper": 200}
        assert b"weft_requests" in asked["scraper"].body
        whole = orjson.loads((await place.ask("GET", "/readyz", admin=True)).body)
        assert {"status", "generation", "upstreams"} <= whole.keys()
        assert (await place.ask("GET", "/metrics", admin=True)).status == 200
    records = [orjson.loads(line) for line in (tmp_path / "audit.log").read_bytes().splitlines()]
    refused = [one for one in records if one.get("event") == "identity-refused"]
    assert [one["reason"] for one in refused] == ["there is no credential"]

"""What a client of the SDK sees of state: marks in `_meta`, fields of errors, and the progress of sagas."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import orjson
import pytest
from mcp import Client

from tests.app.served import House, house, registry
from tests.app.shop import SQLITE, Shop, shop, tool
from tests.waiting import until

MODES = ["legacy", "2026-07-28"]
STEPS = [
    {"id": "reserve", "action": tool("reserve"), "compensate": tool("release")},
    {"id": "charge", "action": tool("charge"), "compensate": tool("refund")},
    {"id": "ship", "action": tool("ship")},
]
SAGA = {"saga": {"steps": STEPS, "store": "orders", "sagaIdPath": "$.id", "maxAttempts": 1}}
BREAKS = {"name": "pay", "failureThreshold": 1, "failureWindowSeconds": 60, "resetTimeoutSeconds": 60}
SPECS: dict[str, Any] = {
    "order": SAGA,
    "deep_order": {"timeout": {"durationMs": 30_000, "inner": {"timeout": {"durationMs": 20_000, "inner": {**SAGA}}}}},
    "look": {"cache": {"keyPaths": ["$.id"], "inner": tool("reserve"), "ttlSeconds": 600}},
    "once": {"idempotent": {"keyPaths": ["$.id"], "inner": tool("charge"), "store": "orders"}},
    "buy": {"circuitBreaker": {**BREAKS, "inner": tool("pay"), "fallback": tool("book")}},
    "trip": {"deadLetter": {"inner": tool("book"), "deadLetterTool": "failed_bookings", "rethrow": True}},
    "plain": {"pipeline": {"steps": [{"id": "it", "operation": tool("ship")}]}},
}
EVERYWHERE = ("weft/traceId", "weft/warnings", "io.modelcontextprotocol/serverInfo")


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[tuple[Shop, House]]:
    """Run a gateway with one composition of each kind, in front of a server."""
    made = registry(*({"name": name, "description": name, "spec": spec} for name, spec in SPECS.items()))
    async with shop() as up:
        config = {"servers": {"shop": {"url": up.url}}, "stores": SQLITE}
        async with house(folder, config, made) as gate:
            await gate.has(*SPECS)
            yield up, gate


def client_of(gate: House, mode: str) -> Client:
    """Return a client of the SDK."""
    return Client(f"http://127.0.0.1:{gate.port}/mcp", mode=mode)


def marks(result: Any) -> dict[str, Any]:
    """Return what a result has in its `_meta` beside what each one has."""
    return {key: value for key, value in result.meta.items() if key not in EVERYWHERE}


@pytest.mark.parametrize("mode", MODES)
async def test_results_tell_in_meta_how_they_were_got(tmp_path: Path, mode: str) -> None:
    async with opened(tmp_path) as (up, gate), client_of(gate, mode) as client:
        assert [marks(await client.call_tool("look", {"id": 1})) for _ in range(2)] == [
            {"cache": "miss"},
            {"cache": "hit"},
        ]
        assert [marks(await client.call_tool("once", {"id": 1})) for _ in range(2)] == [{}, {"idempotentReplay": True}]
        up.refuses.add("pay")
        assert (await client.call_tool("buy", {})).is_error
        assert marks(await client.call_tool("buy", {})) == {"fallback": True}
        assert marks(await client.call_tool("plain", {})) == {}


@pytest.mark.parametrize("mode", MODES)
async def test_a_replayed_failure_is_marked_beside_the_same_error(tmp_path: Path, mode: str) -> None:
    async with opened(tmp_path) as (up, gate), client_of(gate, mode) as client:
        up.refuses.add("charge")
        first, second = [await client.call_tool("once", {"id": 1}) for _ in range(2)]
        assert first.is_error
        assert first.content == second.content
        assert (marks(second).pop("idempotentReplay"), "idempotentReplay" in marks(first)) == (True, False)
        assert marks(first)["weft/error"] == marks(second)["weft/error"]


@pytest.mark.req("STA-37")
@pytest.mark.parametrize("mode", MODES)
async def test_a_dead_letter_that_was_not_taken_is_a_field_of_the_error(tmp_path: Path, mode: str) -> None:
    async with opened(tmp_path) as (up, gate), client_of(gate, mode) as client:
        up.refuses |= {"book", "failed_bookings"}
        told = marks(await client.call_tool("trip", {}))["weft/error"]
        assert told["code"] == "ToolFailed"
        assert told["deadLetterError"] == "Tool 'failed_bookings' failed: no failed_bookings today"


@pytest.mark.req("STA-41", "STA-43")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["order", "deep_order"])
async def test_a_saga_tells_its_id_its_status_and_each_step_done_and_undone(
    tmp_path: Path, mode: str, name: str
) -> None:
    heard: list[str] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        heard.append((message or "").partition(" (")[0])

    async with opened(tmp_path) as (up, gate), client_of(gate, mode) as client:
        done = await client.call_tool(name, {"id": "o1"}, progress_callback=progressed)
        (saga,) = marks(done)["weft/sagas"]
        assert (saga["id"], saga["status"]) == ("o1", "COMPLETED")
        await until(lambda: len(heard) >= 3)
        steps = ["reserve: done", "charge: done", "ship: done"]
        assert [one for one in heard if one.split(":")[0] in ("reserve", "charge", "ship")] == steps
        heard.clear()
        up.refuses.add("ship")
        undone = await client.call_tool(name, {"id": "o2"}, progress_callback=progressed)
        assert undone.is_error
        (saga,) = marks(undone)["weft/sagas"]
        assert (saga["id"], saga["status"]) == ("o2", "COMPENSATED")
        wanted = ["reserve: done", "charge: done", "ship: failed", "undo_charge: done", "undo_reserve: done"]
        await until(lambda: set(wanted) <= set(heard))
        assert [one for one in heard if one in wanted] == wanted


async def test_plain_calls_have_the_marks_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, gate):
        body = orjson.dumps({"tool": "look", "arguments": {"id": 1}})
        headers: dict[str, Any] = {"content-type": "application/json"}
        told = [(await gate.ask("POST", "/mcp/tools/call", body=body, **headers)).json for _ in range(2)]
        assert [one["_meta"] for one in told] == [{"cache": "miss"}, {"cache": "hit"}]
        body = orjson.dumps({"tool": "plain", "arguments": {}})
        assert "_meta" not in (await gate.ask("POST", "/mcp/tools/call", body=body, **headers)).json

"""Clients that order, whatever happens, until they are answered; and what they and the trouble leave behind."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from scripts.chaos_gates import Gate
from scripts.chaos_shop import refused

SETTLE = 180.0
"""Seconds in which everything must have ended after the trouble; as many are given to whatever is waited for."""
MODERN = "2026-07-28"


@dataclass
class Storm:
    """What happened: answers to clients by order, and how often each trouble was made."""

    seconds: float
    longest: float
    """How long something is stopped or locked at most."""
    answers: dict[str, str] = field(default_factory=dict[str, str])
    troubles: Counter[str] = field(default_factory=Counter[str])
    over: threading.Event = field(default_factory=threading.Event)
    idle: list[str] = field(default_factory=list[str])
    """The gateways that did nothing any more."""
    stuck: set[str] = field(default_factory=set[str])
    """The sagas that an operator had tried again."""
    statuses: dict[str, str] = field(default_factory=dict[str, str])
    entries: list[dict[str, str]] = field(default_factory=list[dict[str, str]])


def ask(port: int, order: str) -> str | None:
    """Order something; return `done` or `failed`, or None when it must be asked again."""
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    meta["io.modelcontextprotocol/clientInfo"] = {"name": "chaos", "version": "1.0.0"}
    params = {"name": "order", "arguments": {"id": order}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    headers |= {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "order"}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as link:
        try:
            link.request("POST", "/mcp", body, headers)
            text = link.getresponse().read().decode()
        except (OSError, http.client.HTTPException):
            return None
    return _meaning(text)


def _meaning(text: str) -> str | None:
    lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith(("data:", "{"))]
    try:
        result = json.loads(lines[-1])["result"]
    except (IndexError, KeyError, ValueError):
        return None
    if not result.get("isError"):
        return "done"
    # Anything else says that it did not begin, or that nobody knows yet.
    return "failed" if str(result["content"][0]["text"]).startswith("Saga step") else None


async def answered(gates: Sequence[Gate], order: str, rng: random.Random) -> str:
    """Order something until it is answered, wherever a gateway answers."""
    last = time.monotonic() + SETTLE
    while time.monotonic() < last:
        if (answer := await asyncio.to_thread(ask, rng.choice(gates).port, order)) is not None:
            return answer
        await asyncio.sleep(0.1)
    return "never"


async def client(gates: Sequence[Gate], storm: Storm, ids: Iterator[int], rng: random.Random) -> None:
    """Order one thing after the other, for as long as there is trouble."""
    while not storm.over.is_set():
        order = f"o{next(ids)}"
        storm.answers[order] = await answered(gates, order, rng)


async def calm(gate: Gate, storm: Storm, ids: Iterator[int], rng: random.Random) -> None:
    """Order at one gateway until something is done, which it must be when nothing is in its way any more."""
    last = time.monotonic() + SETTLE
    while time.monotonic() < last:
        order = next(one for n in ids if not refused(one := f"o{n}"))
        storm.answers[order] = await answered([gate], order, rng)
        if storm.answers[order] == "done":
            return
    storm.idle.append(gate.name)

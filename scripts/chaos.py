"""Make trouble for gateways that share a store, under load, and look at what the shop's ledger says afterwards.

    python -m scripts.chaos                           # ten minutes: what `make chaos` does
    python -m scripts.chaos --seconds 60 --store sqlite --seed 7

Two gateways run the order saga for eight clients. Their shops are killed and stopped, they themselves are killed with
SIGKILL, the server of the store is killed and started again, and its write lock is held. When the trouble is over,
every saga must end, and every order must be all done or all undone. Ends with 1 when that is not so.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.chaos_gates import Gate, Place, stopped
from scripts.chaos_shop import UNDO
from weft.errors import StoreError
from weft.run.journal import Sagas

STORES = ("sqlite", "postgres", "redis")
CLIENTS = 8
SETTLE = 180.0
"""Seconds in which everything must have ended after the trouble."""
MODERN = "2026-07-28"


@dataclass
class Storm:
    """What happened: answers to clients by order, and how often each trouble was made."""

    answers: dict[str, str] = field(default_factory=dict[str, str])
    troubles: Counter[str] = field(default_factory=Counter[str])
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


async def client(gates: Sequence[Gate], storm: Storm, ids: Iterator[int], until: float, rng: random.Random) -> None:
    """Order one thing after the other, each until it is answered, wherever a gateway answers."""
    last = until + SETTLE
    while time.monotonic() < until:
        order = f"o{next(ids)}"
        answer = None
        while answer is None and time.monotonic() < last:
            answer = await asyncio.to_thread(ask, rng.choice(gates).port, order)
            if answer is None:
                await asyncio.sleep(0.1)
        storm.answers[order] = answer or "never"


def kill_child(gate: Gate) -> None:
    """Kill the shop of a gateway."""
    if (pid := gate.child()) is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def stop_child(gate: Gate, seconds: float) -> None:
    """Make the shop of a gateway stand still."""
    if (pid := gate.child()) is not None:
        with stopped(pid):
            time.sleep(seconds)


def kill_gate(gate: Gate) -> None:
    """Kill a gateway, and start it again."""
    gate.kill()
    gate.start()


def trouble(place: Place, gates: Sequence[Gate], storm: Storm, until: float, rng: random.Random) -> None:
    """Make one trouble after the other."""
    kinds = ["kill child", "stop child", "kill gateway", "lock store", *(["restart store"] if place.server else [])]
    while time.monotonic() < until:
        time.sleep(rng.uniform(0.3, 1.5))
        kind, gate, seconds = rng.choice(kinds), rng.choice(gates), rng.uniform(0.5, 3.0)
        storm.troubles[kind] += 1
        match kind:
            case "kill child":
                kill_child(gate)
            case "stop child":
                stop_child(gate, seconds)
            case "kill gateway":
                kill_gate(gate)
            case "lock store":
                place.lock(seconds)
            case _:
                place.restart()


async def settled(place: Place) -> dict[str, str]:
    """Wait until no saga is open, at most so long; return the status of each."""
    store, last = place.store(), time.monotonic() + SETTLE
    await store.open()
    try:
        while await Sagas([store]).list() and time.monotonic() < last:  # noqa: ASYNC110 - it is seen from outside
            await asyncio.sleep(0.5)
        return {row["id"]: row["status"] for row in await Sagas([store]).list(ended=True)}
    finally:
        await store.close()


def violations(
    entries: Sequence[Mapping[str, str]], statuses: Mapping[str, str], answers: Mapping[str, str]
) -> list[str]:
    """Return what is wrong with the ledger, given how sagas ended and what clients were told."""
    found = [f"{order}: the client never got an answer" for order, told in answers.items() if told == "never"]
    orders: dict[str, list[Mapping[str, str]]] = {order: [] for order in (*answers, *statuses)}
    for entry in entries:
        orders.setdefault(entry["order"], []).append(entry)
    for order, own in orders.items():
        status, told = statuses.get(order), answers.get(order)
        found += [f"{order}: {fault}" for fault in _faults(own, status)]
        if (told == "done" and status != "COMPLETED") or (told == "failed" and status != "COMPENSATED"):
            found.append(f"{order}: the client was told {told}, and it is {status}")
    return found


def _faults(entries: Sequence[Mapping[str, str]], status: str | None) -> Iterator[str]:
    done = [entry["tool"] for entry in entries if entry["what"] == "done"]
    for tool in sorted({entry["tool"] for entry in entries}):
        if len({entry["key"] for entry in entries if entry["tool"] == tool}) > 1:
            yield f"{tool} was called under several keys"
        if done.count(tool) > 1:
            yield f"{tool} was done {done.count(tool)} times"
    actions, undos = [tool for tool in done if tool in UNDO], [tool for tool in done if tool not in UNDO]
    if status == "COMPLETED":
        if (actions, undos) != (list(UNDO), []):
            yield f"COMPLETED, and the ledger has {done}"
    elif status == "COMPENSATED":
        if left := {tool for tool in actions if UNDO[tool] not in undos}:
            yield f"COMPENSATED, and {sorted(left)} is not undone"
        if undos != [undo for undo in reversed(UNDO.values()) if undo in undos]:
            yield f"COMPENSATED, and undone in the order {undos}"
    elif entries or status is not None:
        yield f"it is {status}, and the ledger has {done}"


async def storm_over(place: Place, seconds: float, seed: str) -> Storm:
    """Run two gateways under load and make trouble; return what happened."""
    storm, rng, ids = Storm(), random.Random(seed), itertools.count()
    gates = list[Gate]()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(CLIENTS + 4))
    try:
        for name in ("a", "b"):
            gates.append(await asyncio.to_thread(Gate, place, name))
        until = time.monotonic() + seconds
        clients = [client(gates, storm, ids, until, random.Random(f"{seed}{n}")) for n in range(CLIENTS)]
        await asyncio.gather(asyncio.to_thread(trouble, place, gates, storm, until, rng), *clients)
        storm.statuses = await settled(place)
    finally:
        for gate in gates:
            gate.kill()
    storm.entries = [json.loads(line) for line in place.ledger.read_text(encoding="utf-8").splitlines()]
    return storm


def run(kind: str, seconds: float, seed: str) -> list[str]:
    """Do it with one kind of store, tell what happened, and return what is wrong."""
    with tempfile.TemporaryDirectory(prefix="weft-chaos-", ignore_cleanup_errors=True) as folder:
        place = Place(kind, Path(folder))
        try:
            storm = asyncio.run(storm_over(place, seconds, seed))
        except StoreError as error:
            return [f"the store did not come back: {error}"]
        finally:
            place.close()
    found = violations(storm.entries, storm.statuses, storm.answers)
    told: dict[str, Any] = {"answers": Counter(storm.answers.values()), "sagas": Counter(storm.statuses.values())}
    told |= {"ledger": Counter(entry["what"] for entry in storm.entries), "trouble": storm.troubles}
    print(f"{kind}, seed {seed}: " + "; ".join(f"{name} {dict(counts)}" for name, counts in told.items()), flush=True)
    return found or ([] if "done" in storm.answers.values() else ["no order was done"])


def main(arguments: Sequence[str]) -> int:
    """Run all stores one after the other, in the time that is given."""
    parser = argparse.ArgumentParser(prog="python -m scripts.chaos", description="Trouble under load.")
    parser.add_argument("--seconds", type=float, default=600.0, help="of trouble, for all stores together")
    parser.add_argument("--store", choices=STORES, action="append", help="only this one; may be repeated")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)), help="of the troubles")
    given = parser.parse_args(arguments)
    stores = given.store or STORES
    wrong = {kind: run(kind, given.seconds / len(stores), given.seed) for kind in stores}
    for kind, found in wrong.items():
        for fault in found[:20]:
            print(f"{kind}: {fault}", file=sys.stderr)
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

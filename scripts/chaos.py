"""Make trouble for gateways that share a store, under load, and look at what the shop's ledger says afterwards.

    python -m scripts.chaos                           # ten minutes: what `make chaos` does
    python -m scripts.chaos --seconds 60 --store sqlite --seed 7

Two gateways run the order saga for eight clients. Their shops are killed and stopped, they themselves are killed with
SIGKILL, the server of the store is killed and started again, and its write lock is held: each at least once, and under
load. When the trouble is over, both gateways must do orders again, every saga must end (an operator has those tried
again that are stuck), and every order must be all done or all undone. Ends with 1 when that is not so.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from scripts.chaos_clients import SETTLE, Storm, calm, client
from scripts.chaos_gates import Gate, Place, stopped
from scripts.chaos_verdict import violations
from weft.errors import ExecutionFailed, StoreError
from weft.run.journal import Sagas

STORES = ("sqlite", "postgres", "redis")
CLIENTS = 8


def kill_child(gate: Gate) -> bool:
    """Kill the shop of a gateway; tell whether it had one."""
    pid = gate.child()
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pid is not None


def stop_child(gate: Gate, seconds: float) -> bool:
    """Make the shop of a gateway stand still; tell whether it had one."""
    pid = gate.child()
    if pid is not None:
        with stopped(pid):
            time.sleep(seconds)
    return pid is not None


def kill_gate(gate: Gate) -> None:
    """Kill a gateway, and start it again."""
    gate.kill()
    gate.start()


def trouble(place: Place, gates: Sequence[Gate], storm: Storm, rng: random.Random) -> None:
    """Make one trouble after the other: first each once, in any order, and then at random until the time is over."""
    try:
        wait_until(lambda: bool(storm.answers))  # then there is load, and the store has its tables
        kinds = ["kill child", "stop child", "kill gateway", "lock store", *(["restart store"] if place.server else [])]
        until = time.monotonic() + storm.seconds
        for kind in rng.sample(kinds, len(kinds)):
            wait_until(lambda kind=kind: make(kind, place, rng.choice(gates), storm, rng))
        while time.monotonic() < until:
            make(rng.choice(kinds), place, rng.choice(gates), storm, rng)
    finally:
        storm.over.set()


def make(kind: str, place: Place, gate: Gate, storm: Storm, rng: random.Random) -> bool:
    """Make one trouble; tell whether it could be made."""
    time.sleep(rng.uniform(0.1, 0.5) * storm.longest)
    seconds, happened = rng.uniform(0.2, 1.0) * storm.longest, True
    match kind:
        case "kill child":
            happened = kill_child(gate)
        case "stop child":
            happened = stop_child(gate, seconds)
        case "kill gateway":
            kill_gate(gate)
        case "lock store":
            place.lock(seconds)
        case _:
            place.restart()
    storm.troubles[kind] += happened
    return happened


def wait_until(happened: Callable[[], bool]) -> None:
    """Wait for what must happen, however slow the machine is."""
    last = time.monotonic() + SETTLE
    while not happened():
        if time.monotonic() > last:
            raise RuntimeError(f"it did not happen within {SETTLE:g} s")
        time.sleep(0.05)


async def settled(place: Place, storm: Storm) -> dict[str, str]:
    """Wait until no saga is open, at most so long, and have those tried again that are stuck; return how each ended."""
    store, last = place.store(), time.monotonic() + SETTLE
    await store.open()
    try:
        sagas = Sagas([store])
        while (rows := await sagas.list()) and time.monotonic() < last:
            for row in rows:
                if "stuck" in row:
                    # Another gateway may have come to it, or its record may be gone: then it stays in the list.
                    with contextlib.suppress(ExecutionFailed):
                        await sagas.retry(row["ref"])
                        storm.stuck.add(row["id"])
            await asyncio.sleep(0.5)
        return {row["id"]: row["status"] for row in await sagas.list(ended=True)}
    finally:
        await store.close()


async def storm_over(place: Place, seconds: float, longest: float, seed: str) -> Storm:
    """Run two gateways under load and make trouble; return what happened."""
    storm, rng, ids = Storm(seconds, longest), random.Random(seed), itertools.count()
    gates = list[Gate]()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(CLIENTS + 4))
    try:
        for name in ("a", "b"):
            gates.append(await asyncio.to_thread(Gate, place, name))
        clients = [client(gates, storm, ids, random.Random(f"{seed}{n}")) for n in range(CLIENTS)]
        await asyncio.gather(asyncio.to_thread(trouble, place, gates, storm, rng), *clients)
        await asyncio.gather(*(calm(gate, storm, ids, rng) for gate in gates))
        storm.statuses = await settled(place, storm)
    finally:
        for gate in gates:
            gate.kill()
    storm.entries = [json.loads(line) for line in place.ledger.read_text(encoding="utf-8").splitlines()]
    return storm


def run(kind: str, seconds: float, seed: str, *, longest: float = 3.0) -> list[str]:
    """Do it with one kind of store, tell what happened, and return what is wrong."""
    with tempfile.TemporaryDirectory(prefix="weft-chaos-", ignore_cleanup_errors=True) as folder:
        place = Place(kind, Path(folder))
        try:
            storm = asyncio.run(storm_over(place, seconds, longest, seed))
        except StoreError as error:
            return [f"the store did not come back: {error}"]
        finally:
            place.close()
    told: dict[str, Any] = {"answers": Counter(storm.answers.values()), "sagas": Counter(storm.statuses.values())}
    told |= {"ledger": Counter(entry["what"] for entry in storm.entries), "trouble": storm.troubles}
    shown = "; ".join(f"{name} {dict(counts)}" for name, counts in told.items())
    print(f"{kind}, seed {seed}: {shown}; {len(storm.stuck)} stuck and tried again", flush=True)
    idle = [f"gateway {name} did no order any more" for name in storm.idle]
    return [*idle, *violations(storm.entries, storm.statuses, storm.answers, storm.stuck)]


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

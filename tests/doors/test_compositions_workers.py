"""Runs of another worker are read, followed and cancelled as one's own; of another tenant they are not there."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.app.served import house
from tests.doors.composing import STRICT, WAITS, Api, key_of, willing
from tests.waiting import until
from weft.doors import composition_runs
from weft.doors.peers import Peers

STORES: dict[str, dict[str, Any]] = {
    "memory": {},
    "sqlite": {"stores": {"default": {"type": "sqlite", "path": "./kept.db"}}},
}


@contextlib.asynccontextmanager
async def crew(folder: Path, **config: Any) -> AsyncGenerator[tuple[Api, Api]]:
    """Run two workers of one gateway in this process."""
    sockets = folder / "w"
    sockets.mkdir()
    async with willing() as up, contextlib.AsyncExitStack() as stack:
        settings = {"servers": {"up": {"url": up.url}}, **config}
        gates = [
            await stack.enter_async_context(house(folder, settings, peers=Peers(sockets, index=at, count=2)))
            for at in range(2)
        ]
        for gate in gates:
            await gate.running.gateway.ready()
        yield Api(gates[0], up), Api(gates[1], up)


@pytest.mark.parametrize("store", STORES)
async def test_a_run_of_another_worker_is_read_followed_and_cancelled(tmp_path: Path, store: str):
    async with crew(tmp_path, **STORES[store]) as (here, there):
        run = await there.begun(WAITS)
        await until(lambda: there.up.waiting)
        assert (await here.get(f"runs/{run}"))["status"] == "running"
        async with here.following(run, **{"last-event-id": "1"}) as stream:
            await stream.next()
            assert (await stream.next())["event"] == "step_started"
            assert (await here.post(f"runs/{run}/cancel"))["status"] == "cancelled"
            last = (await stream.rest())[-1]
        assert (last["id"], json.loads(last["data"])["status"]) == ("end", "cancelled")
        again = await here.ask("POST", f"runs/{run}/cancel")
        assert (again.status, again.json["code"]) == (409, "RunNotRunning")
        assert (await here.get(f"runs/{run}"))["status"] == "cancelled"
        async with here.following(run) as stream:
            assert [event["id"] for event in await stream.rest()] == ["end"]


async def test_another_tenant_cannot_reach_a_run_through_another_worker(tmp_path: Path):
    ann, bob = (key_of(tmp_path, tenant) for tenant in ("red", "blue"))
    async with crew(tmp_path, **STRICT) as (here, there):
        run = await there.as_holder_of(ann).begun(WAITS)
        for method, path in (("GET", ""), ("POST", "/cancel"), ("GET", "/events")):
            assert (await here.as_holder_of(bob).ask(method, f"runs/{run}{path}")).status == 404
        assert (await here.as_holder_of(ann).post(f"runs/{run}/cancel"))["status"] == "cancelled"


async def test_only_so_many_runs_of_other_workers_are_followed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(composition_runs, "MOST_RELAYED", 1)
    async with crew(tmp_path) as (here, there):
        run = await there.begun(WAITS)
        async with here.following(run) as stream:
            await stream.next()
            await stream.next()
            refused = await here.ask("GET", f"runs/{run}/events")
            assert (refused.status, refused.json["code"], "retry-after" in refused.headers) == (
                503,
                "FollowedRuns",
                True,
            )
        # It is given back when the stream has ended, which takes a moment after its client has gone.
        async with asyncio.timeout(10):
            while True:
                with contextlib.suppress(AssertionError):
                    async with here.following(run) as again:
                        assert await again.next()
                        break


async def test_a_run_of_a_process_that_cannot_be_asked_is_told_when_it_has_ended(tmp_path: Path):
    """Two gateways share a store and no folder of sockets, as on two machines."""
    async with willing() as up:
        settings = {"servers": {"up": {"url": up.url}}, **STORES["sqlite"]}
        async with house(tmp_path, settings) as one, house(tmp_path, settings) as other:
            for gate in (one, other):
                await gate.running.gateway.ready()
            run = await Api(other, up).begun(WAITS)
            refused = await Api(one, up).ask("POST", f"runs/{run}/cancel")
            assert (refused.status, "elsewhere" in refused.json["detail"]) == (409, True)
            async with Api(one, up).following(run) as stream:
                await until(lambda: up.waiting)
                up.let_go.set()
                (ended,) = await stream.rest()
            assert json.loads(ended["data"])["status"] == "succeeded"

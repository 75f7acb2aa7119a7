"""A run as a stream of events: in order, resumed, alive, and over when it is over."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.doors.composing import STRICT, Api, EventReader, api, composition, key_of, step
from tests.doors.serving import connected, serving
from tests.waiting import until
from weft.doors import composition_events
from weft.doors.asgi import AGAIN, Message, Receive, Scope, Send
from weft.doors.composition_routes import BASE
from weft.doors.compositions import CompositionsDoor
from weft.gateway.following import KEPT, Recording
from weft.gateway.unproven import Unauthenticated
from weft.patterns.workflow_plan import StepTold
from weft.ports import Principal
from weft.workflows.recorded import new_run

ENDS = composition(step("first"), step("held", "wait", depends_on=["first"]), step("last", depends_on=["held"]))


async def test_a_run_is_told_from_its_beginning_to_its_end(tmp_path: Path):
    async with api(tmp_path) as one:
        run = await one.begun(ENDS)
        await until(lambda: one.up.waiting)
        async with one.following(run) as stream:
            assert "content-type: text/event-stream" in stream.head
            one.up.let_go.set()
            events = await stream.rest()
        assert [(event["id"], event["event"]) for event in events] == [
            ("1", "run_started"),
            *((str(at), kind) for at, kind in enumerate(["step_started", "step_ended"] * 3, start=2)),
            ("end", "run_ended"),
        ]
        ended = json.loads(events[-1]["data"])
        assert (ended["run_id"], ended["status"]) == (run, "succeeded")
        # Whoever hears of the end can read it.
        assert await one.get(f"runs/{run}") == ended


async def test_a_stream_goes_on_after_the_last_event_that_came(tmp_path: Path):
    async with api(tmp_path) as one:
        run = await one.begun(ENDS)
        await until(lambda: one.up.waiting)
        async with one.following(run, **{"last-event-id": "3"}) as stream:
            one.up.let_go.set()
            assert [event["id"] for event in await stream.rest()] == ["4", "5", "6", "7", "end"]


async def test_whoever_comes_back_after_the_end_is_told_the_end_or_not_to_come_again(tmp_path: Path):
    async with api(tmp_path) as one:
        one.up.let_go.set()
        run = (await one.post("execute", {"composition": ENDS}))["run_id"]
        for last in ("1", "999999"):
            async with one.following(run, **{"last-event-id": last}) as stream:
                assert [event["event"] for event in await stream.rest()] == ["run_ended"]
        heard = await one.ask("GET", f"runs/{run}/events", **{"last-event-id": "end"})
        assert (heard.status, heard.body) == (204, b"")


async def test_an_id_that_never_was_does_not_keep_a_client_from_the_end(tmp_path: Path):
    async with api(tmp_path) as one:
        run = await one.begun(ENDS)
        await until(lambda: one.up.waiting)
        async with one.following(run, **{"last-event-id": "999999"}) as stream:
            one.up.let_go.set()
            assert [event["id"] for event in await stream.rest()] == ["5", "6", "7", "end"]


async def test_a_client_that_goes_away_stops_its_stream_and_not_the_run(tmp_path: Path):
    key = key_of(tmp_path, "red")
    async with api(tmp_path, {**STRICT, "limits": {"perPrincipal": 1}}) as gate:
        one = gate.as_holder_of(key)
        run = await waiting(one)
        async with one.following(run) as stream:
            await stream.next()
            assert (await one.ask("GET", "runs")).status == 429
        # There is room for another request as soon as the stream has ended, and long before its next sign of life.
        async with asyncio.timeout(10):
            while (await one.ask("GET", "runs")).status == 429:
                pass
        assert one.up.waiting == 1
        one.up.let_go.set()
        async with one.following(run) as stream:
            assert json.loads((await stream.rest())[-1]["data"])["status"] == "succeeded"


@contextlib.asynccontextmanager
async def followed(door: CompositionsDoor, run: str, *, proven: int | None = None) -> AsyncGenerator[EventReader]:
    """Follow a run at a door of its own; a credential is taken so many times more."""
    left = [proven]

    async def again() -> Principal:
        if left[0] is not None:
            left[0] -= 1
            if left[0] < 0:
                raise Unauthenticated("it is revoked")
        return Principal()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"][AGAIN] = again
        await door(scope, receive, send)

    async with serving(app) as listener, connected(listener) as client:
        client.request("GET", f"{BASE}/runs/{run}/events")
        head = (await client.reader.readuntil(b"\r\n\r\n")).decode()
        yield EventReader(client, head)


async def waiting(one: Api) -> str:
    """Return a run that waits."""
    run = await one.begun(ENDS)
    await until(lambda: one.up.waiting)
    return run


async def test_a_stream_on_which_nothing_happens_shows_that_it_is_alive(tmp_path: Path):
    async with api(tmp_path) as one:
        run, door = (
            await waiting(one),
            CompositionsDoor(one.gate.running.compositions, rights=one.gate.running.rights, heartbeat=0.01),
        )
        async with followed(door, run) as stream:
            seen = [await stream.next() for _ in range(8)]
            assert seen[0] == {"": "following"}
            assert seen[-3:] == [{"": "still here"}] * 3


async def test_a_stream_ends_with_the_credential_of_its_client(tmp_path: Path):
    async with api(tmp_path) as one:
        run, door = (
            await waiting(one),
            CompositionsDoor(one.gate.running.compositions, rights=one.gate.running.rights, heartbeat=0.01),
        )
        async with followed(door, run, proven=2) as stream:
            assert [event["event"] for event in await stream.rest()][-1] != "run_ended"


async def test_streams_end_when_the_door_closes(tmp_path: Path):
    async with api(tmp_path) as one:
        run, door = await waiting(one), CompositionsDoor(one.gate.running.compositions, rights=one.gate.running.rights)
        async with followed(door, run) as stream:
            assert (await stream.next())[""] == "following"
            door.close()
            async with asyncio.timeout(10):
                assert "run_ended" not in [event["event"] for event in await stream.rest()]


@pytest.mark.parametrize("after", [0, 7, KEPT + 20, KEPT + 500])
async def test_of_a_very_long_run_the_newest_events_are_kept_and_the_end_always(after: int):
    run = new_run(Principal(), "long", started=0.0)
    recording = Recording(run)
    for at in range(KEPT + 99):
        recording.step(StepTold(str(at), "succeeded"))
    recording.close(run.ended("succeeded", duration_ms=1.0))
    seen = [event["id"] async for event in recording.events(after)]
    last = KEPT + 101
    assert seen == list(range(max(min(after, last - 1), last - KEPT) + 1, last + 1))


async def test_a_client_that_takes_nothing_for_long_is_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(composition_events, "STALL", 0.01)
    closed: list[str] = []

    async def events() -> AsyncGenerator[dict[str, Any]]:
        try:
            while True:
                yield {"id": 1, "event": "step_started", "data": {}}
        finally:
            closed.append("events")

    async def send(message: Message) -> None:
        if b"step_started" in message.get("body", b""):
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await composition_events.EventStreams().send({"state": {}}, send, events())
    assert closed == ["events"]

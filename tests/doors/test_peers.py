"""Workers that talk to each other, and the admin listener that asks them all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.doors.serving import asked, serving
from weft.doors.admin import AdminDoor, answer_peers
from weft.doors.fronts import admin_front
from weft.doors.peers import LINE, Peers
from weft.errors import InfrastructureError, NotFound


@asynccontextmanager
async def crew(directory: Path, count: int = 2, *, timeout: float = 5.0) -> AsyncGenerator[list[Peers]]:
    """Yield that many workers that hear each other."""
    workers = [Peers(directory, index=index, count=count, timeout=timeout) for index in range(count)]
    async with AsyncExitStack() as stack:
        for worker in workers:
            await worker.start()
            stack.push_async_callback(worker.close)
        yield workers


async def greet(message: dict[str, Any]) -> dict[str, Any]:
    return {"hello": message["name"]}


async def test_a_worker_answers_another(tmp_path: Path):
    async with crew(tmp_path) as (one, two):
        two.on("greet", greet)
        assert await one.tell(1, {"op": "greet", "name": "ann"}) == {"hello": "ann"}


async def test_all_the_others_are_told_and_a_dead_one_does_not_count(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    async with crew(tmp_path, 4) as (one, two, three, four):
        for worker in (one, two, three):
            worker.on("greet", greet)
        await four.close()
        told = await one.tell_all({"op": "greet", "name": "ann"})
        assert [answer["hello"] for answer in told] == ["ann", "ann"]
    assert "Worker 3 does not answer" in caplog.text
    assert one.lost == 1


async def test_a_worker_answers_in_parts(tmp_path: Path):
    async def count(message: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        for number in range(message["to"]):
            yield {"number": number}

    async with crew(tmp_path) as (one, two):
        two.on("count", count)
        told = [answer async for answer in one.stream(1, {"op": "count", "to": 3})]
    assert told == [{"number": 0}, {"number": 1}, {"number": 2}, {"done": True}]


async def test_who_no_longer_wants_the_answer_ends_the_work(tmp_path: Path):
    ended = asyncio.Event()

    async def endless(message: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        try:
            yield {"number": 0}
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with crew(tmp_path) as (one, two):
        two.on("endless", endless)
        async with aclosing(one.stream(1, {"op": "endless"})) as answers:
            assert await anext(answers) == {"number": 0}
        async with asyncio.timeout(5):
            await ended.wait()


async def test_a_worker_that_is_not_there_is_an_error(tmp_path: Path):
    async with crew(tmp_path, 1) as (alone,):
        lonely = Peers(tmp_path, index=0, count=2)
        with pytest.raises(InfrastructureError, match="Worker 1 does not answer") as caught:
            await lonely.tell(1, {"op": "greet"})
    assert caught.value.code == "WorkerUnavailable"
    assert alone.index == 0


async def test_a_worker_that_does_not_answer_in_time_is_an_error(tmp_path: Path):
    async def endless(message: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    async with crew(tmp_path, timeout=0.05) as (one, two):
        two.on("endless", endless)
        with pytest.raises(InfrastructureError, match="in time"):
            await one.tell(1, {"op": "endless"})


async def test_a_worker_that_dies_before_its_answer_is_an_error(tmp_path: Path):
    entered = asyncio.Event()

    async def endless(message: dict[str, Any]) -> None:
        entered.set()
        await asyncio.Event().wait()

    async with crew(tmp_path) as (one, two):
        two.on("endless", endless)
        telling = asyncio.create_task(one.tell(1, {"op": "endless"}))
        await entered.wait()
        await two.close()
        with pytest.raises(InfrastructureError, match="Worker 1 does not answer"):
            await telling


async def test_what_goes_wrong_over_there_is_told_here(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    async def missing(message: dict[str, Any]) -> None:
        raise NotFound("Session", "s1")

    async def broken(message: dict[str, Any]) -> None:
        raise KeyError("x")

    async with crew(tmp_path) as (one, two):
        two.on("missing", missing)
        two.on("broken", broken)
        for op, said in (
            ("missing", "Session not found: s1"),
            ("broken", "KeyError"),
            ("unknown", "Operation not found"),
        ):
            with pytest.raises(InfrastructureError, match=said) as caught:
                await one.tell(1, {"op": op})
            assert caught.value.code == "WorkerFailed"
    assert "cannot do broken" in caplog.text


async def test_a_message_that_is_too_long_is_an_error(tmp_path: Path):
    async def long(message: dict[str, Any]) -> dict[str, Any]:
        return {"text": "x" * (LINE + 1)}

    async with crew(tmp_path) as (one, two):
        two.on("long", long)
        with pytest.raises(InfrastructureError, match="does not answer"):
            await one.tell(1, {"op": "long"})


async def test_many_messages_at_once_each_get_their_own_answer(tmp_path: Path):
    async with crew(tmp_path) as (one, two):
        two.on("greet", greet)
        told = await asyncio.gather(*(one.tell(1, {"op": "greet", "name": n}) for n in range(200)))
    assert [answer["hello"] for answer in told] == list(range(200))


class FakeOperations:
    """What one worker can tell an operator."""

    def __init__(self, name: str, *, problems: tuple[str, ...] = ()) -> None:
        self.name = name
        self.reloads = 0
        self._problems = problems

    async def reload(self) -> Mapping[str, Any]:
        self.reloads += 1
        return {"generation": self.reloads, "problems": list(self._problems)}

    async def traces(self, limit: int) -> list[dict[str, Any]]:
        return [{"id": f"{self.name}{n}", "time": f"{n}{self.name}"} for n in (3, 2, 1)][:limit]

    async def trace(self, trace_id: str) -> list[dict[str, Any]]:
        return [{"id": trace_id, "tool": self.name}] if trace_id == self.name else []

    async def upstreams(self) -> Mapping[str, Any]:
        return {"crm": {"state": self.name}}

    def report(self) -> Mapping[str, Any]:
        return {"ready": True}


@asynccontextmanager
async def admin(directory: Path, one: FakeOperations, two: FakeOperations) -> AsyncGenerator[Any]:
    """Serve the admin door of worker 0 of two."""
    async with crew(directory) as workers:
        answer_peers(workers[1], two)
        door = AdminDoor(one, peers=workers[0])
        async with serving(admin_front(door, health=one)) as listener:
            yield listener


async def test_a_reload_reaches_every_worker(tmp_path: Path):
    one, two = FakeOperations("a"), FakeOperations("b")
    async with admin(tmp_path, one, two) as listener:
        got = await asked(listener, "POST", "/reload", body=b"")
        assert (got.status, got.json["generation"], one.reloads, two.reloads) == (200, 1, 1, 1)
        assert (await asked(listener, "GET", "/reload")).status == 405
        assert (await asked(listener, "POST", "/reload", body=b"", origin="http://evil.example")).status == 403
        assert one.reloads == 1


async def test_a_reload_that_one_worker_does_not_take_says_so(tmp_path: Path):
    async with admin(tmp_path, FakeOperations("a"), FakeOperations("b", problems=("line 3",))) as listener:
        got = await asked(listener, "POST", "/reload", body=b"")
    assert (got.status, got.json["otherWorkers"][0]["problems"]) == (422, ["line 3"])


async def test_traces_of_all_workers_come_newest_first(tmp_path: Path):
    async with admin(tmp_path, FakeOperations("a"), FakeOperations("b")) as listener:
        got = await asked(listener, path="/traces?limit=3")
        assert [trace["id"] for trace in got.json["traces"]] == ["b3", "a3", "b2"]
        assert (await asked(listener, path="/traces/b")).json == {"id": "b", "calls": [{"id": "b", "tool": "b"}]}
        assert (await asked(listener, path="/traces/none")).status == 404


async def test_upstreams_are_told_for_each_worker(tmp_path: Path):
    async with admin(tmp_path, FakeOperations("a"), FakeOperations("b")) as listener:
        got = await asked(listener, path="/upstreams")
    assert got.json == {"upstreams": {"crm": {"state": "a"}}, "otherWorkers": [{"crm": {"state": "b"}}]}


async def test_the_admin_listener_answers_only_to_loopback_names(tmp_path: Path):
    async with admin(tmp_path, FakeOperations("a"), FakeOperations("b")) as listener:
        assert (await asked(listener, path="/healthz")).status == 200
        assert (await asked(listener, path="/traces", host="rebound.example")).status == 421

"""One deadline for all of a call, cancellation that reaches every branch, and nothing left running."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

import weft as w
from weft.app import local_engine
from weft.errors import DeadlineExceeded, ToolFailed
from weft.run.engine import Engine
from weft.run.limits import Limits
from weft.testing import FakeWorld, Late

A, B = w.tool("a"), w.tool("b")


class Watched:
    """A tool that works until it is cancelled, and counts how often it was."""

    def __init__(self) -> None:
        self.began = self.cancelled = 0
        self.at_work = asyncio.Event()

    async def __call__(self, arguments: Any) -> None:
        self.began += 1
        self.at_work.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def engine_of(world: FakeWorld, op: Any) -> Engine:
    """Return an engine that has the operation as `it`."""
    return world.engine(w.compile(w.composition("it", "It.", op)).document)


def alone() -> bool:
    """Tell whether no task is left but the test."""
    return asyncio.all_tasks() == {asyncio.current_task()}


FLOWS: dict[str, Any] = {
    "a tool": A,
    "a chain": w.pipeline(B, A),
    "a pipeline with bindings": w.pipeline(B, w.step(A, input=w.from_input())),
    "a router": w.router(w.when("true", A)),
    "a scatter": w.scatter_gather(A, A),
    "a scatter that fails fast": w.scatter_gather(A, A, fail_fast=True),
    "a scatter with more time": w.scatter_gather(A, A, timeout="50s"),
    "a map": w.pipeline(B, w.map_each(A)),
    "an enricher": w.pipeline(w.tool("object"), w.enricher(x=A, y=A)),
    "a scatter in a map in a scatter": w.scatter_gather(
        w.pipeline(B, w.map_each(w.scatter_gather(A, A, timeout="50s")))
    ),
    "a wire tap": w.wire_tap(A, B),
    "recipients": w.pipeline(w.tool("names"), w.recipient_list("$", allowed=["a"])),
}


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
async def test_the_deadline_ends_every_branch_and_leaves_no_task(flow: Any):
    watched = Watched()
    world = FakeWorld(tools={"a": watched, "b": [1, 2, 3], "object": {}, "names": ["a"]})
    engine = engine_of(world, flow)
    before = world.clock.now()
    with pytest.raises(DeadlineExceeded, match="'it' did not finish before its deadline"):
        await engine.execute("it", None, timeout=7)
    assert world.clock.now() - before == 7
    assert watched.began == watched.cancelled > 0
    assert alone()
    await engine.close()


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
async def test_a_client_that_goes_away_cancels_the_tools_and_it_stays_a_cancellation(flow: Any):
    watched = Watched()
    world = FakeWorld(tools={"a": watched, "b": [1, 2, 3], "object": {}, "names": ["a"]})
    engine = engine_of(world, flow)
    call = asyncio.create_task(engine.run("it", None))
    with world.clock.held():
        await watched.at_work.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert watched.began == watched.cancelled
    assert alone()
    await engine.close()


async def test_the_default_and_the_longest_time_are_limits():
    watched = Watched()
    world = FakeWorld(tools={"a": watched}, limits=Limits(timeout=5, max_timeout=9))
    for timeout, expected in ((None, 5), (7, 7), (100, 9)):
        engine, before = engine_of(world, A), world.clock.now()
        with pytest.raises(DeadlineExceeded):
            await engine.execute("it", None, timeout=timeout)
        assert world.clock.now() - before == expected


async def test_a_scatters_own_timeout_cannot_outlive_the_call():
    world = FakeWorld(tools={"a": Late(1, 50), "b": [2]})
    engine = engine_of(world, w.scatter_gather(A, B, timeout="40s"))
    with pytest.raises(DeadlineExceeded, match="'it' did not finish"):
        await engine.execute("it", None, timeout=3)


async def test_a_timeout_at_the_very_moment_of_the_deadline_is_one_of_the_two():
    world = FakeWorld(tools={"a": Late(1, 50), "b": [2]})
    engine = engine_of(world, w.scatter_gather(A, B, timeout="3s"))
    with contextlib.suppress(DeadlineExceeded):
        assert await engine.execute("it", None, timeout=3) == [2]
    assert alone()
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_whatever_a_tool_makes_of_its_cancellation_the_deadline_is_told():
    async def stubborn(arguments: Any) -> str:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            raise RuntimeError("interrupted") from None
        return "never"

    async def deaf(arguments: Any) -> str:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return "late"
        return "never"

    for tool in (stubborn, deaf):
        for flow in (A, w.pipeline(A), w.scatter_gather(A, fail_fast=True)):
            with pytest.raises(DeadlineExceeded):
                await engine_of(FakeWorld(tools={"a": tool}), flow).execute("it", None, timeout=3)
            current = asyncio.current_task()
            assert current is not None
            assert current.cancelling() == 0


async def test_a_deadline_does_not_disturb_what_the_caller_does_next():
    engine = engine_of(FakeWorld(tools={"a": Watched()}), A)
    with pytest.raises(DeadlineExceeded):
        await engine.execute("it", None, timeout=3)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(asyncio.sleep(0, "done"))
    assert task.result() == "done"


async def test_steps_do_not_begin_after_the_deadline_even_if_no_one_was_cancelled():
    world = FakeWorld(tools={"b": 1})

    def slow(arguments: Any) -> int:
        world.clock.time += 100
        return 1

    world = FakeWorld(tools={"a": slow, "b": 1}, clock=world.clock)
    for flow in (w.pipeline(A, B), w.pipeline(A, w.step(B, input=w.from_input()))):
        world.calls.clear()
        with pytest.raises(DeadlineExceeded):
            await engine_of(world, flow).execute("it", None)
        assert [tool for tool, _ in world.calls] == ["a"]


async def test_each_call_has_a_deadline_of_its_own():
    world = FakeWorld(tools={"a": lambda seconds: Late(seconds, seconds)})
    engine = engine_of(world, A)
    before = world.clock.now()
    results = await asyncio.gather(
        *(
            engine.execute("it", seconds, timeout=limit)
            for seconds, limit in ((5, 9), (5, 2), (1, 3), (20, 30), (8, 4))
        ),
        return_exceptions=True,
    )
    assert [type(one).__name__ if isinstance(one, Exception) else one for one in results] == [
        5,
        "DeadlineExceeded",
        1,
        20,
        "DeadlineExceeded",
    ]
    assert world.clock.now() - before >= 20


def test_one_engine_keeps_deadlines_in_every_loop_that_it_is_run_in():
    @w.python_tool
    async def forever(given: w.Json, /) -> None:
        await asyncio.get_running_loop().create_future()

    engine = local_engine(w.composition("it", "It.", w.pipeline(forever)), limits=Limits(timeout=0.05))
    for _ in range(2):
        with pytest.raises(DeadlineExceeded):
            asyncio.run(asyncio.wait_for(engine.execute("it", None), 5))


async def test_a_tool_that_cancels_itself_has_failed_and_nobody_else_is_cancelled():
    async def given_up(arguments: Any) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    for flow in (A, w.pipeline(A), w.pipeline(B, w.map_each(A)), w.scatter_gather(A, fail_fast=True)):
        with pytest.raises(ToolFailed, match="Tool 'a' failed: it was cancelled from within"):
            await FakeWorld(tools={"a": given_up, "b": [1]}).run(flow)


async def test_closing_the_engine_does_not_take_the_deadline_from_calls_under_way():
    world = FakeWorld(tools={"a": Watched()})
    engine = engine_of(world, A)
    call = asyncio.create_task(engine.execute("it", None, timeout=3))
    await asyncio.sleep(0)
    await engine.close()
    with pytest.raises(DeadlineExceeded):
        await call

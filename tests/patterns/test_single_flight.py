"""Of all who want the same at the same moment, one does the work; nobody inherits what is another's own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.patterns.gateways import cancelled, outcome
from tests.patterns.stepped import settle
from weft.errors import BudgetSpent, DeadlineExceeded, ExecutionFailed, LimitExceeded, TimedOut, ToolFailed, WeftError
from weft.patterns.single_flight import SingleFlight, again
from weft.testing import down


class Work:
    """Work that ends as the test says, each time it is begun."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Future[Any]] = []

    async def __call__(self) -> Any:
        self.begun.append(asyncio.get_running_loop().create_future())
        return await self.begun[-1]


async def begun(count: int) -> tuple[SingleFlight[Any], Work, list[asyncio.Task[Any]]]:
    flights, work = SingleFlight[Any](), Work()
    tasks = [asyncio.create_task(flights.do("key", work)) for _ in range(count)]
    await settle()
    return flights, work, tasks


async def test_one_does_the_work_and_all_get_what_it_gave():
    flights, work, tasks = await begun(10)
    assert "key" in flights
    other = asyncio.create_task(flights.do("other", work))
    await settle()
    work.begun[0].set_result("done")
    assert [(await task).followed for task in tasks] == [False] + [True] * 9
    assert {(await task).value for task in tasks} == {"done"}
    assert "key" not in flights
    work.begun[1].set_result("else")
    assert (await other).value == "else"


async def test_work_that_is_over_is_done_anew():
    flights, work, tasks = await begun(1)
    work.begun[0].set_result(1)
    await tasks[0]
    again = asyncio.create_task(flights.do("key", work))
    await settle()
    work.begun[1].set_result(2)
    assert (await again).value == 2


@pytest.mark.parametrize("error", [down(), ToolFailed("t", "no"), TimedOut("too slow"), ExecutionFailed("bad")])
async def test_all_get_the_error_of_the_work_each_one_of_its_own(error: WeftError):
    _, work, tasks = await begun(5)
    error.path = ("inner",)
    work.begun[0].set_exception(error)
    told = [await outcome(task) for task in tasks]
    assert {(type(one), str(one), one.code, one.path) for one in told} == {
        (type(error), str(error), error.code, ("inner",))
    }
    assert len({id(one) for one in told}) == 5
    told[1].within("mine")
    assert told[2].path == ("inner",)
    assert len(work.begun) == 1


OWN = [
    BudgetSpent("FanOutLimit", 1, "the call makes too many upstream calls"),
    DeadlineExceeded("'it' did not finish before its deadline"),
    ExecutionFailed("Tool 'x' may not be called for this caller", code="StepDenied"),
    LimitExceeded("QuotaExceeded", 10, "quota 'x': too many calls in 60 s"),
]


@pytest.mark.parametrize("error", OWN, ids=lambda error: error.code)
async def test_what_ends_one_call_alone_makes_the_next_one_lead(error: WeftError):
    _, work, tasks = await begun(3)
    work.begun[0].set_exception(error)
    assert await outcome(tasks[0]) is error
    await settle()
    work.begun[1].set_result("done")
    assert [(await task).value for task in tasks[1:]] == ["done", "done"]
    assert len(work.begun) == 2


async def test_when_the_leader_is_cancelled_the_first_follower_leads():
    _, work, tasks = await begun(4)
    await cancelled(tasks[0])
    await settle()
    await cancelled(tasks[1])
    await settle()
    assert len(work.begun) == 3
    work.begun[2].set_result("done")
    assert [(await task).followed for task in tasks[2:]] == [False, True]


async def test_a_follower_that_is_cancelled_stops_nobody():
    _, work, tasks = await begun(4)
    await cancelled(tasks[2])
    work.begun[0].set_result("done")
    assert {(await tasks[index]).value for index in (0, 1, 3)} == {"done"}


async def test_a_fault_of_the_program_is_not_spread():
    _, work, tasks = await begun(2)
    work.begun[0].set_exception(RuntimeError("a bug"))
    assert isinstance(await outcome(tasks[0]), RuntimeError)
    await settle()
    work.begun[1].set_result("done")
    assert (await tasks[1]).value == "done"


def test_an_error_told_again_knows_all_that_the_first_one_knew():
    first = down("gone")
    first.retry_after = 3.0
    first.hint = "wait"
    second = again(first, ("a", "b"))
    assert second.to_json() == {**first.to_json(), "path": ["a", "b"]}
    assert second is not first
    assert second.__traceback__ is None

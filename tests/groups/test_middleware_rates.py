"""Calls over a rate are refused, with the time after which the next is free."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.groups.middlewares import ALICE, BOB, Clock, call_of, result, through
from weft.groups.calling import ToolCall
from weft.groups.execution.results import wire_error
from weft.groups.middleware import RateLimited, rate_limited


async def refused(middleware: Any, call: Any = None) -> RateLimited | None:
    try:
        await through(middleware, result("done"), call)
    except RateLimited as error:
        return error
    return None


async def test_a_burst_is_let_through_and_then_so_many_a_second():
    clock = Clock()
    middleware = rate_limited(per_second=2, burst=3, clock=clock)
    assert [await refused(middleware) for _ in range(3)] == [None] * 3
    error = await refused(middleware)
    assert error is not None
    assert error.retry_after == pytest.approx(0.5)
    clock.now += 0.5
    assert await refused(middleware) is None
    assert await refused(middleware) is not None


async def test_the_model_is_told_when_to_come_back():
    clock = Clock()
    middleware = rate_limited(per_second=0.25, clock=clock)
    assert await refused(middleware) is None
    error = await refused(middleware, call_of(action="find"))
    assert error is not None
    told = wire_error(error)
    assert told["content"][0]["text"] == (
        "'shop.find' is called too often; the next call is free in 4 s (0.25 a second). "
        "It may work when tried again in 4 s."
    )
    assert (error.code, error.retryable, told["_meta"]["weft/error"]["retryAfterMs"]) == ("RateLimited", "yes", 4000)


async def test_the_answer_to_a_question_is_not_counted():
    middleware = rate_limited(per_second=1, burst=1, clock=Clock())
    assert await refused(middleware) is None
    answer = ToolCall("shop", {}, again=True)
    assert [await refused(middleware, answer) for _ in range(2)] == [None, None]
    assert await refused(middleware) is not None


async def test_the_slowest_rate_lets_one_through_and_tells_when_the_next_is_free():
    middleware = rate_limited(per_second=1e-6, clock=Clock())
    assert await refused(middleware) is None
    error = await refused(middleware)
    assert error is not None
    assert error.retry_after == pytest.approx(1e6)


async def test_what_is_refused_does_not_reach_the_tool():
    reached: list[Any] = []
    middleware = rate_limited(per_second=1, clock=Clock())
    await through(middleware, reached.append)
    with pytest.raises(RateLimited):
        await through(middleware, reached.append)
    assert len(reached) == 1


@pytest.mark.parametrize(("by", "passed"), [("caller", {"ax", "bx"}), ("tool", {"ax", "ay"}), ("all", {"ax"})])
async def test_callers_or_tools_are_counted_apart(by: Any, passed: set[str]):
    middleware = rate_limited(per_second=1, by=by, clock=Clock())
    who = {"a": ALICE, "b": BOB}
    calls = {f"{name}{action}": call_of(who[name], action=action) for action in "xy" for name in "ab"}
    assert {key for key, call in calls.items() if await refused(middleware, call) is None} == passed


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"per_second": 0}, "per_second must be from 0.000001 to 1000000, not 0"),
        ({"per_second": 5e-324}, "per_second must be from 0.000001 to 1000000, not 5e-324"),
        ({"per_second": 2e6}, "per_second must be from 0.000001 to 1000000, not 2000000.0"),
        ({"per_second": float("nan")}, "per_second must be from 0.000001 to 1000000, not nan"),
        ({"per_second": 1, "burst": 0}, "burst must be at least 1, not 0"),
        ({"per_second": 1, "by": "agent"}, "by must be one of caller, tool, all, not 'agent'"),
    ],
)
def test_a_rate_that_is_none_is_refused_at_once(wrong: dict[str, Any], told: str):
    with pytest.raises(ValueError, match=told):
        rate_limited(**wrong)


@given(
    rate=st.floats(0.5, 20),
    burst=st.integers(1, 10),
    pauses=st.lists(st.floats(0, 2), min_size=1, max_size=60),
)
async def test_in_no_time_are_more_let_through_than_the_burst_and_the_rate_allow(
    rate: float, burst: int, pauses: list[float]
):
    clock = Clock()
    middleware = rate_limited(per_second=rate, burst=burst, clock=clock)
    passed: list[float] = []
    for pause in pauses:
        clock.now += pause
        if await refused(middleware) is None:
            passed.append(clock.now)
    for first, begin in enumerate(passed):
        for last, end in enumerate(passed[first:], first):
            assert last - first + 1 <= burst + (end - begin) * rate + 1e-6

"""Calls are logged without their arguments, and timed, whatever becomes of them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tests.groups.middlewares import ALICE, Clock, Lines, call_of, ended, result, through
from weft.errors import ExecutionFailed
from weft.groups.calling import ToolCall
from weft.groups.execution.results import Outcome, failure, success, wire, wire_error
from weft.groups.middleware import logged, timed
from weft.groups.middleware.seen import is_result


def slow(clock: Clock, gives: Any) -> Any:
    def work(_: Any) -> Any:
        clock.now += 0.0125
        if isinstance(gives, BaseException):
            raise gives
        return gives

    return work


ENDINGS: list[tuple[Any, dict[str, str]]] = [
    ({"id": 1}, {"outcome": "ok"}),
    (success(1, text="one"), {"outcome": "ok"}),
    (failure("no"), {"outcome": "tool_error", "error": "ActionFailed"}),
    (result("found"), {"outcome": "ok"}),
    (result("no", isError=True), {"outcome": "tool_error"}),
    ({"resultType": "input_required", "inputRequests": {}}, {"outcome": "input_required"}),
    (ExecutionFailed("no", code="InvalidArguments"), {"outcome": "error", "error": "InvalidArguments"}),
    (KeyError("s3cret"), {"outcome": "error", "error": "KeyError"}),
    (asyncio.CancelledError(), {"outcome": "cancelled"}),
]


@pytest.mark.parametrize(("gives", "told"), ENDINGS)
async def test_a_line_says_which_call_of_whom_how_it_ended_and_how_long_it_took(gives: Any, told: dict[str, str]):
    lines, clock = Lines(), Clock()

    call = call_of(ALICE, action="users.create", password="s3cret", name="Ann")
    assert await ended(logged(lines, clock=clock), slow(clock, gives), call) is gives
    expected = {"message": "call", "tool": "shop", "action": "users.create", "principal": ALICE.id, "ms": 12.5, **told}
    assert lines.told == [expected]


async def test_the_line_of_a_call_that_goes_on_with_an_answer_says_so():
    lines = Lines()
    await through(logged(lines), 1, ToolCall("shop", {}, again=True))
    await through(logged(lines), 1)
    assert [one.get("again") for one in lines.told] == [True, None]


RESULTS: list[tuple[Any, bool]] = [
    ({"content": []}, True),
    ({"content": [], "_meta": {}}, True),
    ({"structuredContent": {"a": 1}}, True),
    ({"structuredContent": {"a": 1}, "isError": False}, True),
    ({"resultType": "input_required", "inputRequests": {}}, True),
    (result("x", task={"taskId": "1"}), True),
    ({"content": [], "isError": False, "more": 1}, True),
    ({"content": [{"type": "text", "text": "x"}], "more": 1}, True),
    ({"content": [], "title": "a page"}, False),
    ({"content": ["a", "b"], "title": "a page"}, False),
    ({"content": "text"}, False),
    ({"content": "text", "structuredContent": {}}, False),
    ({"isError": True}, False),
    ({}, False),
    ([], False),
]


@pytest.mark.parametrize(("value", "is_one"), RESULTS)
def test_a_result_of_a_tool_is_known_by_its_form(value: Any, is_one: bool):
    assert is_result(value) is is_one


async def test_a_failure_that_is_returned_is_a_failure():
    lines = Lines()
    await through(logged(lines), lambda _: failure("no"))  # pyright: ignore[reportUnknownLambdaType]
    assert lines.told[0]["outcome"] == "tool_error"


async def test_without_a_log_the_line_goes_to_pythons_own(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "weft.calls")
    await through(logged(clock=Clock()), 1, call_of(card="4111111111111111"))
    (record,) = caplog.records
    assert record.name == "weft.calls"
    assert record.getMessage() == "call  tool=shop  principal=anonymous  ms=0.0  outcome=ok"


@pytest.mark.parametrize("gives", [{"id": 1}, success({"id": 1}, meta={"a": 1}), result("x", _meta={"a": 1})])
async def test_the_time_is_in_the_meta_of_the_result(gives: Any):
    clock = Clock()
    before: dict[str, Any] = gives if is_result(gives) else wire(gives)
    timed_one = await through(timed(clock=clock), slow(clock, gives))
    after = wire(timed_one) if isinstance(timed_one, Outcome) else timed_one
    assert after == {**before, "_meta": {**before.get("_meta", {}), "weft/ms": 12.5}}


async def test_the_time_of_what_failed_is_told_too():
    clock = Clock()
    with pytest.raises(ExecutionFailed) as caught:
        await through(timed(clock=clock), slow(clock, ExecutionFailed("no")))
    assert wire_error(caught.value)["_meta"]["weft/ms"] == 12.5


@pytest.mark.parametrize(("gives", "told"), ENDINGS)
async def test_somebody_may_count_every_call(gives: Any, told: dict[str, str]):
    clock = Clock()
    seen: list[tuple[str, float, str]] = []
    middleware = timed(lambda name, seconds, outcome: seen.append((name, seconds, outcome)), clock=clock)
    await ended(middleware, slow(clock, gives), call_of(action="list"))
    assert seen == [("shop.list", pytest.approx(0.0125), told["outcome"])]

"""Retries repeat what may still succeed, and nothing else; the numbers are those of the tests in SEMANTICS 1.4."""

from __future__ import annotations

import asyncio
import math
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft as w
from tests.patterns.worlds import document, problems, run, told_by
from weft.errors import (
    BudgetSpent,
    CircuitOpen,
    ExecutionFailed,
    InputError,
    LimitExceeded,
    NotFound,
    RetriesExhausted,
    StoreError,
    TimedOut,
    ToolFailed,
    UpstreamAuth,
    UpstreamDied,
    UpstreamProtocolError,
    UpstreamRefused,
    UpstreamUnavailable,
    WeftError,
)
from weft.patterns.backoff import Backoff
from weft.ports import ToolType
from weft.run.engine import Engine
from weft.run.limits import Limits
from weft.testing import FakeClock, FakeWorld, Late, down, in_turn, refusal

FETCH = w.tool("fetch")
E = w.path({})
SAFE = ToolType(annotations={"idempotentHint": True})


def engine_of(world: FakeWorld, op: Any, *others: Any) -> Engine:
    """Return an engine that has the operation as `it`."""
    return world.engine(w.compile(w.composition("it", "It.", op)).document, *others)


def tries(world: FakeWorld) -> int:
    """Return how often the tool was called."""
    return len(world.calls)


def waiting(seconds: float) -> UpstreamUnavailable:
    """Return the failure of a server that asks to be left alone."""
    return UpstreamUnavailable("fake", "busy", status=503, retry_after=seconds)


class Keyed:
    """A server that notes the keys of its calls, and fails until it has been called so often."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.seen: list[tuple[str, int]] = []

    def bind(self, ref: Any) -> Any:
        async def invoke(arguments: Any, call: Any) -> Any:
            self.seen.append((call.keys.next(ref.name, arguments), call.keys.attempt))
            if len(self.seen) <= self.failures:
                raise down()
            return "found"

        return invoke

    def describe(self, ref: Any) -> ToolType:
        return ToolType()

    def names(self) -> list[str]:
        return ["fetch"]


@pytest.mark.req("STA-25")
@pytest.mark.parametrize("attempts", [1, 3, 7])
async def test_retry_01_the_attempts_are_counted_with_the_first(attempts: int):
    world = FakeWorld(tools={"fetch": down("gone")})
    with pytest.raises(RetriesExhausted) as caught:
        await world.run(w.retry(FETCH, attempts, backoff=w.fixed(0)))
    assert tries(world) == attempts
    assert caught.value.attempts == attempts
    assert caught.value.reason == "attempts"


@pytest.mark.req("STA-30")
async def test_retry_01_the_error_has_the_sentence_of_the_seed_and_its_causes_the_last_first():
    answers = in_turn(*(down(f"reason {n}") for n in range(7)))
    world = FakeWorld(tools={"fetch": answers})
    with pytest.raises(RetriesExhausted) as caught:
        await world.run(w.retry(FETCH, 7, backoff=w.fixed(0)))
    error = caught.value
    assert error.message == "Max retries (7) exhausted. Last error: Upstream 'fake' is unavailable: reason 6"
    assert [cause.message[-1] for cause in error.causes] == ["6", "5", "4", "3", "2"]
    told = error.to_json()
    assert (told["code"], told["attempts"], told["reason"]) == ("RetriesExhausted", 7, "attempts")
    assert [cause["code"] for cause in told["causes"]] == ["UpstreamUnavailable"] * 5
    assert error.__cause__ is error.causes[0]


async def test_retry_02_the_first_success_is_the_result():
    world = FakeWorld(tools={"fetch": in_turn(down(), "found", "again")})
    result = await world.trace(w.retry(FETCH, 5))
    assert (result.value, tries(world)) == ("found", 2)
    assert result.trace is not None
    assert result.trace.root.notes == {"attempts": 2}
    assert world.signals.counts["retries{outcome=again}"] == 1


@pytest.mark.req("STA-26")
@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (w.fixed(0.5), [0.5, 0.5, 0.5, 0.5]),
        (w.linear(0.1, 0.2, max=0.6), [0.1, 0.3, 0.5, 0.6]),
        (w.exponential(0.2, max=1), [0.2, 0.4, 0.8, 1]),
        (None, [0.2, 0.4, 0.8, 1.6]),
    ],
)
async def test_retry_03_the_pauses_are_those_of_the_backoff(backoff: Backoff | None, expected: list[float]):
    world = FakeWorld(tools={"fetch": in_turn(*[down()] * 4, "found")})
    assert await world.run(w.retry(FETCH, 5, backoff=backoff)) == "found"
    assert world.pauses == pytest.approx(expected)


@pytest.mark.req("STA-27")
async def test_retry_04_jitter_shortens_pauses_by_the_worlds_chance():
    def pauses(seed: int) -> list[float]:
        world = FakeWorld(tools={"fetch": in_turn(*[down()] * 4, "found")}, seed=seed)
        assert asyncio.run(world.run(w.retry(FETCH, 5, backoff=w.fixed(1), jitter=0.5))) == "found"
        return world.pauses

    loop = asyncio.get_running_loop()
    first, same, other = [await loop.run_in_executor(None, pauses, seed) for seed in (1, 1, 2)]
    assert first == same != other
    assert all(0.5 <= pause <= 1 for pause in first + other)
    assert first == [1 - 0.5 * chance for chance in _draws(1, 4)]


def _draws(seed: int, count: int) -> list[float]:
    rng = Random(seed)
    return [rng.random() for _ in range(count)]


async def test_retry_06_nobody_pauses_after_the_last_attempt():
    world = FakeWorld(tools={"fetch": down()})
    with pytest.raises(RetriesExhausted):
        await world.run(w.retry(FETCH, 3, backoff=w.fixed(1)))
    assert world.pauses == [1, 1]


@pytest.mark.parametrize(
    "error",
    [
        refusal("no"),
        NotFound("Tool", "fetch"),
        InputError("invalid", code="InvalidArguments"),
        ExecutionFailed("it needs an object"),
        ExecutionFailed("Duplicate request detected", code="DuplicateRequest"),
        UpstreamAuth("fake", "expired"),
        UpstreamProtocolError("fake", "HTML"),
        UpstreamRefused("fake", "tools/call", {"code": -32000, "message": "no"}),
        CircuitOpen("open"),
        LimitExceeded("UpstreamBusy", 1, "busy"),
        RetriesExhausted("inner"),
        TimedOut("late"),
        UpstreamDied("fake", "killed"),
    ],
    ids=lambda error: error.code,
)
async def test_retry_07_what_is_not_known_to_be_repeatable_is_the_error_as_it_is(error: WeftError):
    world = FakeWorld(tools={"fetch": error})
    with pytest.raises(type(error)) as caught:
        await world.run(w.retry(FETCH, 5))
    assert caught.value is error
    assert (tries(world), world.pauses) == (1, [])


@pytest.mark.parametrize(
    "error",
    [
        NotFound("Tool", "fetch"),
        ExecutionFailed("it needs an object"),
        UpstreamAuth("fake", "expired"),
        UpstreamRefused("fake", "tools/call", {"code": -32602, "message": "invalid"}),
        CircuitOpen("open"),
        LimitExceeded("UpstreamBusy", 1, "busy"),
    ],
    ids=lambda error: error.code,
)
async def test_retry_07_some_errors_are_never_repeated_whatever_retry_if_says(error: WeftError):
    world = FakeWorld(tools={"fetch": error})
    with pytest.raises(type(error)):
        await world.run(w.retry(FETCH, 5, retry_if=w.is_error(), retry_unknown=True))
    assert tries(world) == 1


async def test_retry_07_a_spent_budget_of_the_call_ends_it():
    world = FakeWorld(tools={"fetch": down()}, limits=Limits(calls=2))
    with pytest.raises(BudgetSpent):
        await world.run(w.retry(FETCH, 5, retry_if=w.is_error()))
    assert tries(world) == 2


@pytest.mark.parametrize("error", [down(), StoreError("s", "away"), UpstreamDied("fake", "gone", sent=False)])
async def test_retry_07_what_was_certainly_not_done_is_repeated_for_any_tool(error: WeftError):
    world = FakeWorld(tools={"fetch": in_turn(error, "found")})
    assert await world.run(w.retry(FETCH)) == "found"


@pytest.mark.req("STA-28", "STA-51")
@pytest.mark.parametrize(
    ("condition", "count"),
    [
        (w.holds(E.code, w.eq("UpstreamUnavailable")), 3),
        (w.holds(E.code, w.ne("UpstreamUnavailable")), 1),
        (w.holds(E.status, w.one_of(502, 503)), 3),
        (w.holds(E.status, w.one_of(429)), 1),
        (w.holds(E.attempt, w.lt(2)), 2),
        (w.holds(E.retryAfterMs, w.is_null()), 1),
        (w.is_error(), 3),
    ],
)
async def test_retry_08_retry_if_asks_about_the_error(condition: Any, count: int):
    world = FakeWorld(tools={"fetch": waiting(0.1)})
    with pytest.raises((RetriesExhausted, UpstreamUnavailable)):
        await world.run(w.retry(FETCH, 3, retry_if=condition))
    assert tries(world) == count


async def test_retry_08_retry_if_may_be_written_as_text():
    world = FakeWorld(tools={"fetch": in_turn(refusal("busy"), "found")})
    spec = {"retry": {"inner": "fetch", "maxAttempts": 2, "retryIf": 'item.content == "busy"'}}
    assert (await run(world, spec)).value == "found"


@pytest.mark.parametrize("moment", [0.5, 5])
async def test_retry_09_a_caller_that_gives_up_in_a_pause_ends_it_at_once(moment: float):
    world = FakeWorld(tools={"fetch": down()})
    engine = engine_of(world, w.retry(FETCH, 5, backoff=w.fixed(10)))
    task = asyncio.ensure_future(engine.execute("it", 1))
    before = world.clock.now()
    world.clock.call_at(before + moment, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.clock.now() - before == moment
    assert tries(world) == 1
    await engine.close()


async def test_retry_10_a_caller_that_gives_up_in_an_attempt_cancels_the_tool_and_there_is_no_other():
    clock = FakeClock()
    seen: list[str] = []

    async def fetch(_: Any) -> None:
        try:
            await clock.sleep(50)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    world = FakeWorld(tools={"fetch": fetch}, clock=clock)
    engine = engine_of(world, w.retry(FETCH, 5, retry_if=w.is_error(), retry_unknown=True))
    task = asyncio.ensure_future(engine.execute("it", 1))
    clock.call_at(clock.now() + 1, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (seen, tries(world)) == (["cancelled"], 1)
    await engine.close()


async def test_retry_11_all_attempts_fit_into_the_time_of_the_whole():
    world = FakeWorld(tools={"fetch": Late(down("gone"), 0.3)})
    engine = engine_of(world, w.retry(FETCH, 5, backoff=w.fixed(1)))
    before = world.clock.now()
    with pytest.raises(RetriesExhausted) as caught:
        await engine.execute("it", 1, timeout=1)
    assert world.clock.now() - before == pytest.approx(0.3)
    assert (tries(world), world.pauses) == (1, [0.3])
    assert caught.value.reason == "deadline"
    assert caught.value.message == (
        "Retries ended after 1 of 5 attempts: there is no time for another. "
        "Last error: Upstream 'fake' is unavailable: gone"
    )
    await engine.close()


async def test_retry_12_what_the_server_asks_for_is_waited_for_even_above_the_cap():
    world = FakeWorld(tools={"fetch": in_turn(waiting(2), waiting(0.1), "found")})
    assert await world.run(w.retry(FETCH, 3, backoff=w.exponential(0.2, max=1))) == "found"
    assert world.pauses == [2, 0.4]


async def test_retry_12_a_wait_that_the_deadline_does_not_allow_fails_at_once():
    world = FakeWorld(tools={"fetch": waiting(120)})
    with pytest.raises(RetriesExhausted) as caught:
        await world.run(w.retry(FETCH, 3))
    assert (world.pauses, caught.value.reason, caught.value.retry_after) == ([], "deadline", 120)


@pytest.mark.parametrize("asked", [-5, math.nan, math.inf, 0])
async def test_retry_12_a_wait_that_makes_no_sense_is_none(asked: float):
    world = FakeWorld(tools={"fetch": in_turn(waiting(asked), "found")})
    assert await world.run(w.retry(FETCH, 3, backoff=w.fixed(0.5))) == "found"
    assert world.pauses == [0.5]


async def test_retry_13_an_open_circuit_is_not_asked_again():
    world = FakeWorld(tools={"fetch": in_turn(down(), CircuitOpen("Circuit 'x' is OPEN"))})
    with pytest.raises(CircuitOpen):
        await world.run(w.retry(FETCH, 5))
    assert tries(world) == 2


async def test_retry_14_all_calls_together_may_not_repeat_more_than_a_part():
    world = FakeWorld(tools={"fetch": down()})
    engine = engine_of(world, w.retry(FETCH, 3))
    errors = await asyncio.gather(*(engine.execute("it", n) for n in range(100)), return_exceptions=True)
    assert 120 < tries(world) <= 130
    assert {error.reason for error in errors if isinstance(error, RetriesExhausted)} == {"budget"}
    assert world.signals.counts["retries{outcome=budget}"] == 100
    told = [str(error) for error in errors if isinstance(error, RetriesExhausted) and error.reason == "budget"]
    sentence = "Retries ended after 1 of 3 attempts: too many calls are repeated already. Last error: "
    assert any(one.startswith(sentence) for one in told)
    await engine.close()


async def test_retry_14_a_budget_fills_up_with_time_and_with_calls():
    world = FakeWorld(tools={"fetch": down()})
    spec = {"retry": {"inner": "fetch", "maxAttempts": 2, "budget": {"ratio": 0.5, "min": 1}}}
    engine = world.engine(document(spec))

    async def attempts() -> int:
        with pytest.raises(RetriesExhausted) as caught:
            await engine.execute("it", 1)
        return caught.value.attempts

    assert [await attempts() for _ in range(6)] == [2, 2, 1, 2, 1, 2]
    assert await attempts() == 1
    world.clock.time += 600
    assert [await attempts() for _ in range(2)] == [2, 1]
    await engine.close()


@pytest.mark.parametrize(("condition", "count"), [(None, 1), (w.holds(E.isError, w.eq(True)), 3)])
async def test_retry_15_a_tool_that_said_no_is_asked_again_only_when_retry_if_says_so(condition: Any, count: int):
    world = FakeWorld(tools={"fetch": refusal("not today")})
    with pytest.raises((ToolFailed, RetriesExhausted)):
        await world.run(w.retry(FETCH, 3, retry_if=condition))
    assert tries(world) == count


@pytest.mark.req("STA-29")
async def test_retry_16_an_attempt_that_hangs_is_ended_and_its_late_answer_is_nobodys():
    clock = FakeClock()
    answers = iter([("first", 50.0), ("second", 0.5)])
    ended: list[str] = []

    async def fetch(_: Any) -> str:
        answer, seconds = next(answers)
        try:
            await clock.sleep(seconds)
        except asyncio.CancelledError:
            ended.append(answer)
            return answer
        return answer

    world = FakeWorld(tools={"fetch": fetch}, clock=clock)
    before = clock.now()
    assert await world.run(w.retry(FETCH, 3, attempt_timeout=w.seconds(2), backoff=w.fixed(1))) == "second"
    assert (clock.now() - before, ended) == (3.5, ["first"])


@pytest.mark.req("STA-29")
async def test_retry_16_each_attempt_has_its_time():
    world = FakeWorld(tools={"fetch": Late("found", 5)})
    before = world.clock.now()
    with pytest.raises(RetriesExhausted, match="Last error: Timeout after 2000ms waiting for pattern exec") as caught:
        await world.run(w.retry(FETCH, 3, attempt_timeout="2s", backoff=w.fixed(0)))
    assert world.clock.now() - before == 6
    assert caught.value.retryable == "unknown-outcome"


async def test_retry_16_unless_retry_unknown_is_false():
    world = FakeWorld(tools={"fetch": Late("found", 5)})
    with pytest.raises(TimedOut):
        await world.run(w.retry(FETCH, 3, attempt_timeout="2s", retry_unknown=False))
    assert tries(world) == 1


@pytest.mark.parametrize("error", [UpstreamDied("fake", "killed"), UpstreamProtocolError("fake", "HTML")])
async def test_retry_17_what_may_have_been_done_is_not_done_again(error: WeftError):
    world = FakeWorld(tools={"fetch": error})
    with pytest.raises(type(error)):
        await world.run(w.retry(FETCH, 3, retry_if=w.is_error()))
    assert tries(world) == 1


async def test_retry_17_unless_the_tool_says_that_this_does_no_harm():
    world = FakeWorld(tools={"fetch": in_turn(UpstreamDied("fake", "killed"), "found")}, types={"fetch": SAFE})
    assert await world.run(w.retry(FETCH, 3)) == "found"


async def test_retry_17_or_retry_unknown_does():
    world = FakeWorld(tools={"fetch": in_turn(UpstreamDied("fake", "killed"), "found")})
    assert await world.run(w.retry(FETCH, 3, retry_unknown=True)) == "found"


@pytest.mark.parametrize("last", [refusal("no"), down()])
async def test_retry_17_once_it_may_have_been_done_no_later_failure_says_otherwise(last: WeftError):
    last.retryable = type(last).retryable
    world = FakeWorld(tools={"fetch": in_turn(UpstreamDied("fake", "killed"), last)})
    with pytest.raises(WeftError) as caught:
        await world.run(w.retry(FETCH, 2, retry_unknown=True))
    assert caught.value.retryable == "unknown-outcome"


def warnings(world: FakeWorld, spec: dict[str, Any], **others: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the warnings that a composition is compiled with: where, and which."""
    found = world.engine(document(spec, **others)).snapshot.problems
    return [("/".join(map(str, one.loc[3:])), one.message) for one in found if one.code.startswith("Re")]


def nested(inner: Any, attempts: int) -> dict[str, Any]:
    """Return a retry of something as documents have it."""
    return {"retry": {"inner": inner, "maxAttempts": attempts}}


def test_retry_18_retries_that_multiply_each_other_are_warned_of():
    world = FakeWorld(tools={"fetch": 1})
    told = "retries inside of retries: one call may become 12"
    assert warnings(world, nested(nested("fetch", 4), 3)) == [("retry/maxAttempts", told)]
    assert warnings(world, nested(nested("fetch", 5), 2)) == []
    assert warnings(world, nested("fetch", 20)) == []
    assert warnings(
        world, nested({"timeout": {"inner": {"composition": "other"}, "durationMs": 1}}, 3), other=nested("fetch", 4)
    ) == [("retry/maxAttempts", told)]


@pytest.mark.parametrize(
    ("hints", "warned"),
    [
        ({"readOnlyHint": False}, True),
        ({"destructiveHint": True}, True),
        ({"readOnlyHint": False, "idempotentHint": True}, False),
        ({"readOnlyHint": True}, False),
        ({}, False),
        (None, False),
    ],
)
def test_retry_18_a_retry_of_a_tool_that_is_known_to_change_something_is_warned_of(hints: Any, warned: bool):
    world = FakeWorld(tools={"fetch": 1}, types={"fetch": ToolType(annotations=hints)})
    told = "retry may repeat 'fetch', which changes something each time it is called"
    expected = [("retry/inner", told)] if warned else []
    assert warnings(world, nested("fetch", 2)) == expected
    assert (
        warnings(world, nested({"composition": "other"}, 2), other={"timeout": {"inner": "fetch", "durationMs": 1}})
        == expected
    )
    assert warnings(world, nested("fetch", 1)) == []


async def test_retry_19_each_attempt_is_given_the_same_input():
    seen: list[Any] = []

    def fetch(arguments: Any) -> Any:
        seen.append([*arguments["list"]])
        arguments["list"].append("spoilt")
        return "found" if len(seen) == 3 else down()

    value = {"list": [1, {"a": 2}], "n": 1}
    assert await FakeWorld(tools={"fetch": fetch}).run(w.retry(FETCH, 3), value) == "found"
    assert seen == [[1, {"a": 2}]] * 3


@pytest.mark.req("STA-25", "STA-26", "STA-27")
@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"maxAttempts": 0}, "maxAttempts"),
        ({"maxAttempts": 10**9}, "maxAttempts"),
        ({"maxAttempts": 2.5}, "maxAttempts"),
        ({"jitter": -0.1}, "jitter"),
        ({"jitter": 1.5}, "jitter"),
        ({"backoff": {"type": "fixed", "delayMs": -1}}, "backoff/delayMs"),
        ({"backoff": {"exponential": {"initialDelayMs": 10, "multiplier": 0.5}}}, "backoff/exponential/multiplier"),
        ({"backoff": {"exponential": {"initialDelayMs": 10, "maxDelayMs": 5}}}, "backoff/exponential/maxDelayMs"),
        ({"attemptTimeoutMs": 0}, "attemptTimeoutMs"),
        ({"retryIf": {"field": "$.code", "op": "eqals", "value": 1}}, "retryIf/op"),
        ({"budget": {"ratio": 2}}, "budget/ratio"),
    ],
)
def test_retry_20_what_makes_no_sense_is_refused_at_its_place(body: dict[str, Any], place: str):
    found = problems({"retry": {"inner": "fetch", **body}})
    assert [problem.pointer for problem in found] == [f"/tools/0/spec/retry/{place}"]


def test_retry_20_jitter_that_is_no_number_is_refused():
    with pytest.raises(InputError):
        w.retry(FETCH, jitter=math.nan)
    with pytest.raises(TypeError, match=r"w\.seconds\(5\)"):
        w.retry(FETCH, attempt_timeout=5)  # pyright: ignore[reportArgumentType]


async def test_every_attempt_has_the_same_key_and_its_own_number():
    server = Keyed(failures=2)
    engine = engine_of(FakeWorld(), w.retry(FETCH, 3), server)
    assert await engine.execute("it", {"n": 1}) == "found"
    assert [attempt for _, attempt in server.seen] == [1, 2, 3]
    assert len({key for key, _ in server.seen}) == 1
    assert await engine.execute("it", {"n": 1}) == "found"
    assert server.seen[-1][0] != server.seen[0][0]
    await engine.close()


async def test_an_attempt_of_an_outer_retry_keeps_the_keys_of_an_inner_one():
    server = Keyed(failures=3)
    outer = w.retry(w.retry(FETCH, 2, backoff=w.fixed(0)), 2, retry_if=w.is_error(), backoff=w.fixed(0))
    engine = engine_of(FakeWorld(), outer, server)
    assert await engine.execute("it", {"n": 1}) == "found"
    assert [attempt for _, attempt in server.seen] == [1, 2, 1, 2]
    assert len({key for key, _ in server.seen}) == 1
    await engine.close()


async def test_equal_calls_below_one_retry_have_keys_of_their_own_and_keep_them():
    server = Keyed(failures=1)
    each = w.map_each(w.retry(FETCH, 1), max_concurrency=1)
    both = w.retry(w.pipeline(each, w.step(w.retry(FETCH, 1), input=w.constant({"n": 1}))), 2, retry_if=w.is_error())
    engine = engine_of(FakeWorld(), both, server)
    await engine.execute("it", [{"n": 1}, {"n": 1}])
    keys = [key for key, _ in server.seen]
    assert keys[0] == keys[1]
    assert len(set(keys[1:])) == 3
    await engine.close()


async def test_the_trace_shows_every_attempt():
    world = FakeWorld(tools={"fetch": in_turn(down(), refusal("no"))})
    with pytest.raises(ToolFailed) as caught:
        await world.run(w.retry(FETCH, 3))
    assert told_by(caught.value) == [(0, "it", "failed"), (1, "fetch", "failed"), (1, "fetch", "failed")]
    assert caught.value.path == ("fetch",)


@pytest.mark.req("STA-25", "STA-28", "STA-29", "STA-54", "STA-57", "STA-58")
def test_the_builder_writes_what_the_seed_writes():
    op = w.retry(
        FETCH,
        3,
        backoff=w.exponential(w.millis(100), max=w.seconds(5)),
        retry_if=w.holds(E.code, w.eq("ToolFailed")),
        jitter=0.1,
        attempt_timeout=w.seconds(10),
    )
    seed = {
        "pattern": "retry",
        "inner": {"tool": "fetch"},
        "maxAttempts": 3,
        "backoff": {"type": "exponential", "initialDelayMs": 100, "maxDelayMs": 5000, "multiplier": 2},
        "retryIf": {"field": "$.code", "op": "COMPARISON_OP_EQ", "value": {"stringValue": "ToolFailed"}},
        "jitter": 0.1,
        "attemptTimeoutMs": 10_000,
    }
    assert document(seed).tools[0].spec == op.node


def _fault(kind: str) -> Any:
    faults = {"down": down(), "busy": waiting(1), "died": UpstreamDied("fake", "killed"), "no": refusal("no")}
    return faults.get(kind, kind)


@settings(max_examples=150, deadline=None)
@given(
    answers=st.lists(st.sampled_from(["down", "busy", "died", "no", "found"]), min_size=1, max_size=8),
    attempts=st.integers(1, 8),
    safe=st.booleans(),
    delay=st.sampled_from([0, 0.5, 3]),
    timeout=st.sampled_from([2, 7, 60]),
)
def test_a_retry_does_what_a_plain_loop_would(
    answers: list[str], attempts: int, safe: bool, delay: float, timeout: float
):
    async def main() -> None:
        answered = [*answers, *["found"] * 8]
        world = FakeWorld(tools={"fetch": in_turn(*map(_fault, answered))}, types={"fetch": SAFE} if safe else {})
        engine = engine_of(world, w.retry(FETCH, attempts, backoff=w.fixed(delay)))
        try:
            outcome: Any = await engine.execute("it", 1, timeout=timeout)
        except RetriesExhausted as error:
            outcome = error.reason
        except WeftError as error:
            outcome = error.code
        expected = _model(answered, attempts, safe, delay, timeout)
        assert (outcome, tries(world), world.pauses) == expected
        await engine.close()

    asyncio.run(main())


def _model(answers: list[str], attempts: int, safe: bool, delay: float, left: float) -> tuple[str, int, list[float]]:
    pauses: list[float] = []
    for number, answer in enumerate(answers, 1):
        if answer == "found":
            return "found", number, pauses
        if answer == "no" or (answer == "died" and not safe):
            return {"no": "ToolFailed", "died": "UpstreamDied"}[answer], number, pauses
        if number == attempts:
            return "attempts", number, pauses
        pause = max(delay, 1) if answer == "busy" else delay
        left -= pause
        if left <= 0:
            return "deadline", number, pauses
        pauses += [pause] if pause else []
    raise AssertionError("there is always an end")

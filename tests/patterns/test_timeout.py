"""Timeouts end what takes too long; the numbers are those of the tests in SEMANTICS 1.5."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft as w
from tests.patterns.worlds import document, problems, run, told
from weft.errors import (
    BudgetSpent,
    DeadlineExceeded,
    InfrastructureError,
    InputError,
    RetriesExhausted,
    TimedOut,
    ToolFailed,
    UpstreamUnavailable,
)
from weft.expr.durations import Duration
from weft.plan.compiler import compile_document
from weft.run.engine import Engine
from weft.testing import FakeClock, FakeWorld, Late, down, refusal

SLOW, SPARE = w.tool("slow"), w.tool("spare")
SENTENCE = "Timeout after 5000ms waiting for pattern execution"


def engine_of(world: FakeWorld, op: Any) -> Engine:
    """Return an engine that has the operation as `it`."""
    compiled = w.compile(w.composition("it", "It.", op))
    return world.engine(compiled.document, compiled.local)


def alone() -> bool:
    """Tell whether no task is left but the test's own."""
    return asyncio.all_tasks() == {asyncio.current_task()}


class Stubborn:
    """A tool that goes on whatever it is told, so many times, and notes what it was told."""

    def __init__(self, clock: FakeClock, refuses: type[BaseException] | tuple[type[BaseException], ...]) -> None:
        self.clock = clock
        self.refuses = refuses
        self.heard: list[str] = []
        self.ended = False

    async def __call__(self, _: Any) -> str:
        end = self.clock.now() + 60
        while (left := end - self.clock.now()) > 0:
            try:
                await self.clock.sleep(left)
            except self.refuses as error:
                self.heard.append(type(error).__name__)
        self.ended = True
        return "at last"


@pytest.mark.req("STA-31")
async def test_timeout_01_what_is_fast_passes():
    world = FakeWorld(tools={"slow": Late("done", 4.999)})
    assert await world.run(w.timeout(SLOW, w.seconds(5)), {"n": 1}) == "done"
    assert world.calls == [("slow", {"n": 1})]


@pytest.mark.req("STA-34")
async def test_timeout_02_what_is_slow_is_an_error_on_time_that_says_all():
    world = FakeWorld(tools={"slow": Late("done", 60)})
    before = world.clock.now()
    with pytest.raises(TimedOut, match=SENTENCE) as caught:
        await world.run(w.pipeline(w.step(w.timeout(SLOW, "5s"), id="first")))
    assert world.clock.now() - before == 5
    error = caught.value
    assert error.message == SENTENCE
    assert error.to_json() == {
        "code": "Timeout",
        "message": SENTENCE,
        "retryable": "unknown-outcome",
        "origin": "gateway",
        "path": ["first"],
        "hint": "limit 5000 ms, elapsed 5000 ms; outcome: unknown, it may have done its work",
    }
    assert world.signals.counts["timeouts"] == 1


async def test_timeout_02_a_real_clock_ends_it_too():
    @w.python_tool
    async def hang() -> None:
        await asyncio.Event().wait()

    compiled = w.compile(w.composition("it", "It.", w.timeout(hang, w.millis(5))))
    engine = Engine(compile_document(compiled.document, compiled.local))
    with pytest.raises(TimedOut, match="Timeout after 5ms"):
        await engine.execute("it", {})
    await engine.close()
    assert alone()


@pytest.mark.parametrize("traced", [True, False])
async def test_timeout_03_the_work_is_really_cancelled_and_nothing_is_left(traced: bool):
    clock = FakeClock()
    seen: list[str] = []

    async def slow(_: Any) -> None:
        try:
            await clock.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    world = FakeWorld(tools={"slow": slow}, clock=clock)
    engine = engine_of(world, w.timeout(w.pipeline(SLOW, SPARE), w.seconds(5)))
    with pytest.raises(TimedOut):
        await engine.run("it", 1, trace=traced)
    assert seen == ["cancelled"]
    assert alone()
    await engine.close()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_timeout_04_what_refuses_to_be_cancelled_is_left_after_the_grace():
    clock = FakeClock()
    slow = Stubborn(clock, asyncio.CancelledError)
    world = FakeWorld(tools={"slow": slow}, clock=clock)
    before = world.clock.now()
    with pytest.raises(TimedOut, match=SENTENCE) as caught:
        await world.run(w.timeout(SLOW, w.seconds(5)))
    assert world.clock.now() - before == 5.25
    assert caught.value.hint is not None
    assert "elapsed 5250 ms" in caught.value.hint
    assert slow.heard == ["CancelledError"]
    assert not slow.ended
    assert world.signals.counts["timeouts_abandoned"] == 1
    assert alone()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Python says that it was not closed
async def test_timeout_04_what_refuses_even_to_be_closed_does_not_hold_it_up():
    clock = FakeClock()
    slow = Stubborn(clock, (asyncio.CancelledError, GeneratorExit))
    world = FakeWorld(tools={"slow": slow, "spare": "instead"}, clock=clock)
    before = clock.now()
    assert await world.run(w.timeout(SLOW, w.seconds(5), fallback=SPARE)) == "instead"
    assert clock.now() - before == 5.25
    assert slow.heard[:2] == ["CancelledError", "GeneratorExit"]
    assert alone()


async def test_timeout_04_branches_that_refuse_to_be_cancelled_do_not_hold_it_up():
    clock = FakeClock()
    slow = Stubborn(clock, asyncio.CancelledError)
    world = FakeWorld(tools={"slow": slow, "spare": 1}, clock=clock)
    before = clock.now()
    with pytest.raises(TimedOut):
        await world.run(w.timeout(w.scatter_gather(SLOW, SPARE, SLOW), w.seconds(5)))
    assert clock.now() - before == 5.25


async def test_timeout_04_what_ends_within_the_grace_is_waited_for():
    clock = FakeClock()
    cleaned: list[float] = []

    async def slow(_: Any) -> None:
        try:
            await clock.sleep(60)
        finally:
            await clock.sleep(0.1)
            cleaned.append(clock.now())

    world = FakeWorld(tools={"slow": slow}, clock=clock)
    before = clock.now()
    with pytest.raises(TimedOut):
        await world.run(w.timeout(SLOW, w.seconds(5)))
    assert clock.now() - before == pytest.approx(5.1)
    assert cleaned == [clock.now()]
    assert world.signals.counts["timeouts_abandoned"] == 0


async def test_timeout_04_the_grace_can_be_set():
    clock = FakeClock()
    slow = Stubborn(clock, asyncio.CancelledError)
    world = FakeWorld(tools={"slow": slow}, clock=clock)
    before = clock.now()
    with pytest.raises(TimedOut):
        await run(world, {"timeout": {"inner": "slow", "durationMs": 5000, "cancelGraceMs": 2000}})
    assert clock.now() - before == 7


@pytest.mark.req("STA-32")
async def test_timeout_05_the_fallback_takes_the_place_of_what_is_late():
    world = FakeWorld(tools={"slow": Late("done", 60), "spare": Late("instead", 30)})
    result = await world.trace(w.timeout(SLOW, w.seconds(5), fallback=SPARE), {"n": 1})
    assert result.value == "instead"
    assert world.calls == [("slow", {"n": 1}), ("spare", {"n": 1})]
    assert told(result.trace) == [(0, "it", "ok"), (1, "slow", "cancelled"), (1, "spare", "ok")]
    assert result.trace is not None
    assert result.trace.root.notes == {"timeout": "fallback"}


@pytest.mark.parametrize("traced", [True, False])
async def test_timeout_05_the_fallback_has_the_time_of_the_whole(traced: bool):
    world = FakeWorld(tools={"slow": Late("done", 60), "spare": Late("instead", 60)})
    engine = engine_of(world, w.timeout(SLOW, w.seconds(5), fallback=SPARE))
    before = world.clock.now()
    with pytest.raises(DeadlineExceeded) as caught:
        await engine.run("it", 1, timeout=20, trace=traced)
    assert world.clock.now() - before == 20
    assert not isinstance(caught.value, TimedOut)
    await engine.close()


async def test_timeout_05_a_fallback_that_fails_is_the_error_and_the_timeout_its_cause():
    world = FakeWorld(tools={"slow": Late("done", 60), "spare": refusal("closed")})
    with pytest.raises(ToolFailed, match="closed") as caught:
        await world.run(w.timeout(SLOW, w.seconds(5), fallback=SPARE))
    assert isinstance(caught.value.__cause__, TimedOut)


async def test_timeout_05_a_fallback_is_for_lateness_only():
    world = FakeWorld(tools={"slow": down(), "spare": "instead"})
    with pytest.raises(UpstreamUnavailable):
        await world.run(w.timeout(SLOW, w.seconds(5), fallback=SPARE))
    assert [tool for tool, _ in world.calls] == ["slow"]


@pytest.mark.parametrize("whole", [3, 5])
async def test_timeout_06_when_the_time_of_the_whole_ends_first_that_is_the_error(whole: float):
    world = FakeWorld(tools={"slow": Late("done", 60), "spare": "instead"})
    engine = engine_of(world, w.timeout(SLOW, w.seconds(5), fallback=SPARE, message="mine"))
    with pytest.raises(DeadlineExceeded, match="'it' did not finish before its deadline") as caught:
        await engine.execute("it", 1, timeout=whole)
    assert not isinstance(caught.value, TimedOut)
    assert [tool for tool, _ in world.calls] == ["slow"]
    await engine.close()


async def test_timeout_06_when_the_whole_ends_in_the_grace_that_is_the_error():
    clock = FakeClock()

    async def slow(_: Any) -> None:
        try:
            await clock.sleep(60)
        finally:
            await clock.sleep(0.2)

    world = FakeWorld(tools={"slow": slow, "spare": "instead"}, clock=clock)
    engine = engine_of(world, w.timeout(SLOW, w.seconds(5), fallback=SPARE))
    with pytest.raises(DeadlineExceeded) as caught:
        await engine.execute("it", 1, timeout=5.1)
    assert not isinstance(caught.value, TimedOut)
    assert [tool for tool, _ in world.calls] == ["slow"]
    await engine.close()


async def test_timeout_06_a_caller_that_gives_up_is_no_timeout():
    world = FakeWorld(tools={"slow": Late("done", 60), "spare": "instead"})
    engine = engine_of(world, w.timeout(SLOW, w.seconds(50), fallback=SPARE))
    task = asyncio.ensure_future(engine.execute("it", 1))
    world.clock.call_at(world.clock.now() + 1, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [tool for tool, _ in world.calls] == ["slow"]
    await engine.close()


async def test_timeout_07_of_two_the_inner_one_ends_first_with_its_own_path():
    world = FakeWorld(tools={"slow": Late("done", 60)})
    inner = w.pipeline(w.step(w.timeout(SLOW, w.seconds(5)), id="inside"))
    with pytest.raises(TimedOut, match=SENTENCE) as caught:
        await world.run(w.pipeline(w.step(w.timeout(inner, w.seconds(9)), id="outside")))
    assert caught.value.path == ("outside", "inner", "inside")


async def test_timeout_07_a_longer_one_inside_does_not_lengthen_the_outer():
    world = FakeWorld(tools={"slow": Late("done", 60)})
    before = world.clock.now()
    with pytest.raises(TimedOut, match=SENTENCE):
        await world.run(w.timeout(w.timeout(SLOW, w.seconds(9), fallback=SPARE), w.seconds(5)))
    assert world.clock.now() - before == 5


@pytest.mark.parametrize("traced", [True, False])
async def test_timeout_07_what_is_inside_knows_how_much_time_it_has(traced: bool):
    world = FakeWorld(tools={"slow": down()})
    engine = engine_of(world, w.timeout(w.retry(SLOW, backoff=w.fixed(9)), w.seconds(5)))
    with pytest.raises(RetriesExhausted) as caught:
        await engine.run("it", 1, trace=traced)
    assert (caught.value.reason, world.pauses) == ("deadline", [])
    await engine.close()


@pytest.mark.req("STA-33")
async def test_timeout_08_a_message_is_taken_as_it_is():
    world = FakeWorld(tools={"slow": Late("done", 60)})
    message = "Search for {query} with ${SECRET} is slow today"
    with pytest.raises(TimedOut) as caught:
        await world.run(w.timeout(SLOW, w.seconds(5), message=message), {"query": "cats"})
    assert caught.value.message == message


@pytest.mark.req("STA-31")
@pytest.mark.parametrize("duration", [0, -1, 24 * 3600 * 1000 + 1, 1.5, True, "0s", "25h", "5"])
def test_timeout_09_no_time_and_too_much_time_are_refused_at_their_place(duration: Any):
    found = problems({"timeout": {"inner": "slow", "durationMs": duration}})
    assert [problem.pointer for problem in found] == ["/tools/0/spec/timeout/durationMs"]


def test_timeout_09_the_builder_wants_a_unit_and_a_length():
    with pytest.raises(TypeError, match=r"w\.seconds\(5\)"):
        w.timeout(SLOW, 5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError) as caught:
        w.timeout(SLOW, "5")
    assert str(caught.value).startswith("Invalid duration; got '5'; expected a duration such as \"250ms\"")
    assert str(caught.value).endswith("did you mean '5s'?")
    with pytest.raises(InputError):
        w.timeout(SLOW, w.seconds(0))
    with pytest.raises(TypeError, match="takes operations"):
        w.timeout("slow", w.seconds(1))  # pyright: ignore[reportArgumentType]


async def test_timeout_10_progress_does_not_lengthen_it():
    clock = FakeClock()
    steps: list[float] = []

    async def slow(_: Any) -> None:
        while True:
            await clock.sleep(1)
            steps.append(clock.now())

    world = FakeWorld(tools={"slow": slow}, clock=clock)
    with pytest.raises(TimedOut):
        await world.run(w.timeout(SLOW, w.seconds(4.5)))
    assert len(steps) == 4


async def test_timeout_11_work_that_keeps_the_loop_busy_is_late_when_it_ends():
    clock = FakeClock()

    def busy(_: Any) -> str:
        clock.time += 7
        return "computed"

    world = FakeWorld(tools={"slow": busy, "spare": "instead"}, clock=clock)
    with pytest.raises(TimedOut) as caught:
        await world.run(w.timeout(SLOW, w.seconds(5)))
    assert caught.value.hint is not None
    assert "elapsed 7000 ms" in caught.value.hint
    assert await world.run(w.timeout(SLOW, w.seconds(5), fallback=SPARE)) == "instead"
    assert await world.run(w.timeout(SLOW, w.seconds(8))) == "computed"


@pytest.mark.parametrize("cancelled", [False, True])
async def test_timeout_11_a_spent_budget_is_never_swallowed_by_a_fallback(cancelled: bool):
    clock = FakeClock()

    async def slow(_: Any) -> None:
        try:
            if cancelled:
                await clock.sleep(60)
            clock.time += 7
        finally:
            raise BudgetSpent("StepLimit", 1, "the call takes too many steps")

    world = FakeWorld(tools={"slow": slow, "spare": "instead"}, clock=clock)
    with pytest.raises(BudgetSpent):
        await world.run(w.timeout(SLOW, w.seconds(5), fallback=SPARE))
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_timeout_12_inside_a_scatter_it_ends_only_its_branch():
    world = FakeWorld(tools={"slow": Late(["late"], 60), "spare": Late(["fine"], 10)})
    result = await world.trace(w.scatter_gather(w.timeout(SLOW, w.seconds(5)), SPARE))
    assert result.value == ["fine"]
    assert result.warnings == [f"Target 'target_0' failed: {SENTENCE}"]


async def test_timeout_13_a_jump_of_the_wall_clock_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    world = FakeWorld(tools={"slow": Late("done", 4)})
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert await world.run(w.timeout(SLOW, w.seconds(5))) == "done"


async def test_timeout_14_it_is_a_failure_of_the_machinery_whose_outcome_is_unknown():
    world = FakeWorld(tools={"slow": Late("done", 60)})
    with pytest.raises(TimedOut) as caught:
        await world.run(w.timeout(SLOW, w.seconds(5)))
    assert isinstance(caught.value, InfrastructureError)
    assert caught.value.retryable == "unknown-outcome"


async def test_an_error_of_the_deadline_that_the_upstream_kept_itself_is_told_as_the_timeout():
    clock = FakeClock()

    def slow(_: Any) -> None:
        clock.time += 5
        raise DeadlineExceeded("the server did not answer in time")

    world = FakeWorld(tools={"slow": slow}, clock=clock)
    with pytest.raises(TimedOut, match=SENTENCE) as caught:
        await world.run(w.timeout(SLOW, w.seconds(5)))
    assert isinstance(caught.value.__cause__, DeadlineExceeded)


async def test_an_error_before_the_time_is_over_is_the_error():
    world = FakeWorld(tools={"slow": refusal("no")})
    with pytest.raises(ToolFailed) as caught:
        await world.run(w.timeout(SLOW, w.seconds(5)))
    assert caught.value.path == ("slow",)


@pytest.mark.req("STA-31", "STA-58")
def test_the_builder_writes_what_the_seed_writes():
    op = w.timeout(SLOW, w.seconds(30), fallback=SPARE, message="too slow")
    expected = {
        "inner": {"tool": {"name": "slow"}},
        "durationMs": 30_000,
        "fallback": {"tool": {"name": "spare"}},
        "message": "too slow",
    }
    assert op.to_ir() == {"timeout": expected}
    assert document({"pattern": "timeout", "inner": {"tool": "slow"}, "duration_ms": 30_000}).tools[0].spec == (
        w.timeout(SLOW, w.seconds(30)).node
    )
    nested = {"pattern": {"timeout": {"inner": {"tool": "slow"}, "duration": {"seconds": 9}}}}
    assert document({"timeout": {"inner": nested, "durationMs": "30s"}}).tools[0].spec == (
        w.timeout(w.timeout(SLOW, w.seconds(9)), w.seconds(30)).node
    )


@settings(max_examples=60, deadline=None)
@given(
    limits=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    work=st.integers(1, 45),
    whole=st.integers(1, 50),
    traced=st.booleans(),
)
def test_of_any_nesting_the_shortest_ends_the_work(limits: list[int], work: int, whole: int, traced: bool):
    async def main() -> None:
        world = FakeWorld(tools={"slow": Late("done", work)})
        op: Any = SLOW
        for limit in limits:
            op = w.timeout(op, Duration(limit))
        engine = engine_of(world, op)
        before = world.clock.now()
        try:
            outcome: Any = (await engine.run("it", 1, timeout=whole, trace=traced)).value
        except TimedOut as error:
            outcome = error.message
        except DeadlineExceeded:
            outcome = "whole"
        assert world.clock.now() - before == min(work, whole, *limits)
        if work < min(whole, *limits):
            assert outcome == "done"
        elif whole <= min(limits):
            assert outcome == "whole"
        else:
            assert outcome == f"Timeout after {min(limits)}000ms waiting for pattern execution"
        await engine.close()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        assert alone()

    asyncio.run(main())


@settings(max_examples=150, deadline=None)
@given(
    work=st.integers(1, 20),
    limit=st.integers(1, 20),
    cleanup=st.integers(0, 5),
    leaves=st.integers(0, 30),
    spread=st.booleans(),
)
def test_whenever_a_caller_gives_up_it_is_that_or_what_came_before_and_nothing_is_left(
    work: int, limit: int, cleanup: int, leaves: int, spread: bool
):
    """All times are tenths of a second; the grace is two and a half of them."""

    async def main() -> None:
        clock = FakeClock()

        async def slow(_: Any) -> str:
            try:
                await clock.sleep(work / 10)
            except asyncio.CancelledError:
                await clock.sleep(cleanup / 10)
                raise
            return "done"

        world = FakeWorld(tools={"slow": slow}, clock=clock)
        inner = w.scatter_gather(SLOW, SLOW, aggregate=w.keep_lists()) if spread else SLOW
        engine = engine_of(world, w.timeout(inner, w.millis(limit * 100)))
        task = asyncio.ensure_future(engine.execute("it", 1))
        clock.call_at(clock.now() + leaves / 10 + 0.05, task.cancel)
        try:
            await task
            outcome = "done"
        except TimedOut:
            outcome = "late"
        except asyncio.CancelledError:
            outcome = "left"
        ends = work if work < limit else limit + min(cleanup, 2.5)
        expected = ("done" if work < limit else "late") if ends < leaves + 0.5 else "left"
        assert outcome == expected
        await clock.sleep(10)  # children of a scatter that was left go on to their own ends
        await engine.close()
        assert alone()

    asyncio.run(main())

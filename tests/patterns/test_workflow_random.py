"""Whatever a workflow looks like and whatever fails: order and limits are kept, and it ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.patterns.workflows import spec
from tests.patterns.worlds import document
from weft.errors import WorkflowFailed
from weft.patterns.workflow_plan import RunTold, StepTold, Watch
from weft.run.limits import Limits
from weft.testing import FakeWorld, down, refusal

STRATEGIES = ("fail_fast", "partial_success", "rollback", "retry")
ENDED = {"succeeded", "failed", "skipped", "cancelled", "waiting", "undone", "undo_failed"}


@dataclass
class Plot:
    """A workflow to be, and what its tools will do."""

    steps: list[dict[str, Any]]
    follows: list[set[int]]
    """Of each step, those that it waits for in any way; all of them, unless it joins any."""
    after: list[set[int]]
    """Of each step, those that must neither have failed nor been lost when it runs."""
    reads: list[set[int]]
    """Of each step, those without whose result it must not run."""
    bad: set[int]
    seconds: dict[int, float]
    more: dict[str, Any]
    began: dict[str, float] = field(default_factory=dict[str, float])
    ended: dict[str, float] = field(default_factory=dict[str, float])
    undone: list[str] = field(default_factory=list[str])
    now: int = 0
    most: int = 0


@st.composite
def plots(draw: st.DrawFn, least: int = 1, most: int = 30) -> Plot:
    """Draw a DAG of steps; a seeded source makes most choices, so that a thousand steps can be drawn."""
    count = draw(st.integers(least, most))
    rng = draw(st.randoms(use_true_random=False)) if count <= 30 else Random(draw(st.integers()))
    width, failing = draw(st.sampled_from([1, 2, 5])), draw(st.sampled_from([0.0, 0.05, 0.3]))
    steps: list[dict[str, Any]] = []
    follows, after, reads = list[set[int]](), list[set[int]](), list[set[int]]()
    bad, seconds = set[int](), dict[int, float]()
    for index in range(count):
        before = {rng.randrange(index) for _ in range(rng.randrange(width + 1))} if index else set[int]()
        step: dict[str, Any] = {"id": f"s{index}", "tool": "t", "parameters": {"me": index}}
        follows.append(before)
        after.append(set())
        reads.append(set())
        said = [one for one in sorted(before) if rng.random() < 0.5]
        if said and rng.random() < 0.2:
            step |= {"depends_on": [f"s{one}" for one in said], "join": "any"}
            before -= set(said)
        elif said:
            step["depends_on"] = [f"s{one}" for one in said]
            after[index].update(said)
        for one in sorted(before - set(said)):
            if rng.random() < 0.3:
                step["parameters"][f"p{one}"] = f"{{{{s{one}.me ?? -1}}}}"
            elif rng.random() < 0.3 and "when" not in step:
                step["when"] = f"s{one} == null || s{one}.me >= 0"
            else:
                step["parameters"][f"p{one}"] = f"<{{{{s{one}.me}}}}>"
                reads[index].add(one)
        if rng.random() < 0.1 and "when" not in step:
            step["when"] = "false"
        if rng.random() < 0.1:
            step["on_error"] = "continue"
        if rng.random() < 0.3:
            step["undo"] = {"tool": "u", "parameters": {"id": f"s{index}"}}
        if rng.random() < failing:
            bad.add(index)
        seconds[index] = rng.choice([0, 0, 1, 2, 7])
        steps.append(step)
    handling = {"failure_strategy": rng.choice(STRATEGIES), "max_retries": rng.choice([0, 0, 1])}
    more = {"error_handling": handling, "max_concurrency": rng.choice([1, 2, 5, 64])}
    return Plot(steps, follows, after, reads, bad, seconds, more)


class Recorder:
    """Follows a run."""

    def __init__(self) -> None:
        self.told: RunTold | None = None
        self.order: list[tuple[str, str]] = []

    def step(self, told: StepTold) -> None:
        self.order.append((told.id, told.status))

    def ended(self, told: RunTold) -> None:
        assert self.told is None, "told twice that it ended"
        self.told = told


async def play(plot: Plot) -> tuple[RunTold, Any]:
    """Run the workflow, and return what was told of it and what it gave."""

    async def tool(given: Any) -> Any:
        name = f"s{given['me']}"
        plot.began[name] = world.clock.now()
        plot.now += 1
        plot.most = max(plot.most, plot.now)
        try:
            if seconds := plot.seconds[given["me"]]:
                await world.clock.sleep(seconds)
        finally:
            plot.now -= 1
        if given["me"] in plot.bad:
            raise down() if given["me"] % 2 else refusal("no")
        plot.ended[name] = world.clock.now()
        return {"me": given["me"]}

    world = FakeWorld(
        tools={"t": tool, "u": lambda given: plot.undone.append(given["id"])},
        limits=Limits(steps=100_000, calls=100_000, timeout=1e6, max_timeout=1e6),
    )
    recorder = Recorder()
    world.kept.of(Watch).begin = lambda plan, call, value: recorder
    try:
        value = await world.run("it", {}, document=document(spec(*plot.steps, **plot.more)))
    except WorkflowFailed as error:
        value = error
    assert recorder.told is not None
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return recorder.told, value


def holds(plot: Plot, told: RunTold, value: Any) -> None:
    """Check everything that is true of every run."""
    status = {one.id: one.status for one in told.steps}
    assert len(status) == len(plot.steps)
    assert set(status.values()) <= ENDED
    assert plot.most <= plot.more["max_concurrency"]
    done = {name for name, one in status.items() if one in ("succeeded", "undone", "undo_failed")}
    for index in range(len(plot.steps)):
        name = f"s{index}"
        if name not in plot.began:
            assert status[name] in ("skipped", "waiting")
            continue
        for one in plot.follows[index]:
            assert status[f"s{one}"] not in ("waiting", "cancelled"), "it began before what it waits for had ended"
            assert plot.ended.get(f"s{one}", 0) <= plot.began[name]
        for one in plot.after[index]:
            assert status[f"s{one}"] != "failed"
            assert not told.steps[one].lost, "it comes after what was lost"
        for one in plot.reads[index]:
            assert f"s{one}" in done, "it reads what is not there"
    if told.status in ("succeeded", "partial"):
        assert value == {f"s{index}": {"me": index} for index in range(len(plot.steps)) if f"s{index}" in done}
        assert "waiting" not in status.values()
        assert plot.undone == []
    else:
        assert isinstance(value, WorkflowFailed)
        assert plot.bad
    if told.status in ("rolled_back", "rollback_failed"):
        undone = [name for name in sorted(done, key=lambda one: plot.ended[one]) if status[name] == "undone"]
        assert sorted(plot.undone) == sorted(undone)
        times = [plot.ended[name] for name in plot.undone]
        assert times == sorted(times, reverse=True)


QUICK = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.req("WFL-9", "WFL-12", "WFL-16", "WFL-36")
@QUICK
@given(plot=plots())
def test_every_small_workflow_keeps_its_order_and_its_limits_and_ends(plot: Plot):
    async def one() -> None:
        holds(plot, *await play(plot))

    asyncio.run(one())


@pytest.mark.req("WFL-9", "WFL-12", "WFL-16", "WFL-36")
@settings(QUICK, max_examples=4, phases=[Phase.explicit, Phase.generate])
@given(plot=plots(least=1000, most=1000))
def test_a_thousand_steps_keep_their_order_and_their_limits_and_end(plot: Plot):
    async def one() -> None:
        holds(plot, *await play(plot))

    asyncio.run(one())

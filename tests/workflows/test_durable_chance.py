"""Whatever a workflow looks like and whoever dies when: it ends, and nothing that was written as done is done again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.saga.worlds import Slow
from tests.workflows.durable import Town, Weft, workflow
from weft.errors import ToolFailed
from weft.patterns.workflow_journal import cancel

pytestmark = pytest.mark.req("WFL-14")
STRATEGIES = ("fail_fast", "rollback", "partial_success")
MOODS = ("well", "well", "well", "slow", "fails", "hangs once")


@st.composite
def steps(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw some steps, each after some of those before it."""
    made: list[dict[str, Any]] = []
    for n in range(draw(st.integers(1, 7))):
        after = draw(st.lists(st.sampled_from(range(n)), unique=True, max_size=2)) if n else []
        step: dict[str, Any] = {"id": f"t{n}", "tool": f"t{n}", "depends_on": [f"t{one}" for one in after]}
        step |= draw(st.sampled_from([{}, {}, {"when": "false"}, {"on_error": "continue"}, {"at_most_once": True}]))
        step |= draw(st.sampled_from([{}, {"undo": {"tool": f"u{n}"}}]))
        made.append(step)
    return made


@settings(max_examples=120, deadline=None)
@given(
    steps=steps(),
    moods=st.lists(st.sampled_from(MOODS), min_size=7, max_size=7),
    strategy=st.sampled_from(STRATEGIES),
    lives=st.lists(st.integers(1, 6), max_size=4),
    cancelled=st.sampled_from([None, None, 1, 2]),
)
def test_a_workflow_ends_and_repeats_nothing_that_was_written(
    steps: list[dict[str, Any]], moods: list[str], strategy: str, lives: list[int], cancelled: int | None
):
    run(scenario(workflow(*steps, error_handling={"failure_strategy": strategy}), moods, lives, cancelled))


async def scenario(op: Any, moods: list[str], lives: list[int], cancelled: int | None) -> None:
    town = Town()
    for n, mood in enumerate(moods):
        town.shop.always |= {"fails": {f"t{n}": ToolFailed("it", "no")}, "slow": {f"t{n}": Slow(3)}}.get(mood, {})
        town.shop.does |= {f"t{n}": [Slow(1000)]} if mood == "hangs once" else {}
    written: dict[str, int] = {}
    work: list[asyncio.Task[Any]] = []
    for life, last in enumerate([*lives, 0]):
        weft = town.weft(op, last)
        begin = weft.call() if not life else weft.workflows.once()
        work.append(asyncio.create_task(begin))
        await town.clock.sleep(40)
        if life == cancelled and (keys := await town.open()):
            await cancel(town.store, keys[0].replace("-open", ""))
            await town.clock.sleep(10)
        weft.kill()
        await town.pass_lease()
        await note_written(town, written)
    last_one = town.weft()
    for _ in range(12):
        await last_one.workflows.once()
        await town.pass_lease()
    note(f"{town.shop.called}")
    assert not await town.open()
    record = await town.record()
    assert record.state is not None
    assert record.state.status in ("succeeded", "partial", "failed", "rolled_back", "cancelled")
    assert await town.kept() == ["workflow"]
    for tool, times in written.items():
        assert town.shop.called.count(tool) == times, f"{tool} had ended, and was done again"
    keys = {(seen.tool, seen.key) for seen in town.shop.calls}
    assert len(keys) == len({tool for tool, _ in keys}), "each step has one key in all its lives"
    await end(work, town.instances)


async def note_written(town: Town, written: dict[str, int]) -> None:
    """Note how often each step was called that is written as ended."""
    async for key, stored in town.store.scan("v1|workflow-step|"):
        if b'"begun"' not in stored.value:
            tool = f"t{key.rpartition('|')[2]}"
            written.setdefault(tool, town.shop.called.count(tool))


async def end(work: list[asyncio.Task[Any]], instances: list[Weft]) -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    while not all(task.done() for task in left):
        for task in left:
            task.cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*left, *work, return_exceptions=True)
    assert instances, "held until here"


def run(work: Coroutine[Any, Any, None]) -> None:
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()
